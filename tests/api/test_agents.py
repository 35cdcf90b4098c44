"""Agents of a storefront: made, listed and revoked by it, and what their keys open."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs
from tests.api.agent_keys import AGENTS, DAY, assistant, spent_today
from tests.api.examples import in_turn
from tests.api.table import GUARDED, call
from tests.api.trade import MERCHANT, ORDERS, Trade, trade
from tests.api.world import make_world
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import Client, MerchantServer, Service
from tests.sharing import own, shared

from mercato.features import offboarding
from mercato.features.partners import accounts
from mercato.features.partners.credentials import create_key, get_key, revoke_key, roll_key
from mercato.features.partners.model import PartnerKind, Surface
from mercato.features.partners.tables import agent_spending, agents
from mercato.http.operations import Access
from mercato.platform.db.audit import list_entries

pytestmark = [shared, mostly_sqlite]


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


@pytest.fixture
async def front(mercato: Service) -> Client:
    return (await mercato.partner(PartnerKind.MARKETFRONT))[1]


# --- made, listed, revoked ------------------------------------------------------------------------


async def test_an_agent_is_made_with_a_key_that_is_shown_once(front: Client):
    request = {
        "name": "Lunch assistant",
        "currency": "EUR",
        "maximumOrder": "30",
        "maximumDay": "60.5",
        "approval": "above:20",
        "timezone": "Europe/Berlin",
    }
    with capture_logs() as logs:
        reply = await front.post(AGENTS, request)
    assert reply.status == 201, reply.body
    made = reply.json()
    assert reply.headers["Location"] == f"{AGENTS}/{made['agentId']}"
    assert made | {"maximumOrder": "30.00", "maximumDay": "60.50", "approval": "above:20.00"} == made
    assert (made["state"], made["spentToday"], made["timezone"]) == ("active", [], "Europe/Berlin")
    assert made["key"].startswith("mk_marketfront_")
    assert made["keyPrefix"] == made["key"][:21]
    assert made["key"] not in str(logs)
    read = (await front.get(reply.headers["Location"])).json()
    assert read == {name: value for name, value in made.items() if name != "key"}
    assert (await front.get(AGENTS)).json() == {"agents": [read], "nextCursor": None}


@on_both
async def test_agents_are_listed_in_pages_newest_first(front: Client):
    for number in range(3):
        assert (await front.post(AGENTS, {"name": f"Agent {number}"})).status == 201
    first = (await front.get(f"{AGENTS}?limit=2")).json()
    rest = (await front.get(f"{AGENTS}?limit=2&cursor={first['nextCursor']}")).json()
    names = [agent["name"] for page in (first, rest) for agent in page["agents"]]
    assert names == ["Agent 2", "Agent 1", "Agent 0"]
    assert rest["nextCursor"] is None


async def test_a_revoked_agent_is_refused_and_stays_listed(here: Trade):
    agent = await assistant(here)
    for _ in range(2):
        assert (await here.front.call("DELETE", agent.path)).status == 204
    assert (await here.place(here.order(), front=agent.client)).status == 401
    assert (await here.front.get(agent.path)).json()["state"] == "revoked"


async def test_revoking_an_agent_revokes_its_key_that_was_rolled_too(here: Trade):
    agent = await assistant(here)
    async with here.mercato.app.db.write() as tx:
        made = await roll_key(tx, await get_key(tx, agent.created["keyId"]))
    rolled = Client(here.front.base, made.text, here.front.session)
    for client in (agent.client, rolled):
        assert (await client.get(ORDERS)).status == 200
    assert (await here.front.call("DELETE", agent.path)).status == 204
    for client in (agent.client, rolled):
        assert (await client.get(ORDERS)).status == 401


@pytest.mark.parametrize("rolled", [False, True], ids=["first key", "rolled key"])
@on_both
async def test_revoking_the_parent_key_revokes_its_agents_alone(here: Trade, rolled: bool):
    agent = await assistant(here)
    parent_id = agent.created["parentKeyId"]
    text = agent.created["key"]
    async with here.mercato.app.db.write() as tx:
        partner = await accounts.get_partner(tx, (await get_key(tx, parent_id)).partner_id)
        other = await create_key(tx, partner, surface=Surface.MARKETFRONT)
        if rolled:
            text = (await roll_key(tx, await get_key(tx, agent.created["keyId"]))).text
    second = await assistant(
        Trade(here.mercato, here.shop, here.pos, here.front.with_key(other.text), here.store)
    )
    async with here.mercato.app.db.write() as tx:
        assert await revoke_key(tx, await get_key(tx, parent_id))
    assert (await here.front.with_key(text).get(ORDERS)).status == 401
    assert (await here.front.get(ORDERS)).status == 401
    assert (await second.client.get(ORDERS)).status == 200
    listed = (await here.front.with_key(other.text).get(AGENTS)).json()["agents"]
    assert [entry["state"] for entry in listed] == ["active", "revoked"]


@on_both
async def test_no_agent_outlives_the_revocation_of_its_parent_key_at_the_same_time(here: Trade):
    parent_id = (await assistant(here)).created["parentKeyId"]

    async def revoke() -> None:
        async with here.mercato.app.db.write() as tx:
            await revoke_key(tx, await get_key(tx, parent_id))

    replies = await asyncio.gather(*(here.front.post(AGENTS, DAY) for _ in range(10)), revoke())
    made = [reply for reply in replies if reply is not None and reply.status == 201]
    for reply in made:
        client = here.front.with_key(reply.json()["key"])
        assert (await client.get(ORDERS)).status == 401
    assert {reply.status for reply in replies if reply is not None} <= {201, 401, 403}


async def test_an_account_makes_a_hundred_active_keys(here: Trade):
    statuses = [(await here.front.post(AGENTS, {"name": "x"})).status for _ in range(99)]
    assert statuses == [201] * 99
    refused = await here.front.post(AGENTS, {"name": "x"})
    assert (refused.status, refused.json()["errorCode"]) == (409, "CONFLICT")
    one = (await here.front.get(f"{AGENTS}?limit=1")).json()["agents"][0]
    assert (await here.front.call("DELETE", f"{AGENTS}/{one['agentId']}")).status == 204
    assert (await here.front.post(AGENTS, {"name": "x"})).status == 201


# --- faults ---------------------------------------------------------------------------------------


@only_sqlite
@in_turn(
    ("change", "pointers"),
    [
        ({"name": " "}, ["/name"]),
        ({"name": "Lun\u200bch"}, ["/name"]),
        ({"name": "Lunch\u202e"}, ["/name"]),
        ({"name": "Lun\nch"}, ["/name"]),
        ({"name": "Lunch\u3164"}, ["/name"]),
        ({"name": "x" * 101}, ["/name"]),
        ({"currency": None}, ["/maximumDay"]),
        ({"currency": "XXX"}, ["/currency"]),
        ({"currency": "eur"}, ["/currency"]),
        ({"maximumDay": "0"}, ["/maximumDay"]),
        ({"maximumDay": "-1"}, ["/maximumDay"]),
        ({"maximumDay": "1.001"}, ["/maximumDay"]),
        ({"maximumDay": "9" * 40}, ["/maximumDay"]),
        ({"maximumOrder": "ten"}, ["/maximumOrder"]),
        ({"approval": "sometimes"}, ["/approval"]),
        ({"approval": "above:"}, ["/approval"]),
        ({"approval": "above:-1"}, ["/approval"]),
        ({"approval": "above:1.001"}, ["/approval"]),
        ({"timezone": "Berlin"}, ["/timezone"]),
        ({"maximumOrder": "0", "maximumDay": "0.000", "approval": "above:1e3"}, None),
        ({"name": "\u200b", "timezone": "x"}, ["/name", "/timezone"]),
        ({"maximumOrder": "0", "maximumDay": "0.000"}, ["/maximumOrder", "/maximumDay"]),
    ],
)
async def test_every_fault_of_a_new_agent_is_refused_with_its_place(
    front: Client, change: dict[str, Any], pointers: list[str] | None
):
    reply = await front.post(AGENTS, DAY | change)
    assert reply.status == 422, reply.body
    if pointers is not None:
        assert sorted(error["pointer"] for error in reply.json()["errors"]) == sorted(pointers)
    assert (await front.get(AGENTS)).json()["agents"] == []


@only_sqlite
@in_turn("name", ["Mädchen für alles", "昼食", "x", "O'Neil & Söhne <b>", " trimmed "])
async def test_a_name_is_data_and_comes_back_as_it_is_seen(front: Client, name: str):
    reply = await front.post(AGENTS, {"name": name})
    assert reply.json()["name"] == name.strip()


# --- what its key opens ---------------------------------------------------------------------------

OPEN = {
    "discoverStores", "getMarketfrontStore", "getCatalogSet", "getStoreAvailability", "addCartItem", "removeCartItem",
    "updateCartItem", "validateOrder", "placeOrder", "cancelOrder", "listMarketfrontOrders", "getMarketfrontOrder",
    "getMarketfrontOrderTimeline", "listStoreChanges",
}  # fmt: skip


@only_sqlite
async def test_an_agents_key_opens_stores_carts_and_orders_and_nothing_of_the_account(
    mercato: Service, shop: MerchantServer
):
    world = await make_world(mercato, shop)
    owner = world.owner[Access.MARKETFRONT]
    made = (await owner.post(AGENTS, {"name": "Lunch"})).json()
    client = owner.with_key(made["key"])
    opened = set()
    for operation in GUARDED:
        if operation.access is Access.COMMERCE or operation.path == "/mcp":
            continue
        path = operation.path
        for name in operation.names:
            path = path.replace(f"{{{name}}}", world.ids[name])
        reply = await call(client, operation, path, world.ids)
        if reply.status != 403:
            opened.add(operation.id)
        else:
            assert "agent Lunch" in reply.json()["detail"]
    assert opened == OPEN


async def test_an_agent_reads_and_cancels_its_own_orders_alone(here: Trade):
    agent, other = await assistant(here), await assistant(here)
    own = (await here.place(here.order(), front=agent.client)).json()["orderId"]
    of_front = (await here.placed())["orderId"]
    of_other = (await here.place(here.order(), front=other.client)).json()["orderId"]
    here.shop.answers["cancel"] = {"accepted": True}
    listed = (await agent.client.get(ORDERS)).json()["orders"]
    assert [order["orderId"] for order in listed] == [own]
    for order_id in (of_front, of_other):
        for path in ("", "/timeline"):
            assert (await agent.client.get(f"{ORDERS}/{order_id}{path}")).status == 404
        refused = await agent.client.post(
            f"{ORDERS}/{order_id}/cancel", {"reason": "X"}, headers={"Idempotency-Key": str(uuid4())}
        )
        assert refused.status == 404
    for path in ("", "/timeline"):
        assert (await agent.client.get(f"{ORDERS}/{own}{path}")).status == 200
    every = (await here.front.get(ORDERS)).json()["orders"]
    assert {order["orderId"] for order in every} == {own, of_front, of_other}


async def test_an_access_token_creates_no_agents(here: Trade):
    agent = await assistant(here)
    form = {
        "grant_type": "client_credentials",
        "client_id": agent.created["parentKeyId"],
        "client_secret": here.front.key,
    }
    async with here.front.session.post(f"{here.front.base}/v1/oauth/token", data=form) as reply:
        token = (await reply.json())["access_token"]
    refused = await here.front.with_key(token).post(AGENTS, {"name": "x"})
    assert (refused.status, refused.json()["errorCode"]) == (403, "FORBIDDEN")


# --- who sees that an agent placed an order -------------------------------------------------------


@on_both
async def test_the_timeline_names_the_agent_for_the_storefront_and_not_for_the_merchant(here: Trade):
    agent = await assistant(here)
    order_id = (await here.place(here.order(), front=agent.client)).json()["orderId"]
    for client in (agent.client, here.front):
        entry = (await client.get(f"{ORDERS}/{order_id}/timeline")).json()["entries"][0]
        assert (entry["type"], entry["actor"], entry["detail"]["agent"]) == ("placed", "storefront", "Lunch")
    of_merchant = await here.pos.get(f"{MERCHANT}/{order_id}/timeline")
    assert b"Lunch" not in of_merchant.body
    mine = (await here.front.get(f"{ORDERS}/{(await here.placed())['orderId']}/timeline")).json()["entries"][
        0
    ]
    assert "agent" not in mine["detail"]


@own()
async def test_the_audit_trail_names_the_agent(here: Trade):
    agent = await assistant(here)
    await here.place(here.order(), front=agent.client)
    await here.front.call("DELETE", agent.path)
    async with here.mercato.app.db.read() as tx:
        placed = await list_entries(tx, action="placeOrder", limit=1)
        made = await list_entries(tx, action="createAgent", limit=5)
        ended = await list_entries(tx, action="revokeAgent", limit=5)
    assert placed[0].detail["agent"] == "Lunch"
    assert placed[0].actor == f"key:{agent.created['keyId']}"
    told = [(entry.subject_type, entry.subject_id, entry.detail.get("key")) for entry in (*made, *ended)]
    assert told == [("agent", agent.created["agentId"], agent.created["keyId"])] * 2
    assert made[0].detail["name"] == "Lunch"


# --- the end of the storefront --------------------------------------------------------------------


@own()
@on_both
async def test_agents_are_deleted_with_their_storefront_and_their_orders_stay(here: Trade):
    agent = await assistant(here)
    placed = (await here.place(here.order(), front=agent.client)).json()
    await here.update(placed, state="completed")
    assert await spent_today(here, agent) == {"USD": "5.80"}
    app = here.mercato.app
    async with app.db.read() as tx:
        partner_id = await tx.scalar(
            select(agents.c.partner_id).where(agents.c.id == UUID(agent.created["agentId"]))
        )
    await offboarding.delete(app.db, partner_id, now=app.clock)
    async with app.db.read() as tx:
        for table in (agents, agent_spending):
            assert await tx.all(select(table)) == []
    assert (await here.pos.get(f"{MERCHANT}/{placed['orderId']}/timeline")).status == 200
