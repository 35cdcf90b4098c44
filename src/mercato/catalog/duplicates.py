"""Whether any object of the document repeats a key. The decoder keeps the last one and says nothing.

What was read is written again, without white space and with the shortest escapes. As long as the text, it lost
nothing. Shorter, its colons are counted: strings keep theirs, so the text has more exactly when a member was lost.
Only an escaped colon can upset that count; such a text is parsed a second time.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_escaped_colon: Final = re.compile(rb"\\u003[aA]").search


class _RepeatedError(Exception):
    pass


def repeats_a_key(
    document: bytes, written: Sequence[bytes], *, grown: int | None = 0, added: int = 0
) -> bool:
    """Tell whether some object of the document repeats a key.

    `written` is what the decoder kept, in pieces; where it was changed since, `grown` says by how many bytes, or None
    if that is not known, and `added` how many members, each with one colon, it has more.
    """
    if grown is not None and sum(map(len, written)) - grown == len(document):
        return False
    if _escaped_colon(document):
        return _parsed_again(document)
    return document.count(b":") != sum(piece.count(b":") for piece in written) - added


def _parsed_again(document: bytes) -> bool:
    try:
        json.loads(document, object_pairs_hook=_no_repeat, parse_int=len, parse_float=len)
    except _RepeatedError:
        return True
    return False


def _no_repeat(pairs: Iterable[tuple[str, Any]]) -> None:
    listed = list(pairs)
    if len(dict(listed)) != len(listed):
        raise _RepeatedError
