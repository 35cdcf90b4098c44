"""Catalogs as they are read and shown: findings, results of a build, compiled catalogs, ids, rules in words."""

import binascii
import re
from binascii import unhexlify
from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

import msgspec

from mercato_contract.catalogs import CatalogSummary
from mercato_contract.wire import Wire

Windows = tuple[tuple[int, int], ...]
"""Open spans in seconds of the local week, which begins on Sunday 00:00; the end is exclusive."""

Key = int
"""The integer of an id. A UUID hashes and compares in Python, and a cart takes hundreds of lookups."""

DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
DAY_SECONDS: Final = 86_400


class Finding(msgspec.Struct, frozen=True):
    """A fault or a warning: the id of its rule, and its pointer (RFC 6901) into the document as fetched."""

    rule: str
    message: str
    path: str


class CompiledItem(msgspec.Struct, frozen=True, gc=False):
    """An item as pricing needs it. `price` in minor units; `reach` is an index into the catalog's reaches.

    `partner_item_id` is the item's member of that name; `document_id` the id of the item in the merchant's document,
    None where it is the served one.
    """

    name: str
    price: int | None
    groups: tuple[Key, ...]
    available: bool
    maximum_quantity: int | None
    partner_item_id: str | None
    reach: int
    document_id: str | None = None


class CompiledGroup(msgspec.Struct, frozen=True):
    """A modifier group. `choices` in document order: item → the price of one unit here, in minor units.

    `document_id` is as for an item.
    """

    name: str
    minimum: int
    maximum: int | None
    maximum_per_item: int | None
    free: int
    choices: dict[Key, int]
    document_id: str | None = None


class CompiledSection(msgspec.Struct, frozen=True, array_like=True):
    """A section. `checksum` changes when its entries do."""

    name: str
    checksum: int


class CompiledHours(msgspec.Struct, frozen=True, array_like=True):
    """One catalog of the set. `windows` is None when it is always available."""

    catalog_id: str
    name: str
    windows: Windows | None
    checksum: int

    def open_at(self, second: int) -> bool:
        """Return whether the catalog is available at that second of the local week."""
        return self.windows is None or any(start <= second < end for start, end in self.windows)


class CompiledCatalog(msgspec.Struct, frozen=True):
    """A CatalogSet as pricing reads it: everything by Key, every amount in minor units of the currency.

    `reaches` lists the distinct answers to "through which catalogs can an item be bought?": one bit for each of
    `catalogs`, the first being the lowest, or None for "at any time" (a set without catalogs or sections).
    """

    currency: str
    scale: int
    items: dict[Key, CompiledItem]
    reaches: tuple[int | None, ...]
    groups: dict[Key, CompiledGroup]
    sections: dict[str, CompiledSection]
    catalogs: tuple[CompiledHours, ...]

    def is_open(self, local: datetime) -> bool:
        """Return whether some catalog is available at the store's local time, or the set has none."""
        second = second_of_week(local)
        return not self.catalogs or any(catalog.open_at(second) for catalog in self.catalogs)

    def is_sold(self, item: CompiledItem, local: datetime) -> bool:
        """Return whether the item is in a section of a catalog that is available at that local time."""
        reach = self.reaches[item.reach]
        if reach is None:
            return True
        second = second_of_week(local)
        return any(catalog.open_at(second) for bit, catalog in enumerate(self.catalogs) if reach >> bit & 1)


def second_of_week(local: datetime) -> int:
    """Return the second of the week of a local time; Sunday 00:00 is 0."""
    return local.isoweekday() % 7 * DAY_SECONDS + local.hour * 3600 + local.minute * 60 + local.second


# --- builds ---------------------------------------------------------------------------------------


class BuildRequest(msgspec.Struct, frozen=True):
    """What to build. `previous_hash` is the content hash of the set that is served now."""

    onboarding_id: UUID
    catalog_set_id: UUID
    store_id: UUID
    default_currency: str
    previous_hash: str | None = None


class BuildFailed(msgspec.Struct, frozen=True, tag=True):
    """The document cannot be served."""

    faults: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    excerpts: tuple[str, ...] = ()
    """What the document has at each fault."""


class Unchanged(msgspec.Struct, frozen=True, tag=True):
    """The document has the content that is already served."""

    content_hash: str
    warnings: tuple[Finding, ...] = ()


class Built(msgspec.Struct, frozen=True, tag=True):
    """All that is stored of a set. `Builder.compress` returns the bodies; those of a large set are compressed where it
    is built, and its `body` is empty.
    """

    content_hash: str
    body: bytes
    compiled: bytes
    summary: CatalogSummary
    warnings: tuple[Finding, ...]
    search: bytes
    """The packed SetSearch."""
    bodies: dict[str, bytes] | None = None
    """The compressed bodies by their coding."""


Result = BuildFailed | Unchanged | Built


# --- ids ------------------------------------------------------------------------------------------

NO_ONBOARDING: Final = UUID(int=0)
"""The onboarding of a document that is checked without a store: ids derived from it are never served."""

_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)
ID_LENGTH: Final = 36
"""Characters of a UUID."""
_DASHES: Final = (8, 13, 18, 23)


def pack_ids(ids: Collection[str]) -> bytes | None:
    """Return the 16 bytes of each id, joined; None unless all are UUIDs in lower case.

    It checks one joined text in a few passes, which is faster than a match for each.
    """
    joined = "\n".join(ids)
    count, stride = len(ids), ID_LENGTH + 1
    if len(joined) != max(count * stride - 1, 0) or joined[ID_LENGTH::stride] != "\n" * (count - 1):
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
    """Return whether the text is a UUID, in any letter case."""
    return _UUID.fullmatch(text) is not None


def replace_unencodable(text: str) -> str:
    """Return the text with characters that UTF-8 can't encode replaced."""
    return text.encode("utf-8", "replace").decode()


# --- the tree of a menu, and its rules in words ---------------------------------------------------


class Node(Wire):
    """The children of a catalog or a section of the served document."""

    section_ids: list[str] | None = None
    item_ids: list[UUID] | None = None


class Menu(Wire):
    """The part of the served document that forms the tree."""

    catalogs: dict[str, Node]
    sections: dict[str, Node] | None = None


def rule(group: CompiledGroup) -> str:
    """Return how many choices a group takes, in words."""
    most = "any" if group.maximum is None else str(group.maximum)
    if group.maximum is not None and group.minimum == group.maximum:
        words = f"choose {most}"
    else:
        words = f"choose {group.minimum} to {most}"
    if group.maximum_per_item is not None:
        words += f", at most {group.maximum_per_item} of each"
    return words + (f", {group.free} free" if group.free else "")


def hours(windows: Windows | None) -> str:
    """Return when a catalog is available, with equal consecutive days as one range."""
    if windows is None:
        return "always"
    days = [
        ", ".join(
            f"{_clock(start - day * DAY_SECONDS)}-{_clock(end - day * DAY_SECONDS)}"
            for start, end in windows
            if start // DAY_SECONDS == day
        )
        for day in range(len(DAYS))
    ]
    if len(set(days)) == 1:
        return {"": "never", "00:00-24:00": "always"}.get(days[0], f"daily {days[0]}")
    parts: list[str] = []
    first = 0
    for day in range(1, len(DAYS) + 1):
        if day == len(DAYS) or days[day] != days[first]:
            if days[first]:
                span = DAYS[first][:3] + (f"-{DAYS[day - 1][:3]}" if day - first > 1 else "")
                parts.append(f"{span} {days[first]}")
            first = day
    return "; ".join(parts)


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}"
