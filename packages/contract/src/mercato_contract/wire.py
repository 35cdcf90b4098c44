"""The base class of wire structs, redacted members, and scalars that JSON has no type for."""

import re
from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Final, NamedTuple, TypeVar, dataclass_transform
from uuid import UUID

import msgspec


def truncated(instant: datetime) -> datetime:
    """Return the instant in UTC, truncated to whole milliseconds."""
    utc = instant.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def rfc3339(instant: datetime) -> str:
    """Return `2026-01-31T23:59:59.123Z`: UTC, always three decimals."""
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    # In a sixth of the time of `isoformat`: it leaves out a fraction of zero, and else has six digits.
    text: str = msgspec.to_builtins(utc)
    return f"{text[:23]}Z" if utc.microsecond else f"{text[:19]}.000Z"


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class WireMeta(msgspec.StructMeta):
    """Tells type checkers that every subclass of Wire is frozen and keyword-only."""


class Wire(msgspec.Struct, metaclass=WireMeta, frozen=True, kw_only=True, rename="camel"):
    """A JSON object with camelCase members.

    In responses, a member that may be null is `X | None` and always present; one that may be left out is
    `X | UnsetType = UNSET`. In requests, both are `X | None = None`: null and absent mean the same.
    """


_StructType = TypeVar("_StructType", bound=type[msgspec.Struct])


def redacted(*names: str) -> Callable[[_StructType], _StructType]:
    """Return a decorator for Structs: these members are `***` in a repr. A dataclass has `field(repr=False)`."""

    def decorate(cls: _StructType) -> _StructType:
        missing = set(names) - set(cls.__struct_fields__)
        assert not missing, f"{cls.__name__} has no {missing}"

        def represent(self: msgspec.Struct) -> str:
            members = ((name, getattr(self, name)) for name in self.__struct_fields__)
            texts = (f"{name}={'***' if name in names else repr(value)}" for name, value in members)
            return f"{type(self).__name__}({', '.join(texts)})"

        setattr(cls, "__repr__", represent)  # noqa: B010  # a Struct class can't override its repr
        return cls

    return decorate


Instant = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"format": "date-time"},
        examples=["2026-01-31T18:30:00.000Z"],
        description="RFC 3339 instant in UTC with milliseconds.",
    ),
]
"""An instant as it is sent: `2026-01-31T18:30:00.000Z`."""


as_json: Final = msgspec.json.Encoder().encode


uuid_text: Final[Callable[[UUID], str]] = msgspec.to_builtins
"""Return the canonical text of a UUID, in a fifth of the time of `str`, which runs Python code."""


MAX_ENTRIES: Final = 1000
"""Entries of a list in a request body, unless it has a smaller bound."""


MAX_RETRY_AFTER: Final = 7 * 24 * 3600.0
"""Seconds; a longer one is reduced to this."""


_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII
)


_UUID_LENGTH: Final = 36
"""Characters of a UUID's canonical text; msgspec also accepts one without hyphens, which is shorter."""


def instant(value: datetime | None) -> str | None:
    """Return the instant as it is sent, or None."""
    return None if value is None else rfc3339(value)


def instant_fault(name: str, text: str) -> str:
    """Return what is wrong with the member or parameter of this name, whose text `parse_instant` doesn't read."""
    written = _parse_local(text)
    if (written is not None and written.year == MINYEAR) or (
        text.startswith("0000-") and _RFC3339.fullmatch(text)
    ):
        return f"{name} is before the year {MINYEAR} in UTC. Send a later instant."
    if written is not None:
        return f"{name} is after the year {MAXYEAR} in UTC. Send an earlier instant."
    return f"{name} must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."


def parse_instant(text: str) -> datetime | None:
    """Return the RFC 3339 instant in UTC, truncated to milliseconds.

    None if the text isn't one, has no offset, or is of no year from 1 to 9999 in UTC.
    """
    written = _parse_local(text)
    try:
        return None if written is None else truncated(written.astimezone(UTC))
    except OverflowError:
        return None


def _parse_local(text: str) -> datetime | None:
    """Return the RFC 3339 instant with its own offset; None if the text isn't one or has no offset."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    date, time, fraction, offset = match.groups()
    micro = (fraction or ".0")[1:7].ljust(6, "0")
    try:
        # A leap second is read as the last millisecond before it.
        leap = time.endswith(":60")
        return datetime.fromisoformat(
            f"{date}T{time[:-2] + '59' if leap else time}.{'999000' if leap else micro}"
            f"{'+00:00' if offset in 'Zz' else offset}"
        )
    except ValueError:
        return None


def parse_retry_after(text: str | None, now: datetime) -> float | None:
    """Return the seconds of a `Retry-After`, a number or a date; None if it is malformed."""
    text = (text or "").strip()
    if not text:  # most answers have none, and the parser of dates takes its time for it
        return None
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), MAX_RETRY_AFTER)
    instant = parse_http_date(text)
    return None if instant is None else min(max((instant - now).total_seconds(), 0.0), MAX_RETRY_AFTER)


def parse_http_date(text: str) -> datetime | None:
    """Return the instant of a date in any of HTTP's three forms (RFC 9110, 5.6.7); None for any other text."""
    if text.count(",") > 1:  # two dates
        return None
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # OverflowError for a year of twenty digits
        return None
    # Without a zone, or with "-0000", it is UTC.
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant


def parse_uuid(text: str) -> UUID | None:
    """Return the UUID of its canonical text in either letter case; None for anything else."""
    if len(text) != _UUID_LENGTH:
        return None
    try:
        return msgspec.convert(text, UUID)
    except msgspec.ValidationError:
        return None


class Objection(NamedTuple):
    """What is wrong with a value. `below`: a pointer within it. `form`: it counts as malformed (400)."""

    message: str
    form: bool = False
    below: str = ""


REPEATABLE: Final[dict[str, Any]] = {"repeatable": True}
"""The `extra` of a query parameter whose values are divided by commas, or sent in several parameters of its name."""

Rule = Callable[[Any], str | Objection | None]
"""Returns what is wrong with a value of the right JSON type, or None. Nothing else about it has been checked."""


def in_words(form: str) -> dict[str, Any]:
    """Return the `extra` of a text with a pattern: what it must be, for people, who don't read patterns."""
    return {"form": form}


def validator(rule: Rule) -> dict[str, Any]:
    """Return the `extra` of a type whose values have a rule that a type can't express.

    Only the walk that lists all faults of a refused request applies it. The fast path doesn't: a caller checks a value
    that was decoded without a fault.
    """
    return {"rule": rule}
