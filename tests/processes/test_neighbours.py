"""How partners with a thousand hanging stores affect another partner.

`.venv/bin/python -m pytest -n 0 -s tests/processes/test_neighbours.py` prints the table. All settings are the
defaults: a hanging call holds its slot for 15 s, a hanging catalog for 30.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from aiohttp import web
from msgspec.structs import replace
from sqlalchemy import insert, select
from tests.api.trade import Trade, trade
from tests.catalog.documents import cafe
from tests.service import Client, MerchantServer, Service, merchant, service

from mercato.features.orders import queries
from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.orders.resubmission import schedule
from mercato.features.partners.model import Surface
from mercato.features.stores.tables import stores
from mercato.features.webhooks import outbox
from mercato.platform.db.engine import Write
from mercato_contract.clock import new_id
from mercato_contract.events import EventType
from mercato_contract.orders import OrderState, OrderStatus

STORES = 1_000
SAMPLES = 40
PAUSE = 0.5  # between two samples: they cover more than the 15 s for which a hanging call holds its slot
PATIENCE = 180.0
HELD = 15.0
"""Seconds for which a hanging call holds its place, in the default settings."""

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Hanging:
    """A partner's server that accepts every connection and never answers."""

    base: str
    calls: Counter[str] = field(default_factory=Counter)
    """By the end of their path."""

    async def until(self, **least: int) -> None:
        """Wait until so many calls to these paths have arrived."""
        async with asyncio.timeout(PATIENCE):
            while any(self.calls[path] < count for path, count in least.items()):
                await asyncio.sleep(0.1)


@asynccontextmanager
async def hanging() -> AsyncIterator[Hanging]:
    here = Hanging("")

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if line:
            here.calls[line.split()[1].decode().rpartition("/")[2]] += 1
        while await reader.read(65_536):
            pass  # until the caller gives up
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()
    here.base = f"http://{host}:{port}"
    try:
        yield here
    finally:
        server.close()


class Arrivals:
    """When the neighbour's webhooks arrived, by their webhook-id."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, asyncio.Future[float]] = {}

    def answer(self, reply: object) -> Callable[[web.Request, bytes], Awaitable[web.Response]]:
        async def arrived(request: web.Request, _body: bytes) -> web.Response:
            waiting = self._waiting.pop(UUID(request.headers["webhook-id"]), None)
            if waiting is not None:
                waiting.set_result(time.monotonic())
            return web.json_response(reply)

        return arrived

    def expect(self, webhook_id: UUID) -> asyncio.Future[float]:
        return self._waiting.setdefault(webhook_id, asyncio.get_running_loop().create_future())


async def insert_waiting(
    here: Trade, tx: Write, model: OrderRow, *, partner_id: UUID, store_id: UUID, url: str, order_id: UUID
) -> None:
    """Store an order that its store hasn't answered, with its resend due now."""
    now = here.mercato.app.clock()
    order = replace(
        model,
        id=order_id,
        partner_id=partner_id,
        store_id=store_id,
        answer=StoreAnswer.WAITING,
        state=OrderState.OPEN,
        status=OrderStatus.PENDING,
        partner_order_id=None,
        traceparent=TRACE,
        created_at=now,
        updated_at=now,
    )
    version = await tx.scalar(select(stores.c.version).where(stores.c.id == store_id))
    queries.insert_order(tx, order, store_version=version)
    await here.mercato.app.placements.submitter.store(
        tx, order, base_url=url, payment=None, give_up_at=now + timedelta(minutes=10)
    )
    await schedule(tx, order_id, store_id=store_id, partner_id=partner_id)


async def insert_store(tx: Write, model: UUID, *, partner_id: UUID, url: str) -> UUID:
    """Copy a live store for the partner; return its id."""
    row = await tx.first(select(stores).where(stores.c.id == model))
    assert row is not None
    store_id = new_id()
    copied = {column.name: getattr(row, column.name) for column in stores.c}
    changes = {"id": store_id, "partner_id": partner_id, "webhook_url": url}
    changes |= {"partner_store_id": store_id.hex, "onboarding_id": new_id()}
    await tx.execute(insert(stores).values(copied | changes))
    return store_id


async def push(here: Trade, tx: Write, *, partner_id: UUID, url: str, webhook_id: UUID) -> None:
    event = outbox.NewEvent(
        delivery_id=new_id(),
        webhook_id=webhook_id,
        type=EventType.CATALOG_SYNC_SUCCEEDED,
        data={"status": "succeeded", "errors": []},
        traceparent=TRACE,
        store_id=new_id(),
    )
    recipient = outbox.Recipient(partner_id, Surface.COMMERCE, url)
    await outbox.push(tx, event, to=recipient, now=here.mercato.app.clock())


async def hang_all(here: Trade, model: OrderRow, partners: int, stuck: Hanging) -> None:
    """Give every store of the partners an order, a webhook and a catalog that hang; return once they hang."""
    for _ in range(partners):
        made, client = await here.mercato.partner()
        urls = [f"{stuck.base}/{made.id}/{number}" for number in range(STORES // partners)]
        for some in batched(urls, 50):
            async with here.mercato.app.db.write() as tx:
                for url in some:
                    store_id = await insert_store(tx, model.store_id, partner_id=made.id, url=url)
                    await insert_waiting(
                        here, tx, model, partner_id=made.id, store_id=store_id, url=url, order_id=new_id()
                    )
                    await push(here, tx, partner_id=made.id, url=url, webhook_id=new_id())
            await asyncio.gather(*(register(client, url) for url in some))
    # More than there are slots: the first have timed out, and later resends hang beside first ones.
    await stuck.until(place=100, catalog=2 * partners, **{"catalog-sync": 16})


def batched(urls: list[str], size: int) -> list[list[str]]:
    return [urls[start : start + size] for start in range(0, len(urls), size)]


async def register(client: Client, url: str) -> None:
    body = {"partnerStoreId": url, "name": "Hangs", "address": {}, "catalogCallbackUrl": url + "/catalog"}
    reply = await client.post("/v1/commerce/onboarding/stores", body)
    assert reply.status == 201, reply.body


@dataclass
class Neighbour:
    """A healthy partner, and how long its work takes."""

    here: Trade
    model: OrderRow
    arrivals: Arrivals
    document: str
    registered: int = 0

    async def resend(self) -> float:
        """Return the seconds from an order's due resend to its store's call."""
        order_id = new_id()
        came = self.arrivals.expect(order_id)
        async with self.here.mercato.app.db.write() as tx:
            await insert_waiting(
                self.here,
                tx,
                self.model,
                partner_id=self.model.partner_id,
                store_id=self.model.store_id,
                url=self.here.shop.base + "/hooks",
                order_id=order_id,
            )
        return await self._seconds(came)

    async def event(self) -> float:
        """Return the seconds from an event's commit to its arrival."""
        webhook_id = new_id()
        came = self.arrivals.expect(webhook_id)
        async with self.here.mercato.app.db.write() as tx:
            url = self.here.shop.base + "/hooks"
            await push(self.here, tx, partner_id=self.model.partner_id, url=url, webhook_id=webhook_id)
        return await self._seconds(came)

    async def onboarding(self) -> float:
        """Return the seconds from a registration to a catalog that is ready to be activated."""
        self.registered += 1
        begun = time.monotonic()
        status = await self.here.mercato.onboard(
            self.here.pos, self.document, name=f"another-{self.registered}"
        )
        assert status["status"] == "ready_to_activate", status
        return time.monotonic() - begun

    async def measure(self) -> dict[str, list[float]]:
        """Return the sorted seconds of each kind of work, all kinds at the same time."""
        kinds = [self.resend, self.onboarding, self.event]
        return dict(
            zip(
                ("resend", "onboarding", "event"),
                await asyncio.gather(*(sampled(kind) for kind in kinds)),
                strict=True,
            )
        )

    @staticmethod
    async def _seconds(came: asyncio.Future[float]) -> float:
        begun = time.monotonic()
        async with asyncio.timeout(PATIENCE):
            return await came - begun


async def sampled(kind: Callable[[], Awaitable[float]]) -> list[float]:
    seconds = []
    for _ in range(SAMPLES):
        seconds.append(await kind())
        await asyncio.sleep(PAUSE)
    return sorted(seconds)


async def neighbour(mercato: Service, shop: MerchantServer) -> Neighbour:
    here = await trade(mercato, shop)
    placed = await here.placed()
    async with mercato.app.db.read() as tx:
        model = await queries.get_order(tx, UUID(placed["orderId"]))
    assert model is not None
    arrivals = Arrivals()
    shop.answers["place"] = arrivals.answer({"accepted": True})
    shop.answers["catalog-sync"] = arrivals.answer(None)
    model = replace(model, token_id=None)
    return Neighbour(here, model, arrivals, shop.host(cafe(), "/another.json"))


@pytest.mark.long
@pytest.mark.parametrize("partners", [1, 4])
async def test_a_partner_with_a_thousand_hanging_stores_delays_no_other_partner(
    database_url: str, database_kind: str, tmp_path: Path, partners: int
):
    async with (
        merchant() as shop,
        hanging() as stuck,
        service(database_url, tmp_path / "data", log_level="error") as mercato,
    ):
        healthy = await neighbour(mercato, shop)
        quiet = await healthy.measure()
        await hang_all(healthy.here, healthy.model, partners, stuck)
        loaded = await healthy.measure()
    for kind, before in quiet.items():
        after = loaded[kind]
        cells = [
            f"{one * 1000:,.0f} ms"
            for one in (before[SAMPLES // 2], before[-1], after[SAMPLES // 2], after[-1])
        ]
        sys.stderr.write(f"| {database_kind} | {partners} | {kind} | {' | '.join(cells)} |\n")
    # A busy machine delays single samples by seconds; work that waits for the place of a hanging call waits longer.
    half = SAMPLES // 2
    assert {kind: seconds for kind, seconds in loaded.items() if seconds[half] > 2 * quiet[kind][-1]} == {}
    assert {kind: seconds for kind, seconds in loaded.items() if seconds[-1] > HELD * 2 / 3} == {}
