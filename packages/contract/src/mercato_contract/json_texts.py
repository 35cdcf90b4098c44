"""JSON as others write it: how deep it is nested, what in it isn't text, and what a text is that isn't JSON at all.

A strict decoder comes first everywhere. These functions say what it meets on, or repair what it refuses for one byte.
"""

import codecs
import re
from enum import Enum
from itertools import accumulate
from typing import Final
from unicodedata import name

MAX_DEPTH: Final = 500
"""Levels of objects and lists in a JSON text that is read. The interpreter's own limit differs from version to version,
and is never fewer."""

MAX_REPAIRED: Final = 1000
"""Places of one text that are repaired; with more of them it isn't a text that was cut."""

_EVERY: Final = bytes(range(256))
_NOT_BRACKETS: Final = bytes(_EVERY.translate(None, b"[]{}"))
_NOT_MARKS: Final = bytes(_EVERY.translate(None, b'[]{}"'))
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
"""A bracket as the signed byte by which it changes the depth."""

_WORTH: Final = 10
"""A pass that removes less than a tenth costs more than what it saves."""
_CHUNK: Final = 1 << 16

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F][0-9a-fA-F]{2})|" + _HIGH + _LOW + rb")*+(\\u[dD])", re.DOTALL
)
"""Everything before half of a surrogate pair, and its beginning."""
_HALF_LENGTH: Final = len(rb"\ud800")

_NO_NUMBER: Final = re.compile(
    rb'(?:[^"NI-]++|"(?:[^"\\]++|\\.)*+"|-(?!NaN|Infinity))*+(-?(?:NaN|Infinity))', re.DOTALL
)
"""Everything before a word that JavaScript and Python write for a number that JSON can't hold, and the word."""

NOT_A_NUMBER: Final = b"1e0999"
"""Stands for such a word: a number that is out of every type's range, so that it is a fault wherever it is read. Nobody
writes one like this."""


def is_too_deep(text: bytes) -> bool:
    """Return whether the text is nested more than MAX_DEPTH levels deep. It needs no stack, and may be malformed."""
    # Most texts open fewer brackets than levels are allowed, those in strings included. How much shorter a text is
    # without them tells their number faster than `count` and `translate` do.
    most = MAX_DEPTH + 1
    opened = 2 * len(text) - len(text.replace(b"{", b"", most)) - len(text.replace(b"[", b"", most))
    if opened <= MAX_DEPTH or text.lstrip()[:1] not in (b"{", b"["):
        return False
    marks = text
    if b"\\" in text:
        marks = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = marks.translate(None, _NOT_MARKS).replace(b'""', b"")
    if b'"' in marks:  # a string has brackets
        marks = _STRING.sub(b"", text).translate(None, _NOT_BRACKETS)
    brackets = marks.translate(_ALIKE)
    # Each pass removes the innermost level everywhere, which is most of a text that isn't deep.
    left = MAX_DEPTH
    while left and brackets:
        shorter = brackets.replace(b"[]", b"")
        if len(brackets) - len(shorter) < len(brackets) // _WORTH:
            break
        brackets, left = shorter, left - 1
    return _exceeds(brackets, left)


def _exceeds(brackets: bytes, limit: int) -> bool:
    """Return whether the brackets are nested deeper than the limit."""
    steps = memoryview(brackets.translate(_STEPS)).cast("b")
    depth = 0
    for start in range(0, len(steps), _CHUNK):
        levels = list(accumulate(steps[start : start + _CHUNK], initial=depth))
        if max(levels) > limit:
            return True
        depth = levels[-1]
    return False


def without_mark(text: bytes) -> bytes:
    """Return the text without the byte order mark of UTF-8 that some systems write before it."""
    return text.removeprefix(codecs.BOM_UTF8)


def repair(text: bytes) -> bytes:
    """Return the text without a byte order mark, and with what no decoder must fail on replaced.

    Half of a surrogate pair, as an escape, becomes U+FFFD: a system has cut a text inside a character. NaN and Infinity
    become a number that is out of range: a fault in a member that is read, and nothing in any other. The rest is as it
    was, malformed or not.
    """
    return _repair_numbers(_repair_halves(without_mark(text)))


def _repair_halves(text: bytes) -> bytes:
    if rb"\ud" not in text and rb"\uD" not in text:
        return text
    parts: list[bytes] = []
    at = 0
    while len(parts) < 2 * MAX_REPAIRED and (found := _HALF.match(text, at)) is not None:
        parts += text[at : found.start(1)], rb"\ufffd"
        at = found.start(1) + _HALF_LENGTH
    return b"".join((*parts, text[at:]))


def _repair_numbers(text: bytes) -> bytes:
    if b"NaN" not in text and b"Infinity" not in text:
        return text
    parts: list[bytes] = []
    at = 0
    while len(parts) < 2 * MAX_REPAIRED and (found := _NO_NUMBER.match(text, at)) is not None:
        parts += text[at : found.start(1)], NOT_A_NUMBER
        at = found.end(1)
    return b"".join((*parts, text[at:]))


# --- what a text is that isn't JSON ---------------------------------------------------------------------


class Foreign(Enum):
    """What a body is in place of JSON: in words, and what its sender can do."""

    GZIP = "gzip", "Send it with Content-Encoding: gzip, or decompress it."
    ZSTD = "zstd", "Send it with Content-Encoding: zstd, or decompress it."
    SPREADSHEET = "a spreadsheet", "Convert it: mercato catalog import csv reads it."
    ZIP = "a ZIP archive", "Send the file that is in it."
    PDF = "a PDF", "Send JSON."
    UTF_32 = "UTF-32", "Save or send it as UTF-8."
    UTF_16 = "UTF-16", "Save or send it as UTF-8."
    MARKUP = "HTML or XML", "Check the URL: it may lead to a login page or an error page."

    def __init__(self, words: str, advice: str) -> None:
        self.words = words
        self.advice = advice


_BEGINNINGS: Final = (
    (b"\x1f\x8b", Foreign.GZIP),
    (b"\x28\xb5\x2f\xfd", Foreign.ZSTD),
    (b"PK\x03\x04", Foreign.ZIP),
    (b"%PDF-", Foreign.PDF),
    (codecs.BOM_UTF32_LE, Foreign.UTF_32),
    (codecs.BOM_UTF32_BE, Foreign.UTF_32),
    (codecs.BOM_UTF16_LE, Foreign.UTF_16),
    (codecs.BOM_UTF16_BE, Foreign.UTF_16),
)
_SHEETS: Final = (b"[Content_Types].xml", b"docProps/", b"xl/", b"vnd.oasis.opendocument.spreadsheet")
"""How the first part of a workbook is named by Excel and openpyxl, and what that of an ODS file contains."""
_ZEROS: Final = {
    b"\1\0\1\0": Foreign.UTF_16,
    b"\0\1\0\1": Foreign.UTF_16,
    b"\1\0\0\0": Foreign.UTF_32,
    b"\0\0\0\1": Foreign.UTF_32,
}
"""Which of the first four bytes aren't zero."""

_SEARCHED: Final = 200
"""Bytes at the beginning of a text in which its format is looked for."""


def foreign_format(text: bytes) -> Foreign | None:
    """Return what the text is in place of JSON, as far as its beginning tells; None if it may be JSON.

    Brotli has no mark by which it could be known.
    """
    start = text[:_SEARCHED]
    for beginning, format_ in _BEGINNINGS:
        if start.startswith(beginning):
            is_sheet = format_ is Foreign.ZIP and any(part in start for part in _SHEETS)
            return Foreign.SPREADSHEET if is_sheet else format_
    if without_mark(start).lstrip().startswith(b"<"):
        return Foreign.MARKUP
    # JSON begins with two ASCII characters, and without a mark the other bytes of each are zeros.
    return _ZEROS.get(bytes(map(bool, start[:4])))


_UNNAMED: Final = {
    0x00: "NULL",
    0x09: "TAB",
    0x0A: "LINE FEED",
    0x0D: "CARRIAGE RETURN",
    0x1B: "ESCAPE",
    0x7F: "DELETE",
    0xFEFF: "BYTE ORDER MARK",
}
"""Characters without a name of their own in Unicode, and the one whose name says another use."""

_LONGEST: Final = 4
"""Bytes of the longest character."""


def name_byte(text: bytes, at: int) -> str:
    """Return the place and the character of a byte, as in `byte 0: U+FEFF BYTE ORDER MARK`; never the character."""
    if at >= len(text):
        return f"byte {at}: it ends there"
    part = text[at : at + _LONGEST]
    try:
        character = codecs.getincrementaldecoder("utf-8")().decode(part)[:1]
    except UnicodeDecodeError as fault:
        character = part[: fault.start].decode()[:1]
    if not character:
        return f"byte {at}: 0x{part[0]:02X}, which isn't UTF-8"
    code = ord(character)
    called = _UNNAMED.get(code) or name(character, "CONTROL CHARACTER" if code < 0xA0 else "")  # noqa: PLR2004  # C1
    return f"byte {at}: U+{code:04X} {called}".rstrip()
