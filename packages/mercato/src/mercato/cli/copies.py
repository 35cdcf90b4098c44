"""`mercato backup`, `restore` and `db copy`: copies of a database."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from sqlalchemy.exc import SQLAlchemyError

from mercato.cli.output import print_objects
from mercato.cli.session import opened
from mercato.features.partners.vault import FILE
from mercato.features.schema import SCHEMA
from mercato.features.stores.search import refresh_all
from mercato.platform.db import backup as copies
from mercato.platform.db.audit import audit
from mercato.platform.db.copy import Content, copy
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.db.migrate import find_revision
from mercato.platform.db.url import database_url, is_postgresql, sqlite_path
from mercato.settings import Settings, load
from mercato_tools.cli import UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json, say


def backup(file: Path | None = None, /, *, made: bool = False, data_dir: DataDir = None) -> None:
    """Copy the embedded database to a file, while servers go on using it.

    Args:
        file: The file to create.
        made: Only record that another tool has just made a backup, such as pg_dump: the metrics have its age.

    """
    if made == (file is not None):
        raise UnusableError(
            "Name the file to create: mercato backup FILE. Or record another tool's backup: --made"
        )
    if file is None:
        asyncio.run(_audit_backup(data_dir, {}))
        note("The backup is recorded.")
        return
    settings = load(os.environ, data_dir=data_dir)
    with _removing_partial_copy():
        copies.backup(_file(settings), file)
    asyncio.run(_audit_backup(data_dir, {"to": file.name}))
    note(f"{file} is a complete copy as of now.")
    if settings.encryption_keys is None:
        key = settings.data_dir / FILE
        note(f"Keep a copy of {key} in another place: without that key nobody can read the backup's secrets.")


def restore(file: Path, /, *, replace: bool = False, data_dir: DataDir = None) -> None:
    """Restore a backup made by `mercato backup`. Stop all servers first.

    Args:
        file: A file that `mercato backup` made.
        replace: Replace an existing database; its contents are lost.

    """
    settings = load(os.environ, data_dir=data_dir)
    database = _file(settings)
    with _removing_partial_copy():
        copies.restore(file, database, replace=replace)
    asyncio.run(_audit_restore(data_dir, file))
    note(
        f"Restored {file} to {database}. Webhooks that were pending at the backup are sent (again) with the same ids."
    )
    if settings.encryption_keys is None and not (settings.data_dir / FILE).exists():
        note(f"Put {FILE} into {settings.data_dir} before you start: the copy's secrets need that key.")


@contextmanager
def _removing_partial_copy() -> Iterator[None]:
    """Remove a partial copy when a signal ends the command: by default a signal skips all cleanup."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    ours = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


async def _audit_backup(data_dir: Path | None, detail: dict[str, str]) -> None:
    """Record the backup in the database's audit trail, from which the metrics have its age.

    A backup is complete without it: a full disk, which is a reason for one, doesn't fail it.
    """
    try:
        async with opened(data_dir) as core, core.db.write() as tx:
            if await find_revision(tx) == SCHEMA.head:
                await audit(tx, "database", detail=detail)
                return
        reason = "the database is at another revision"
    except (DatabaseUnavailable, SQLAlchemyError) as error:
        reason = type(error).__name__
    note(
        f"When this backup was made isn't recorded, so the metrics show the age of an earlier one: {reason}."
    )


async def _audit_restore(data_dir: Path | None, file: Path) -> None:
    """Record the restore in the database's audit trail."""
    async with opened(data_dir) as core, core.db.write() as tx:
        if await find_revision(tx) == SCHEMA.head:
            await audit(tx, "database", detail={"from": file.name})
        else:
            note("Its schema is of another version: `mercato audit` will not show this restore.")


def _file(settings: Settings) -> Path:
    url = database_url(settings)
    if is_postgresql(url):
        raise UnusableError(
            "This is for the embedded database. For PostgreSQL use its own tools: "
            "pg_dump --format=custom --file=mercato.dump, and pg_restore --clean --if-exists."
        )
    return Path(url.removeprefix("sqlite:///"))


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

    If it is interrupted, the same command continues it. Servers start on the copy once it is complete.

    Args:
        to: The other database: postgresql://user:password@host/name, or sqlite:/// and a path, which is absolute
            with four slashes; @- reads it from standard input.
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
            f"{sum(content.rows for content in contents):,} rows in {len(contents)} tables: both databases are equal."
        )
    note(f"To serve the copy: {_serve(target)}")
    if settings.encryption_keys is None:
        key = settings.data_dir / FILE
        found = str(key) if key.exists() else f"the {FILE} of the servers until now"
        note(
            f"Its secrets need the same key: put {found} into its data directory, or set MERCATO_ENCRYPTION_KEYS to it."
        )


async def _copy(source: str, target: str) -> list[Content]:
    async def finish() -> None:
        async with Database.open(target) as database:
            await refresh_all(database, progress=lambda stores: _show("search entries", stores))

    contents = await copy(source, target, SCHEMA, finish=finish, progress=_show)
    _show_end()
    return contents


def _show(label: str, done: int) -> None:
    """Show on a terminal how far it is."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{label}: {done:,}", end="", file=sys.stderr, flush=True)


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
