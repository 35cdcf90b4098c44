"""Compares a database's tables with those of this version.

A revision's number alone doesn't say what tables there are: a database may have been made by a version from before the
first release, or changed by hand. Additional tables and columns don't count as differences if this version can ignore
them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import URL, Column, Connection, Table, text
from sqlalchemy.engine.interfaces import Dialect

from mercato.platform.db.engine import Read
from mercato.platform.db.tables import metadata

# Table, column, type, whether a row must have a value, and whether the database fills it in.
_COLUMNS: Final = {
    "sqlite": text("""
        SELECT made.name, part.name, part.type, part."notnull", part.dflt_value IS NOT NULL
        FROM sqlite_master AS made JOIN pragma_table_info(made.name) AS part WHERE made.type = 'table'
    """),
    "postgresql": text("""
        SELECT made.relname, part.attname, format_type(part.atttypid, part.atttypmod), part.attnotnull, part.atthasdef
        FROM pg_class AS made JOIN pg_attribute AS part ON part.attrelid = made.oid
        JOIN pg_namespace AS home ON home.oid = made.relnamespace
        WHERE made.relkind IN ('r', 'p') AND home.nspname = current_schema() AND part.attnum > 0
            AND NOT part.attisdropped
    """),
}

# Index, whether it is unique, and a column, in their order; NULL for an expression.
_INDEXES: Final = {
    "sqlite": text("""
        SELECT made.name, about."unique", part.name FROM sqlite_master AS made
        JOIN pragma_index_list(made.tbl_name) AS about ON about.name = made.name
        JOIN pragma_index_info(made.name) AS part WHERE made.type = 'index' ORDER BY made.name, part.seqno
    """),
    "postgresql": text("""
        SELECT made.relname, about.indisunique, CASE WHEN about.indkey[part.attnum - 1] <> 0 THEN part.attname END
        FROM pg_index AS about JOIN pg_class AS made ON made.oid = about.indexrelid
        JOIN pg_attribute AS part ON part.attrelid = made.oid
        JOIN pg_namespace AS home ON home.oid = made.relnamespace
        WHERE home.nspname = current_schema() AND about.indisvalid
        ORDER BY made.relname, part.attnum
    """),
}


class Schema(Struct, frozen=True, kw_only=True):
    """The tables of this version, which are all in the metadata, and how those of earlier ones become them."""

    head: str
    """The newest revision."""
    revisions: Path
    """Alembic's directory, with `env.py` and `versions`."""
    undescribed: Mapping[str, tuple[str, str]]
    """For each kind of database a table and a column that SQLAlchemy can't describe."""


class _Column(Struct, frozen=True):
    type: str
    required: bool
    """Without a value a row is refused."""
    filled: bool = False
    """The database fills it in."""


async def find_differences(tx: Read, schema: Schema) -> list[str]:
    """Return how the database's tables differ from this version's, as sentences; none if it can be used."""
    columns = await tx.all(_COLUMNS[tx.dialect])
    dialect = URL.create("postgresql+asyncpg" if tx.dialect == "postgresql" else tx.dialect).get_dialect()
    return list(_compare(schema, columns, await tx.all(_INDEXES[tx.dialect]), dialect()))


def list_differences(connection: Connection, schema: Schema) -> list[str]:
    """Return the same, read by SQLAlchemy's own connection."""
    dialect = connection.dialect
    columns = connection.execute(_COLUMNS[dialect.name]).all()
    return list(_compare(schema, columns, connection.execute(_INDEXES[dialect.name]).all(), dialect))


def _compare(
    schema: Schema, columns: Iterable[Sequence[Any]], indexes: Iterable[Sequence[Any]], dialect: Dialect
) -> Iterator[str]:
    """Yield the differences: tables that are missing first, then columns, then indexes."""
    tables: defaultdict[str, dict[str, _Column]] = defaultdict(dict)
    for table, name, kind, required, filled in columns:
        tables[table][name] = _Column(kind.upper(), bool(required), bool(filled))
    present: defaultdict[str, list[str | None]] = defaultdict(list)
    unique = {}
    for index, is_unique, column in indexes:
        present[index].append(column)
        unique[index] = bool(is_unique)

    other_table, other_column = schema.undescribed[dialect.name]
    for name in sorted({*metadata.tables, other_table}):
        if name not in tables:
            yield f"there is no table {name}"
    expected = [table for name, table in sorted(metadata.tables.items()) if name in tables]
    for table in expected:
        yield from _compare_columns(table, tables[table.name], dialect)
    if other_table in tables and other_column not in tables[other_table]:
        yield f"{other_table} has no column {other_column}"
    for table in expected:
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            name = str(index.name)
            if name not in present:
                yield f"{table.name} has no index {name}"
            elif (unique[name], present[name]) != (
                index.unique,
                [_name_of(part) for part in index.expressions],
            ):
                yield f"the index {name} is another one"


def _name_of(part: Any) -> str | None:
    return part.name if isinstance(part, Column) else None


def _compare_columns(table: Table, present: dict[str, _Column], dialect: Dialect) -> Iterator[str]:
    for column in table.columns:
        found = present.get(column.name)
        expected = _Column(
            column.type.compile(dialect=dialect).upper().partition(" COLLATE")[0],
            required=not column.nullable,
        )
        if found is None:
            yield f"{table.name} has no column {column.name}"
        elif (found.type, found.required) != (expected.type, expected.required):
            yield f"{table.name}.{column.name} is {_words(found)}, not {_words(expected)}"
    for name, found in present.items():
        if name not in table.columns and found.required and not found.filled:
            yield f"{table.name} has a column {name} which this version doesn't fill"


def _words(column: _Column) -> str:
    return f"{column.type} NOT NULL" if column.required else column.type
