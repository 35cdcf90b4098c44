"""Short excerpts of a refused document, one beside each fault: the document itself isn't kept."""

import codecs
import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

from mercato.features.catalogs.model import Finding
from mercato.features.catalogs.validation.findings import Rule, clean
from mercato.features.catalogs.validation.scan import BOM
from mercato_contract.wire import as_json

MAX_TEXT: Final = 300
"""Characters of an excerpt."""

MAX_LEVELS: Final = 12
"""Levels of a pointer that are followed: each costs one pass over the document at most, however many faults it has."""

MAX_COMMAS: Final = 1_000_000
"""Commas of a document that gets excerpts. A member takes 70 bytes and more while it is looked up."""

MARK: Final = "▶"
"""Stands before the place where broken JSON ends."""

_CUT: Final = "…"
_MAX_KEY: Final = 80
_MAX_NAME: Final = 60
_AROUND: Final = MAX_TEXT // 2
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""Bytes inside a character of UTF-8."""

_gap: Final = re.compile(r"[ \t\r\n]{2,}|[\t\r\n]")
_value: Final = msgspec.json.Decoder(Raw).decode
_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_array: Final = msgspec.json.Decoder(list[Raw]).decode

Members = dict[str, Raw] | list[Raw]


def excerpts(document: bytes, faults: Iterable[Finding], *, broken_at: int | None) -> tuple[str, ...]:
    """Return an excerpt for each fault, empty where there is nothing to show.

    It is the value that contains what the pointer names, or that member of it if it is long. Of a document that can't
    be read, it is the text around `broken_at`, an offset after a byte order mark.
    """
    text = document.removeprefix(BOM)
    if broken_at is not None:
        return tuple(_around(text, broken_at) for _ in faults)
    if text.count(b",") > MAX_COMMAS:
        return tuple("" for _ in faults)
    try:
        reader = _Reader(_value(text))
        return tuple(reader.excerpt(one.path) if one.rule != Rule.NOT_LISTED.id else "" for one in faults)
    except (msgspec.DecodeError, RecursionError):
        return tuple("" for _ in faults)


class _Reader:
    """Follows pointers, and keeps what it opens: values of one level don't overlap."""

    def __init__(self, top: Raw) -> None:
        self._top = top
        self._opened: dict[tuple[str, ...], Members | None] = {}

    def excerpt(self, pointer: str) -> str:
        value = self._top
        path: tuple[str, ...] = ()
        shown: tuple[Raw, Members, str] | None = None
        for step in pointer.split("/")[1 : MAX_LEVELS + 1]:
            name = step.replace("~1", "/").replace("~0", "~")
            members = self._open(path, value)
            child = None if members is None else _get(members, name)
            if members is None or child is None:
                return _cut(value)
            shown = value, members, name
            value, path = child, (*path, name)
        if shown is None or _is_short(shown[0]):
            return _cut(value if shown is None else shown[0])
        return _member(shown[1], shown[2], value)

    def _open(self, path: tuple[str, ...], value: Raw) -> Members | None:
        if path not in self._opened:
            self._opened[path] = _members(value)
        return self._opened[path]


def _members(value: Raw) -> Members | None:
    first = bytes(memoryview(value)[:1])
    if first == b"{":
        return _object(value)
    return _array(value) if first == b"[" else None


def _get(members: Members, name: str) -> Raw | None:
    if isinstance(members, dict):
        return members.get(name)
    return members[int(name)] if name.isdecimal() and int(name) < len(members) else None


def _member(members: Members, name: str, value: Raw) -> str:
    """Return a member of a long value, with the value's name, which its author knows it by."""
    if isinstance(members, list):
        return f"[{_CUT} {_cut(value, MAX_TEXT - 6)} {_CUT}]"
    title = members.get("name") if name != "name" else None
    title_text = "" if title is None else f'"name": {_cut(title, _MAX_NAME)} {_CUT} '
    key = _shorten(as_json(name).decode(), _MAX_KEY)
    before = f"{{{_CUT} {title_text}{key}: "
    return before + _cut(value, MAX_TEXT - len(before) - 3) + f" {_CUT}}}"


def _is_short(value: Raw) -> bool:
    return len(memoryview(value)) <= MAX_TEXT


def _cut(value: Raw, most: int = MAX_TEXT) -> str:
    """Return the beginning of a value, in one line."""
    # Indentation is left out, so more is read than is shown.
    return _shorten(_decoded(bytes(memoryview(value)[: 8 * most])), most)


def _shorten(text: str, most: int) -> str:
    line = clean(_gap.sub(_without_break, text))
    return line if len(line) <= most else line[: most - 1] + _CUT


def _without_break(gap: re.Match[str]) -> str:
    return " " if gap[0].strip(" ") else gap[0]


def _around(text: bytes, at: int) -> str:
    start = max(at - _AROUND, 0)
    # Not the rest of a character that begins before.
    piece = text[start:at].lstrip(_CONTINUATIONS) if start else text[:at]
    before = (_CUT if start else "") + _shorten(_decoded(piece), MAX_TEXT) + (MARK if at else "")
    return before + _shorten(_decoded(text[at : at + 4 * MAX_TEXT]), MAX_TEXT - len(before))


def _decoded(part: bytes) -> str:
    """Return the text of the bytes, without a character that is cut at their end."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(part)
