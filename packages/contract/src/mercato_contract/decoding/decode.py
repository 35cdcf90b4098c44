"""Bytes to structs. The typed decode is the fast path; only a refused document is examined again for every fault.

The cursor of a list is read here, too, and the rows of a query divided into a page and the cursor of the next.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from sys import maxsize
from typing import Any, Final, Generic, TypeVar, cast
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from mercato_contract.decoding import checks, walk
from mercato_contract.json_texts import (
    MAX_DEPTH,
    foreign_format,
    is_too_deep,
    name_byte,
    repair,
    without_mark,
)
from mercato_contract.pages import MALFORMED, cursor_of, parse_cursor
from mercato_contract.problems import Reason
from mercato_contract.refusals import InvalidRequest, Problem, ValidationFailed

T = TypeVar("T")

MAX_FAULTS: Final = 100
"""Faults that one refusal lists."""

_TOO_MANY_VALUES: Final = (
    f"The body has a fault, but not among its first {walk.REQUEST.values} values; no more are examined. "
    "Send fewer entries."
)

_TOO_DEEP: Final = f"The body is nested more than {MAX_DEPTH} levels deep."

_TOO_DEEP_FOR_FAULTS: Final = (
    f"The body has a fault, and is nested more than {walk.MAX_LEVELS} levels deep: it isn't examined."
)

_BACKSLASH: Final = ord("\\")
_NUL: Final = b"\\u0000"

_DEEP: Final = 100
"""The level at which a body that is nested too deeply is examined: fewer than are read, more than is useful."""

_MAX_PATHS: Final = 20
"""Paths of that depth that are examined; some may lead through unknown members."""

_MAX_TOKENS: Final = 10_000
"""Tokens of such a body that are examined: more than the largest valid body has before that depth."""

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{},:]', re.DOTALL)
"""An unterminated string extends to the end of the body, so that nothing is read twice."""

_BROKEN: Final = re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)")
"""msgspec's message for malformed JSON."""

_check_syntax: Final = msgspec.json.Decoder(msgspec.Raw).decode

MAX_WITH_FLOATS: Final = 64 * 1024
"""Bytes up to which a body with floats takes the typed decode. It reads every occurrence of a repeated member, at up to
6 µs each; the walk reads only the last one."""


def has_nul(text: bytes) -> bool:
    """Return whether JSON has an escaped NUL character, which is legal there, but no text column or header can hold it.

    Few texts have a backslash, and searching for one byte, as a number, is a hundred times as fast.
    """
    return _BACKSLASH in text and _NUL in text


class Decoder(Generic[T]):
    """Decodes request bodies of one type."""

    def __init__(
        self,
        kind: type[T],
        read: Callable[[bytes], T] | None = None,
        *,
        bounds: walk.Bounds = walk.REQUEST,
    ) -> None:
        """`read` decodes and raises like msgspec's decoder."""
        self._fast = read or msgspec.json.Decoder(kind).decode
        self._kind = kind
        self._info = msgspec.inspect.type_info(kind)
        self._bounds = bounds
        self._max_fast = MAX_WITH_FLOATS if checks.has_float(self._info) else maxsize

    def __call__(self, body: bytes) -> T:
        """Return the struct. Raises InvalidRequest or ValidationFailed that lists every fault."""
        text = without_mark(body)
        if is_too_deep(text):
            raise _too_deep(text, self._info)
        try:
            return self._read(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            return self._read_mended(text, fault)

    def _read(self, text: bytes) -> T:
        if len(text) <= self._max_fast and not has_nul(text):
            try:
                return self._fast(text)
            except msgspec.ValidationError:
                pass
        try:
            checked = walk.check(text, self._info, self._bounds)
        except walk.TooDeepError:
            raise InvalidRequest.at("", _TOO_DEEP_FOR_FAULTS) from None
        if checked.faults or not checked.is_complete:
            raise refusal(checked.faults, is_complete=checked.is_complete)
        return msgspec.convert(checked.document, self._kind)

    def _read_mended(self, text: bytes, fault: Exception) -> T:
        """Return the struct of a text that isn't JSON as it stands. Raises as `__call__` does."""
        repaired = repair(text)
        if repaired != text:
            try:
                return self._read(repaired)
            except (msgspec.DecodeError, UnicodeDecodeError) as left:
                # Places in it are those of the text if it is as long.
                if len(repaired) == len(text):
                    fault = left
        raise InvalidRequest.at("", _not_json(text, fault)) from None


class QueryDecoder(Generic[T]):
    """Decodes query strings of one flat struct; faults name the parameter, and their pointers are null."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._info = msgspec.inspect.type_info(kind)

    def __call__(self, query: bytes) -> T:
        """Return the struct. Unknown parameters are ignored, and of the others only lists may be repeated.

        Raises InvalidRequest, ValidationFailed.
        """
        try:
            pairs = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, max_num_fields=100, errors="strict"
            )
        except (ValueError, UnicodeDecodeError):
            raise InvalidRequest("The query string cannot be read: use percent-encoded UTF-8.") from None
        texts = dict(pairs)
        return self.convert(
            texts if len(texts) == len(pairs) else self._joined(pairs), called="query parameter"
        )

    def _joined(self, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Return the parameters, with the values of a repeated list joined by commas. Raises InvalidRequest."""
        assert isinstance(self._info, msgspec.inspect.StructType)
        known = {field.encode_name: checks.is_repeatable(field.type) for field in self._info.fields}
        sent: dict[str, list[str]] = {}
        for name, text in pairs:
            sent.setdefault(name, []).append(text)
        faults = [
            walk.FieldFault(
                None, f"The query parameter {name} is sent {len(values)} times. Send it once.", form=True
            )
            for name, values in sent.items()
            if len(values) > 1 and known.get(name) is False
        ]
        if faults:
            raise refusal(faults)
        return {name: ",".join(values) for name, values in sent.items()}

    def convert(self, texts: Mapping[str, str], *, called: str = "field") -> T:
        """Return the struct of a form's fields, or of parameters, that were decoded already."""
        values, faults = walk.check_texts(texts, self._info, called)
        if faults:
            raise refusal([msgspec.structs.replace(fault, pointer=None) for fault in faults])
        return msgspec.convert(values, self._kind)


def refusal(faults: Sequence[walk.FieldFault], *, is_complete: bool = True) -> Problem:
    """Return the one problem for all faults: 400 if any is of form, else 422.

    Not `is_complete`: the search ended before the end of the body.
    """
    if not faults:
        return ValidationFailed.at("", _TOO_MANY_VALUES)
    kind: type[Problem] = InvalidRequest if any(fault.form for fault in faults) else ValidationFailed
    listed = faults[:MAX_FAULTS]
    more = "" if len(faults) <= MAX_FAULTS else f" The first {MAX_FAULTS} of them are listed."
    count = f"{len(faults)} faults" if is_complete else f"At least {len(faults)} faults"
    detail = listed[0].message if len(faults) == 1 and is_complete else f"{count}: see errors.{more}"
    codes = {True: InvalidRequest.code, False: ValidationFailed.code}
    errors = [Reason(code=codes[f.form], message=f.message, pointer=f.pointer) for f in listed]
    return kind(detail, errors=errors)


def _not_json(body: bytes, fault: Exception) -> str:
    if not body.strip():
        return "The body is empty. Send a JSON object."
    if (foreign := foreign_format(body)) is not None:
        return f"The body is {foreign.words}, not JSON."
    if isinstance(fault, UnicodeDecodeError):
        return "The body is not valid UTF-8."
    return f"The body is not JSON{_where(body, str(fault))}."


def _where(body: bytes, report: str) -> str:
    """Return what is malformed and where, as far as msgspec reports it."""
    if "truncated" in report:
        return ": it ends too early"
    found = _BROKEN.search(report)
    return "" if found is None else f": {found[1]}{_place(body, _offset(found))}"


def _offset(found: re.Match[str]) -> int:
    # msgspec has read the first of trailing characters when it counts.
    return int(found[2]) - (found[1] == "trailing characters")


def _place(body: bytes, byte: int) -> str:
    before = body[:byte]
    last = before[before.rfind(b"\n") + 1 :].decode(errors="replace")
    line = before.count(b"\n") + 1
    return f" at line {line}, column {len(last) + 1}"


def _too_deep(body: bytes, kind: msgspec.inspect.Type) -> Problem:
    """Return the refusal of a body that is nested too deeply to be read.

    A recursive type has no depth: if the body follows it, its form is right, and its value isn't allowed.
    """
    for steps in islice(_paths_at(body, _DEEP), _MAX_PATHS):
        if checks.follows(kind, steps):
            return ValidationFailed.at("".join(f"/{step}" for step in steps), _TOO_DEEP)
    return InvalidRequest.at("", _TOO_DEEP)


def _paths_at(body: bytes, depth: int) -> Iterator[list[str | int]]:
    """Yield the paths to lists and objects at this depth; the body need not be valid JSON."""
    steps: list[str | int] = []
    text = b""
    for found in islice(_TOKEN.finditer(body), _MAX_TOKENS):
        token = found[0]
        if token in b"{[":
            if len(steps) == depth:
                yield steps
            steps.append(0 if token == b"[" else "")
        elif token in b"}]":
            del steps[-1:]
        elif token == b"," and steps and isinstance(steps[-1], int):
            steps[-1] += 1
        elif token == b":" and steps:
            steps[-1] = text[1:-1].decode(errors="replace")
        else:
            text = token


# --- single members of untrusted JSON ----------------------------------------------------------------

Member = msgspec.Raw | UnsetType
"""A member of a JSON object, not decoded, or UNSET if it is absent."""

_CONTROL_RUNS: Final = re.compile(r"[\x00-\x20\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
"""Characters that break a line or change the text direction; a run of them becomes one space."""


def one_line(text: str, max_length: int) -> str:
    """Return an untrusted text on one line, without control characters, truncated to `max_length` characters."""
    return _CONTROL_RUNS.sub(" ", text[: 4 * max_length]).strip()[:max_length]


def read_object(body: bytes, kind: type[T]) -> T | None:
    """Return an object that a server answered, repaired if it isn't JSON as it stands; None if it can't be read."""
    text = without_mark(body)
    if is_too_deep(text):
        return None
    with suppress(msgspec.ValidationError):
        return cast("T | None", decoded(msgspec.Raw(text), kind))
    with suppress(msgspec.ValidationError):
        return cast("T | None", decoded(msgspec.Raw(repair(text)), kind))
    return None


def unreadable(body: bytes) -> str:
    """Return what a body is that isn't a JSON object, with the place of the byte at which it can't be read."""
    text = without_mark(body)
    if is_too_deep(text):
        return f"JSON that is nested more than {MAX_DEPTH} levels deep"
    if (foreign := foreign_format(text)) is not None:
        return f"{foreign.words} in place of JSON"
    repaired = repair(text)
    at = _broken_at(repaired)
    if at is None:
        return "something that isn't a JSON object"
    if len(repaired) != len(text):  # the place is another one in the text
        at = _broken_at(text) or 0
    return f"something that isn't a JSON object ({name_byte(body, at + len(body) - len(text))})"


def _broken_at(text: bytes) -> int | None:
    """Return the offset at which a text isn't JSON; None if it is."""
    try:
        _check_syntax(text)
    except msgspec.DecodeError as fault:
        found = _BROKEN.search(str(fault))
        return len(text) if found is None else _offset(found)
    return None


def decoded(raw: msgspec.Raw | UnsetType, kind: Any = Any) -> Any:
    """Return the value of a member; null is the same as absent. Raises only msgspec.ValidationError."""
    if raw is UNSET:
        return None
    try:
        return _member_decoder(kind).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise msgspec.ValidationError from fault


@cache
def _member_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type. Every type is a constant of the code, so there are few."""
    return msgspec.json.Decoder(kind | None if kind is not Any else Any)


def read_cursor(text: str | None) -> UUID | None:
    """Return the id of the last entry of the page before; None for the first page. Raises ValidationFailed."""
    if text is None:
        return None
    last = parse_cursor(text)
    if last is None:
        raise ValidationFailed.at(None, MALFORMED)
    return last


def page_of(
    items: Iterable[T],
    limit: int,
    id_of: Callable[[T], UUID],
    size_of: Callable[[T], int] | None = None,
    *,
    most: int = 0,
) -> tuple[list[T], str | None]:
    """Return a page as `end_page` ends it, and its `nextCursor`."""
    page, are_left = end_page(items, limit, size_of, most=most)
    return page, cursor_of(id_of(page[-1])) if are_left else None


def end_page(
    items: Iterable[T], limit: int, size_of: Callable[[T], int] | None = None, *, most: int = 0
) -> tuple[list[T], bool]:
    """Return the items of a page, and whether any are left: it's made from the rows of a query with `limit + 1`.

    With `size_of` it ends early with the item that brings the sizes to `most`, because everybody waits while a page is
    made. One more item is taken at the most, so they may be made one by one.
    """
    page: list[T] = []
    size = 0
    for item in items:
        if len(page) == limit or (size_of is not None and size >= most):
            return page, True
        page.append(item)
        size += 0 if size_of is None else size_of(item)
    return page, False
