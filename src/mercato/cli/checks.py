"""What `mercato doctor` looks at: each check is one line that says what it saw, and what to do about it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final

from msgspec import UNSET, UnsetType
from sqlalchemy.exc import SQLAlchemyError

from mercato import clock
from mercato.cli.limits import WANTED, most_open_files
from mercato.db import health
from mercato.db.engine import Database, Read
from mercato.db.errors import DatabaseAway
from mercato.db.migrate import HEAD, find_revision
from mercato.db.replica import ANSWER_SECONDS, EVERY, MOST_BEHIND
from mercato.db.url import open_database
from mercato.jobs import list_gauges
from mercato.jobs.ownership import is_owned
from mercato.jobs.queue import CHANNEL
from mercato.partners.limits import Limiter
from mercato.partners.queries import find_newest_secret
from mercato.partners.resealing import count_unreadable
from mercato.partners.vault import FILE, Vault, VaultError, load_keys
from mercato.plurals import count_of
from mercato.settings import MiB, Settings
from mercato.webhooks.health import count_disabled
from mercato.wire import Wire

LEAST_FREE: Final = 512 * MiB
"""Bytes free beside an embedded database: a backup and the log of a busy hour."""

MOST_LOG: Final = 512 * MiB
"""A write-ahead log that is longer is not folded back: some reader never lets go."""

MOST_SKEW: Final = timedelta(seconds=2)
MOST_WAIT: Final = timedelta(seconds=60)
"""How long a job may be due before somebody should look why nobody takes it."""

MOST_CONNECTIONS: Final = 0.9
MOST_SECRETS: Final = 1000
"""Secrets and tokens that are tried with the encryption keys, the newest."""


class State(StrEnum):
    """How bad it is: `note` is worth knowing, `wrong` wants doing, with `unusable` nothing works."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNUSABLE = "unusable"


class Check(Wire, kw_only=True):
    """One line. `advice` says what to do, where there is something to be done."""

    name: str
    state: State
    said: str
    advice: str | UnsetType = UNSET


async def checks(tx: Read, settings: Settings) -> AsyncIterator[Check]:
    """Yield what there is to say of a service whose database can be reached; the schema first."""
    schema = await _schema(tx)
    yield schema
    yield await _storage(tx)
    if settings.database_replica_url is not None:
        yield await _replica(settings)
    yield await _clock(tx)
    yield _files()
    if settings.redis_url is not None:
        yield await _limits(settings, settings.redis_url.reveal())
    if schema.state is State.OK:
        yield await _encryption(tx, settings)
        for one in await _work(tx):
            yield one
        yield await _endpoints(tx)


async def _schema(tx: Read) -> Check:
    found = await find_revision(tx)
    if found == HEAD:
        return _ok("schema", f"revision {found}")
    if found is None:
        return _unusable("schema", "The database has no tables of ours.", "Make them with: mercato migrate")
    advice = "Run mercato migrate; if it says that the schema is newer, install that version of mercato."
    return _unusable("schema", f"The database is at revision {found}, this version at {HEAD}.", advice)


async def _storage(tx: Read) -> Check:
    if tx.dialect == "postgresql":
        server = await health.find_server(tx)
        said = f"PostgreSQL {server.version}, {server.connections} of {server.most} connections in use"
        if server.connections < server.most * MOST_CONNECTIONS:
            return _ok("storage", said)
        advice = "Raise max_connections of PostgreSQL, or run fewer processes."
        return _wrong("storage", said, advice)
    files = await health.find_files(tx)
    said = f"SQLite {files.version}, {_size(files.file)}, log {_size(files.log)}, {_size(files.free)} free beside it"
    if files.free < LEAST_FREE:
        return _wrong("storage", said, "Make room: when the disk is full, nothing is accepted any more.")
    if files.log > MOST_LOG:
        return _wrong("storage", said, "Some process keeps an old snapshot open: restart who is not ours.")
    return _ok("storage", said)


async def _replica(settings: Settings) -> Check:
    try:
        async with open_database(settings) as db, asyncio.timeout(ANSWER_SECONDS):
            return await _followed(db)
    except ValueError as error:
        return _unusable("replica", "It can't be used.", f"{error}.")
    except (TimeoutError, DatabaseAway, SQLAlchemyError):
        said = f"It does not answer, or is more than {MOST_BEHIND:g} s behind the primary."
        return _wrong("replica", said, "Until it keeps up, all is read from the primary.")


async def _followed(db: Database) -> Check:
    """Return what is to be said of a replica, once it keeps up."""
    replica = db.replica
    while replica is not None and not replica.is_fresh():
        if not await replica.check():
            said = "MERCATO_DATABASE_REPLICA_URL is no replica of this database: it is not read from."
            return _wrong("replica", said, "Name a streaming replica of MERCATO_DATABASE_URL.")
        await asyncio.sleep(EVERY)
    return _ok("replica", "it keeps up")


async def _clock(tx: Read) -> Check:
    before = clock.now()
    theirs = await health.find_clock(tx)
    after = clock.now()
    skew = theirs - (before + (after - before) / 2)
    said = f"the database's clock is {abs(skew.total_seconds()):.1f} s {'ahead' if skew > timedelta(0) else 'behind'}"
    if abs(skew) <= MOST_SKEW + (after - before):
        return _ok("clock", said)
    advice = "Set both machines' clocks by NTP: leases, tokens and signatures go by them."
    return _wrong("clock", said, advice)


def _files() -> Check:
    most = most_open_files()
    said = f"a server started from here may have {most} files open"
    if most >= WANTED:
        return _ok("open files", said)
    return _wrong(
        "open files", said, f"Raise the hard limit to {WANTED} or more: ulimit -Hn, or LimitNOFILE=."
    )


async def _limits(settings: Settings, url: str) -> Check:
    try:
        from mercato.partners.shared_limits import SharedLimiter
    except ImportError:
        return _unusable("rate limits", "Redis can't be reached.", "Install it: pip install 'mercato[redis]'")
    own = Limiter(
        reads=settings.rate_limit_reads,
        writes=settings.rate_limit_writes,
        discovery=settings.rate_limit_discovery,
        clock=clock.now,
    )
    shared = SharedLimiter(url, own, clock.now)
    await shared.start()
    reached = shared.reached
    await shared.close()
    if reached:
        return _ok("rate limits", "they are counted by all servers together")
    advice = "Until MERCATO_REDIS_URL answers, each server counts its share by itself."
    return _wrong("rate limits", "Redis does not answer.", advice)


async def _encryption(tx: Read, settings: Settings) -> Check:
    given = settings.encryption_keys
    if given is None and not (settings.data_dir / FILE).exists():
        said = f"There is no encryption key: neither MERCATO_ENCRYPTION_KEYS nor {settings.data_dir / FILE}."
        # A new one must not be made beside a copy that was put back without its own: no start does, either.
        if await find_newest_secret(tx) is not None:
            return _wrong(
                "encryption", said, f"The database has secrets: put their {FILE} there before a start."
            )
        return _note("encryption", said, "The first server makes one. Keep it apart from the database.")
    try:
        vault = Vault(load_keys(None if given is None else given.reveal(), settings.data_dir))
    except VaultError as error:
        return _unusable("encryption", "The encryption key can't be read.", str(error))
    unreadable = await count_unreadable(tx, vault, most=MOST_SECRETS)
    if not unreadable:
        return _ok("encryption", "the key opens what is sealed")
    said = f"No key opens {count_of(unreadable, 'stored secret')}."
    return _wrong(
        "encryption", said, f"Add the key that sealed them, or restore {FILE} of the data directory."
    )


async def _work(tx: Read) -> Sequence[Check]:
    gauges = await list_gauges(tx)
    dead = {one.kind: one.dead for one in gauges if one.dead}
    ready = [one for one in gauges if one.ready]
    return [await _workers(tx), _waiting(max((one.oldest for one in ready), default=None)), _dead(dead)]


async def _workers(tx: Read) -> Check:
    if tx.dialect == "postgresql":
        count = await health.count_listeners(tx, CHANNEL)
    else:
        count = int(is_owned(tx.database))
    if count:
        return _ok("workers", f"{count} do background work")
    return _wrong("workers", "Nobody does background work.", "Start one: mercato serve, or mercato worker.")


def _waiting(oldest: timedelta | None) -> Check:
    if oldest is None:
        return _ok("due work", "none waits")
    said = f"the oldest job has been due for {oldest.total_seconds():.0f} s"
    if oldest <= MOST_WAIT:
        return _ok("due work", said)
    return _wrong("due work", said, "Start more workers, or see in their logs why they take none.")


def _dead(dead: dict[str, int]) -> Check:
    if not dead:
        return _ok("dead work", "none")
    said = ", ".join(f"{count} of {kind}" for kind, count in sorted(dead.items()))
    advice = "mercato job list says why; once that is mended: mercato job revive. They go after 30 days."
    return _wrong("dead work", f"Given up: {said}.", advice)


async def _endpoints(tx: Read) -> Check:
    count = await count_disabled(tx)
    if not count:
        return _ok("endpoints", "none is disabled")
    said = f"Disabled after days of failures: {count_of(count, 'address', 'addresses')} of partners."
    return _note("endpoints", said, "Ask their partners; then: mercato webhooks enable PARTNER URL")


def _size(count: int) -> str:
    return f"{count / MiB:,.1f} MiB"


def _ok(name: str, said: str) -> Check:
    return Check(name=name, state=State.OK, said=said)


def _note(name: str, said: str, advice: str) -> Check:
    return Check(name=name, state=State.NOTE, said=said, advice=advice)


def _wrong(name: str, said: str, advice: str) -> Check:
    return Check(name=name, state=State.WRONG, said=said, advice=advice)


def _unusable(name: str, said: str, advice: str) -> Check:
    return Check(name=name, state=State.UNUSABLE, said=said, advice=advice)
