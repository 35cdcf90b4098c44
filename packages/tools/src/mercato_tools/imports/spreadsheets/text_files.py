"""CSV files: their encoding and their delimiter are told from what is in them, or else asked for."""

import csv
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import Final

from mercato_catalog.validation.findings import quote
from mercato_tools.imports.spreadsheets.cells import (
    MAX_COLUMNS,
    MAX_ROWS,
    Cell,
    Sheet,
    UnreadableError,
    cut,
    heading,
)
from mercato_tools.imports.spreadsheets.headings import Form

HEAD: Final = 20
"""Rows that are looked at to tell the delimiter: titles may stand above the headings."""


class Encoding(StrEnum):
    """The encodings that spreadsheet programs write, by names that Python knows."""

    UTF_8 = "utf-8"
    UTF_16 = "utf-16"
    WINDOWS_1252 = "windows-1252"
    MAC_ROMAN = "mac-roman"
    WINDOWS_1250 = "windows-1250"
    WINDOWS_1251 = "windows-1251"
    WINDOWS_1253 = "windows-1253"
    WINDOWS_1254 = "windows-1254"
    SHIFT_JIS = "shift_jis"
    GB18030 = "gb18030"
    BIG5 = "big5"
    EUC_KR = "euc-kr"


class Delimiter(StrEnum):
    """What stands between two cells."""

    COMMA = "comma"
    SEMICOLON = "semicolon"
    TAB = "tab"

    @property
    def character(self) -> str:
        return {Delimiter.COMMA: ",", Delimiter.SEMICOLON: ";", Delimiter.TAB: "\t"}[self]


_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_HINT: Final = re.compile(r"sep=(.)\s*", re.IGNORECASE)
_BESIDE_LETTERS: Final = frozenset("’‘'")  # noqa: RUF001  # of texts
_TYPOGRAPHY: Final = frozenset("–—‘’“”„‚«»‹›…•·°€£¥©®™½¼¾¿¡×\u00a0†‰")  # noqa: RUF001  # of texts
_LATIN: Final = frozenset("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜŒŸàáâãäåæçèéêëìíîïñòóôõöøùúûüœÿßıŠšŽž")


def decode(content: bytes, encoding: Encoding | None) -> str:
    """Return a file's text without a byte order mark. Raises UnreadableError if its encoding isn't certain."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return _decoded(
                content[len(mark) :], name, "Its first bytes say so. Save the file again as CSV UTF-8."
            )
    if encoding is not None:
        name = encoding.value
        if encoding is Encoding.UTF_16:
            name = "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
        return _decoded(content, name, "Choose another encoding, or save the file again as CSV UTF-8.")
    if b"\0" in content[:4096]:
        name = "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
        return _decoded(content, name, "It holds zeros, as UTF-16 does. Save the file again as CSV UTF-8.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _latin(content)


def _decoded(content: bytes, name: str, advice: str) -> str:
    try:
        return content.decode(name)
    except UnicodeDecodeError as error:
        before = content[: error.start].count(b"\n") + 1
        raise UnreadableError(f"Line {before:,} of the file isn't {name.upper()}. {advice}") from None


def _latin(content: bytes) -> str:
    """Return a text that Windows or an old Mac wrote, if its special characters have a meaning in one of them alone."""
    readings = {}
    for encoding in (Encoding.WINDOWS_1252, Encoding.MAC_ROMAN):
        try:
            readings[encoding] = content.decode(encoding.value)
        except UnicodeDecodeError:
            continue
    likely = [text for text in readings.values() if _is_likely(text)]
    if len(likely) == 1:
        return likely[0]
    examples = " or ".join(
        f"{quote(_example(text))} ({encoding.value})" for encoding, text in readings.items()
    )
    raise UnreadableError(
        f"The file isn't UTF-8, and its encoding can't be told: it could say {examples}. Save it as CSV UTF-8, or name "
        f"its encoding."
    )


def _is_likely(text: str) -> bool:
    """Return whether every character beyond ASCII is one that a Western menu has at that place."""
    special = plain = 0
    for index, character in enumerate(text):
        if character.isascii():
            plain += character.isalpha()
            continue
        before, after = text[index - 1 : index], text[index + 1 : index + 2]
        if character in _LATIN:
            special += 1
            # A capital within a word of small letters: the other encoding's small letter.
            if character.isupper() and before.islower():
                return False
        elif character not in _TYPOGRAPHY or (
            before.isalpha() and after.isalpha() and character not in _BESIDE_LETTERS
        ):
            return False
    # In Western languages fewer than one letter in three has an accent. Read as one of them, Cyrillic is accents alone.
    return special * 3 <= plain + special


def _example(text: str) -> str:
    match = re.search(r"[^\x00-\x7f]", text)
    start = match.start() if match is not None else 0
    return cut(
        re.split(r"[\r\n;,\t\"]", text[max(0, start - 15) : start])[-1]
        + re.split(r"[\r\n;,\t\"]", text[start : start + 15])[0]
    )


def read_rows(
    content: bytes,
    name: str,
    *,
    encoding: Encoding | None,
    delimiter: Delimiter | None,
    form: Form,
) -> Sheet:
    """Return a CSV file as a sheet. The delimiter is told by the headings of the form.

    Raises UnreadableError.
    """
    text = decode(content, encoding)
    hint = _HINT.fullmatch(next(_lines(text), ""))
    if hint is not None:
        # A line for Excel, which doesn't show it as a row.
        text = text[hint.end() :]
    mark = (
        delimiter.character
        if delimiter is not None
        else _delimiter(text, form, None if hint is None else hint[1])
    )
    rows: list[list[Cell]] = []
    for row in _records(text, mark):
        if len(rows) >= MAX_ROWS:
            raise UnreadableError(f"The file has more than {MAX_ROWS:,} rows. Split the menu into several.")
        rows.append([cell.strip() for cell in row[:MAX_COLUMNS]])
    return Sheet(name, rows)


def _delimiter(text: str, form: Form, hint: str | None) -> str:
    """Return the delimiter by which a row of the beginning has the required headings, or else the most likely ones."""
    found = []
    likely = {}
    for delimiter in Delimiter:
        try:
            rows = list(islice(_records(text, delimiter.character), HEAD))
        except UnreadableError:
            continue
        names = [{heading(cell) for cell in row} - {""} for row in rows]
        if any(form.required <= row for row in names):
            found.append(delimiter.character)
        likely[delimiter.character] = max((sum(map(form.knows, row)) for row in names), default=0)
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise UnreadableError(
            "The headings could be separated by several marks. Say which: comma, semicolon or tab."
        )
    if hint is not None:
        return hint
    if any(likely.values()):
        return max(likely, key=lambda mark: likely[mark])
    first = next(_lines(text), "")
    return max(",;\t", key=first.count)


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    row = 0
    try:
        for record in csv.reader(_lines(text), delimiter=delimiter, strict=True):
            row += 1
            yield record
    except csv.Error as error:
        raise UnreadableError(
            f"The row can't be read ({error}). A quotation mark is missing, or one within a text isn't doubled.",
            row=row + 1,
        ) from None


def _lines(text: str) -> Iterator[str]:
    return (match[0] for match in _LINE.finditer(text) if match[0])
