"""`mercato db copy`: moves everything between SQLite and PostgreSQL."""

import asyncio
import os
import sys
from typing import Annotated

from cyclopts import Parameter

from mercato.cli.options import DataDir, Json, group
from mercato.cli.output import note, print_json, print_objects, say
from mercato.features.partners.vault import FILE
from mercato.features.schema import SCHEMA
from mercato.features.stores.search import refresh_all
from mercato.platform.db.copy import Content, copy
from mercato.platform.db.engine import Database
from mercato.platform.db.url import database_url, is_postgresql, sqlite_path
from mercato.settings import load

db = group("db", "The database: copy it to another.")


@db.command(name="copy")
def copy_database(
    *,
    to: str,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Copy everything to an empty database of either kind, and compare both. Stop all servers first.

    If it is interrupted, the same command goes on with it. Servers start on the copy once it is complete.

    Args:
        to: The other database: postgresql://user:password@host/name, or sqlite:/// and a path; @- reads it from
            standard input.
        from_: The database to copy, by default that of the settings; it stays as it is.

    """
    settings = load(os.environ, data_dir=data_dir)
    target = sys.stdin.readline().strip() if to == "@-" else to
    contents = asyncio.run(_copy(from_ or database_url(settings), target))
    if json:
        print_json({"tables": contents})
    else:
        print_objects({"Table": "table", "Rows": _rows, "Checksum": "checksum"}, contents, empty="No tables.")
        say(
            f"{sum(one.rows for one in contents):,} rows in {len(contents)} tables: both databases are equal."
        )
    note(f"To serve the copy: {_serve(target)}")
    if settings.encryption_keys is None:
        key = settings.data_dir / FILE
        note(
            f"Its secrets need the same key: put {key} into its data directory, or set MERCATO_ENCRYPTION_KEYS to it."
        )


async def _copy(source: str, target: str) -> list[Content]:
    async def finish() -> None:
        async with Database.open(target) as database:
            await refresh_all(database, progress=lambda stores: _show("search entries", stores))

    contents = await copy(source, target, SCHEMA, finish=finish, progress=_show)
    _show_end()
    return contents


def _show(what: str, done: int) -> None:
    """Show on a terminal how far it is."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}: {done:,}", end="", file=sys.stderr, flush=True)


def _show_end() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


def _rows(content: Content) -> str:
    return f"{content.rows:,}"


def _serve(target: str) -> str:
    if is_postgresql(target):
        return "set MERCATO_DATABASE_URL to its address"
    path = sqlite_path(target)
    if path.name == "mercato.db":
        return f"mercato serve --data-dir {path.parent}"
    return f"MERCATO_DATABASE_URL=sqlite:///{path.absolute()} mercato serve"
