"""A history of orders for tests of reports: in several currencies, changed afterwards, cancelled, on any days."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from sqlalchemy import update
from tests.api.trade import MERCHANT, ORDERS, Trade, trade
from tests.catalog.documents import CAKE, TEA, cafe
from tests.service import Client, MerchantServer, Service

from mercato.features.orders.tables import order_history, orders
from mercato_contract.clock import first_id
from mercato_contract.money import SCALES, to_text
from mercato_contract.wire import rfc3339

AMOUNTS = ("gross", "promotions", "adjustments", "refunds", "net", "fees", "taxes", "tips", "total")
REASONS = ("OUT_OF_DOUGH", "CHANGED_MIND", "=1+1")


@dataclass
class History:
    """A merchant's stores in several currencies, a storefront, and what it placed."""

    trades: list[Trade]

    @property
    def pos(self) -> Client:
        return self.trades[0].pos

    @property
    def front(self) -> Client:
        return self.trades[0].front

    @property
    def stores(self) -> list[str]:
        return [one.store["storeId"] for one in self.trades]


def priced(currency: str) -> Any:
    """Return the café with as many minor units of the currency as it has cents."""
    document = cafe() | {"currency": currency}
    for item in document["items"].values():
        item["basePrice"] = to_text(int(Decimal(item["basePrice"]) * 100), currency)
    for group in document["modifierGroups"].values():
        group["priceOverrides"] = {}
    return document


async def open_stores(mercato: Service, shop: MerchantServer, currencies: Iterable[str]) -> History:
    """Return one merchant's live stores, one for each currency, and a storefront."""
    first, *others = currencies
    trades = [await trade(mercato, shop, catalog=priced(first))]
    for currency in others:
        url = shop.host(priced(currency), f"/{currency}.json")
        store = await mercato.live(trades[0].pos, url, webhook=shop.base + "/hooks", name=currency)
        trades.append(Trade(mercato, shop, trades[0].pos, trades[0].front, store))
    return History(trades)


async def sell(history: History, random: Random, moments: Sequence[datetime]) -> None:
    """Place an order at each of the moments, adjust some and cancel others."""
    for at in moments:
        chosen = random.choice(history.trades)
        currency = (await _order_of(chosen, random, at))[1]
        assert currency in SCALES


async def _order_of(chosen: Trade, random: Random, at: datetime) -> tuple[str, str]:
    catalog = (await chosen.front.get(f"/v1/marketfront/catalog-sets/{chosen.store['catalogSetId']}")).json()
    currency: str = catalog["currency"]

    def some(low: int, high: int) -> str:
        return to_text(random.randint(low, high), currency)

    said = {
        "fees": some(0, 50),
        "taxes": some(0, 90),
        "promotions": some(0, 99),
        "adjustments": some(-40, 40),
    }
    chosen.shop.answers["validate"] = {"amounts": said}
    chosen.shop.answers["place"] = {"accepted": True, "partnerOrderId": f"P-{random.randint(1, 999)}"}
    lines = [{"itemId": one, "quantity": random.randint(1, 3), "modifierGroups": []} for one in (TEA, CAKE)]
    body = chosen.order(*lines[: random.randint(1, 2)], amounts={"tip": some(0, 70)})
    checked = await chosen.validate(body)
    assert checked["isValid"], checked
    body["validatedOrderToken"] = checked["validatedOrderToken"]
    body["amounts"]["total"] = checked["order"]["amounts"]["total"]
    order = (await chosen.place_until_answered(body, key=str(uuid4()))).json()
    for kind in random.choices(("refund", "fee", "substitution"), k=random.randint(0, 3)):
        amount = some(-30, 30) if kind == "substitution" else some(1, 30)
        path = f"{MERCHANT}/{order['orderId']}/adjustments"
        adjustment = {"type": kind, "amount": amount, "reason": "As agreed"}
        reply = await chosen.pos.post(path, adjustment, headers={"Idempotency-Key": str(uuid4())})
        assert reply.status == 201, reply.body
    ending = random.choice(("open", "ready", "completed", "cancelled"))
    change: dict[str, str] = {"status": "ready"} if ending == "ready" else {"state": ending}
    if ending == "cancelled":
        change["cancelReason"] = random.choice(REASONS)
    if ending != "open":
        assert (await chosen.update(order, **change)).status == 200
    moved = await move(chosen.mercato, UUID(order["orderId"]), at)
    if random.random() < 0.3:
        await forget_sold(chosen.mercato, moved)
    return order["orderId"], currency


async def move(mercato: Service, order_id: UUID, at: datetime) -> UUID:
    """Let the order have been placed at the instant; return its id from then on."""
    new = UUID(int=first_id(at).int | order_id.int & ((1 << 80) - 1))
    async with mercato.app.db.write() as tx:
        await tx.execute(update(orders).where(orders.c.id == order_id).values(id=new, created_at=at))
        await tx.execute(
            update(order_history).where(order_history.c.order_id == order_id).values(order_id=new)
        )
    return new


async def forget_sold(mercato: Service, order_id: UUID) -> None:
    """Let the order have been placed by an earlier release, which stored its content alone."""
    async with mercato.app.db.write() as tx:
        await tx.execute(update(orders).where(orders.c.id == order_id).values(sold=None))


async def read_all(client: Client, path: str = MERCHANT) -> list[Any]:
    """Return every order of the account, as the API lists them."""
    found, cursor = [], ""
    while True:
        page = (await client.get(f"{path}?limit=100{cursor}")).json()
        found += page["orders"]
        if page["nextCursor"] is None:
            return found
        cursor = f"&cursor={page['nextCursor']}"


def expected_totals(
    found: Iterable[Any], first: date, last: date, timezone: str, *, store: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return by currency what a report of these days must say, summed from orders as the API shows them."""
    totals: dict[str, dict[str, Any]] = {}
    for order in found:
        placed = datetime.fromisoformat(order["createdAt"]).astimezone(ZoneInfo(timezone)).date()
        if not first <= placed <= last or (store is not None and order["storeId"] != store):
            continue
        amounts = order["amounts"]
        empty: dict[str, Any] = dict.fromkeys(AMOUNTS, Decimal(0)) | {"orders": 0, "cancelled": 0}
        sums = totals.setdefault(amounts["currency"], empty)
        if order["state"] == "cancelled":
            sums["cancelled"] += 1
            continue
        sums["orders"] += 1
        changed = {"refund": Decimal(0), "fee": Decimal(0), "substitution": Decimal(0)}
        for adjustment in order["adjustments"]:
            changed[adjustment["type"]] += Decimal(adjustment["amount"])
        sums["gross"] += Decimal(amounts["subTotal"])
        sums["promotions"] += Decimal(amounts["promotions"])
        sums["adjustments"] += Decimal(amounts["adjustments"]) + changed["substitution"]
        sums["refunds"] += changed["refund"]
        sums["fees"] += Decimal(amounts["fees"]) + changed["fee"]
        sums["taxes"] += Decimal(amounts["taxes"])
        sums["tips"] += Decimal(amounts["tip"])
        # Of the API's own sums, not of the parts above.
        sums["total"] += Decimal(amounts.get("totalAfterAdjustments", amounts["total"]))
        own = Decimal(amounts["subTotal"]) - Decimal(amounts["promotions"]) + Decimal(amounts["adjustments"])
        sums["net"] += own + changed["substitution"] - changed["refund"]
    return totals


def at(text: str) -> datetime:
    """Return the instant of a text like `2026-03-29T00:59:59.999Z`."""
    found = datetime.fromisoformat(text).astimezone(UTC)
    assert rfc3339(found)
    return found


def placed_orders_path(surface: str) -> str:
    """Return the path of List Orders of the surface."""
    return MERCHANT if surface == "commerce" else ORDERS
