"""Bytes to structs. The typed decode is the fast path; only a refusal is looked at again, for every fault."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from sys import maxsize
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType

from mercato.kernel.errors import InvalidRequest, OrderError, Problem, ValidationFailed
from mercato.kernel.wire import kinds, walk

T = TypeVar("T")

MAX_FAULTS: Final = 100
"""Faults listed in one refusal; a reader fixes these first anyway."""

_TOO_MUCH: Final = (
    f"The body has a fault, but not among its first {walk.REQUEST.values} values, which are all that is looked at. "
    "Send fewer entries."
)

_TOO_DEEP: Final = "The body is nested too deeply to be read."

_BACKSLASH: Final = ord("\\")
_NUL: Final = b"\\u0000"

_DEEP: Final = 100
"""Levels at which a body that was too deep to be read is looked at: fewer than what can be read, more than sense."""

_MAX_PLACES: Final = 20
"""Places so deep that are looked at: what is unknown may stand there, too, but hardly so much of it."""

_MAX_MARKS: Final = 10_000
"""Of such a body; no sound cart of the most lines takes as many to get there."""

_MARK: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{},:]', re.DOTALL)
"""A string that does not end goes on to the end of the body, so that nothing is read twice."""

_BROKEN: Final = re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)")
"""How the decoder reports what isn't JSON."""

_HIGH_SURROGATE: Final = re.compile(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?!\Z|\\\Z|\\u)")
"""An escape that needs a second one after it, and is followed by something else."""

_HALF: Final = "a \\u escape is half of a surrogate pair"
_TAIL: Final = 64
"""Bytes at the end of a body in which half a pair is looked for; the decoder misses the other half in the last 12."""

MAX_WITH_FLOATS: Final = 64 * 1024
"""Bytes of a body whose floats the typed decode reads. It reads each of a member that is sent many times, and takes
6 µs for the smallest ones; the walk reads the last alone."""


class Decoder(Generic[T]):
    """Decodes request bodies of one type."""

    def __init__(
        self,
        kind: type[T],
        read: Callable[[bytes], T] | None = None,
        *,
        bounds: walk.Bounds = walk.REQUEST,
    ) -> None:
        """`read` decodes like msgspec does, and raises what it raises."""
        self._fast = read or msgspec.json.Decoder(kind).decode
        self._kind = kind
        self._info = msgspec.inspect.type_info(kind)
        self._bounds = bounds
        self._max_fast = MAX_WITH_FLOATS if kinds.has_float(self._info) else maxsize

    def __call__(self, body: bytes) -> T:
        """Return the struct. Raises InvalidRequest or ValidationFailed that lists every fault."""
        try:
            # A NUL character is legal JSON, but no text column and no header can hold it.
            # Few bodies have a backslash at all, and a single byte, as a number, is found twenty times as fast.
            if (_BACKSLASH not in body or _NUL not in body) and len(body) <= self._max_fast:
                try:
                    return self._fast(body)
                except msgspec.ValidationError:
                    pass
                except RecursionError:
                    raise _too_deep(body, self._info) from None
            checked = walk.check(body, self._info, self._bounds)
            if checked.faults or not checked.is_complete:
                raise refusal(checked.faults, is_complete=checked.is_complete)
            return msgspec.convert(checked.document, self._kind)
        except RecursionError:
            # Something else is wrong with it, too, and may well be a matter of form.
            raise InvalidRequest.at("", _TOO_DEEP) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise InvalidRequest.at("", _not_json(body, fault)) from None


class QueryDecoder(Generic[T]):
    """Decodes query strings of one flat struct; its members stand in faults by name, pointers are null."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._info = msgspec.inspect.type_info(kind)

    def __call__(self, query: bytes) -> T:
        """Return the struct; the last of a repeated parameter counts, unknown ones are ignored."""
        try:
            pairs = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, max_num_fields=100, errors="strict"
            )
        except (ValueError, UnicodeDecodeError):
            raise InvalidRequest("The query string cannot be read: use percent-encoded UTF-8.") from None
        values, faults = walk.check_texts(dict(pairs), self._info)
        if faults:
            raise refusal([msgspec.structs.replace(fault, pointer=None) for fault in faults])
        return msgspec.convert(values, self._kind)


def refusal(faults: Sequence[walk.FieldFault], *, is_complete: bool = True) -> Problem:
    """Return the one problem for all faults: 400 when any is of form, else 422.

    Not `is_complete`: the search for them ended before the end of the body.
    """
    if not faults:
        return ValidationFailed.at("", _TOO_MUCH)
    kind: type[Problem] = InvalidRequest if any(fault.form for fault in faults) else ValidationFailed
    shown = faults[:MAX_FAULTS]
    more = "" if len(faults) <= MAX_FAULTS else f" The first {MAX_FAULTS} of them are listed."
    count = f"{len(faults)} faults" if is_complete else f"At least {len(faults)} faults"
    detail = shown[0].message if len(faults) == 1 and is_complete else f"{count}: see errors.{more}"
    codes = {True: InvalidRequest.code, False: ValidationFailed.code}
    errors = [OrderError(code=codes[f.form], message=f.message, pointer=f.pointer) for f in shown]
    return kind(detail, errors=errors)


def _not_json(body: bytes, fault: Exception) -> str:
    if not body.strip():
        return "The body is empty. Send a JSON object."
    if isinstance(fault, UnicodeDecodeError):
        return "The body is not valid UTF-8."
    if isinstance(fault, msgspec.ValidationError):
        return "The body holds a number that is out of range."
    return f"The body is not JSON{_where(body, str(fault))}."


def _where(body: bytes, report: str) -> str:
    """Return what broke and where, as far as the decoder reports it."""
    if "truncated" in report:
        # So the decoder says of half a surrogate pair at the very end, too, where it looks for the other half.
        half = _HIGH_SURROGATE.search(body, max(0, len(body) - _TAIL))
        return ": it ends too early" if half is None else f": {_HALF}{_place(body, half.start(1))}"
    found = _BROKEN.search(report)
    if found is None:
        return ""
    return f": {_HALF if 'surrogate' in found[1] else found[1]}{_place(body, int(found[2]))}"


def _place(body: bytes, byte: int) -> str:
    line = body[:byte].decode(errors="replace").split("\n")
    return f" at line {len(line)}, column {len(line[-1]) + 1}"


def _too_deep(body: bytes, kind: msgspec.inspect.Type) -> Problem:
    """Return the refusal of a body that is too deep to be read.

    A type that holds itself says nothing of depth: where the body follows it, the form is right and the value is not.
    """
    for steps in islice(_paths_at(body, _DEEP), _MAX_PLACES):
        if kinds.follows(kind, steps):
            return ValidationFailed.at("".join(f"/{step}" for step in steps), _TOO_DEEP)
    return InvalidRequest.at("", _TOO_DEEP)


def _paths_at(body: bytes, depth: int) -> Iterator[list[str | int]]:
    """Yield the ways to lists and objects that stand so deep; it is read without being JSON in full."""
    steps: list[str | int] = []
    text = b""
    for found in islice(_MARK.finditer(body), _MAX_MARKS):
        mark = found[0]
        if mark in b"{[":
            if len(steps) == depth:
                yield steps
            steps.append(0 if mark == b"[" else "")
        elif mark in b"}]":
            del steps[-1:]
        elif mark == b"," and steps and isinstance(steps[-1], int):
            steps[-1] += 1
        elif mark == b":" and steps:
            steps[-1] = text[1:-1].decode(errors="replace")
        else:
            text = mark


# --- members of JSON that is not trusted, each read by itself --------------------------------------

Member = msgspec.Raw | UnsetType
"""A member of a JSON object, unread, if it was there."""

_CONTROL_RUNS: Final = re.compile(r"[\x00-\x20\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
"""What breaks a line, or turns the direction of what follows; runs of it become one space."""


def readable(text: str, most: int) -> str:
    """Return a text of somebody else's on one line, without control characters, cut to `most` characters."""
    return _CONTROL_RUNS.sub(" ", text[: 4 * most]).strip()[:most]


def decoded(raw: msgspec.Raw | UnsetType, kind: Any = Any) -> Any:
    """Return what a member holds, null being the same as absent. Raises msgspec.ValidationError, no other."""
    if raw is UNSET:
        return None
    try:
        return _member_decoder(kind).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise msgspec.ValidationError from fault


@cache
def _member_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type: one for each place that reads a member, so that there are few."""
    return msgspec.json.Decoder(kind | None if kind is not Any else Any)
