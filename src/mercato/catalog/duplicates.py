"""Whether any object of the document repeats a key. The decoder keeps the last one and says nothing.

Most documents are settled by counting: every member has a colon outside strings, so when the text holds no more
of what could be such a colon than members were read, none was lost. What counting leaves open (unknown members
that hold objects, names with a colon after a space) is parsed a second time.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

_SPACES: Final = (b" ", b"\t", b"\n", b"\r")


class _RepeatedError(Exception):
    pass


def repeats_a_key(document: bytes, *, members: int) -> bool:
    """Tell whether some object repeats a key. `members` were read, not counting those of unknown objects."""
    return _most_members(document) > members and _parsed_again(document)


def _most_members(document: bytes) -> int:
    """Return how many members the document can have at most: a key's quote, white space, a colon.

    A string may begin with a colon, so the count can be too high, never too low.
    """
    return document.count(b'":') + sum(_after_space(document, space + b":") for space in _SPACES)


def _after_space(document: bytes, pattern: bytes) -> int:
    if pattern not in document:
        return 0
    *parts, _ = document.split(pattern)
    return sum(part.rstrip().endswith(b'"') for part in parts)


def _parsed_again(document: bytes) -> bool:
    """Tell it for certain. Values are not kept. Raises RecursionError."""
    try:
        json.loads(document.decode("utf-8-sig"), object_pairs_hook=_no_repeat, parse_int=len, parse_float=len)
    except _RepeatedError:
        return True
    return False


def _no_repeat(pairs: Iterable[tuple[str, Any]]) -> None:
    listed = list(pairs)
    if len(dict(listed)) != len(listed):
        raise _RepeatedError
