"""What retention costs placements: their p99 while old rows are deleted, against the same without, in turns.

`python -m benchmarks.expiry [--rows 250000] [--rounds 6] [--seconds 25] [--rate 5] [--rest 0 9]`, on PostgreSQL whose
commits wait for the disk. So many deliveries with an attempt each, and as many entries of the audit trail, are past
their retention when it begins. In turns nothing is deleted, or a process of its own deletes as the service does, with
each of the pauses. Exits with 1 if p50 or p99 is more than a tenth higher with any.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import aiohttp
import asyncpg

from benchmarks.load import bare, encoded
from benchmarks.postgres import postgres
from benchmarks.report import row
from benchmarks.trade import PLACE, VALIDATE, Trade, trading
from mercato.features.upkeep import BATCH, REST, Upkeep
from mercato.features.webhooks import queries as webhooks
from mercato.platform.db import audit
from mercato.platform.db.engine import Database
from mercato_contract import clock
from mercato_contract.clock import first_id

GOAL: Final = 1.1
AGE: Final = timedelta(hours=48)
"""Age of the rows. The server's own retention is longer; `expire` deletes what is half as old."""
BODY: Final = 1_500
"""Bytes of a delivery's body, which are random: it is stored compressed."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expiry", description=__doc__)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--rate", type=float, default=5.0)
    parser.add_argument(
        "--rest", type=float, nargs="*", default=[0.0, REST], help="pauses after a batch ÷ its time"
    )
    parser.add_argument("--expire", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.expire is not None:
        asyncio.run(expire(options.expire, *options.rest))
        return 0
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        sink = stack.enter_context(bare("static", encoded(b"")))
        trade = stack.enter_context(trading(url=server.url, event_url=f"http://127.0.0.1:{sink.port}/events"))
        return asyncio.run(measured(trade, server.url, options))


async def measured(trade: Trade, url: str, options: argparse.Namespace) -> int:
    began = time.perf_counter()
    await fill(url, options.rows)
    print(f"{options.rows:,} rows in each of three tables in {time.perf_counter() - began:.0f} s", flush=True)
    order = await asyncio.to_thread(trade.order)
    # None: nothing is deleted.
    arms: list[float | None] = [None, *options.rest]
    times: dict[float | None, list[list[float]]] = {arm: [] for arm in arms}
    gone = dict.fromkeys(options.rest, 0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{trade.server.port}") as session:
        await placements(session, trade, order, rate=options.rate, seconds=options.seconds / 2)
        for turn in range(options.rounds):
            # Which one goes first changes, so that what grows meanwhile favours none.
            for arm in arms[turn % len(arms) :] + arms[: turn % len(arms)]:
                left = await count(url)
                async with deleting(url, rest=arm):
                    found = await placements(
                        session, trade, order, rate=options.rate, seconds=options.seconds
                    )
                times[arm].append(found)
                if arm is not None:
                    gone[arm] += left - await count(url)
            print(" ".join(f"{arm}: {p99(times[arm][-1]):.0f} ms" for arm in arms), flush=True)
    worst = 0.0
    for rest in options.rest:
        a_second = gone[rest] / options.rounds / options.seconds
        print(
            f"pause {rest:g}: {a_second:,.0f} rows of deliveries a second are deleted, and as many of audit"
        )
        for name, of in (("p50", statistics.median), ("p99", p99)):
            pairs = [(of(before), of(after)) for before, after in zip(times[None], times[rest], strict=True)]
            ratio = statistics.median(after / before for before, after in pairs)
            shown = ", ".join(f"{before:.0f} and {after:.0f}" for before, after in pairs)
            row(f"  {name} in ms by turn: {shown}; median ratio", ratio, f"≤ {GOAL}", ok=ratio <= GOAL)
            worst = max(worst, ratio)
    return int(worst > GOAL)


def p99(times: Sequence[float]) -> float:
    return sorted(times)[int(0.99 * (len(times) - 1))]


async def placements(
    session: aiohttp.ClientSession, trade: Trade, order: Any, *, rate: float, seconds: float
) -> list[float]:
    """Place at a steady pace, whatever the answers take; return the milliseconds of each."""
    pace, tasks, began = random.Random(7), [], time.monotonic()
    at = 0.0
    while at < seconds:
        await asyncio.sleep(max(0.0, began + at - time.monotonic()))
        tasks.append(asyncio.create_task(placed(session, trade, order)))
        at += pace.expovariate(rate)
    return [one * 1000 for one in await asyncio.gather(*tasks)]


async def placed(session: aiohttp.ClientSession, trade: Trade, order: Any) -> float:
    front = {"Authorization": f"Bearer {trade.front_key}"}
    async with session.post(VALIDATE, json=order, headers=front) as checked:
        token = (await checked.json())["validatedOrderToken"]
    headers = front | {"Idempotency-Key": str(uuid4())}
    began = time.perf_counter()
    async with session.post(PLACE, json=order | {"validatedOrderToken": token}, headers=headers) as answer:
        await answer.read()
        if answer.status != 201:
            raise RuntimeError(await answer.text())
    return time.perf_counter() - began


# --- rows past their retention --------------------------------------------------------------------------


async def fill(url: str, rows: int) -> None:
    """Insert ended deliveries, an attempt of each, and audit entries, spread over a day."""
    day = datetime.now(UTC) - AGE
    db = await asyncpg.connect(url)
    partners = [uuid4() for _ in range(20)]
    try:
        for first in range(0, rows, 5_000):
            numbers = range(first, min(first + 5_000, rows))
            moments = [day + timedelta(seconds=86_400 * number / rows) for number in numbers]
            # The time of an id is its beginning; the rest is random, as in those that the service makes.
            ids = [UUID(bytes=first_id(at).bytes[:7] + os.urandom(9)) for at in moments]
            stamps = [int(at.timestamp() * 1000) for at in moments]
            chosen = random.choices(partners, k=len(ids))
            deliveries = [
                (
                    id_, partner, "commerce", uuid4(), uuid4(), "order.place", uuid4(),
                    "https://pos.example.com/hooks/place", os.urandom(BODY), "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
                    0, "succeeded", 1, 0, 0, at, at,
                )
                for id_, partner, at in zip(ids, chosen, stamps, strict=True)
            ]  # fmt: skip
            await db.copy_records_to_table(
                "deliveries", records=deliveries,
                columns=[
                    "id", "partner_id", "surface", "store_id", "order_id", "type", "webhook_id", "url", "body",
                    "traceparent", "partition", "status", "attempts", "round", "attempts_before_round", "created_at",
                    "updated_at",
                ],
            )  # fmt: skip
            await db.copy_records_to_table(
                "delivery_attempts",
                records=[(id_, 1, at, 200, 12, "{}") for id_, at in zip(ids, stamps, strict=True)],
                columns=["delivery_id", "number", "at", "status", "ms", "reply"],
            )
            await db.copy_records_to_table(
                "audit",
                records=[
                    (
                        id_,
                        at,
                        f"key:{partner}",
                        "marketfront",
                        partner,
                        "placeOrder",
                        "order",
                        str(uuid4()),
                        str(uuid4()),
                        "{}",
                    )
                    for id_, partner, at in zip(ids, chosen, stamps, strict=True)
                ],
                columns=[
                    "id",
                    "at",
                    "actor",
                    "surface",
                    "partner_id",
                    "action",
                    "subject_type",
                    "subject_id",
                    "request_id",
                    "detail",
                ],
            )
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")
    finally:
        await db.close()


async def count(url: str) -> int:
    db = await asyncpg.connect(url)
    try:
        found: int = await db.fetchval("SELECT count(*) FROM deliveries")
        return found
    finally:
        await db.close()


@asynccontextmanager
async def deleting(url: str, *, rest: float | None) -> AsyncIterator[None]:
    """Delete in a process of its own while the block runs, if there is a pause to make."""
    if rest is None:
        yield
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.expiry", "--expire", url, "--rest", str(rest), stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def expire(url: str, rest: float) -> None:
    """Delete as the service does, until stopped."""
    before = clock.now() - AGE / 2 + timedelta(minutes=1)
    async with Database.open(url) as db:
        upkeep = Upkeep(db, clock.now, catalog_days=30, delivery_days=30, rest=rest)
        print("deleting", flush=True)
        await upkeep.drain(
            [
                lambda tx: webhooks.prune_deliveries(tx, before=before, limit=BATCH),
                lambda tx: audit.prune(tx, before=before, limit=BATCH),
            ]
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
