"""The statements of an order's whole life, block by block.

`python -m benchmarks.statements [URL] [--events]`: on an empty PostgreSQL database; without one, on SQLite. An order of
five lines is placed with a token and updated four times, with a store that accepts it; with `--events` its storefront
gets events. The service runs in this process. BEGIN, COMMIT and savepoints aren't counted; on PostgreSQL, deferred
statements that go together are one.
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock
from uuid import uuid4

from sqlalchemy.dialects import sqlite as sqlite_dialect

from benchmarks.calls import served, trading
from benchmarks.load import bare, encoded
from benchmarks.stored import MOVES, drain
from benchmarks.trade import PLACE, VALIDATE, Trade
from mercato.platform.db import engine, postgresql, sqlite
from mercato.platform.db.statements import Compiler

ORDERS: Final = 5

_CONTROL: Final = ("BEGIN", "COMMIT", "ROLLBACK")


@dataclass
class Transaction:
    """A block of one task: what it was for, and its statements in order."""

    task: str
    writes: bool
    statements: list[str] = field(default_factory=list)


class StatementLog:
    """Records the statements of every block that is opened while it is installed."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self._current: dict[Any, Transaction] = {}
        self._lock = threading.Lock()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Record until the end of the block."""
        log = self
        made, call = engine.Read.__init__, postgresql.Connection._call  # noqa: SLF001  # measured, not used
        execute, change = sqlite.Connection.execute, sqlite.Connection._change  # noqa: SLF001  # as above

        def begin(handle: engine.Read, database: Any, connection: Any) -> None:
            log.begin(connection, writes=isinstance(handle, engine.Write))
            made(handle, database, connection)

        async def called(connection: Any, sql: str, *arguments: Any) -> Any:
            log.add(connection, sql)
            return await call(connection, sql, *arguments)

        async def executed(connection: Any, statement: Any, parameters: Any = None) -> Any:
            log.add(connection, _text(statement, parameters))
            return await execute(connection, statement, parameters)

        def changed(connection: Any, statement: Any, parameters: Any) -> int:
            log.add(connection, _text(statement, parameters))
            return change(connection, statement, parameters)

        with (
            mock.patch.object(engine.Read, "__init__", begin),
            mock.patch.object(postgresql.Connection, "_call", called),
            mock.patch.object(sqlite.Connection, "execute", executed),
            mock.patch.object(sqlite.Connection, "_change", changed),
        ):
            yield

    def begin(self, connection: Any, *, writes: bool) -> None:
        task = asyncio.current_task()
        found = Transaction("" if task is None else task.get_name(), writes)
        with self._lock:
            self._current[connection] = found
            self.transactions.append(found)

    def add(self, connection: Any, sql: str) -> None:
        if connection in self._current and not sql.startswith(_CONTROL):
            self._current[connection].statements.append(" ".join(sql.split()))


_compiler: Final = Compiler(sqlite_dialect.dialect())


def _text(statement: Any, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> str:
    given = parameters[0] if isinstance(parameters, Sequence) and parameters else parameters or {}
    return _compiler.compile(statement, given).sql  # type: ignore[arg-type]  # either form


def main(*arguments: str) -> None:
    log, url = StatementLog(), next((one for one in arguments if not one.startswith("--")), None)
    with log.installed(), served(url) as server, bare("static", encoded(b"{}")) as events:
        event_url = f"http://127.0.0.1:{events.port}/events" if "--events" in arguments else None
        with trading(server, event_url) as trade:
            lives = _lives(log, trade)
    for name, blocks in lives.items():
        print(f"{name}: {_per_order(blocks)} statements an order")
        for count, names in _shapes(blocks):
            print(f"  {count / ORDERS:5.1f} blocks of {len(names)}: {', '.join(names)}")


def _lives(log: StatementLog, trade: Trade) -> dict[str, list[Transaction]]:
    """Return the transactions of placements, of updates, and of the worker that delivers their events."""
    order, placed = trade.order(), dict[str, list[Transaction]]()
    tokens = [trade.call(VALIDATE, order)["validatedOrderToken"] for _ in range(ORDERS)]
    drain(trade.server)
    log.transactions.clear()
    ids = []
    for token in tokens:
        headers = {"Idempotency-Key": str(uuid4())}
        body = order | {"validatedOrderToken": token}
        ids.append(trade.server.call("POST", PLACE, body, key=trade.front_key, headers=headers)["orderId"])
    drain(trade.server)
    placed["place"], delivered = _split(log, "idempotency_keys")
    for order_id in ids:
        for move in MOVES:
            trade.server.call("POST", f"/v1/commerce/orders/{order_id}/status", move, key=trade.commerce_key)
    drain(trade.server)
    placed["update"], more = _split(log, "UPDATE orders")
    return placed | {"deliver": delivered + more}


def _split(log: StatementLog, mark: str) -> tuple[list[Transaction], list[Transaction]]:
    """Return the blocks that wrote in tasks with the mark, and those of the other tasks that touch deliveries."""
    found, log.transactions = log.transactions, []
    requests = {one.task for one in found if any(mark in sql for sql in one.statements)}
    others = (one for one in found if one.task not in requests)
    return (
        [one for one in found if one.task in requests],
        [one for one in others if any("deliveries" in sql for sql in one.statements)],
    )


def _shapes(transactions: list[Transaction]) -> list[tuple[int, tuple[str, ...]]]:
    shapes = Counter(tuple(map(_name, one.statements)) for one in transactions)
    return [(count, shape) for shape, count in shapes.most_common(8)]


def _name(sql: str) -> str:
    """Return a statement's verbs with their tables."""
    words = sql.replace("(", " ").replace(")", " ").split()
    names = []
    for number, word in enumerate(words[:-1]):
        match word:
            case "INTO":
                names.append(f"insert {words[number + 1]}")
            case "UPDATE" if words[number + 1] not in {"SET", "SKIP"}:
                names.append(f"update {words[number + 1]}")
            case "FROM" if words[number - 1] == "DELETE":
                names.append(f"delete {words[number + 1]}")
    if not names and "FROM" in words:
        names.append(f"select {words[words.index('FROM') + 1]}")
    return " + ".join(names) or words[0]


def _per_order(transactions: list[Transaction]) -> float:
    return sum(len(one.statements) for one in transactions) / ORDERS


if __name__ == "__main__":
    main(*sys.argv[1:])
