"""Opens the service for a command: from its environment to what `app.opened` builds."""

import os
import pwd
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from mercato.cli.failures import no_data_dir
from mercato.features.partners import accounts
from mercato.features.schema import SCHEMA
from mercato.platform.db.engine import Read
from mercato.platform.db.migrate import migrate
from mercato.platform.db.url import database_url
from mercato.platform.telemetry import configure_logs
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato.settings import load
from mercato_tools.cli import UnusableError
from mercato_tools.cli.main import command_name

if TYPE_CHECKING:
    from mercato.services import Core


@asynccontextmanager
async def opened(data_dir: Path | None, *, create: bool = False) -> AsyncIterator["Core"]:
    """Open the service of the environment; with `create`, make the database or bring it to this version's schema."""
    # Imported here: `mercato listen` hardly ever opens the service, and starts in half the time.
    from mercato import app

    settings = load(os.environ, data_dir=data_dir)
    configure_logs(level=settings.log_level, form=settings.log_format)
    set_context(WorkContext(action=command_name(), user=_user()))
    url = database_url(settings)
    if settings.database_url is None:
        _check_data_dir(settings.data_dir, Path(url.removeprefix("sqlite:///")), create=create)
    if create:
        await migrate(url, SCHEMA)
    async with AsyncExitStack() as stack:
        try:
            core = await stack.enter_async_context(app.opened(settings))
        except ValueError:
            # Don't repeat the URL: it may hold a password.
            raise UnusableError(
                "MERCATO_DATABASE_URL isn't the address of a database. Write postgresql://user:password@host/name, "
                "or sqlite:/// and a path."
            ) from None
        yield core


async def find_partner_id(tx: Read, name: str | None) -> UUID | None:
    """Return the id of the partner with that id or name; None for None. Raises UnknownAccountError."""
    return None if name is None else (await accounts.get_partner_named(tx, name)).id


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
