"""The slow look at an entity that the typed decode refused: every member of the wrong type, with its pointer.

It also mends the one thing that the decoder is stricter in than JSON: `2.0` is an integer.
"""

from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from mercato.catalog.findings import Findings
from mercato.catalog.source import Entity, Members, Raw, Window

S = TypeVar("S", bound=Entity | Window)

_NUMBER_START: Final = b"-0123456789"
_EXACT: Final = 2**53
"""Up to here a double holds every integer exactly."""


def read_entity(raw: Raw, kind: type[S], at: str, noun: str, findings: Findings) -> tuple[S, Members]:
    """Return what can be read of the entity, having noted what cannot."""
    try:
        members = msgspec.json.decode(raw, type=dict[str, Raw])
    except msgspec.DecodeError:
        findings.fault(f"A {noun} must be an object, not {said(raw)}.", at)
        return kind(), {}
    good: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        member = members.get(field.encode_name)
        if member is not None:
            good[field.name] = _member(
                member, field.type, f"{at}/{field.encode_name}", field.encode_name, findings
            )
    return kind(**good), dict(members)


def said(raw: Raw | bytes) -> str:
    """Return what kind of JSON value it is, in words."""
    first = bytes(raw)[:1]
    if first and first in _NUMBER_START:
        return "a number"
    words = {b'"': "a string", b"{": "an object", b"[": "a list", b"t": "true", b"f": "false", b"n": "null"}
    return words.get(first, "something else")


def _member(raw: Raw, kind: Any, at: str, name: str, findings: Findings) -> Any:
    """Return the member's value, or None when it has none that can be used."""
    if kind is Raw:
        return raw
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        options = [option for option in get_args(kind) if option is not type(None)]
        return _refused(raw, options[0], at, name, findings)


def _refused(raw: Raw, kind: Any, at: str, name: str, findings: Findings) -> Any:
    if kind is int and said(raw) == "a number":
        return _whole(raw, at, name, findings)
    if get_origin(kind) is tuple and said(raw) == "a list":
        return _entries(raw, get_args(kind)[0], at, name, findings)
    findings.fault(f"{name} must be {_WORDS[get_origin(kind) or kind]}, not {said(raw)}.", at)
    return None


def _entries(raw: Raw, kind: Any, at: str, name: str, findings: Findings) -> tuple[Any, ...]:
    """Return the entries that can be used; one that cannot is noted and left out."""
    entries = msgspec.json.decode(raw, type=list[Raw])
    if kind is Window:
        return tuple(
            read_entity(entry, Window, f"{at}/{index}", "window", findings)[0]
            for index, entry in enumerate(entries)
        )
    texts: list[str | None] = []
    for index, entry in enumerate(entries):
        try:
            texts.append(msgspec.json.decode(entry, type=str))
        except msgspec.DecodeError:
            findings.fault(f"{name} must list ids as strings, not {said(entry)}.", f"{at}/{index}")
            texts.append(None)
    return tuple(texts)


def _whole(raw: Raw, at: str, name: str, findings: Findings) -> int | None:
    try:
        value = msgspec.json.decode(raw, type=float)
    except msgspec.DecodeError:
        value = float("inf")
    if value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    findings.fault(f"{name} must be a whole number that is not too large.", at)
    return None


_WORDS: Final[dict[Any, str]] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    tuple: "a list",
    dict: "an object",
}
