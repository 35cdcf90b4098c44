"""Which database the settings mean."""

from datetime import timedelta
from typing import Final

from mercato.kernel.db import postgresql
from mercato.kernel.db.engine import Database
from mercato.kernel.db.pooler import refuse_pooler
from mercato.kernel.settings import Settings

FILE: Final = "mercato.db"


def database_url(settings: Settings) -> str:
    """Return the URL for `Database.open` and `migrate`: the setting, else SQLite in the data directory."""
    if settings.database_url is not None:
        return settings.database_url.reveal()
    return f"sqlite:///{settings.data_dir.absolute() / FILE}"


def open_database(settings: Settings) -> Database:
    """Return the database with the pools and the time-outs of the settings."""
    return Database.open(
        database_url(settings),
        pool_size=settings.database_pool,
        pool_timeout=timedelta(seconds=settings.database_pool_seconds),
        busy_timeout=timedelta(seconds=settings.database_lock_seconds),
        statement_timeout=timedelta(seconds=settings.database_statement_seconds),
        replica_url=None if settings.database_replica_url is None else settings.database_replica_url.reveal(),
    )


async def refuse_pooled_replica(settings: Settings) -> None:
    """Return if no pooler is in front of the replica, or there is none. Raises UnusableUrl."""
    if settings.database_replica_url is not None and postgresql.is_url(database_url(settings)):
        await refuse_pooler(settings.database_replica_url.reveal(), "MERCATO_DATABASE_REPLICA_URL")
