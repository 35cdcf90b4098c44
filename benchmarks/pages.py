"""Every page of the console of an account with 110 orders and 500 stores: how long it takes, and how large it is.

`python -m benchmarks.pages [URL]`: on an empty PostgreSQL database; without one, on SQLite. Half of the orders are the
service's to accept, so they are on the board: with names of 80 letters and thirty modifiers. The pages are opened in
turns, by the merchant, the storefront and the operators. The floor is `Account`, a page without a list; a page is
compared with it by the CPU of the server.
"""

import asyncio
import gzip
import json
import statistics
import sys
import time
from collections.abc import Iterator
from uuid import UUID

from sqlalchemy import insert, select

from benchmarks import menus
from benchmarks.console import FLOOR, GOAL_KB, GOAL_MS, get_page, opened, sign_in, sign_in_operator
from benchmarks.hammer import hammer
from benchmarks.report import row
from benchmarks.trade import Trade, trading
from mercato.console.screen import Audience
from mercato.console.site import SCREENS
from mercato.features.catalogs.tables import catalog_runs
from mercato.features.orders.tables import orders
from mercato.features.stores.tables import stores
from mercato.features.webhooks.tables import deliveries
from mercato_contract.clock import new_id

STORES = 500
BY_WEBHOOK = 50
ON_BOARD = 60
MODIFIERS = 30
ROUNDS = 20


def main(url: str | None = None) -> None:
    with trading(url=url) as trade:
        for request in trade.placements(trade.order(), BY_WEBHOOK):
            hammer(trade.server.process, trade.server.port, [request], connections=1)
        _fill_board(trade)
        asyncio.run(_copy_stores(trade))
        ids = asyncio.run(_find_ids(trade))
        cookies = {
            Audience.COMMERCE: sign_in(trade, trade.commerce_key),
            Audience.MARKETFRONT: sign_in(trade, trade.front_key),
            Audience.OPERATOR: asyncio.run(sign_in_operator(trade.server)),
        }
        opened_by = [(audience, path) for audience in Audience for path in _paths(audience, ids)]
        times: dict[tuple[Audience, str], list[float]] = {one: [] for one in opened_by}
        cpu = dict.fromkeys(opened_by, 0.0)
        pages: dict[tuple[Audience, str], bytes] = {}
        process = trade.server.process
        for turn in range(ROUNDS + 1):
            for one in opened_by:
                before, began = process.cpu_times(), time.perf_counter()
                pages[one] = get_page(trade.server, one[1], cookies[one[0]])
                taken, after = (time.perf_counter() - began) * 1000, process.cpu_times()
                # The first time, templates are compiled.
                if turn:
                    times[one].append(taken)
                    cpu[one] += (after.user + after.system - before.user - before.system) * 1000 / ROUNDS
        floor = statistics.mean(cpu[one] for one in opened_by if one[1] == FLOOR)
        print(f"the floor takes {floor:.1f} ms of CPU")
        for one in sorted(opened_by, key=lambda one: -cpu[one]):
            p95, packed = sorted(times[one])[int(0.95 * (ROUNDS - 1))], pages[one]
            kb = len(gzip.decompress(packed)) / 1000
            row(
                f"{one[0].value}: {_named(one[1])}: p95 in ms ({cpu[one]:.1f} of CPU, {cpu[one] / floor:.1f} times the "
                f"floor; {kb:.0f} kB, {len(packed) / 1000:.1f} compressed)",
                p95,
                f"≤ {GOAL_MS}",
                ok=p95 <= GOAL_MS and kb <= GOAL_KB,
            )


def _fill_board(trade: Trade) -> None:
    """Place the orders that the board shows, at a store of the same merchant."""
    document = json.loads(menus.small())
    for item in document["items"].values():
        if "modifierGroupIds" in item:
            item["name"] = (item["name"] + " of the house" * 9)[:80]
    with menus.hosted(json.dumps(document).encode()) as url:
        store = trade.server.live(trade.commerce_key, url, "board")
        change = {"orderHandling": "manual", "acceptWithin": 60}
        path = f"/v1/commerce/stores/{store['storeId']}"
        trade.server.call("PUT", path, change, key=trade.commerce_key)
    own = Trade(
        trade.server, trade.commerce_key, trade.front_key, store, document, trade.hooks, trade.catalog_url
    )
    order = own.order()
    items = list(document["items"])
    each = sum(len(group["lineItems"]) for group in own.line(items[0])["modifierGroups"])
    lines = [own.line(items[number]) for number in range(-(-MODIFIERS // each))]
    order["cart"] = {
        "lineItems": lines,
        "storeId": store["storeId"],
        "catalogSetId": store["catalogSetId"],
    }
    for request in own.placements(order, ON_BOARD):
        hammer(trade.server.process, trade.server.port, [request], connections=1)


async def _copy_stores(trade: Trade) -> None:
    async with opened(trade.server) as db, db.write() as tx:
        found = await tx.first(select(stores).where(stores.c.id == UUID(trade.store["storeId"])))
        assert found is not None
        copies = [
            found._asdict()
            | {
                "id": new_id(),
                "onboarding_id": new_id(),
                "partner_store_id": f"copy-{number}",
                "name": f"Branch {number} of the house",
            }
            for number in range(STORES)
        ]
        await tx.execute(insert(stores), copies)


async def _find_ids(trade: Trade) -> dict[str, UUID]:
    """Return what pages about one thing are opened for, by its name in their paths."""
    async with opened(trade.server) as db, db.read() as tx:
        board = select(orders.c.id).where(orders.c.handling.is_not(None)).limit(1)
        return {
            "store": UUID(trade.store["storeId"]),
            "order": await tx.scalar(board),
            "delivery": await tx.scalar(select(deliveries.c.id).limit(1)),
            "run": await tx.scalar(select(catalog_runs.c.id).limit(1)),
            "partner": await tx.scalar(select(stores.c.partner_id).limit(1)),
        }


_LEFT_OUT = {"board/changes", "reports/orders", "account/passkeys/new"}
"""A request that waits, a file, and a page of people, who sign in with passkeys."""


def _paths(audience: Audience, ids: dict[str, UUID]) -> Iterator[str]:
    """Yield the pages that the audience's sessions see, without those about what there isn't here."""
    for screen in SCREENS:
        if audience not in screen.audiences or screen.path in _LEFT_OUT:
            continue
        if screen.show is None or (audience is Audience.MARKETFRONT and "{delivery}" in screen.path):
            continue
        path = "/console/" + screen.path
        for name, value in ids.items():
            path = path.replace(f"{{{name}}}", str(value))
        if "{" not in path:
            yield path


def _named(path: str) -> str:
    """Return the path without ids, which differ from run to run."""
    parts = path.removeprefix("/console/").split("/")
    return "/".join("…" if len(part) == 36 else part for part in parts)  # a UUID's text


if __name__ == "__main__":
    main(*sys.argv[1:2])
