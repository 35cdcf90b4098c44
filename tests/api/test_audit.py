"""Every operation that changes something writes an audit entry in the transaction of the change."""

from collections.abc import Sequence
from datetime import timedelta

from tests.api.table import GUARDED, call, target
from tests.api.world import World, ids_for, make_endpoint, place
from tests.databases import only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service

from mercato.features.partners.callers import Callers
from mercato.http.operations import Access, Operation, Rate
from mercato.platform.db.audit import AuditEntry, list_entries, prune
from mercato_contract import clock
from mercato_contract.wire import rfc3339

CHANGES_NOTHING = {"validateCatalogSet", "explainWebhookSignature"}
"""Operations that count as writes but only check."""

WRITING = [one for one in GUARDED if one.rate is Rate.WRITE and one.id not in CHANGES_NOTHING]


async def entries(mercato: Service, **wanted: str) -> Sequence[AuditEntry]:
    async with mercato.app.db.read() as tx:
        return await list_entries(tx, limit=1000, **wanted)  # type: ignore[arg-type]


async def in_state(world: World, mercato: Service, shop: MerchantServer) -> dict[str, dict[str, str]]:
    """Return, for the operations that need one, the id of a resource in the required state."""
    client = world.owner[Access.COMMERCE]
    synced = "/v1/commerce/webhook-deliveries?type=catalog.sync.succeeded"
    delivery = (await client.get(synced)).json()["deliveries"][0]["id"]
    none = shop.base + "/none"
    needed = {"cancelOnboarding": none, "retryOnboarding": none, "activateStore": shop.host(CATALOG)}
    # Not the order whose status changes afterwards.
    cancelled = await place(world.owner[Access.MARKETFRONT], world.ids)
    store = world.ids["storeId"]
    later = f"/v1/commerce/stores/{store}/catalog?activateAt={rfc3339(clock.now() + timedelta(days=1))}"
    scheduled = (await client.call("PUT", later, CATALOG)).json()["catalogIngestId"]
    replaced = await mercato.run(client, store, shop.host(CATALOG | {"note": "new"}, "/new.json"))
    assert replaced["catalogSetId"] != world.ids["catalogSetId"]
    return {
        "redeliverCommerceWebhook": {"deliveryId": delivery},
        "deleteCommerceWebhookEndpoint": {
            "endpointId": await make_endpoint(world.owner[Access.COMMERCE], Access.COMMERCE, "gone")
        },
        "deleteMarketfrontWebhookEndpoint": {
            "endpointId": await make_endpoint(world.owner[Access.MARKETFRONT], Access.MARKETFRONT, "gone")
        },
        "cancelOrder": {"orderId": cancelled},
        "cancelCatalogActivation": {"catalogIngestId": scheduled},
    } | {
        name: {"onboardingId": (await mercato.onboard(client, url, name=name))["onboardingId"]}
        for name, url in needed.items()
    }


async def test_every_writing_operation_leaves_one_entry_and_every_other_none(
    world: World, mercato: Service, shop: MerchantServer
):
    prepared = await in_state(world, mercato, shop)
    ids = {operation.id: await ids_for(world, operation) for operation in GUARDED}
    before = len(await entries(mercato))
    # Storefronts first: merchants go on to sell items out and to pause the store.
    for operation in sorted(GUARDED, key=lambda one: one.access is Access.COMMERCE):
        its = ids[operation.id] | prepared.get(operation.id, {})
        client = world.owner[operation.access]
        reply = await call(client, operation, target(operation, its, store=its["storeId"]), its)
        assert reply.status < 300, (operation.id, reply.body)
        there = await entries(mercato)
        new, before = there[: len(there) - before], len(there)
        assert [one.action for one in new] == ([operation.id] if operation in WRITING else []), operation.id
        for one in new:
            await assert_tells_who(mercato, client, operation, one, reply.headers["X-Request-Id"])
            named = {its[name] for name in operation.names}
            assert one.subject_id in named | {its["storeId"], new_store(reply.body)} or not named, (
                operation.id
            )


async def assert_tells_who(
    mercato: Service, client: Client, operation: Operation, one: AuditEntry, request_id: str
) -> None:
    assert client.key is not None
    callers: Callers = mercato.app.callers
    caller = await callers.get(client.key.encode())
    assert (one.actor, one.partner_id) == (f"key:{caller.key_id}", caller.partner_id), operation.id
    assert (one.surface, one.request_id) == (caller.surface, request_id), operation.id
    assert abs(clock.now() - one.at) < timedelta(minutes=1)


def new_store(body: bytes) -> str | None:
    """Return the id of the store that an activation has made."""
    _, found, rest = body.decode().partition('"storeId":"')
    return rest[:36] if found else None


@only_sqlite
async def test_the_trail_contains_neither_customers_nor_secrets(world: World, mercato: Service):
    ids = world.ids
    for operation in WRITING:
        path = target(operation, await ids_for(world, operation), store=ids["storeId"])
        await call(world.owner[operation.access], operation, path, ids)
    told = repr(await entries(mercato))
    for hidden in (
        "Ada",
        "a@example.com",
        "+15550100",
        "1 Main St",
        "203.0.113.7",
        "Ring twice",
        "whsec_",
        "mk_",
    ):
        assert hidden not in told, hidden


@only_sqlite
async def test_what_is_refused_leaves_no_entry(world: World, mercato: Service):
    before = await entries(mercato)
    for operation in WRITING:
        path = target(operation, await ids_for(world, operation), store=world.ids["storeId"])
        reply = await world.stranger[operation.access].call(operation.method, path, b"[")
        assert reply.status >= 400, operation.id
    assert await entries(mercato) == before


@only_sqlite
async def test_what_a_repeat_does_not_change_leaves_no_entry(world: World, mercato: Service):
    update = next(one for one in GUARDED if one.id == "updateOrderStatus")
    client = world.owner[Access.COMMERCE]
    for _ in range(2):
        assert (await call(client, update, target(update, world.ids), world.ids)).status == 200
    assert len(await entries(mercato, action="updateOrderStatus")) == 1


@only_sqlite
async def test_entries_are_deleted_after_their_retention(mercato: Service):
    await mercato.partner()
    made = await entries(mercato)
    for later, left in ((timedelta(days=-1), len(made)), (timedelta(minutes=1), 0)):
        async with mercato.app.db.write() as tx:
            await prune(tx, before=clock.now() + later, limit=100)
        assert len(await entries(mercato)) == left
    assert made
    assert {one.actor for one in made} == {"service"}
