"""`mercato backup` and `mercato restore`: copies of the embedded database."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mercato.cli import UnusableError
from mercato.cli.options import DataDir
from mercato.cli.output import note
from mercato.cli.session import opened
from mercato.features.partners.vault import FILE
from mercato.features.schema import SCHEMA
from mercato.platform.db import backup as copies
from mercato.platform.db.audit import audit
from mercato.platform.db.migrate import find_revision
from mercato.platform.db.url import database_url, is_postgresql
from mercato.settings import Settings, load


def backup(file: Path, /, *, data_dir: DataDir = None) -> None:
    """Copy the embedded database to a file, while servers go on using it.

    Args:
        file: The file to create.

    """
    settings = load(os.environ, data_dir=data_dir)
    with _removing_partial_copy():
        copies.backup(_file(settings), file)
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
