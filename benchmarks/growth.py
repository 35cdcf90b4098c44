"""What grows with the network, and how: the same requests over one, ten and a hundred times the stores.

`python -m benchmarks.growth [URL]`: on an empty PostgreSQL database; without one, on SQLite. A live store of 60 items
is copied row by row, with its catalog and ten runs each. The last column is the figure ÷ that of the first hundred.
"""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Table, insert, select, text

from benchmarks import menus
from benchmarks.hammer import hammer
from benchmarks.load import Server, get, mercato, started
from benchmarks.trade import CARTS, post, storefront
from mercato.features.catalogs.tables import catalog_bodies, catalog_owners, catalog_runs, catalog_sets
from mercato.features.stores.tables import onboardings, stores
from mercato.platform.db.engine import Database
from mercato_contract.clock import new_id

SCALES = (100, 1_000, 10_000)
RUNS = 10
BATCH = 200
REQUESTS = 1_500
NOTIFICATIONS = 20
MB = 1_000_000


class Copy(NamedTuple):
    """A store as requests name it."""

    store: UUID
    catalog_set: UUID


def main(url: str | None = None) -> None:
    document = menus.small()
    with mercato(url) as server, menus.hosting(lambda path: menus.small(note=path)) as catalog_url:
        key, front = server.partner(), storefront(server, url, None)
        template = server.live(key, catalog_url, "template")
        copies: list[Copy] = []
        first: dict[str, float] = {}
        for scale in SCALES:
            copies += asyncio.run(copied(server, UUID(template["storeId"]), scale - len(copies)))
            figures = measured(server, key, front, copies, template, catalog_url, json.loads(document))
            first = first or figures
            print(f"\n{scale:,} stores, {scale * RUNS:,} runs", flush=True)
            for name, value in figures.items():
                print(f"  {name:58s} {value:12,.1f}   {value / first[name]:8.2f}", flush=True)


# --- the copies ---------------------------------------------------------------------------------------------


def _rows(
    template: dict[Table, Sequence[Any]], number: int
) -> tuple[Copy, dict[Table, list[dict[str, Any]]]]:
    """Return a store's rows with ids of their own."""
    onboarding, store, catalog_set = new_id(), new_id(), new_id()
    ids: dict[Table, dict[str, Any]] = {
        onboardings: {"id": onboarding, "store_id": store, "partner_store_id": f"copy-{number}"},
        stores: {"id": store, "onboarding_id": onboarding, "partner_store_id": f"copy-{number}"},
        catalog_owners: {"id": onboarding, "store_id": store, "current_set_id": catalog_set},
        catalog_sets: {"id": catalog_set, "owner_id": onboarding, "store_id": store},
        catalog_bodies: {"set_id": catalog_set},
        catalog_runs: {"owner_id": onboarding, "store_id": store, "set_id": catalog_set},
    }
    made = {table: [{**row._asdict(), **ids[table]} for row in rows] for table, rows in template.items()}
    (run,) = made[catalog_runs]
    made[catalog_runs] = [run | {"id": new_id()} for _ in range(RUNS)]
    return Copy(store, catalog_set), made


async def copied(server: Server, store_id: UUID, count: int) -> list[Copy]:
    """Copy a store so many times; return the copies."""
    async with Database.open(server.url or f"sqlite:///{server.data_dir / 'mercato.db'}") as db:
        async with db.read() as tx:
            store = await tx.first(select(stores).where(stores.c.id == store_id))
            assert store is not None
            owner = store.onboarding_id
            current = select(catalog_owners.c.current_set_id).where(catalog_owners.c.id == owner)
            set_id = await tx.scalar(current)
            template = {
                onboardings: await tx.all(select(onboardings).where(onboardings.c.id == owner)),
                stores: [store],
                catalog_owners: await tx.all(select(catalog_owners).where(catalog_owners.c.id == owner)),
                catalog_sets: await tx.all(select(catalog_sets).where(catalog_sets.c.id == set_id)),
                catalog_bodies: await tx.all(select(catalog_bodies).where(catalog_bodies.c.set_id == set_id)),
                catalog_runs: await tx.all(
                    select(catalog_runs).where(catalog_runs.c.owner_id == owner).limit(1)
                ),
            }
        copies = []
        wanted = iter(range(count))
        while batch := list(islice(wanted, BATCH)):
            async with db.write() as tx:
                made = [_rows(template, hash((count, number))) for number in batch]
                for table in template:
                    await tx.execute(insert(table), [row for _, rows in made for row in rows[table]])
                copies += [copy for copy, _ in made]
        if db.dialect == "postgresql":
            async with db.write() as tx:
                await tx.execute(text("ANALYZE"))
        return copies


# --- the figures --------------------------------------------------------------------------------------------


def measured(
    server: Server,
    key: str,
    front: str,
    copies: list[Copy],
    template: Any,
    catalog_url: str,
    document: Any,
) -> dict[str, float]:
    """Return the figures: microseconds of the server's CPU for a request, unless a name says otherwise."""
    chance = random.Random(5)
    some = chance.choices(copies, k=REQUESTS)
    few = chance.sample(copies, 20)
    item = _line(document)

    def cart(copy: Copy) -> bytes:
        body = {"item": item, "storeId": str(copy.store), "catalogSetId": str(copy.catalog_set)}
        return post(CARTS, body, front)

    def commerce(path: str) -> bytes:
        return get(f"/v1/commerce/stores{path}", key)

    asked: dict[str, Callable[[], Iterable[bytes]]] = {
        "carts/add, any store": lambda: map(cart, some),
        "carts/add, the same 20 stores": lambda: map(cart, few * (REQUESTS // 20)),
        "CatalogSet, any store": lambda: (
            get(f"/v1/marketfront/catalog-sets/{one.catalog_set}", front) for one in some
        ),
        "Get Store, any store": lambda: (commerce(f"/{one.store}") for one in some),
        "List Stores, 50": lambda: [commerce("?limit=50")] * 200,
        "runs of a store, 10": lambda: (commerce(f"/{one.store}/catalog-ingest") for one in some[:300]),
        "Set Store Status, any store": lambda: (
            post(f"/v1/commerce/stores/{one.store}/status", {"status": "online"}, key) for one in some[:300]
        ),
    }
    figures = {}
    for name, made in asked.items():
        hammer(server.process, server.port, list(made())[:50])
        loads = [hammer(server.process, server.port, list(made()), connections=4) for _ in range(3)]
        figures[f"{name}: CPU in µs"] = statistics.median(one.cpu_us for one in loads)
        figures[f"{name}: p99 in ms"] = statistics.median(one.percentile(0.99) for one in loads)
    figures["notification → succeeded: p50 in ms"] = _notified(
        server, key, template, catalog_url, len(copies)
    )
    figures["a second process, start to ready: ms"] = _started(server)
    figures["the server's memory: MB"] = server.process.memory_full_info().uss / MB
    figures["the database: MB"] = asyncio.run(_size(server))
    return figures


def _line(document: Any) -> Any:
    item_id = next(iter(document["items"]))
    return {"itemId": item_id, "quantity": 1, "modifierGroups": []}


def _notified(server: Server, key: str, template: Any, url: str, round_: int) -> float:
    took = []
    for number in range(NOTIFICATIONS):
        began = time.perf_counter()
        path = f"/v1/commerce/catalogset-notification?storeId={template['storeId']}"
        run = server.call("POST", path, {"callbackUrl": f"{url}?{round_}-{number}"}, key=key)
        while server.call("GET", run["statusUrl"], key=key)["status"] not in {"succeeded", "failed"}:
            pass
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def _started(server: Server) -> float:
    command = [
        Path(sys.executable).with_name("mercato"),
        "serve",
        "--port",
        "0",
        "--data-dir",
        server.data_dir,
    ]
    took = []
    for _ in range(3):
        began = time.perf_counter()
        with started(command, server.url):
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def _size(server: Server) -> float:
    if server.url is None:
        return sum(file.stat().st_size for file in server.data_dir.glob("mercato.db*")) / MB
    async with Database.open(server.url) as db, db.read() as tx:
        size: int = await tx.scalar(text("SELECT pg_database_size(current_database())"))
    return size / MB


if __name__ == "__main__":
    main(*sys.argv[1:2])
