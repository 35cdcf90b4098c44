"""The schemas of revisions: `python -m tests.db.releases` writes the files of the present one.

`<revision>.json` has the columns as the revision's code uses them, `<revision>.<kind>.sql` makes a database as that
code does. Each is written once, with its revision, and never again: somebody has a database with these tables.
"""

import json
import sys
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, MetaData, Table, Text, Uuid
from sqlalchemy.types import TypeEngine
from tests.generated import RUN

from mercato.features.schema import SCHEMA
from mercato.platform.db.migrate import schema_statements
from mercato.platform.db.tables import metadata
from mercato.platform.db.types import Id, Instant, Serial

HERE: Final = Path(__file__).parent / "released"

TYPES: Final[dict[str, TypeEngine[Any]]] = {
    "bigint": BigInteger(),
    "boolean": Boolean(),
    "bytes": LargeBinary(),
    "double": Double(),
    "integer": Integer(),
    "serial": Serial,
    "text": Text(),
    "uuid": Uuid(),
}


def shared_out(found: list[Any]) -> list[Any]:
    """Return the parameters of a test of each release.

    `make test` has the oldest, the newest, and one between: another in each run.
    """
    last = len(found) - 1
    # All workers of a run choose the same one.
    chosen = Random(RUN).randrange(1, last)
    return [
        one if at in {0, chosen, last} else pytest.param(one, marks=pytest.mark.long)
        for at, one in enumerate(found)
    ]


@cache
def load(path: Path) -> MetaData:
    """Return the tables of a release, each after those that it refers to: once, as statements of them are compiled."""
    tables = MetaData()
    for name, columns in json.loads(path.read_text()).items():
        Table(
            name,
            tables,
            *(
                Column(
                    column["name"],
                    TYPES[column["type"]],
                    primary_key=column["key"],
                    nullable=column["nullable"],
                    # The code may leave out columns that the database fills in.
                    info={"filled": column["filled"], "refers": column["refers"]},
                )
                for column in columns
            ),
        )
    return tables


def files() -> dict[Path, str]:
    """Return the present revision's files with their contents."""
    tables = {
        table.name: [
            {
                "name": column.name,
                "type": _name(column),
                "nullable": bool(column.nullable),
                "key": column.primary_key,
                "filled": column.server_default is not None or _name(column) == "serial",
                "refers": next((key.target_fullname for key in column.foreign_keys), None),
            }
            for column in table.columns
        ]
        for table in metadata.sorted_tables
    }
    found = {HERE / f"{SCHEMA.head}.json": json.dumps(tables, indent=1) + "\n"}
    for kind, url in (("sqlite", "sqlite://"), ("postgresql", "postgresql+asyncpg://")):
        version = f"INSERT INTO alembic_version VALUES ('{SCHEMA.head}')"  # noqa: S608  # our own constant
        # The indexes of a table are a set, which has another order in each process.
        statements = [
            statement
            for is_index, group in groupby(
                schema_statements(url), lambda sql: " INDEX " in sql.partition("(")[0]
            )
            for statement in (sorted(group) if is_index else group)
        ]
        statements.append(version)
        text = "\n".join(f"{statement.strip()};\n" for statement in statements)
        lines = (line.replace("\t", "  ").rstrip() for line in text.splitlines())
        found[HERE / f"{SCHEMA.head}.{kind}.sql"] = "\n".join(lines) + "\n"
    return found


def main() -> None:
    """Write the files of the present revision, unless there are others."""
    for path, text in files().items():
        if path.exists() and not is_same(path.read_text(), text):
            sys.exit(
                f"{path.name} has other tables, and somebody may have a database with them. Add a revision to "
                "features/schema/versions, name it in SCHEMA of features/schema, and run this again. "
                f"If revision {SCHEMA.head} is on no other branch yet, delete its files first."
            )
        if not path.exists():
            path.write_text(text)


def is_same(released: str, present: str) -> bool:
    """Return whether both make the same database: the tables of SQL may be in another order."""
    return sorted(split(released)) == sorted(split(present))


def load_statements(revision: str, kind: str) -> list[str]:
    """Return the statements that make a database of the kind as the release did."""
    return split((HERE / f"{revision}.{kind}.sql").read_text())


def split(text: str) -> list[str]:
    """Return the statements of a file."""
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


def _name(column: Column[Any]) -> str:
    kind = column.type
    if (
        column.primary_key
        and column.autoincrement is not False
        and column is column.table.autoincrement_column
    ):
        return "serial"
    if isinstance(kind, Instant):
        return "bigint"
    if isinstance(kind, Id):
        return "uuid"
    return next(name for name, known in TYPES.items() if name != "serial" and type(known) is type(kind))


if __name__ == "__main__":
    main()
