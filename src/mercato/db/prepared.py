"""Statements that are spelled once: they go to the driver as text, past everything that builds SQL.

SQLAlchemy takes about 0.1 ms to build a statement, to find its text again and to wrap its result; SQLite itself
takes a tenth of that for one row.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Executable,
    Insert,
    Table,
    Update,
    Uuid,
    bindparam,
    insert,
    update,
)
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.types import TypeEngine

from mercato.db.types import Instant, from_ms, to_ms

S = TypeVar("S", bound=Executable)

Convert = Callable[[Any], Any]
Converts = tuple[tuple[int, Convert], ...]
"""What is made of some of the values, by where they stand."""


def prepared(statement: S) -> S:
    """Return the statement, a constant of its module whose values are all `bindparam`s, known as one."""
    _known[statement] = {}
    return statement


def prepared_insert(table: Table, *columns: str) -> Insert:
    """Return the prepared insert of a row with these columns; without any named, with all."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns or table.c.keys()}
    return prepared(insert(table).values(values))


def prepared_update(table: Table, *columns: str, where: Sequence[ColumnElement[bool]]) -> Update:
    """Return the prepared change of these columns; what `where` binds must have other names than columns."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    return prepared(update(table).where(*where).values(values))


class Text(Struct, frozen=True):
    """A statement as a driver takes it: its text, and how values are made of parameters and of columns."""

    sql: str
    defaults: dict[str, Any]
    pick: Callable[[Mapping[str, Any]], Iterable[Any]]
    binds: Converts
    columns: Converts
    row: Callable[[Iterable[Any]], Any]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the values in the text's order."""
        try:
            values = list(self.pick(given))
        except KeyError:
            values = list(self.pick(self.defaults | dict(given)))
        for place, convert in self.binds:
            values[place] = convert(values[place])
        return values

    def rows(self, found: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the driver's rows with the values that their columns have here."""
        if not self.columns:
            return [self.row(one) for one in found]
        made = []
        for one in found:
            values = list(one)
            for place, convert in self.columns:
                values[place] = convert(values[place])
            made.append(self.row(values))
        return made


class Result:
    """What a prepared statement gave: so much of SQLAlchemy's result as is used of it."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None


_known: Final[dict[Executable, dict[str, Text]]] = {}
"""Every prepared statement, with its text by the name of the dialect, once it was asked for."""


def find_text(statement: Executable, dialect: Dialect) -> Text | None:
    """Return a prepared statement's text; None for any other statement."""
    texts = _known.get(statement)
    if texts is None:
        return None
    text = texts.get(dialect.name)
    if text is None:
        text = texts[dialect.name] = _text(statement, dialect)
    return text


def _text(statement: Executable, dialect: Dialect) -> Text:
    compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # every statement has it
    binds: list[BindParameter[Any]] = [compiled.binds[name] for name in compiled.positiontup]
    names = [
        bind.key if bind.unique is False else name
        for name, bind in zip(compiled.positiontup, binds, strict=True)
    ]
    # The compiler knows what comes back of a RETURNING as well, which the statement does not tell.
    columns = [(one.keyname, one.type) for one in compiled._result_columns]  # noqa: SLF001  # there is no other way
    row: Any = tuple  # of a text nobody knows what it returns: its rows are the driver's
    if columns:
        shape: Any = namedtuple("row", [name for name, _ in columns], rename=True)  # type: ignore[misc]  # noqa: PYI024  # made at run time
        row = shape._make
    return Text(
        str(compiled),
        dict(zip(names, (bind.effective_value for bind in binds), strict=True)),
        _picker(names),
        _converts([_to_driver(bind.type, dialect) for bind in binds]),
        _converts([_from_driver(kind, dialect) for _, kind in columns]),
        row,
    )


def _picker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Iterable[Any]]:
    match names:
        case []:
            return lambda _given: ()
        case [name]:
            return lambda given: (given[name],)
        case _:
            return itemgetter(*names)


def _converts(converts: Iterable[Convert | None]) -> Converts:
    return tuple((place, convert) for place, convert in enumerate(converts) if convert is not None)


# The types of nearly every value, without what SQLAlchemy wraps around its own conversions of them.


def _to_driver(kind: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    if isinstance(kind, Instant):
        return _ms
    if isinstance(kind, Uuid) and not dialect.supports_native_uuid:
        return _hex
    convert: Convert | None = kind.dialect_impl(dialect).bind_processor(dialect)
    return convert


def _from_driver(kind: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    if isinstance(kind, Instant):
        return _instant
    if isinstance(kind, Uuid) and not dialect.supports_native_uuid:
        return _uuid
    return kind.dialect_impl(dialect).result_processor(dialect, None)


def _ms(value: Any) -> int | None:
    return None if value is None else to_ms(value)


def _instant(value: Any) -> Any:
    return None if value is None else from_ms(value)


def _hex(value: Any) -> str | None:
    return None if value is None else value.hex


def _uuid(value: Any) -> UUID | None:
    return None if value is None else _read_id(f'"{value}"')


# UUID's own constructor takes four times as long.
_read_id: Final = msgspec.json.Decoder(UUID).decode
