"""Texts: counts with their noun, ids in messages, texts that nobody sees, and secrets that nothing shows."""

import re
from collections.abc import Iterator
from typing import Any, Final

# Unicode's property Default_Ignorable_Code_Point (fillers, joiners, marks of direction, variation selectors, tags);
# beside them the braille pattern without dots and the interlinear annotations.
# https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point
_IGNORABLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_seen: Final = re.compile(rf"[^\s\x00-\x20\x7f-\xa0{_IGNORABLE}]").search

# Without the controls that are white space.
_without_ignorable: Final = re.compile(rf"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{_IGNORABLE}]+").sub

_SECRET: Final = re.compile(r"(mk_|mt_|whsec_|/console/links/|/approve/)[^\s/]{8,}")
_hidden: Final = re.compile(rf"(?! )[\s\x00-\x20\x7f-\xa0{_IGNORABLE}]").search


def is_blank(text: str) -> bool:
    """Return whether nothing of the text is seen: it is empty, or has blanks and characters of no width alone."""
    return _seen(text) is None


def trimmed(text: str | None) -> str:
    """Return a text that somebody may have left out, without white space around it; empty if nothing of it is seen."""
    return "" if text is None or is_blank(text) else text.strip()


def as_data(text: str, *, most: int) -> str:
    """Return a merchant's text as data on one line, of at most `most` characters; a longer one ends with an ellipsis.

    Controls, characters of no width and marks of direction are removed; other white space is single blanks.
    """
    if not (text.isascii() and text.isprintable()):
        text = _without_ignorable("", text)
    elif len(text) <= most and "  " not in text and text == text.strip(" "):
        return text
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a thing that people read, or None."""
    return "name must have a character that can be seen." if is_blank(name) else None


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Return "1 loss" or "1,000 losses"; the plural takes an s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def without_secrets(text: str) -> str:
    """Return the text with *** after the prefix of a key, a token, a secret, a one-time link or an approval page."""
    return _SECRET.sub(r"\1***", text)


def shown(value: object) -> str:
    """Return an id from a path for a message: short, without control characters, and without a key that was pasted."""
    text = without_secrets(str(value))
    return repr(text if len(text) <= 64 else text[:61] + "...")  # noqa: PLR2004


def texts_in(value: Any) -> Iterator[str]:
    """Return the texts and numbers of decoded JSON, at any depth, as texts; without the names of members."""
    match value:
        case str():
            yield value
        case int() | float() if not isinstance(value, bool):
            yield str(value)
        case dict():
            for below in value.values():
                yield from texts_in(below)
        case list():
            for below in value:
                yield from texts_in(below)
        case _:
            pass


class Secret:
    """A text that no repr, f-string or log shows; `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def unseen_fault(member: str, text: str) -> str | None:
    """Return a fault if the text has a character that nobody sees, a space apart, or one that moves others; or None."""
    if text.isprintable() and _hidden(text) is None:
        return None
    return f"{member} may have only characters that can be seen: no line breaks, and none of no width."
