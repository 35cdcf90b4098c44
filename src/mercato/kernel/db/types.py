"""Column types that read and write the same on SQLite and on PostgreSQL."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import BigInteger, Dialect, Integer, Text, TypeDecorator, Uuid
from sqlalchemy.types import TypeEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class Instant(TypeDecorator[datetime]):
    """An instant in UTC, kept as whole milliseconds since 1970: exact, short, and ordered as numbers are."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> int | None:
        return None if value is None else to_ms(value)

    def process_result_value(self, value: int | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else from_ms(value)

    def coerce_compared_value(self, _operator: Any, value: Any) -> TypeEngine[Any]:
        """An integer beside an instant is milliseconds since 1970; anything else is an instant, too."""
        return BigInteger() if isinstance(value, int) else self


def to_ms(instant: datetime) -> int:
    """Return whole milliseconds since 1970; an instant without an offset is a bug and is refused."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs an offset")
    return (instant - EPOCH) // MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


class Id(Uuid[UUID]):
    """A UUID: native on PostgreSQL, 32 hexadecimal digits on SQLite; both sort a UUIDv7 by its time."""


# SQLite numbers rows by itself only in a column that is exactly INTEGER.
Serial = BigInteger().with_variant(Integer(), "sqlite")
"""The type of a row number that the database hands out."""


class Json(TypeDecorator[Any]):
    """A value of the given msgspec-readable type, kept as JSON text.

    `Json(Address)` reads back an `Address`; a text that does not fit raises `msgspec.ValidationError`.
    Text and not JSONB, because JSONB forgets the order of members and the spelling of numbers.
    """

    impl = Text
    cache_ok = True

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.shape = shape

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Any:
        return None if value is None else msgspec.json.decode(value, type=self.shape)
