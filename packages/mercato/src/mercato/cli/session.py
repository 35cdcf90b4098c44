"""Opens the service's database and vault for a command."""

import os
import pwd
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from mercato.cli import UnusableError, command_name
from mercato.cli.failures import no_data_dir
from mercato.features.partners import accounts
from mercato.features.partners.vault import Vault
from mercato.features.schema import SCHEMA
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.migrate import migrate
from mercato.platform.db.url import database_url
from mercato.platform.telemetry import configure_logs
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato.settings import Settings, load


@dataclass(frozen=True)
class Session:
    """An open database and its settings."""

    settings: Settings
    db: Database

    async def vault(self, tx: Read) -> Vault:
        """Return the vault of the servers on this database. Raises VaultError if this process has another key."""
        keys = self.settings.encryption_keys
        return await accounts.open_vault(tx, None if keys is None else keys.reveal(), self.settings.data_dir)

    async def find_partner_id(self, tx: Read, name: str | None) -> UUID | None:
        """Return the id of the partner with that id or name; None for None. Raises UnknownAccountError."""
        return None if name is None else (await accounts.get_partner_named(tx, name)).id


@asynccontextmanager
async def opened(data_dir: Path | None, *, create: bool = False) -> AsyncIterator[Session]:
    """Open the database of the settings; with `create`, create it and migrate it to this version's schema."""
    settings = load(os.environ, data_dir=data_dir)
    configure_logs(level=settings.log_level, form=settings.log_format)
    set_context(WorkContext(action=command_name(), user=_user()))
    url = database_url(settings)
    if settings.database_url is None:
        _check_data_dir(settings.data_dir, Path(url.removeprefix("sqlite:///")), create=create)
    try:
        db = Database.open(url)
    except ValueError:
        # Don't repeat the URL: it may hold a password.
        raise UnusableError(
            "MERCATO_DATABASE_URL isn't the address of a database. Write postgresql://user:password@host/name, "
            "or sqlite:/// and a path."
        ) from None
    if create:
        await migrate(url, SCHEMA)
    async with db:
        yield Session(settings, db)


def _user() -> str:
    """Return the system's name of the user, for the audit trail: environment variables can be forged."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"  # a container's users need no names


def _check_data_dir(data_dir: Path, file: Path, *, create: bool) -> None:
    if file.exists():
        return
    if not create:
        raise UnusableError(
            f"There is no database in {data_dir}. Name the directory of the server with --data-dir, or its "
            "database with MERCATO_DATABASE_URL."
        )
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise no_data_dir(data_dir, error) from None
    print(f"Creating a new database in {data_dir}.", file=sys.stderr)
