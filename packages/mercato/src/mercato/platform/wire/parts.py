"""Reads one level of a JSON text; the values below it stay bytes.

Reading all of a hostile text is expensive: msgspec takes 9 µs for the float 1e300, and 1 MiB of `[[]]` becomes half a
million lists. The walk reads only members that the type of the request has.
"""

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec import inspect as info

_BEGINS_NUMBER: Final = frozenset(b"%c" % byte for byte in b"-0123456789")
"""The value of a number takes time: 60 µs if it has 4,000 digits."""

NOT_FINITE: Final = (float("inf"), float("-inf"))


def _finite(text: str) -> float:
    # For numbers near the ends of the range Python's float() takes a twentieth of msgspec's time.
    number = float(text)
    if number in NOT_FINITE:
        raise ValueError("out of range")
    return number


read_json: Final = msgspec.json.Decoder(float_hook=_finite).decode
"""Decodes a text without a type. Raises msgspec's errors."""
_read_raw: Final = msgspec.json.Decoder(Raw).decode
_read_list: Final = msgspec.json.Decoder(list[Raw]).decode
_read_dict: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def read_shallow(text: bytes, *, numbers: bool = True) -> Any:
    """Return a scalar; for an object or a list, an empty one. Without `numbers`, a number stays a Raw text.

    Raises msgspec's errors for a text that is not UTF-8 or a number that is out of range.
    """
    first = text[:1]
    if first == b"{":
        return {}
    if first == b"[":
        return []
    return _read_raw(text) if not numbers and first in _BEGINS_NUMBER else read_json(text)


def read_entries(text: bytes, limit: int | None) -> list[bytes] | None:
    """Return the entries of a list; None if there are more than `limit`, whose rest isn't read."""
    if limit is not None and text.count(b",") >= limit:
        try:
            _bounded(limit)(text)
        except msgspec.ValidationError:
            return None
    return [bytes(entry) for entry in _read_list(text)]


def read_dict(text: bytes, limit: int | None) -> dict[str, bytes] | None:
    """Return all members of an object, the last of each name; None if there are more than `limit`."""
    members = _read_dict(text)
    if limit is not None and len(members) > limit:
        return None
    return {name: bytes(value) for name, value in members.items()}


def read_members(text: bytes, kind: info.StructType) -> dict[str, bytes]:
    """Return the members of an object that its type has, by their names on the wire."""
    members = _members(kind.cls)(text)
    return {
        name: bytes(value)
        for name, value in zip(
            members.__struct_encode_fields__, msgspec.structs.astuple(members), strict=True
        )
        if value is not UNSET
    }


@cache
def _members(cls: type[Struct]) -> Any:
    names = list(cls.__struct_encode_fields__)
    tag = cls.__struct_config__.tag_field
    if tag is not None:
        names.append(tag)
    fields = [(f"member{number}", Raw | UnsetType, UNSET) for number in range(len(names))]
    renamed = dict(zip((field[0] for field in fields), names, strict=True))
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=renamed)).decode


@cache
def _bounded(limit: int) -> Any:
    """Return a decoder that refuses a list at the first entry beyond the limit."""
    fields = [(f"entry{number}", Raw | UnsetType, UNSET) for number in range(limit)]
    entries = msgspec.defstruct("Entries", fields, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(entries).decode
