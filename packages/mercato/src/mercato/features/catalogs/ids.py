"""Served ids: UUIDs in lower case, and a derived UUID for an item or group whose id isn't a UUID."""

import binascii
import re
from binascii import unhexlify
from collections.abc import Collection
from typing import Final
from uuid import UUID, uuid5

NO_ONBOARDING: Final = UUID(int=0)
"""The onboarding of a document that is checked without a store: ids derived from it are never served."""

_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)
LENGTH: Final = 36
"""Characters of a UUID."""
_DASHES: Final = (8, 13, 18, 23)


def pack_ids(ids: Collection[str]) -> bytes | None:
    """Return the 16 bytes of each id, joined; None unless all are UUIDs in lower case.

    It checks one joined text in a few passes, which is faster than a match for each.
    """
    joined = "\n".join(ids)
    count, stride = len(ids), LENGTH + 1
    if len(joined) != max(count * stride - 1, 0) or joined[LENGTH::stride] != "\n" * (count - 1):
        return None
    if not all(joined[at::stride] == "-" * count for at in _DASHES):
        return None
    digits = joined.encode("utf-8", "replace").translate(None, b"-\n")
    try:
        packed = unhexlify(digits)
    except binascii.Error:
        return None
    return packed if len(packed) == 16 * count and digits == digits.lower() else None


def served_id(text: str, *, onboarding_id: UUID, addressed: bool) -> str:
    """Return the served id; `addressed` when carts refer to it, so that it must be a UUID."""
    if _UUID.fullmatch(text):
        return text.lower()
    return str(uuid5(onboarding_id, replace_unencodable(text))) if addressed else text


def place_id(onboarding_id: UUID, place: str) -> str:
    """Return the id of an entity without one, derived from its pointer and the onboarding."""
    return str(uuid5(onboarding_id, place))


def is_uuid(text: str) -> bool:
    """Tell whether the text is a UUID, in any letter case."""
    return _UUID.fullmatch(text) is not None


def replace_unencodable(text: str) -> str:
    """Return the text with characters that UTF-8 can't encode replaced."""
    return text.encode("utf-8", "replace").decode()
