"""Column types and the present instant, the same on SQLite and on PostgreSQL."""

from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import BigInteger, Integer, Text, TypeDecorator, Uuid
from sqlalchemy import Dialect as SqlalchemyDialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from mercato_contract.clock import from_ms, to_ms

Dialect = Literal["sqlite", "postgresql"]


class Instant(TypeDecorator[datetime]):
    """An instant in UTC, stored as whole milliseconds since 1970: exact, short, and ordered as numbers are."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: SqlalchemyDialect) -> int | None:
        return None if value is None else to_ms(value)

    def process_result_value(self, value: int | None, _dialect: SqlalchemyDialect) -> datetime | None:
        return None if value is None else from_ms(value)

    def coerce_compared_value(self, _operator: Any, value: Any) -> TypeEngine[Any]:
        """Treat an integer that is combined with an instant as milliseconds since 1970, other values as instants."""
        return BigInteger() if isinstance(value, int) else self


class now_ms(FunctionElement[int]):  # noqa: N801  # used as the SQL function that it is
    """Milliseconds since 1970 as the statement begins: on PostgreSQL the server's, on SQLite this machine's.

    The processes of a database thus agree on what is due and whose lease has expired. Compares with an `Instant`
    column and adds up with integers: `now_ms() + 15_000`.
    """

    type = BigInteger()
    inherit_cache = True
    name = "now_ms"


NOW: Final[dict[Dialect, str]] = {
    # julianday and not unixepoch('subsec'), which came with SQLite 3.42. A double is exact to 0.04 ms here.
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    # statement_timestamp is STABLE, so an index on an instant can be searched with it.
    "postgresql": "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)",
}


@compiles(now_ms)
def _compile(_element: now_ms, compiler: Any, **_options: Any) -> str:
    return NOW[compiler.dialect.name]


class Id(Uuid[UUID]):
    """A UUID: native on PostgreSQL, 32 hexadecimal digits on SQLite; both sort a UUIDv7 by its time."""


class id_end(FunctionElement[str]):  # noqa: N801  # used as the SQL function that it is
    """The last eight hexadecimal digits of an id, as lists show it. Indexes have it as an expression."""

    type = Text()
    inherit_cache = True
    name = "id_end"


@compiles(id_end, "sqlite")
def _compile_on_sqlite(element: id_end, compiler: Any, **options: Any) -> str:
    return f"substr({compiler.process(element.clauses, **options)}, 25)"


@compiles(id_end, "postgresql")
def _compile_on_postgresql(element: id_end, compiler: Any, **options: Any) -> str:
    return f"right(CAST({compiler.process(element.clauses, **options)} AS TEXT), 8)"


class json_rows(FunctionElement[str]):  # noqa: N801  # used as the SQL function that it is
    """An aggregate: the rows as JSON, a list of the columns' values for each, in the order in which they are read.

    None of no rows on PostgreSQL, an empty list on SQLite.
    """

    type = Text()
    inherit_cache = True
    name = "json_rows"


_JSON_ROWS: Final[dict[Dialect, str]] = {
    "sqlite": "json_group_array(json_array({}))",
    "postgresql": "CAST(json_agg(json_build_array({})) AS TEXT)",
}


@compiles(json_rows)
def _compile_json_rows(element: json_rows, compiler: Any, **options: Any) -> str:
    return _JSON_ROWS[compiler.dialect.name].format(compiler.process(element.clauses, **options))


class json_member(FunctionElement[str]):  # noqa: N801  # used as the SQL function that it is
    """A text among the members of a stored JSON object: of a column, by the member's name. None if it isn't there."""

    type = Text()
    inherit_cache = True
    name = "json_member"


@compiles(json_member)
def _compile_json_member(element: json_member, compiler: Any, **options: Any) -> str:
    column, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_extract({column}, '$.' || {name})"


@compiles(json_member, "postgresql")
def _compile_json_member_on_postgresql(element: json_member, compiler: Any, **options: Any) -> str:
    column, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(CAST({column} AS JSON) ->> {name})"


# SQLite numbers rows itself only in a column that is exactly INTEGER.
Serial = BigInteger().with_variant(Integer(), "sqlite")
"""The type of a row number that the database assigns."""
