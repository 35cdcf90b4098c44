"""Enqueues jobs, in the transaction that makes them necessary."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import Executable, Integer, Text, bindparam, case, delete, func, literal_column, select, text
from sqlalchemy.dialects import postgresql, sqlite

from mercato.platform.db.engine import Write
from mercato.platform.db.postgresql import channel_of
from mercato.platform.db.statements import prepared
from mercato.platform.db.tables import jobs, jobs_dedup
from mercato.platform.db.types import Instant, now_ms
from mercato_contract.clock import new_id, now
from mercato_contract.wire import as_json

TOPIC: Final = "jobs"
"""The topic of the in-process signal after a commit that makes a job ready; the signal is the job's kind."""

CHANNEL: Final = "mercato_jobs"
"""The PostgreSQL channel that notifies other processes of the network."""

LATER: Final = timedelta(seconds=2)
"""No signal is sent for a job that is due this much later or more: the poll finds it, once a second.

On PostgreSQL notifications have a price: transactions that notify commit one after the other.
"""

_MILLISECOND = timedelta(milliseconds=1)


class Enqueued(NamedTuple):
    """A new job, and when it is due by the database's clock."""

    id: int
    run_at: datetime


async def enqueue(
    tx: Write,
    kind: str,
    payload: msgspec.Struct,
    *,
    run_at: datetime | timedelta | None = None,
    ordering_key: str | None = None,
    dedup: str | None = None,
    group: str | None = None,
) -> Enqueued | None:
    """Enqueue a job in the caller's transaction. Return None if an unfinished job of the kind has the same `dedup`.

    `run_at` is an instant, or a duration from now by the database's clock; None is now. Jobs of one `ordering_key` run
    one at a time, in the order of enqueueing; None is a key of its own. A key belongs to one kind and one group: jobs
    of two kinds that share a key exclude each other, but keep no order. `group_concurrency` counts by `group`.
    """
    row = _row(kind, payload, run_at, ordering_key or new_id().hex, dedup, group)
    is_later = _is_later(run_at)
    statement = _QUIET_INSERT if is_later and tx.dialect == "postgresql" else _INSERT[tx.dialect]
    written = (await tx.execute(statement, row)).first()
    if written is None:
        return None
    if not is_later:
        tx.after_commit(partial(tx.database.signals.publish, TOPIC, kind))
    return Enqueued(written.id, written.run_at)


def _row(
    kind: str,
    payload: msgspec.Struct,
    run_at: datetime | timedelta | None,
    ordering_key: str,
    dedup: str | None,
    group: str | None,
) -> dict[str, object]:
    return {
        "kind": kind,
        "ordering_key": ordering_key,
        "group_key": group or "",
        "dedup": dedup,
        "payload": as_json(payload).decode(),
        "at": run_at if isinstance(run_at, datetime) else None,
        "delay": run_at // _MILLISECOND if isinstance(run_at, timedelta) else 0,
    }


async def delete_waiting(tx: Write, kind: str, dedup: str) -> None:
    """Delete a job that is no longer needed if it still waits. A running job finds out itself."""
    tx.defer(_DELETE_WAITING, {"where_kind": kind, "where_dedup": dedup})


def _is_later(run_at: datetime | timedelta | None) -> bool:
    if isinstance(run_at, datetime):
        run_at -= now()
    return run_at is not None and run_at >= LATER


def _insert(dialect: Any) -> Any:
    due = func.coalesce(bindparam("at", type_=Instant), now_ms() + bindparam("delay", type_=Integer))
    return (
        dialect.insert(jobs)
        .values(
            kind=bindparam("kind", type_=Text),
            ordering_key=bindparam("ordering_key", type_=Text),
            group_key=bindparam("group_key", type_=Text),
            dedup=bindparam("dedup", type_=Text),
            payload=bindparam("payload", type_=Text),
            state=case((due > now_ms(), literal_column("'waiting'")), else_=literal_column("'ready'")),
            run_at=due,
            enqueued_at=now_ms(),
        )
        .on_conflict_do_nothing(
            index_elements=list(jobs_dedup.columns),
            index_where=jobs_dedup.dialect_options[dialect.dialect.name]["where"],
        )
    )


_ENQUEUED: Final = (jobs.c.id, jobs.c.run_at, jobs.c.kind)


def _insert_and_notify() -> Executable:
    """Insert and notify in one round trip. Other processes see both at the commit."""
    added = _insert(postgresql).returning(*_ENQUEUED).cte("added")
    return select(added.c.id, added.c.run_at, func.pg_notify(channel_of(CHANNEL), added.c.kind))


_INSERT: Final[dict[str, Executable]] = {
    "sqlite": prepared(_insert(sqlite).returning(*_ENQUEUED)),
    "postgresql": prepared(_insert_and_notify()),
}
_QUIET_INSERT: Final[Executable] = prepared(_insert(postgresql).returning(*_ENQUEUED))

_DELETE_WAITING: Final = prepared(
    delete(jobs).where(
        jobs.c.kind == bindparam("where_kind"),
        jobs.c.dedup == bindparam("where_dedup"),
        # The condition of the partial index that finds it.
        text("dedup IS NOT NULL AND state <> 'dead'"),
        jobs.c.state == literal_column("'waiting'"),
    )
)
