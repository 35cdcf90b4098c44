"""From bytes to JSON values, or one sentence about why the bytes are none. A library's words are never shown."""

import codecs
import json
from typing import Any, Final

import msgspec

from mercato.catalog.locate import positions
from mercato.catalog.rules import Rule
from mercato.catalog.scan import scan
from mercato.catalog.shape import said
from mercato.catalog.source import Members

MOST_VALUES: Final = 2_000_000
"""Values in one document; each costs some hundred bytes while it is checked."""

_COUNTED_FROM: Final = 8 * 1024 * 1024
"""Bytes up to which a document can't hold enough values to matter."""

_CHUNK: Final = 1 << 16


class UnreadableError(Exception):
    """The bytes are no JSON object; the message says why, to whoever wrote them."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def _kept(text: str) -> msgspec.Raw:
    """Return a number as its own text, which is written again as it is."""
    return msgspec.Raw(text.encode())


_decode: Final = msgspec.json.Decoder(float_hook=_kept).decode
_skim: Final = msgspec.json.Decoder(msgspec.Raw).decode


def decode(text: bytes) -> Members:
    """Return the members of the object that the text is. Raises UnreadableError and RecursionError."""
    _refuse_at_sight(text)
    try:
        top = _decode(text)
    except msgspec.ValidationError:
        top = _with_long_integers(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _what_is_wrong(text) from None
    if not isinstance(top, dict):
        raise UnreadableError(Rule.WRONG_TYPE, f"The document must be an object, not {said(top)}.")
    return top


def _refuse_at_sight(text: bytes) -> None:
    if not text or text.isspace():
        raise UnreadableError(Rule.EMPTY, "The document is empty.")
    if text[:200].lstrip().startswith(b"<"):
        raise UnreadableError(
            Rule.NOT_JSON,
            "The document is HTML or XML, not JSON. Does the URL lead to a page that asks to log in?",
        )
    if len(text) > _COUNTED_FROM and text.count(b",") > MOST_VALUES:
        raise UnreadableError(Rule.TOO_LARGE, f"The document holds more than {MOST_VALUES:,} values.")


def _with_long_integers(text: bytes) -> Any:
    """Return what the fast decoder refuses: an integer of thousands of digits is kept as its text too."""
    try:
        _skim(text)
        return json.loads(text.decode(), parse_int=_kept, parse_float=_kept)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _what_is_wrong(text) from None


def _what_is_wrong(text: bytes) -> UnreadableError:
    at = not_utf8(text)
    if at is not None:
        line, column = positions(text, [at])[at]
        return UnreadableError(
            Rule.NOT_UTF8,
            f"The document is not UTF-8: the byte at line {line}, column {column} is not part of a character.",
        )
    found = scan(text)
    if found.broken is None:
        return UnreadableError(Rule.NOT_JSON, "The document is not JSON.")
    line, column = positions(text, [found.broken_at])[found.broken_at]
    return UnreadableError(
        Rule.NOT_JSON, f"The document is not JSON: at line {line}, column {column}, {found.broken}."
    )


def not_utf8(text: bytes) -> int | None:
    """Return the offset of the first byte that is wrong; in pieces, so that no second copy is made."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(text), _CHUNK):
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(text[start : start + _CHUNK], start + _CHUNK >= len(text))
        except UnicodeDecodeError as fault:
            return start - pending + fault.start
    return None
