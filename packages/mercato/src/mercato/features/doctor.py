"""The health of a service, as checks: each is one line that says what was found and what to do."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError

from mercato.features.orders.queries import count_unanswered
from mercato.features.partners.encryption import check_vault, count_unreadable, find_sealed, source_of
from mercato.features.partners.limits import Limiter
from mercato.features.partners.vault import FILE, Vault, VaultError, load_keys
from mercato.features.schema import SCHEMA
from mercato.features.webhooks.endpoint_health import FAILING, count_disabled, count_failing
from mercato.features.webhooks.store_health import count_failing_stores, list_failing_stores
from mercato.platform.db import health
from mercato.platform.db.engine import Database, Read, open_database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.db.health import find_replication
from mercato.platform.db.migrate import UNFINISHED, SchemaDiffers, find_revision
from mercato.platform.db.replica import CHECK_SECONDS, INTERVAL, MAX_LAG
from mercato.platform.db.schema import find_differences
from mercato.platform.jobs import is_capped, list_depths
from mercato.platform.jobs.worker import find_owner
from mercato.platform.processes import WANTED_FILES, max_open_files
from mercato.platform.telemetry.metrics import QueueDepth, ReplicaLag
from mercato.settings import MiB, Settings
from mercato_contract import clock
from mercato_contract.texts import count_of
from mercato_contract.wire import rfc3339

MIN_FREE: Final = 512 * MiB
"""Bytes that must be free on an embedded database's disk: for a backup and the log of a busy hour."""

MAX_LOG: Final = 512 * MiB
"""Greatest write-ahead log: a longer one isn't written back, because some reader never ends."""

MAX_SKEW: Final = timedelta(seconds=2)
MAX_WAIT: Final = timedelta(seconds=60)
"""How long a job may be due, or an order wait for its store's answer, before doctor reports it."""

MAX_CONNECTIONS: Final = 0.9
MAX_SECRETS: Final = 1000
"""Secrets and tokens that are tried with the encryption keys, the newest."""

SHOWN: Final = 3
"""Stores listed by name."""


class State(StrEnum):
    """Severity: `note` is worth knowing, `wrong` should be fixed, `unusable` means that nothing works."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNUSABLE = "unusable"


class Remedy(StrEnum):
    """A remedy that uses a tool of the service: the console and the command each say how."""

    CREATE_TABLES = "create tables"
    MIGRATE = "migrate"
    FINISH_COPY = "finish copy"
    REPLACE_DATABASE = "replace database"
    START_WORKER = "start worker"
    REVIVE_JOBS = "revive jobs"
    ENABLE_ENDPOINTS = "enable endpoints"
    LIST_PLACEMENTS = "list placements"
    LIST_DELIVERIES = "list deliveries"
    LIST_STORES = "list stores"


class Check(Struct, frozen=True, kw_only=True):
    """A check's result. `advice` says what to do, if anything: in words, or as a remedy."""

    name: str
    state: State
    message: str
    advice: str | Remedy = ""


def _check(name: str, message: str, advice: str | Remedy | None = None, state: State = State.WRONG) -> Check:
    """Return an ok check, or one with advice in the given state."""
    if advice is None:
        return Check(name=name, state=State.OK, message=message)
    return Check(name=name, state=state, message=message, advice=advice)


async def checks(tx: Read, settings: Settings) -> AsyncIterator[Check]:
    """Yield the checks of a service whose database can be reached; the schema's first.

    A partner's fault isn't the service's, so it is never worse than a note.
    """
    schema = await _schema(tx)
    yield schema
    yield await _storage(tx)
    if tx.dialect == "postgresql":
        yield await _replication(tx)
    if settings.database_replica_url is not None:
        yield await _replica(tx.database, settings)
    yield await _clock(tx)
    yield _files()
    if settings.redis_url is not None:
        yield await _limits(settings, settings.redis_url.reveal())
    if schema.state is State.OK:
        yield await _encryption(tx, settings)
        yield await _workers(tx)
        depths = await list_depths(tx)
        yield _due(depths)
        yield _dead(depths)
        for check in (_endpoints, _orders, _stores, _deliveries):
            yield await check(tx)


async def _schema(tx: Read) -> Check:
    found = await find_revision(tx)
    if found == SCHEMA.head:
        if differences := await find_differences(tx, SCHEMA):
            return _check(
                "schema", str(SchemaDiffers(found, differences)), Remedy.REPLACE_DATABASE, State.UNUSABLE
            )
        return _check("schema", f"revision {found}")
    if found is None:
        message, advice = "The database has no tables of Mercato.", Remedy.CREATE_TABLES
    elif found.startswith(UNFINISHED):
        message, advice = "The database is an unfinished copy of another one.", Remedy.FINISH_COPY
    else:
        message = f"The database is at revision {found}, this version at {SCHEMA.head}."
        advice = Remedy.MIGRATE
    return _check("schema", message, advice, State.UNUSABLE)


async def _storage(tx: Read) -> Check:
    if tx.dialect == "postgresql":
        server = await health.find_server(tx)
        message = f"PostgreSQL {server.version}, {server.connections} of {server.max_connections} connections in use"
        full = server.connections >= server.max_connections * MAX_CONNECTIONS
        return _check(
            "storage",
            message,
            "Raise max_connections of PostgreSQL, or run fewer processes." if full else None,
        )
    files = await health.find_files(tx)
    size, log, free = (f"{count / MiB:,.1f} MiB" for count in (files.file, files.log, files.free))
    advice = None
    if files.free < MIN_FREE:
        advice = "Make room: on a full disk nothing is accepted any more."
    elif files.log > MAX_LOG:
        advice = "Some process keeps an old snapshot open: restart those that aren't the service's."
    return _check("storage", f"SQLite {files.version}, {size}, log {log}, {free} free beside it", advice)


async def _replication(tx: Read) -> Check:
    found = await find_replication(tx)
    commits = "commits wait for a replica" if found.is_synchronous else "commits wait for no replica"
    behind = "".join(f", {_behind(replica)}" for replica in found.replicas)
    message = f"{count_of(found.hosts, 'host')} in the URL, {commits}{behind}"
    advice = None
    if found.is_synchronous and not found.replicas:
        advice = "No replica streams, so no commit ends: start one, or empty synchronous_standby_names."
    elif found.hosts > 1 and not found.is_synchronous:
        advice = "A failover may lose orders: set Patroni's synchronous_mode, or synchronous_standby_names."
    elif any(replica.bytes is None for replica in found.replicas):
        advice = "To see how far the replicas are: GRANT pg_monitor TO the database's user."
        return _check("replication", message, advice, State.NOTE)
    return _check("replication", message, advice)


def _behind(replica: ReplicaLag) -> str:
    if replica.bytes is None:
        return f"{replica.name} streams"
    kind = "synchronous" if replica.is_synchronous else "asynchronous"
    age = "" if replica.seconds is None else f" and {replica.seconds:.1f} s"
    return f"{replica.name} ({kind}) is {replica.bytes / MiB:,.1f} MiB{age} behind"


async def _replica(own: Database, settings: Settings) -> Check:
    if own.replica is not None and own.replica.is_fresh():
        return _check("replica", "it keeps up")
    try:
        async with open_database(settings) as db, asyncio.timeout(CHECK_SECONDS):
            return await _follow(db)
    except ValueError as error:
        return _check("replica", "It can't be used.", f"{error}.", State.UNUSABLE)
    except (TimeoutError, DatabaseUnavailable, SQLAlchemyError):
        message = f"It does not answer, or is more than {MAX_LAG:g} s behind the primary."
        return _check("replica", message, "Until it keeps up, all reads go to the primary.")


async def _follow(db: Database) -> Check:
    """Wait until the replica keeps up, and return its check."""
    replica = db.replica
    while replica is not None and not replica.is_fresh():
        if not await replica.check():
            message = (
                "MERCATO_DATABASE_REPLICA_URL isn't a replica of this database, so nothing is read from it."
            )
            return _check("replica", message, "Name a streaming replica of MERCATO_DATABASE_URL.")
        await asyncio.sleep(INTERVAL)
    return _check("replica", "it keeps up")


async def _clock(tx: Read) -> Check:
    before = clock.now()
    theirs = await health.find_clock(tx)
    after = clock.now()
    skew = theirs - (before + (after - before) / 2)
    direction = "ahead" if skew > timedelta(0) else "behind"
    message = f"the database's clock is {abs(skew.total_seconds()):.1f} s {direction}"
    advice = "Set both machines' clocks by NTP: leases, tokens and signatures depend on them."
    return _check("clock", message, None if abs(skew) <= MAX_SKEW + (after - before) else advice)


def _files() -> Check:
    most = max_open_files()
    advice = f"Raise the hard limit to {WANTED_FILES} or more: ulimit -Hn, or LimitNOFILE=."
    message = f"a server started from here may have {most} files open"
    return _check("open files", message, None if most >= WANTED_FILES else advice)


async def _limits(settings: Settings, url: str) -> Check:
    try:
        from mercato.features.partners.shared_limits import SharedLimiter
    except ImportError:
        advice = "Install it: pip install 'mercato[redis]'"
        return _check("rate limits", "Redis can't be reached.", advice, State.UNUSABLE)
    own = Limiter(
        reads=settings.rate_limit_reads,
        writes=settings.rate_limit_writes,
        discovery=settings.rate_limit_discovery,
        clock=clock.now,
    )
    shared = SharedLimiter(url, own, clock.now)
    await shared.start()
    reached = shared.connected
    await shared.close()
    if reached:
        return _check("rate limits", "they are counted by all servers together")
    advice = "Until MERCATO_REDIS_URL answers, each server counts its share by itself."
    return _check("rate limits", "Redis does not answer.", advice)


async def _encryption(tx: Read, settings: Settings) -> Check:
    given = settings.encryption_keys
    if given is None and not (settings.data_dir / FILE).exists():
        message = (
            f"There is no encryption key: neither MERCATO_ENCRYPTION_KEYS nor {settings.data_dir / FILE}."
        )
        # A restored database needs its own key: no start creates a new one beside it either.
        if await find_sealed(tx) is not None:
            return _check(
                "encryption",
                message,
                f"Processes of this database had one: put their {FILE} there before a start.",
            )
        advice = "The first server makes one. Keep it apart from the database."
        return _check("encryption", message, advice, State.NOTE)
    try:
        vault = Vault(load_keys(None if given is None else given.reveal(), settings.data_dir))
    except VaultError as error:
        return _check("encryption", "The encryption key can't be read.", str(error), State.UNUSABLE)
    unreadable = await count_unreadable(tx, vault, limit=MAX_SECRETS)
    if not unreadable:
        try:
            await check_vault(tx, vault, source=source_of(given, settings.data_dir))
        except VaultError as error:
            return _check("encryption", "The key isn't the one of this database.", str(error))
        return _check("encryption", "the key opens what is sealed")
    advice = f"Add the key that sealed them, or restore {FILE} of the data directory."
    return _check("encryption", f"No key opens {count_of(unreadable, 'stored secret')}.", advice)


async def _workers(tx: Read) -> Check:
    if tx.dialect == "postgresql":
        count = await health.count_listeners(tx)
    else:
        count = int(find_owner(tx.database.url) is not None)
    if count:
        return _check("workers", f"{count} do background work")
    return _check("workers", "No process does background work.", Remedy.START_WORKER)


def _due(depths: Sequence[QueueDepth]) -> Check:
    oldest = max((depth.oldest for depth in depths if depth.ready), default=None)
    if oldest is None:
        return _check("due work", "none waits")
    advice = "Start more workers, or see in their logs why they take none."
    message = f"the oldest job has been due for {oldest:.0f} s"
    return _check("due work", message, None if oldest <= MAX_WAIT.total_seconds() else advice)


def _dead(depths: Sequence[QueueDepth]) -> Check:
    dead = ", ".join(
        f"{count} of {kind}" for kind, count in sorted((g.kind, g.dead) for g in depths) if count
    )
    if not dead:
        return _check("dead work", "none")
    more = ", and more" if is_capped(depths) else ""
    return _check("dead work", f"Given up: {dead}{more}.", Remedy.REVIVE_JOBS)


async def _endpoints(tx: Read) -> Check:
    count = await count_disabled(tx)
    if not count:
        return _check("endpoints", "none is disabled")
    message = (
        f"Disabled after days of failures or a 410: {count_of(count, 'address', 'addresses')} of partners."
    )
    return _check("endpoints", message, Remedy.ENABLE_ENDPOINTS, State.NOTE)


async def _orders(tx: Read) -> Check:
    waiting = await count_unanswered(tx)
    if waiting.oldest is None:
        return _check("orders", "none waits for its store's answer")
    age = clock.now() - waiting.oldest
    orders = count_of(waiting.orders, "order")
    message = f"{orders} without an answer of the store, the oldest for {age.total_seconds():.0f} s"
    return _check("orders", message, None if age <= MAX_WAIT else Remedy.LIST_PLACEMENTS, State.NOTE)


async def _stores(tx: Read) -> Check:
    found = await list_failing_stores(tx, limit=SHOWN)
    if not found:
        return _check("stores", "none is failing")
    named = ", ".join(
        f"{store.store_id} ({store.calls} calls since {rfc3339(store.since)})" for store in found
    )
    count = await count_failing_stores(tx)
    more = f" and {count - len(found)} more" if count > len(found) else ""
    message = f"The last calls to {count_of(count, 'store')} failed: {named}{more}."
    return _check("stores", message, Remedy.LIST_STORES, State.NOTE)


async def _deliveries(tx: Read) -> Check:
    addresses, partners = await count_failing(tx, since=clock.now() - FAILING)
    if not addresses:
        return _check("deliveries", "none fails for an hour")
    affected = f"{count_of(addresses, 'address', 'addresses')} of {count_of(partners, 'partner')}"
    return _check(
        "deliveries", f"Failing for an hour or longer: {affected}.", Remedy.LIST_DELIVERIES, State.NOTE
    )
