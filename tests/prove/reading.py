"""The service's own records: read from its database, and over HTTP as partners read them."""

from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Select, and_, func, or_, select
from tests.prove.calls import Partner
from tests.prove.documents import version_of
from tests.prove.records import ServiceCancellation, ServiceOrder, ServiceRecords, ServiceRun, Shop, Spending

from mercato.features.catalogs.tables import catalog_runs
from mercato.features.orders.tables import idempotency_keys, orders
from mercato.features.partners.tables import agent_spending, agents
from mercato.features.stores.tables import stores
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.tables import jobs

MOST_NAMED: Final = 20
"""How many unfinished entries of a kind are named."""

_PAGE: Final = 100

_CALLS: Final = ("order.validate", "order.place", "order.cancel")


def _unfinished() -> dict[str, Select[Any]]:
    """Return a query for each kind of work that the service finishes by itself."""
    return {
        "job": select(jobs.c.id, jobs.c.kind, jobs.c.state, jobs.c.attempt, jobs.c.run_at, jobs.c.error),
        "run": select(catalog_runs.c.id, catalog_runs.c.status).where(
            catalog_runs.c.status.not_in(("succeeded", "failed"))
        ),
        "delivery": select(
            deliveries.c.id, deliveries.c.type, deliveries.c.status, deliveries.c.next_attempt_at
        ).where(or_(deliveries.c.status == "pending", _failed_event())),
        "submission": select(deliveries.c.order_id).where(deliveries.c.give_up_at.is_not(None)),
        "order": select(orders.c.id, orders.c.answer).where(orders.c.answer.in_(("waiting", "pending"))),
        "cancellation": select(orders.c.id, orders.c.cancellation).where(
            orders.c.cancellation.like('%"status":"requested"%')
        ),
    }


def _unanswered() -> Select[Any]:
    """Keys whose request has begun and has no reply: one remains if a customer never repeated the request."""
    waiting = and_(idempotency_keys.c.status.is_(None), idempotency_keys.c.request != b"")
    return select(idempotency_keys.c.key, idempotency_keys.c.order_id).where(waiting)


def _failed_event() -> Any:
    """Events that were given up; a call to a store may end without an answer."""
    return and_(deliveries.c.status == "failed", deliveries.c.type.not_in(_CALLS))


async def count_unfinished(db: Database) -> int:
    """Return the amount of unfinished work."""
    async with db.read() as tx:
        counts = [
            await tx.scalar(select(func.count()).select_from(one.subquery()))
            for one in _unfinished().values()
        ]
    return sum(counts)


async def list_unfinished(db: Database, *, keys: bool) -> list[str]:
    """Return a line for each unfinished entry; with `keys`, also for keys without a reply."""
    queries = _unfinished() | ({"key": _unanswered()} if keys else {})
    async with db.read() as tx:
        return [
            f"{kind} {' '.join(map(str, row))}"
            for kind, one in queries.items()
            for row in await tx.all(one.limit(MOST_NAMED))
        ]


async def read_records(
    db: Database, *, merchants: list[Partner], front: Partner, shops: list[Shop]
) -> ServiceRecords:
    """Return the service's records."""
    records = ServiceRecords(unfinished=await list_unfinished(db, keys=True))
    shown = {order["orderId"]: order for one in merchants for order in await _all_orders(one)}
    async with db.read() as tx:
        await _read_rows(tx, records, shown)
    for order_id, order in shown.items():
        theirs = await front.until_final("GET", f"/v1/marketfront/orders/{order_id}")
        if theirs.json() != _without_partner_ids(order):
            records.misread.append(order_id)
    for shop in shops:
        if shop.store_id is not None and shop.store_id in records.stores:
            await _read_store(records, shop, merchants[shop.merchant], front)
    found = await front.until_final("POST", "/v1/marketfront/stores/discover", {"limit": _PAGE})
    records.found.update(store["storeId"] for store in found.json()["stores"])
    return records


def _without_partner_ids(value: Any) -> Any:
    """Return an order as a storefront reads it: without the ids of the merchant's own system."""
    if isinstance(value, list):
        return [_without_partner_ids(one) for one in value]
    if isinstance(value, dict):
        names = value.keys() - {"partnerItemId", "partnerModifierGroupId"}
        return {name: _without_partner_ids(value[name]) for name in names}
    return value


async def _read_rows(tx: Read, records: ServiceRecords, shown: dict[str, Any]) -> None:
    facts = (
        orders.c.id,
        orders.c.answer,
        orders.c.state,
        orders.c.status,
        orders.c.sequence,
        orders.c.handling,
        orders.c.agent_id,
    )
    for row in await tx.all(select(*facts)):
        order_id = str(row.id)
        order = shown.get(order_id, {})
        if (order.get("state"), order.get("status")) != (row.state, row.status):
            records.misread.append(order_id)
        records.orders[order_id] = ServiceOrder(
            id=order_id,
            key=(order.get("customer") or {}).get("partnerUserId"),
            answer=row.answer,
            state=row.state,
            status=row.status,
            number=order.get("partnerOrderId"),
            sequence=row.sequence,
            is_pulled=row.handling is not None,
            by_agent=row.agent_id is not None,
            cancel_reason=order.get("cancelReason"),
            cancellation=(order.get("cancellation") or {}).get("status"),
            adjustments=len(order.get("adjustments", ())),
            adds_up=_adds_up(order),
        )
    cancels = select(deliveries.c.webhook_id, deliveries.c.order_id, deliveries.c.status)
    for row in await tx.all(cancels.where(deliveries.c.type == "order.cancel")):
        records.cancellations[str(row.webhook_id)] = ServiceCancellation(str(row.order_id), row.status)
    # In the order in which they ended: of two requested from different servers, the database knows which
    # comes first, and not the clocks that their ids were made by.
    runs = select(catalog_runs).where(catalog_runs.c.notified)
    runs = runs.order_by(catalog_runs.c.updated_at, catalog_runs.c.id)
    for row in await tx.all(runs):
        run_id = str(row.id)
        records.runs[run_id] = ServiceRun(
            id=run_id,
            store_id=str(row.store_id),
            status=row.status,
            set_id=None if row.set_id is None else str(row.set_id),
        )
    for row in await tx.all(select(stores.c.id, stores.c.partner_store_id)):
        records.stores[str(row.id)] = row.partner_store_id
    await _read_spending(tx, records)


async def _read_spending(tx: Read, records: ServiceRecords) -> None:
    limits = {row.id: row.maximum_day for row in await tx.all(select(agents.c.id, agents.c.maximum_day))}
    spent_of = {tuple(row[:3]): row.spent for row in await tx.all(select(agent_spending))}
    day = orders.c.agent_id, orders.c.agent_day, orders.c.currency
    cost = select(*day, func.sum(orders.c.total).label("cost")).where(
        orders.c.agent_id.is_not(None), orders.c.state != "cancelled"
    )
    cost_of = {tuple(row[:3]): int(row.cost) for row in await tx.all(cost.group_by(*day))}
    for place in spent_of.keys() | cost_of.keys():
        spent, costs = spent_of.get(place, 0), cost_of.get(place, 0)
        records.spending[" ".join(map(str, place))] = Spending(spent, costs, limits[place[0]])


def _adds_up(order: dict[str, Any]) -> bool:
    """Return whether an order costs its total less its refunds: merchants make no other adjustments here."""
    if not order:
        return True
    refunded = sum(Decimal(one["amount"]) for one in order["adjustments"])
    amounts = order["amounts"]
    return Decimal(amounts["total"]) - refunded == Decimal(
        amounts.get("totalAfterAdjustments", amounts["total"])
    )


async def _read_store(records: ServiceRecords, shop: Shop, merchant: Partner, front: Partner) -> None:
    path = f"/v1/commerce/stores/{shop.store_id}/status"
    store = await front.get(f"/v1/marketfront/stores/{shop.store_id}")
    served = await front.get(f"/v1/marketfront/catalog-sets/{store['catalogSetId']}")
    assert shop.store_id is not None
    records.serves[shop.store_id] = store["catalogSetId"], version_of(shop.name, served)
    records.paused[shop.store_id] = (await merchant.get(path))["status"] == "paused"


async def _all_orders(merchant: Partner) -> list[Any]:
    """Return every order that a merchant reads."""
    found: list[Any] = []
    cursor = ""
    while True:
        page = await merchant.get(f"/v1/commerce/orders?limit={_PAGE}{cursor}")
        found += page["orders"]
        if page["nextCursor"] is None:
            return found
        cursor = f"&cursor={page['nextCursor']}"
