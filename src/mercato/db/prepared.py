"""Statements that are spelled once: on SQLite they go to the driver as text, past everything that builds SQL.

SQLAlchemy takes about 0.1 ms to build a statement, to find its text again and to wrap its result; SQLite itself
takes a tenth of that for one row.
"""

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar
from weakref import WeakSet

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Executable,
    Insert,
    Table,
    Update,
    bindparam,
    exc,
    insert,
    update,
)
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from mercato.db.awaited import Parameters

S = TypeVar("S", bound=Executable)

DIALECT: Final = SQLiteDialect_pysqlite()

_known: Final[WeakSet[Executable]] = WeakSet()


def prepared(statement: S) -> S:
    """Return the statement, a constant of its module whose values are all `bindparam`s, known as one."""
    _known.add(statement)
    return statement


def prepared_insert(table: Table, *columns: str) -> Insert:
    """Return the prepared insert of a row with these columns; without any named, with all."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns or table.c.keys()}
    return prepared(insert(table).values(values))


def prepared_update(table: Table, *columns: str, where: Sequence[ColumnElement[bool]]) -> Update:
    """Return the prepared change of these columns; what `where` binds must have other names than columns."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    return prepared(update(table).where(*where).values(values))


Convert = Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class Text:
    """A statement as SQLite's driver takes it: its text, and how values are made of parameters and of columns."""

    sql: str
    binds: tuple[tuple[str, Any, Convert], ...]
    columns: tuple[Convert, ...]
    row: Callable[[Iterable[Any]], Any]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the values in the text's order."""
        return [
            given.get(name, default) if convert is None else convert(given.get(name, default))
            for name, default, convert in self.binds
        ]


class Result:
    """What a prepared statement gave: so much of SQLAlchemy's result as is used of it."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, cursor: sqlite3.Cursor, text: Text) -> None:
        self._rows: list[Any] = []
        if cursor.description is not None:
            self._rows = [text.row(_converted(row, text.columns)) for row in cursor.fetchall()]
        self.rowcount = cursor.rowcount

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None


def run(connection: sqlite3.Connection, text: Text, given: Parameters | None) -> Result:
    """Execute a prepared statement, once for each set of parameters. Raises what SQLAlchemy would."""
    try:
        if isinstance(given, Mapping) or given is None:
            return Result(connection.execute(text.sql, text.values(given or {})), text)
        return Result(connection.executemany(text.sql, [text.values(one) for one in given]), text)
    except sqlite3.Error as error:
        raise exc.DBAPIError.instance(
            text.sql, None, error, sqlite3.Error, hide_parameters=True, dialect=DIALECT
        ) from error


def find_text(statement: Executable) -> Text | None:
    """Return a prepared statement's text; None for any other statement."""
    return _text(statement) if statement in _known else None


@cache
def _text(statement: Executable) -> Text:
    compiled: Any = statement.compile(dialect=DIALECT)  # type: ignore[attr-defined]  # every statement has it
    binds = tuple(_bind(name, compiled.binds[name]) for name in compiled.positiontup)
    # The compiler knows what comes back of a RETURNING as well, which the statement does not tell.
    columns = [(one.keyname, one.type) for one in compiled._result_columns]  # noqa: SLF001  # there is no other way
    names = [name for name, _ in columns]
    if not names:  # of a text nobody knows what it returns: its rows are the driver's
        return Text(str(compiled), binds, (), tuple)
    row: Any = namedtuple("row", names, rename=True)  # type: ignore[misc]  # noqa: PYI024  # made at run time
    converts = tuple(kind.dialect_impl(DIALECT).result_processor(DIALECT, None) for _, kind in columns)
    return Text(str(compiled), binds, converts, row._make)


def _converted(row: Iterable[Any], columns: Iterable[Convert]) -> Iterable[Any]:
    return (
        row
        if not columns
        else [
            value if convert is None else convert(value) for value, convert in zip(row, columns, strict=True)
        ]
    )


def _bind(name: str, bind: BindParameter[Any]) -> tuple[str, Any, Convert]:
    return bind.key if bind.unique is False else name, bind.effective_value, _converter(bind)


def _converter(bind: BindParameter[Any]) -> Convert:
    convert: Convert = bind.type.dialect_impl(DIALECT).bind_processor(DIALECT)
    return convert
