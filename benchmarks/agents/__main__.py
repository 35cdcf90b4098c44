"""`python -m benchmarks.agents`: play the tasks on a service of its own, and print what agents got and what it cost.

The menus are those in MERCATO_TEST_MENUS, those that can be served. What was ordered is read from the merchant's side.
The floor beside it makes the same plain orders over REST, where an agent has to read whole CatalogSets.
"""

import asyncio
import json
import os
import re
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from benchmarks import menus
from benchmarks.agents.shopper import CUSTOMER, Door, GiveUpError, Shopper, Usage
from benchmarks.agents.tasks import Menu, Task, Twist, Wish, members_of, tasks_of
from mercato.features.partners.model import PartnerKind
from mercato.local.service import LocalService, temporary_service
from mercato_contract.texts import count_of

ONBOARDING = "/v1/commerce/onboarding/stores"
ORDERS = "/v1/commerce/orders"
CLOSING = "closing-soon"
DEARER = "7777"
"""What an item costs after its price has changed, in whole units of any currency."""


@dataclass
class Report:
    """What became of a task."""

    task: Task
    fault: str | None
    usage: Usage
    doubled: int = 0
    lost: int = 0


@dataclass
class Market:
    """A service with a live store for each menu, and a storefront."""

    service: LocalService
    session: aiohttp.ClientSession
    commerce: str
    front: str
    other: str
    documents: dict[str, Any] = field(default_factory=dict)
    stores: dict[str, str] = field(default_factory=dict)
    host: str = ""

    async def ask(self, method: str, path: str, body: Any = None, *, key: str, **headers: str) -> Any:
        """Call an operation that succeeds; return its answer."""
        options = {"Authorization": f"Bearer {key}"} | headers
        async with self.session.request(
            method, self.service.base + path, json=body, headers=options
        ) as answer:
            if not answer.ok:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            said: Any = await answer.json()
            return said

    async def open(self, name: str) -> Menu:
        """Bring a store live; return its menu as it is served."""
        body = {
            "partnerStoreId": name,
            "timezone": "UTC",
            "name": name,
            "address": {},
            "catalogCallbackUrl": f"{self.host}?{name}",
        }
        made = await self.ask("POST", ONBOARDING, body, key=self.commerce)
        path = f"{ONBOARDING}/{made['onboardingId']}"
        while (said := await self.ask("GET", path, key=self.commerce))["status"] != "ready_to_activate":
            if said["status"] == "catalog_failed":
                raise RuntimeError(f"{name} can't be served: {said['error']}")
            await asyncio.sleep(0.05)
        store = await self.ask("POST", f"{path}/activate", key=self.commerce)
        self.stores[name] = store["storeId"]
        return Menu(name, await self.served(name))

    async def served(self, name: str) -> Any:
        store = await self.ask("GET", f"/v1/marketfront/stores/{self.stores[name]}", key=self.front)
        return await self.ask("GET", f"/v1/marketfront/catalog-sets/{store['catalogSetId']}", key=self.front)

    async def agent(self, **terms: str) -> Door:
        """Make an agent of the storefront; return its tools."""
        made = await self.ask(
            "POST", "/v1/marketfront/agents", {"name": "Evaluation"} | terms, key=self.front
        )
        return Door(self.session, self.service.base, made["key"])

    async def orders(self, name: str) -> list[Any]:
        page = await self.ask("GET", f"{ORDERS}?storeId={self.stores[name]}&limit=100", key=self.commerce)
        orders: list[Any] = page["orders"]
        return orders

    async def sell_out(self, name: str, wish: Wish, *, available: bool = False) -> None:
        body = {"items": [{"itemId": wish.item_id, "available": available}]}
        path = f"/v1/commerce/stores/{self.stores[name]}/item-availability"
        await self.ask("POST", path, body, key=self.commerce)

    async def reprice(self, name: str, wish: Wish) -> None:
        """Publish the served menu with another price of an item."""
        document = deepcopy(await self.served(name))
        document["items"][wish.item_id]["basePrice"] = DEARER
        self.documents[name] = document
        path = f"/v1/commerce/catalogset-notification?storeId={self.stores[name]}"
        run = await self.ask("POST", path, {"callbackUrl": f"{self.host}?{name}"}, key=self.commerce)
        while (
            status := (await self.ask("GET", run["statusUrl"], key=self.commerce))["status"]
        ) != "succeeded":
            if status == "failed":
                raise RuntimeError(f"{name} wasn't published")
            await asyncio.sleep(0.05)


@asynccontextmanager
async def market(documents: dict[str, Any]) -> AsyncIterator[Market]:
    """Run a service whose merchant hosts these documents."""
    async with temporary_service("agents", rate_limits=False) as service, aiohttp.ClientSession() as session:
        pos = await service.create_partner("Merchant", PartnerKind.COMMERCE)
        fronts = [await service.create_partner(name, PartnerKind.MARKETFRONT) for name in ("Front", "Other")]
        commerce, front, other = (str(made.key) for made in (pos, *fronts))
        here = Market(service, session, commerce, front, other, documents)
        with menus.hosting(lambda path: json.dumps(here.documents[path.partition("?")[2]]).encode()) as url:
            here.host = url
            yield here


async def play(here: Market, task: Task) -> Report:
    """Let an agent do the task, and compare what was ordered with what was wanted."""
    door = await here.agent(**_terms(task, here))
    wish, before = task.wishes[0], {order["orderId"] for order in await here.orders(task.store)}
    if task.twist is Twist.SOLD_OUT:
        await here.sell_out(task.store, wish)

    async def meanwhile() -> None:
        if task.twist is Twist.SOLD_OUT_LATER:
            await here.sell_out(task.store, wish)
        elif task.twist is Twist.PRICE_CHANGED:
            await here.reprice(task.store, wish)

    shopper = Shopper(door, task, meanwhile, lambda url, accepts: _decide(here, url, accepts=accepts))
    fault = None
    try:
        if task.twist is Twist.OTHERS:
            fault = await _read_anothers(here, door, task)
        else:
            await shopper.shop()
    except GiveUpError as reason:
        fault = None if not task.is_placed else str(reason)
    finally:
        if task.twist in {Twist.SOLD_OUT, Twist.SOLD_OUT_LATER}:
            await here.sell_out(task.store, wish, available=True)
    made = [order for order in await here.orders(task.store) if order["orderId"] not in before]
    wanted = len(task.ordered) if task.is_placed else 0
    lines = [line for order in made for line in order["cart"]["lineItems"]]
    report = Report(task, fault, door.usage, doubled=max(len(made) - 1, 0), lost=max(wanted - len(lines), 0))
    if fault is None:
        report.fault = _difference(task, made)
    return report


def _terms(task: Task, here: Market) -> dict[str, str]:
    currency = here.documents[task.store].get("currency") or "USD"
    match task.twist:
        case Twist.OVER_ORDER:
            return {"currency": currency, "maximumOrder": "1"}
        case Twist.OVER_DAY:
            return {"currency": currency, "maximumDay": "1"}
        case Twist.APPROVED | Twist.DECLINED:
            return {"approval": "always"}
        case _:
            return {}


async def _decide(here: Market, url: str, *, accepts: bool) -> None:
    """Open the page for a person, and press its button."""
    async with here.session.get(url) as page:
        text = await page.text()
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text))
    button = "Place order" if accepts else "Decline"
    found = re.search(rf'<button[^>]*name="([^"]+)"[^>]*value="([^"]*)"[^>]*>\s*{button}', text)
    if found is None:
        raise RuntimeError(text)
    origin = "/".join(url.split("/")[:3])
    async with here.session.post(
        url, data=fields | {found[1]: found[2]}, headers={"Origin": origin}
    ) as answer:
        await answer.read()


async def _read_anothers(here: Market, door: Door, task: Task) -> str | None:
    """Try to read and to cancel an order of another storefront; return what went wrong."""
    orders = [order for name in here.stores for order in await here.orders(name)]
    order_id = orders[0]["orderId"]
    stranger = Door(here.session, here.service.base, here.other, door.usage)
    read, _ = await stranger.call("get_order", orderId=order_id)
    cancelled, _ = await stranger.call("cancel_order", orderId=order_id, reason="CHANGED_MIND")
    if read or cancelled:
        return "another storefront's order was given away"
    assert task.twist is Twist.OTHERS
    return None


def _difference(task: Task, made: list[Any]) -> str | None:
    """Return how what was ordered differs from what was wanted, or None."""
    if not task.is_placed:
        return "something was placed" if made else None
    if len(made) != 1:
        return f"{len(made)} orders"
    (order,) = made
    if (order["state"] == "cancelled") is not (task.twist is Twist.CANCELLED):
        return f"the order is {order['state']}"
    lines = order["cart"]["lineItems"]
    wanted = task.ordered
    if [line["itemId"] for line in lines] != [wish.item_id for wish in wanted]:
        return f"ordered {[line.get('name') for line in lines]}"
    for line, wish in zip(lines, wanted, strict=True):
        if line["quantity"] != wish.quantity or line.get("note") != wish.note:
            return f"{wish.item}: {line['quantity']} units, note {line.get('note')!r}"
        chosen = sorted(option["name"] for group in line["modifierGroups"] for option in group["lineItems"])
        if wish.choices and chosen != sorted(name for names in wish.choices.values() for name in names):
            return f"{wish.item} with {chosen}"
    return None


async def over_rest(here: Market, task: Task) -> Usage:
    """Return what the same order takes over REST: the whole menu is read, and ids are looked up in it."""
    usage = Usage()
    async with aiohttp.ClientSession() as session:

        async def ask(method: str, path: str, body: Any = None, **headers: str) -> Any:
            data = b"" if body is None else json.dumps(body).encode()
            options = {"Authorization": f"Bearer {here.front}", "Content-Type": "application/json"} | headers
            async with session.request(
                method, here.service.base + path, data=data, headers=options
            ) as answer:
                said = await answer.read()
            usage.calls += 1
            usage.size += len(data) + len(said)
            return json.loads(said)

        found = await ask("POST", "/v1/marketfront/stores/discover", {"query": task.store})
        store_id = next(store["storeId"] for store in found["stores"] if store["name"] == task.store)
        store = await ask("GET", f"/v1/marketfront/stores/{store_id}")
        document = await ask("GET", f"/v1/marketfront/catalog-sets/{store['catalogSetId']}")
        order = {
            "cart": {
                "storeId": store_id,
                "catalogSetId": store["catalogSetId"],
                "lineItems": [_line(document, wish) for wish in task.wishes],
            },
            "clientContext": {"ip": "203.0.113.7", "userAgent": "agent"},
            "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
            "customer": CUSTOMER,
        }
        said = await ask("POST", "/v1/marketfront/orders/validate", order)
        token = {"validatedOrderToken": said.get("validatedOrderToken")}
        await ask("POST", "/v1/marketfront/orders/place", order | token, **{"Idempotency-Key": str(uuid4())})
    return usage


def _line(document: Any, wish: Wish) -> dict[str, Any]:
    item = document["items"][wish.item_id]
    groups = []
    for group_id in item.get("modifierGroupIds") or ():
        group = document["modifierGroups"][group_id]
        names = wish.choices.get(group["name"], ())
        chosen = [id_ for id_ in group["itemIds"] if document["items"][id_]["name"] in names]
        if chosen:
            lines = [{"itemId": id_, "quantity": 1, "modifierGroups": []} for id_ in chosen]
            groups.append({"modifierGroupId": group_id, "lineItems": lines})
    return {"itemId": wish.item_id, "quantity": wish.quantity, "modifierGroups": groups}


def _documents() -> dict[str, Any]:
    folder = os.environ.get("MERCATO_TEST_MENUS")
    if not folder:
        return {"made-up": json.loads(menus.small())}
    found = {path.stem: json.loads(path.read_bytes()) for path in sorted(Path(folder).glob("*.json"))}
    # Whatever the time is, stores are open: those of the menus, and one for ten minutes more.
    for document in found.values():
        for catalog in members_of(document.get("catalogs") or ()):
            catalog.pop("availability", None)
    return found | {CLOSING: _closing(json.loads(menus.small()))}


def _closing(document: Any) -> Any:
    """Return the menu as one of a store that closes in ten minutes, by UTC."""
    now = datetime.now(UTC)
    until = now + timedelta(minutes=10)
    window = {"dayOfWeek": f"{now:%A}", "start": "00:00:00", "end": f"{until:%H:%M}:00"}
    if until.date() != now.date():
        window["end"] = "00:00:00"
    names = [f"s{number}" for number, _ in enumerate(document["sections"])]
    for name, section in zip(names, document["sections"], strict=True):
        section["sectionId"] = name
    return document | {"catalogs": [{"name": "All", "availability": [window], "sectionIds": names}]}


async def main() -> int:
    documents = _documents()
    reports, floor = [], []
    async with market(documents) as here:
        served, refused = [], []
        for name in documents:
            try:
                served.append(await here.open(name))
            except RuntimeError as fault:
                refused.append(str(fault))
        tasks = tasks_of([menu for menu in served if menu.store != CLOSING])
        tasks[-1:] = [
            Task(CLOSING, (next(menu.plain()),), Twist.CLOSES) for menu in served if menu.store == CLOSING
        ]
        for number, task in enumerate(tasks, 1):
            report = await play(here, task)
            reports.append(report)
            if report.fault is not None:
                print(f"task {number}, {task.store}, {task.twist.value}: {report.fault}", flush=True)
            if task.twist is Twist.NONE:
                floor.append(await over_rest(here, task))
    _print(reports, floor, served=len(served), refused=refused)
    return 0 if all(report.fault is None for report in reports) else 1


def _print(reports: list[Report], floor: list[Usage], *, served: int, refused: list[str]) -> None:
    solved = sum(report.fault is None for report in reports)
    print(f"Served: {count_of(served, 'menu')}. Refused: {count_of(len(refused), 'menu')}.")
    for fault in refused:
        print(f"  {fault}")
    print(f"tasks solved: {solved} of {len(reports)}")
    print(f"orders placed twice: {sum(report.doubled for report in reports)}")
    print(f"lines lost: {sum(report.lost for report in reports if report.fault is None)}")
    for what, usages in (("through the door", [report.usage for report in reports]), ("over REST", floor)):
        calls, sizes = sorted(one.calls for one in usages), sorted(one.size for one in usages)
        at = int(0.9 * (len(usages) - 1))
        print(
            f"{what}, {len(usages)} tasks: calls {statistics.median(calls):g} (p90 {calls[at]}), "
            f"bytes {statistics.median(sizes):,.0f} (p90 {sizes[at]:,})"
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
