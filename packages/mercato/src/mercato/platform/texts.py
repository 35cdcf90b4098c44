"""Texts: counts with their noun, ids in messages, the texts of a document, and secrets that nothing shows."""

import re
from collections.abc import Iterator
from typing import Any, Final

_SECRET: Final = re.compile(r"(mk_|mt_|whsec_|/console/links/)[^\s/]{8,}")


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Return "1 loss" or "1,000 losses"; the plural takes an s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def without_secrets(text: str) -> str:
    """Return the text with *** in place of what follows the prefix of a key, token, secret or one-time link."""
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
