"""Statements of SQLAlchemy Core, each compiled once to the text and the conversions that a driver needs.

SQLAlchemy knows the tables, the types and both dialects; the drivers run what it compiles. Its engine isn't used,
because it repeats part of that work at each execution.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Executable,
    Float,
    Insert,
    SelectBase,
    Table,
    TextClause,
    Update,
    UpdateBase,
    Uuid,
    bindparam,
    insert,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from mercato.platform.db.types import Dialect as DialectName
from mercato.platform.db.types import Instant
from mercato_contract.clock import EPOCH, MILLISECOND, from_ms

S = TypeVar("S", bound=Executable)

Parameters = Mapping[str, Any]
Convert = Callable[[Any], Any]
Converts = tuple[tuple[int, Convert], ...]
"""Conversions with the positions of their values."""


def prepared(statement: S) -> S:
    """Register the statement, a constant of its module, to be compiled once; all its values are `bindparam`s.

    It finds or changes a few rows by an index: on SQLite it runs in the event loop's thread.
    """
    _prepared.add(statement)
    return statement


def prepared_insert(table: Table, *columns: str) -> Insert:
    """Return the prepared insert of a row with these columns, or with all if none is named."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns or table.c.keys()}
    return prepared(insert(table).values(values))


def conflicting_insert(table: Table, dialect: DialectName) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that can say what happens to a row that exists: `on_conflict_do_update`, or `…_nothing`.

    The two dialects' inserts are one statement under two names.
    """
    return (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)


def prepared_update(table: Table, *columns: str, where: Sequence[ColumnElement[bool]]) -> Update:
    """Return the prepared update of these columns; the parameters of `where` must have other names."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    return prepared(update(table).where(*where).values(values))


class Binds(Struct, frozen=True):
    """Positions of the values that a driver needs in another form. None is NULL in every form.

    Most are ids and instants: they are converted inline, because calls would double a short statement's time.
    """

    ids: tuple[int, ...] = ()
    instants: tuple[int, ...] = ()
    others: Converts = ()


class CompiledStatement(Struct, frozen=True):
    """A statement as a driver takes it. `is_short`: it touches a few rows, so SQLite needs no thread for it.

    `is_textual`: it was given as text, so only the driver knows whether it returns rows, and which columns.
    `complete` adds the statement's own values to the parameters; a prepared statement has none.
    """

    sql: str
    defaults: dict[str, Any]
    pick: Callable[[Parameters], Iterable[Any]]
    binds: Binds
    columns: Converts
    row: Callable[[Iterable[Any]], Any] | None
    is_short: bool
    is_textual: bool
    complete: Callable[[Parameters], Parameters] | None = None

    @property
    def returns_rows(self) -> bool:
        """Whether the result is known to have columns."""
        return self.row is not None

    def values(self, given: Parameters) -> list[Any]:
        """Return the driver's values, in the order of the text's placeholders."""
        if self.complete is not None:
            given = self.complete(given)
        try:
            values = list(self.pick(given))
        except KeyError:
            values = list(self.pick({**self.defaults, **given}))
        for position in self.binds.ids:
            if values[position] is not None:
                # `UUID.hex` is a call, and formatting the integer takes twice as long.
                values[position] = values[position].int.to_bytes(16).hex()
        for position in self.binds.instants:
            if values[position] is not None:
                values[position] = (values[position] - EPOCH) // MILLISECOND
        for position, convert in self.binds.others:
            values[position] = convert(values[position])
        return values

    def rows(self, found: Sequence[Sequence[Any]], names: Callable[[], Sequence[str]]) -> list[Any]:
        """Return the driver's rows as named tuples; `names` returns the column names of a textual statement."""
        make = self.row or _row_type(tuple(names()))
        if not self.columns:
            return [make(row) for row in found]
        converted = []
        for row in found:
            values = list(row)
            for position, convert in self.columns:
                values[position] = convert(values[position])
            converted.append(make(values))
        return converted


class Result(Struct, frozen=True):
    """The rows of a statement, all read, and how many rows it changed."""

    rows: list[Any]
    rowcount: int

    def all(self) -> list[Any]:
        return self.rows

    def first(self) -> Any:
        return self.rows[0] if self.rows else None

    def scalar(self) -> Any:
        return self.rows[0][0] if self.rows else None


_prepared: Final[set[Executable]] = set()

_MAX_CACHED: Final = 1_000
"""Compiled forms that are kept of statements that aren't prepared."""


class Compiler:
    """Compiles statements for one dialect, each once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._forms: dict[Executable, CompiledStatement] = {}
        self._others: dict[Any, tuple[CompiledStatement, SQLCompiler]] = {}

    def compile(self, statement: Executable, given: Parameters) -> CompiledStatement:
        """Return the statement's compiled form; `given` names the columns of an insert without values."""
        found = self._forms.get(statement)
        if found is not None:
            return found
        if statement not in _prepared:
            return self._compile_by_structure(statement, given)
        form = _compile(statement, _compiler(statement, self._dialect, {}), is_short=True)
        self._forms[statement] = form
        return form

    def _compile_by_structure(self, statement: Executable, given: Parameters) -> CompiledStatement:
        # Compiling a statement of thirty columns takes a millisecond. This is the key of SQLAlchemy's own cache, which
        # only its engine uses: the one name here that isn't public.
        key = cast("ClauseElement", statement)._generate_cache_key()  # noqa: SLF001  # see above
        assert key is not None, "every construct that is used here can be cached"
        name = (key.key, tuple(given) if isinstance(statement, Insert) else ())
        found = self._others.get(name)
        if found is None:
            if len(self._others) >= _MAX_CACHED:
                self._others.clear()
            made = _compiler(statement, self._dialect, given, cache_key=key)
            found = self._others[name] = _compile(statement, made, is_short=False), made
        form, made = found

        def complete(parameters: Parameters) -> Parameters:
            return made.construct_params(parameters, extracted_parameters=key.bindparams)

        if not made.post_compile_params:
            return msgspec.structs.replace(form, complete=complete)
        # A list of an IN has as many placeholders as values.
        state = made.construct_expanded_state(complete(given))
        names = state.positiontup or []
        types = [made.binds[name].type if name in made.binds else None for name in names]
        processors = [state.processors.get(name) for name in names]
        return msgspec.structs.replace(
            form,
            sql=state.statement,
            pick=_picker(names),
            binds=_binds(types, processors, self._dialect),
            complete=lambda _parameters: state.parameters,
        )


def _compiler(statement: Executable, dialect: Dialect, given: Parameters, **options: Any) -> SQLCompiler:
    clause = cast("ClauseElement", statement)  # every statement that is executed here is one
    made = clause.compile(dialect=dialect, column_keys=_column_keys(statement, given), **options)
    assert isinstance(made, SQLCompiler), "DDL is given as text"
    return made


def _compile(statement: Executable, made: SQLCompiler, *, is_short: bool) -> CompiledStatement:
    columns, names = _columns(statement), made.positiontup or []
    return CompiledStatement(
        sql=str(made),
        defaults=dict(made.params),
        pick=_picker(names),
        binds=_binds([made.binds[name].type for name in names], [None] * len(names), made.dialect),
        columns=_converts(_from_driver(kind, made.dialect) for _, kind in columns),
        row=_row_type(tuple(name for name, _ in columns)) if columns else None,
        is_short=is_short,
        is_textual=isinstance(statement, TextClause),
    )


def _column_keys(statement: Executable, given: Parameters) -> list[str] | None:
    """Return the columns of an insert whose values are given as parameters."""
    return list(given) if isinstance(statement, Insert) and given else None


def _columns(statement: Executable) -> list[tuple[str, TypeEngine[Any]]]:
    """Return the names and types of the result's columns; none for a textual statement."""
    found: Iterable[ColumnElement[Any]] = ()
    if isinstance(statement, SelectBase):
        found = statement.selected_columns
    elif isinstance(statement, UpdateBase):
        found = statement.exported_columns
    # An expression without a label is read by its position.
    return [(column.key or "", column.type) for column in found]


@lru_cache(maxsize=_MAX_CACHED)
def _row_type(names: tuple[str, ...]) -> Callable[[Iterable[Any]], Any]:
    shape: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # noqa: PYI024  # made at run time
    make: Callable[[Iterable[Any]], Any] = (
        shape._make
    )  # the public constructor of a named tuple from a sequence
    return make


def _picker(names: Sequence[str]) -> Callable[[Parameters], Iterable[Any]]:
    match names:
        case []:
            return lambda _given: ()
        case [name]:
            return lambda given: (given[name],)
        case _:
            return itemgetter(*names)


def _converts(converts: Iterable[Convert | None]) -> Converts:
    return tuple((position, convert) for position, convert in enumerate(converts) if convert is not None)


# Nearly every value is an id or an instant: these skip SQLAlchemy's wrappers.


def _binds(
    types: Sequence[TypeEngine[Any] | None], processors: Sequence[Convert | None], dialect: Dialect
) -> Binds:
    """Return the conversions of values by their types; a value of an expanded list has a processor instead."""
    ids: list[int] = []
    instants: list[int] = []
    others: list[tuple[int, Convert]] = []
    for position, (kind, convert) in enumerate(zip(types, processors, strict=True)):
        if isinstance(kind, Instant):
            instants.append(position)
        elif isinstance(kind, Uuid):
            if not dialect.supports_native_uuid:
                ids.append(position)
        else:
            made = convert if kind is None else kind.dialect_impl(dialect).bind_processor(dialect)
            if made is not None:
                others.append((position, made))
    return Binds(tuple(ids), tuple(instants), tuple(others))


def _from_driver(kind: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    if isinstance(kind, Instant):
        return _from_milliseconds
    if isinstance(kind, Uuid) and not dialect.supports_native_uuid:
        return _from_hex
    if isinstance(kind, Float):
        return None  # both drivers return a float
    return kind.dialect_impl(dialect).result_processor(dialect, None)


def _from_milliseconds(value: Any) -> Any:
    return None if value is None else from_ms(value)


def _from_hex(value: Any) -> UUID | None:
    return None if value is None else _parse_uuid(f'"{value}"')


# Takes a quarter of the time of UUID's own constructor.
_parse_uuid: Final = msgspec.json.Decoder(UUID).decode


# --- what a kind of database offers: `sqlite` and `postgresql` are the two ------------------------


class Connection(Protocol):
    """The part of a backend's connection that readers use."""

    async def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Return the buffered result; its `rowcount` is the number of rows that a change touched."""


class WritingConnection(Connection, Protocol):
    """The part of a backend's connection that transactions use."""

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Run a prepared statement whose result isn't needed, before the next statement or the commit.

        On PostgreSQL all deferred statements are one round trip. Each sees the rows as they were before all of them,
        so no two of them may change the same row.
        """

    def require(self, statement: Executable, parameters: Parameters, *, otherwise: Exception) -> None:
        """Defer a prepared statement that has to change or find a row. If there is none, the transaction fails.

        `otherwise` is raised at once on SQLite, and on PostgreSQL by the next statement or at the end of the block.
        """


class Handle(Protocol):
    """What a transaction's block works with. The backend calls `committed` after the commit."""

    def committed(self) -> None: ...


H = TypeVar("H", bound=Handle)
R = TypeVar("R")


class Backend(Protocol):
    """A kind of database."""

    @property
    def dialect(self) -> DialectName: ...

    def reading(self, begin: Callable[[Connection], R], /) -> AbstractAsyncContextManager[R]:
        """Open a connection that can't write, with what `begin` makes of it."""

    def writing(self, begin: Callable[[WritingConnection], H], /) -> AbstractAsyncContextManager[H]:
        """Open a transaction, with the handle that `begin` makes on its connection."""

    async def close(self) -> None: ...
