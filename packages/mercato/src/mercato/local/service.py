"""The whole service in this process, on a free loopback port: for the demo, certification and tests."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mercato.app import running
from mercato.asgi import application
from mercato.features.partners import accounts
from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.model import PartnerKind
from mercato.features.schema import SCHEMA
from mercato.http.server import serving
from mercato.platform.db.migrate import migrate
from mercato.platform.db.url import database_url
from mercato.services import Services
from mercato.settings import Settings
from mercato_contract import clock
from mercato_contract.clock import Clock

BUSY_SECONDS: Final = 60.0
"""How long a request to a temporary service waits for its database: on a busy machine a demo is slow, but it works."""


@dataclass
class LocalService:
    """A running service and its base URL."""

    app: Services
    base: str

    async def create_partner(self, name: str, kind: PartnerKind, **options: Any) -> NewPartner:
        """Create a partner, as `mercato partner create` does."""
        async with self.app.db.write() as tx:
            return await accounts.create_partner(tx, self.app.vault, name=name, kind=kind, **options)


@asynccontextmanager
async def local_service(
    settings: Settings, *, now: Clock = clock.now, works: bool = True
) -> AsyncIterator[LocalService]:
    """Run the service on a migrated database; `works`: with background work."""
    async with running(settings, now=now, works=works) as app, serving(application(app)) as base:
        yield LocalService(app, base)


@asynccontextmanager
async def temporary_service(name: str, **settings: Any) -> AsyncIterator[LocalService]:
    """Run the service on a new database in a temporary directory. It doesn't read the environment."""
    with tempfile.TemporaryDirectory(prefix=f"mercato-{name}-") as directory:
        options = {"allow_private_networks": True, "database_pool_seconds": BUSY_SECONDS} | settings
        chosen = Settings(data_dir=Path(directory), **options)
        await migrate(database_url(chosen), SCHEMA)
        async with local_service(chosen) as service:
            yield service
