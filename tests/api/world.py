"""One partner with one of everything, for tests that call every operation."""

from dataclasses import dataclass
from uuid import UUID

from tests.api.table import GUARDED, call
from tests.live_stores import live_store
from tests.service import CATALOG, Client, MerchantServer, Service

from mercato.features.partners.model import PartnerKind, Surface
from mercato.features.webhooks.outbox import NewEvent, Recipient, push
from mercato.http.operations import Access, Operation
from mercato_contract.clock import new_id, now
from mercato_contract.events import EventType


@dataclass
class World:
    """One partner with one of everything, and another partner with nothing; each with a key of both surfaces."""

    ids: dict[str, str]
    owner: dict[Access, Client]
    stranger: dict[Access, Client]


async def make_world(mercato: Service, shop: MerchantServer) -> World:
    """Create both partners, a live store, a catalog run, an order, an agent, and a delivery on each surface."""
    partner_id, owner = await _both(mercato)
    _, stranger = await _both(mercato)
    client = owner[Access.COMMERCE]
    store = await live_store(mercato, client, shop, CATALOG)
    run = await mercato.run(client, store["storeId"], shop.host(CATALOG))
    await shop.webhook()
    shop.answers |= {"validate": {"isValid": True}, "place": {"accepted": True}, "cancel": {"accepted": True}}
    ids = {
        "storeId": store["storeId"],
        "catalogSetId": store["catalogSetId"],
        "onboardingId": store["onboardingId"],
        "catalogIngestId": run["catalogIngestId"],
        "deliveryId": await _delivery(mercato, partner_id, UUID(store["storeId"]), shop),
    }
    for access in (Access.MARKETFRONT, Access.COMMERCE):
        ids[f"endpointId of {access.name}"] = await make_endpoint(owner[access], access, "mine")
    ids["endpointId"] = ids["endpointId of MARKETFRONT"]
    made = await owner[Access.MARKETFRONT].post("/v1/marketfront/agents", {"name": "Lunch"})
    ids["agentId"] = made.json()["agentId"]
    ids["orderId"] = await place(owner[Access.MARKETFRONT], ids)
    return World(ids, owner, stranger)


async def place(client: Client, ids: dict[str, str]) -> str:
    """Place an order whose two sides are the same partner, so that both surfaces know its id."""
    placing = next(operation for operation in GUARDED if operation.id == "placeOrder")
    placed = await call(client, placing, placing.path, ids)
    assert placed.status == 201, placed.body
    order_id: str = placed.json()["orderId"]
    return order_id


async def make_endpoint(client: Client, access: Access, name: str) -> str:
    """Register a webhook endpoint that nobody listens at; return its id."""
    assert isinstance(access.value, Surface)
    body = {"url": f"http://127.0.0.1:1/{name}", "types": ["endpoint.changed"]}
    made = await client.post(f"/v1/{access.value}/webhook-endpoints", body)
    assert made.status == 201, made.body
    endpoint_id: str = made.json()["endpointId"]
    return endpoint_id


async def _both(mercato: Service) -> tuple[UUID, dict[Access, Client]]:
    made, client = await mercato.partner(PartnerKind.BOTH)
    assert made.marketfront_key is not None
    other = Client(client.base, made.marketfront_key.text, client.session)
    return made.id, {Access.COMMERCE: client, Access.MARKETFRONT: other, Access.ANY: other}


async def _delivery(mercato: Service, partner_id: UUID, store_id: UUID, shop: MerchantServer) -> str:
    """Push one event on each surface; return the marketfront one's id (the run has made a Commerce one)."""
    made = new_id()
    async with mercato.app.db.write() as tx:
        event = NewEvent(
            delivery_id=made,
            webhook_id=new_id(),
            type=EventType.ORDER_CREATED,
            data={},
            traceparent="",
            store_id=store_id,
        )
        recipient = Recipient(partner_id, Surface.MARKETFRONT, shop.base + "/events")
        await push(tx, event, to=recipient, now=now())
    return str(made)


async def ids_for(world: World, operation: Operation) -> dict[str, str]:
    """Return the owner's ids for the operation's path: a surface has deliveries and endpoints of its own."""
    if "endpointId" in operation.names:
        return world.ids | {"endpointId": world.ids[f"endpointId of {operation.access.name}"]}
    if "deliveryId" in operation.names and operation.access is Access.COMMERCE:
        listed = await world.owner[Access.COMMERCE].get("/v1/commerce/webhook-deliveries")
        return world.ids | {"deliveryId": listed.json()["deliveries"][0]["id"]}
    return world.ids
