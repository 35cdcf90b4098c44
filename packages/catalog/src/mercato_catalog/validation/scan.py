"""Scans a document with faults: where its JSON breaks, which keys repeat, and what pointers name, with its position.

The decoder reports none of these. One pass over tokens, without recursion. It takes about fifty times as long as
decoding, so it runs only on a refusal and in `lint`.
"""

import codecs
import re
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from mercato_catalog.model import Finding
from mercato_catalog.validation.findings import MAX_FAULTS, Rule, clean
from mercato_contract.json_values import escape
from mercato_contract.wire import as_json

MAX_DEPTH: Final = 20_000
"""Levels after which the scan stops, to limit memory. A document that can be served has far fewer."""

BOM: Final = codecs.BOM_UTF8

_SPACE: Final = rb"[ \t\n\r]*+"
_TEXT: Final = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_SCALAR: Final = rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+|true|false|null"
_value: Final = re.compile(_SPACE + rb"(?:(" + _TEXT + rb")|(" + _SCALAR + rb")|([{\[]))").match
_key: Final = re.compile(_SPACE + rb"(" + _TEXT + rb")" + _SPACE + rb":").match
_after: Final = re.compile(_SPACE + rb"([,}\]])").match
_end: Final = re.compile(_SPACE + rb"([}\]])").match
_space: Final = re.compile(_SPACE).match
_text: Final = re.compile(_TEXT).match

_STRING, _OPENER = 1, 3

Tree = dict[str | None, Any]
"""Wanted pointers by step. None has those that end here or below."""


class Position(NamedTuple):
    """Counted from 1; columns count characters."""

    line: int
    column: int


class Scan(Struct):
    """What the scan found. Offsets count bytes."""

    broken: str | None = None
    broken_at: int = 0
    duplicates: list[tuple[str, int]] = field(default_factory=list)
    duplicate_count: int = 0
    places: dict[str, int] = field(default_factory=dict)


class _Frame(Struct):
    """An open object (with its keys so far) or list; `step` is the member or entry being read."""

    keys: set[bytes] | None
    tree: Tree | None
    step: str | int = 0


class _BrokenError(Exception):
    def __init__(self, message: str, at: int) -> None:
        self.message, self.at = message, at


def scan(document: bytes, wanted: Iterable[str] = ()) -> Scan:
    """Return where the JSON breaks, duplicate keys, and the offsets of the wanted pointers.

    A pointer to a missing member gets the offset of the nearest object above it.
    """
    scanner = _Scanner(document, _tree(wanted))
    try:
        scanner.run()
    except _BrokenError as broken:
        scanner.found.broken, scanner.found.broken_at = broken.message, broken.at
    return scanner.found


def locate(document: bytes, pointers: Collection[str]) -> dict[str, Position]:
    """Return the position of each pointer; that of a missing member is the nearest object above it.

    In a broken document the pointer "" has the position where it breaks.
    """
    found = scan(document, pointers)
    places = {pointer: found.places.get(pointer, found.broken_at) for pointer in pointers}
    if found.broken is not None and "" in places:
        places[""] = found.broken_at
    at = positions(document, places.values())
    return {pointer: at[offset] for pointer, offset in places.items()}


def positions(document: bytes, offsets: Iterable[int]) -> dict[int, Position]:
    """Return the positions of byte offsets in one pass over the document."""
    found: dict[int, Position] = {}
    line, column, before = 1, 1, len(BOM) if document.startswith(BOM) else 0
    for offset in sorted(set(offsets)):
        part = document[before:offset]
        newline = part.rfind(b"\n")
        if newline >= 0:
            line, column = line + part.count(b"\n"), 1
        column += len(part[newline + 1 :].decode("utf-8", "replace"))
        found[offset] = Position(line, column)
        before = max(before, offset)
    return found


def _skip_space(document: bytes, at: int) -> int:
    found = _space(document, at)
    return at if found is None else found.end()


class _Scanner:
    def __init__(self, document: bytes, tree: Tree) -> None:
        self._document = document
        self._stack: list[_Frame] = []
        self.found = Scan()
        self._tree: Tree | None = tree

    def run(self) -> None:
        at = len(BOM) if self._document.startswith(BOM) else 0
        while True:
            at = self._read_value(at)
            at = self._close(at)
            if not self._stack:
                break
        at = _skip_space(self._document, at)
        if at < len(self._document):
            raise _BrokenError("something follows the document's end", at)

    def _read_value(self, at: int) -> int:
        """Read a value, or open an object or list; return the offset of its end, or of its first entry."""
        while True:
            match = _value(self._document, at)
            if match is None:
                raise self._syntax_error(at, "a value")
            start = match.start(match.lastindex or 0)
            self._record_position(start)
            if match.lastindex == _STRING:
                self._check_text(match[1], start)
            if match.lastindex != _OPENER:
                return match.end()
            at = match.end()
            self._open(match[3] == b"{", start)
            end = _end(self._document, at)
            if end is not None:
                return at
            at = self._next_step(at)

    def _close(self, at: int) -> int:
        """Close what ends here; return the offset of the next value."""
        while self._stack:
            frame = self._stack[-1]
            closer = b"]" if frame.keys is None else b"}"
            match = _after(self._document, at)
            if match is None or (match[1] != b"," and match[1] != closer):
                raise self._syntax_error(at, f"a comma or {closer.decode()}")
            at = match.end()
            if match[1] == b",":
                if frame.keys is None:
                    assert isinstance(frame.step, int)
                    frame.step += 1
                return self._next_step(at)
            self._stack.pop()
        return at

    def _open(self, is_object: bool, at: int) -> None:  # noqa: FBT001  # the two differ in one character
        if len(self._stack) >= MAX_DEPTH:
            raise _BrokenError(f"more than {MAX_DEPTH} levels are nested", at)
        self._stack.append(_Frame(set() if is_object else None, self._wanted_below()))

    def _next_step(self, at: int) -> int:
        """Read the next key of an object; return the offset of its value."""
        frame = self._stack[-1]
        if frame.keys is None:
            return at
        match = _key(self._document, at)
        if match is None:
            raise self._key_error(at)
        token = match[1]
        name = self._check_text(token, match.start(1))
        raw = token[1:-1] if name is None else name.encode("utf-8", "surrogatepass")
        frame.step = raw.decode("utf-8", "replace")
        if raw in frame.keys:
            self._record_repeat(match.start(1))
        frame.keys.add(raw)
        return match.end()

    def _record_repeat(self, at: int) -> None:
        self.found.duplicate_count += 1
        if len(self.found.duplicates) < MAX_FAULTS:
            pointer = "".join(f"/{escape(str(frame.step))}" for frame in self._stack)
            self.found.duplicates.append((pointer, at))

    def _check_text(self, token: bytes, at: int) -> str | None:
        """Return the text if it has escapes, which may be half of a surrogate pair."""
        if b"\\" not in token:
            return None
        try:
            return msgspec.json.decode(token, type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _BrokenError("a string has half of a surrogate pair", at) from None

    def _wanted_below(self) -> Tree | None:
        """Return the wanted pointers below the value that is read."""
        if not self._stack:
            return self._tree
        frame = self._stack[-1]
        if frame.tree is None:
            return None
        step = str(frame.step)
        # Findings have keys without control characters.
        return frame.tree.get(step) or (None if step.isprintable() else frame.tree.get(clean(step)))

    def _record_position(self, at: int) -> None:
        tree = self._wanted_below()
        if tree:
            for pointer in tree.get(None, ()):
                self.found.places[pointer] = at

    def _key_error(self, at: int) -> _BrokenError:
        at = _skip_space(self._document, at)
        text = _text(self._document, at)
        return (
            self._syntax_error(at, "a key in double quotes")
            if text is None
            else self._syntax_error(text.end(), "a colon")
        )

    def _syntax_error(self, at: int, expected: str) -> _BrokenError:
        at = _skip_space(self._document, at)
        rest = self._document[at : at + 12]
        if not rest:
            return _BrokenError("it ends in the middle, as if it was truncated", at)
        if rest[:1] == b'"' and expected == "a value":
            return _BrokenError("a string isn't closed, or has a character that must be escaped", at)
        character = rest.decode("utf-8", "replace")[0]
        # A letter alone would read as a word: "not a".
        shown = f'"{character}"' if character.isalnum() else character
        shown = shown if character.isprintable() else f"U+{ord(character):04X}"
        return _BrokenError(f"{expected} was expected, not {shown}", at)


def _tree(wanted: Iterable[str]) -> Tree:
    root: Tree = {None: []}
    for pointer in wanted:
        node = root
        node[None].append(pointer)
        for step in pointer.split("/")[1:]:
            node = node.setdefault(step.replace("~1", "/").replace("~0", "~"), {None: []})
            node[None].append(pointer)
    return root


# --- excerpts -------------------------------------------------------------------------------------

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
_raw: Final = msgspec.json.Decoder(Raw).decode
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
        reader = _Reader(_raw(text))
        return tuple(
            reader.excerpt(fault.path) if fault.rule != Rule.NOT_LISTED.id else "" for fault in faults
        )
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
