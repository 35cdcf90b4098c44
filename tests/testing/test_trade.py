"""Both doubles at a real service: a store goes live, customers buy, and each misbehaviour has the end it should."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
import pytest
from tests.databases import only_sqlite
from tests.service import Service, service
from tests.waiting import PATIENCE

from mercato.features.partners.model import PartnerKind
from mercato_client.testing import MerchantDouble, Outcome, StorefrontDouble, order_simulator
from mercato_client.testing.caller import Answer, Caller, NoAnswerError, RefusedError, ServiceError
from mercato_client.testing.opening import Opening
from mercato_client.testing.order_simulator import OrderSimulator
from mercato_client.testing.shops import SHOPS
from mercato_client.testing.subscription import Subscription
from mercato_tools.cli import sandbox_work

pytestmark = only_sqlite

SHOP = SHOPS["grocery"]
"""Its ids aren't UUIDs, so the service replaces them."""

Act = tuple[str, Outcome, tuple[str, ...]]
"""What the storefront does with an order, how that ends, and the codes of a refusal."""


@dataclass
class Market:
    """A service, a merchant that is live there, and a storefront."""

    service: Service
    merchant: MerchantDouble
    caller: Caller
    front: StorefrontDouble
    key: str

    @property
    def simulator(self) -> OrderSimulator:
        return OrderSimulator(self.merchant, self.caller, step_seconds=0)

    def opening(self) -> tuple[Opening, list[str]]:
        messages: list[str] = []
        return Opening(self.merchant, self.caller, messages.append), messages

    def connect(self, front: StorefrontDouble) -> StorefrontDouble:
        front.connect(self.service.base, self.key)
        return front

    async def try_acts(self, acts: Sequence[Act]) -> None:
        """Buy with each act in turn: the merchant takes what isn't refused, once."""
        taken = 0
        for number, (act, outcome, codes) in enumerate(acts, 1):
            self.front.behaviour.on("order", act)
            bought = await self.front.buy(number)
            assert (bought.outcome, bought.codes) == (outcome, codes), act
            taken += outcome != Outcome.REFUSED
            assert len(self.merchant.taken) == taken, act


@pytest.fixture
async def market(database_url: str, tmp_path: Path) -> AsyncIterator[Market]:
    async with (
        service(database_url, tmp_path / "data", place_seconds=2.0) as running,
        MerchantDouble(catalog=SHOP.document) as merchant,
        StorefrontDouble(pace=0.05) as front,
        aiohttp.ClientSession() as session,
    ):
        pos, partner = await running.partner()
        shop, buyer = await running.partner(PartnerKind.MARKETFRONT, event_url=front.event_url)
        merchant.trust(pos.signing_secret)
        front.trust(shop.signing_secret)
        here = Market(
            running, merchant, Caller(running.base, str(partner.key), session), front, str(buyer.key)
        )
        here.connect(front)
        opening, _ = here.opening()
        await opening.open(SHOP)
        yield here


async def test_a_customer_buys_and_follows_the_order_to_its_end(market: Market) -> None:
    working = asyncio.create_task(market.simulator.run(workers=2))
    first = await market.front.buy(1, follow=30)
    second = await market.front.buy(2, follow=30, query="spinach")
    working.cancel()
    assert (first.outcome, second.outcome) == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert market.merchant.taken == [first.order_id, second.order_id]
    assert [one.partner_order_id for one in (first, second)] == ["A-1001", "A-1002"]
    await market.front.journal.until(lambda: len(market.front.events.get(second.order_id, ())) == 5)
    assert market.front.complete(second.order_id)
    requested = [one.status for one in market.front.journal.of("catalog")]
    assert requested == [HTTPStatus.OK, HTTPStatus.NOT_MODIFIED]
    assert market.key not in repr(market.front.seen)


async def test_customers_skip_a_store_that_does_not_answer(market: Market) -> None:
    body = {
        "partnerStoreId": "dead",
        "name": "Dead End",
        "address": {},
        "catalogCallbackUrl": "",
        "webhookUrl": "",
    }
    body |= {"catalogCallbackUrl": market.merchant.catalog_url, "webhookUrl": "http://127.0.0.1:9"}
    answer = await market.caller.post("/v1/commerce/onboarding/stores", body)
    path = f"/v1/commerce/onboarding/stores/{answer.json()['onboardingId']}/activate"
    async with asyncio.timeout(PATIENCE):
        while (made := await market.caller.post(path)).status != HTTPStatus.OK:
            await asyncio.sleep(0.05)
    dead = made.json()["storeId"]
    bought = [await market.front.buy(number) for number in range(1, 9)]
    assert [one.outcome for one in bought] == [Outcome.PLACED] * 8
    assert {one.store for one in bought} == {SHOP.name}
    assert market.front.unreachable == {dead}
    with pytest.raises(RefusedError, match="STORE_UNREACHABLE"):
        await market.front.buy(9, store_id=dead)


async def test_a_merchant_counts_the_orders_that_it_cancels(market: Market) -> None:
    market.merchant.behaviour.on("cook", "cancel:Out of dough")
    bought = await market.front.buy(1)
    await market.simulator.complete(bought.order_id)
    assert ("cancelled", 1) in market.merchant.facts()


async def test_a_merchant_refunds_a_part_of_an_order_that_it_completes(market: Market) -> None:
    market.merchant.behaviour.on("cook", "refund:0.50")
    bought = await market.front.buy(1)
    await market.simulator.complete(bought.order_id)
    order = await market.front.read_order(bought.order_id)
    assert [(one["type"], one["amount"]) for one in order["adjustments"]] == [("refund", "0.50")]
    amounts = order["amounts"]
    assert Decimal(amounts["total"]) - Decimal("0.50") == Decimal(amounts["totalAfterAdjustments"])


async def test_the_same_seed_wants_the_same(market: Market) -> None:
    async with StorefrontDouble(seed=5) as one, StorefrontDouble(seed=5) as other:
        for front in (one, other):
            await market.connect(front).buy(1)
            await front.buy(2)
        carts = [[_bare(seen.json()["item"]) for seen in front.journal.of("cart")] for front in (one, other)]
        assert carts[0] == carts[1]
        assert [one.total for one in one.purchases] == [one.total for one in other.purchases]


def _bare(line: Any) -> Any:
    return line["itemId"], line["quantity"], len(line["modifierGroups"])


ACTS: Final[tuple[Act, ...]] = (
    ("repeat", Outcome.PLACED, ()),
    ("unvalidated", Outcome.PLACED, ()),
    ("drop", Outcome.PLACED, ()),
    ("wrong", Outcome.REFUSED, ("ORDER_TOTAL_DIFFERENT",)),
    ("declined", Outcome.REFUSED, ("PAYMENT_DECLINED",)),
)


async def test_each_act_of_an_order_has_the_end_it_should(market: Market) -> None:
    await market.try_acts(ACTS)


@pytest.mark.parametrize("act", ["late:2", "500 x2", "drop", "drop:5", "bad-json"])
async def test_the_order_is_accepted_once_whatever_fails_at_the_merchant(market: Market, act: str) -> None:
    market.merchant.behaviour.on("place", act)
    bought = await market.front.buy()
    assert bought.outcome == Outcome.PLACED
    assert market.merchant.taken == [bought.order_id]


async def test_a_merchant_that_refuses_a_repeat_learns_that_the_order_is_cancelled(market: Market) -> None:
    market.merchant.behaviour.on("place", "duplicate")
    bought = await market.front.buy()
    assert bought.codes == ("OTHER",)
    await market.merchant.heard("order-cancelled")
    assert list(market.merchant.cancelled) == market.merchant.taken


async def test_a_merchant_that_names_its_order_in_a_refused_repeat_keeps_it(market: Market) -> None:
    market.merchant.behaviour.on("place", "duplicate:number")
    bought = await market.front.buy()
    assert (bought.outcome, market.merchant.taken) == (Outcome.PLACED, [bought.order_id])
    assert market.merchant.cancelled == set()


async def test_the_order_is_cancelled_once_whatever_fails_at_the_merchant(market: Market) -> None:
    cancelled: set[str] = set()
    before = 0
    for number, act in enumerate(("accept", "500", "drop", "drop:5", "bad-json"), 1):
        market.front.behaviour.on("order", "cancel:CHANGED_MIND")
        market.merchant.behaviour.on("cancel", act)
        bought = await market.front.buy(number)
        assert (bought.outcome, bought.codes) == (Outcome.CANCELLED, ()), act
        cancelled.add(bought.order_id)
        assert market.merchant.cancelled == cancelled, act
        asked = market.merchant.journal.of("cancel")[before:]
        before += len(asked)
        assert len(asked) == (1 if act == "accept" else 2), act
        assert len({one.body for one in asked}) == 1, act
        assert len(market.merchant.cancellations) == number, act


async def test_an_order_whose_merchant_refuses_the_cancellation_goes_on(market: Market) -> None:
    market.front.behaviour.on("order", "cancel:CHANGED_MIND")
    market.merchant.behaviour.on("cancel", "decline:IN_THE_OVEN")
    bought = await market.front.buy()
    assert (bought.outcome, bought.codes) == (Outcome.PLACED, ("CANCELLATION_REFUSED",))
    await market.simulator.complete(bought.order_id)
    order = await market.front.follow(bought.order_id, seconds=30)
    assert (order["state"], order["cancellation"]["status"]) == ("completed", "refused")


async def test_a_refusal_reaches_the_customer_and_an_unknown_code_becomes_other(market: Market) -> None:
    market.merchant.behaviour.read(
        ["place decline:STORE_CLOSED", "validate accept", "validate decline:NO_DOUGH"]
    )
    assert (await market.front.buy(1)).codes == ("STORE_CLOSED",)
    assert (await market.front.buy(2)).codes == ("OTHER",)


@pytest.mark.parametrize(("member", "code"), [("subTotal", "ITEM_PRICE_CHANGED")])
async def test_another_price_of_the_merchant_is_a_refusal(market: Market, member: str, code: str) -> None:
    market.merchant.behaviour.on("validate", f"wrong:{member}")
    assert (await market.front.buy()).codes == (code,)


async def test_a_cancelled_order_is_followed_to_that_end(market: Market) -> None:
    market.merchant.behaviour.on("cook", "cancel:Out of dough")
    bought = await market.front.buy()
    await market.simulator.complete(bought.order_id)
    order = await market.front.follow(bought.order_id, seconds=30)
    assert (order["state"], order["cancelReason"]) == ("cancelled", "Out of dough")


async def test_a_merchant_at_a_new_address_resumes_its_store(market: Market) -> None:
    async with MerchantDouble(catalog=SHOP.document) as moved:
        moved.inbox = market.merchant.inbox
        market.merchant.behaviour.on("place", "500 always")
        messages: list[str] = []
        await Opening(moved, market.caller, messages.append).open(SHOP)
        assert messages[0] == "grocery-1 is registered already."
        assert messages[-1] == "Published: succeeded"
        assert (await market.front.buy()).outcome == Outcome.PLACED
        assert len(moved.taken) == 1


async def test_a_refused_catalog_is_reported_with_its_first_faults(market: Market) -> None:
    async with MerchantDouble(catalog={"items": {"a": {"basePrice": "x"}}}) as other:
        with pytest.raises(ServiceError, match="/items/a/basePrice"):
            await Opening(other, market.caller, print).open(SHOPS["ramen"])


async def test_a_wrong_key_and_an_unreachable_service_are_reported_with_advice(market: Market) -> None:
    front = market.front
    front.connect(market.service.base, "mk_marketfront_wrong")
    with pytest.raises(RefusedError, match=r"401 UNAUTHENTICATED.*mercato key create"):
        await front.buy()
    front.connect(market.service.base, str(market.caller.key))
    with pytest.raises(RefusedError, match="a storefront a marketfront key"):
        await front.buy()
    async with MerchantDouble() as closed:
        nowhere = closed.url
    front.connect(nowhere, market.key)
    with pytest.raises(NoAnswerError, match="mercato serve"):
        await front.buy()


class NewKeys(StorefrontDouble):
    def key_of_retry(self, key: str) -> str:
        return str(uuid4())


class Hasty(StorefrontDouble):
    """Sends every order twice, as if its answer had been lost."""

    async def place_once(self, order: Any, key: str) -> Answer:
        await super().place_once(order, key)
        return await super().place_once(order, self.key_of_retry(key))


class HastyWithNewKeys(Hasty, NewKeys):
    pass


async def test_a_storefront_with_one_method_replaced_has_one_bug(market: Market) -> None:
    async with Hasty(behaviour=["order unvalidated"]) as hasty:
        await market.connect(hasty).buy()
        assert len(market.merchant.taken) == 1
    async with HastyWithNewKeys(behaviour=["order unvalidated"]) as wrong:
        await market.connect(wrong).buy()
        assert len(market.merchant.taken) == 3


async def test_a_catalog_is_published_again_when_its_file_changes(
    market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_work, "FILE_POLL_SECONDS", 0.01)
    file = tmp_path / "menu.json"
    file.write_text(json.dumps(SHOP.document))
    messages: asyncio.Queue[str] = asyncio.Queue()
    trading = sandbox_work.trade(
        market.merchant, messages.put_nowait, service=(market.service.base, str(market.caller.key)),
        shop="grocery", store=None, public="", step=0, catalog=str(file),
    )  # fmt: skip
    working = asyncio.create_task(trading)
    await until(messages, "Published: succeeded")
    changed = file.read_text().replace('"1.29"', '"1.39"')
    (tmp_path / "new").write_text(changed)
    (tmp_path / "new").replace(file)
    await until(messages, "Published: succeeded")
    store = (await market.front.discover(query=SHOP.name))[0]
    catalog = await market.front.read_catalog(store["catalogSetId"])
    assert "1.39" in {item["basePrice"] for item in catalog["items"].values()}
    bought = await market.front.buy(follow=30)
    assert bought.outcome == Outcome.COMPLETED
    working.cancel()


async def until(messages: asyncio.Queue[str], words: str) -> None:
    async with asyncio.timeout(60):
        while await messages.get() != words:
            pass


async def test_an_order_is_started_again_after_the_service_was_unavailable(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_simulator, "PAUSE_SECONDS", 0)
    failures = iter(["away"])
    messages: list[str] = []

    class Unlucky(OrderSimulator):
        async def update(self, order_id: str, **change: Any) -> Answer:
            if change == {"status": "ready"} and next(failures, None):
                raise NoAnswerError("Nothing answers.")
            return await super().update(order_id, **change)

    market.merchant.behaviour.read(["cook refund:0.50", "cook cancel:Out of dough"])
    working = asyncio.create_task(
        Unlucky(market.merchant, market.caller, step_seconds=0, say=messages.append).run()
    )
    bought = await market.front.buy(1, follow=30)
    assert bought.outcome == Outcome.COMPLETED, "it keeps its act, and the next order has the next one"
    assert (await market.front.buy(1, follow=30)).outcome == Outcome.CANCELLED
    # Refunded after it was completed, and before the next order was begun.
    assert len((await market.front.read_order(bought.order_id))["adjustments"]) == 1
    working.cancel()
    assert messages == ["Nothing answers."]


async def test_a_catalog_file_that_an_editor_replaces_while_it_is_read_is_read_again(
    market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "menu.json"
    file.write_bytes(b"{}")
    published = asyncio.Event()
    read: list[Path] = []

    def gone_once(path: Path) -> bytes:
        read.append(path)
        if len(read) == 1:
            raise FileNotFoundError(path)
        return path.read_bytes()

    class Published(Opening):
        async def publish(self) -> None:
            published.set()

    monkeypatch.setattr(sandbox_work, "_read", gone_once)
    monkeypatch.setattr(sandbox_work, "FILE_POLL_SECONDS", 0.01)
    opening = Published(market.merchant, market.caller, lambda _: None)
    following = asyncio.create_task(sandbox_work._follow(file, market.merchant, opening, published=None))
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(
            {following, asyncio.ensure_future(published.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
    assert published.is_set()
    following.cancel()


async def test_a_storefront_hears_of_an_order_at_its_own_endpoint_and_in_the_feed(market: Market) -> None:
    """The other system of a storefront: it has the key, and not the account's secret."""
    async with StorefrontDouble() as other, aiohttp.ClientSession() as session:
        subscription = Subscription(other, Caller(market.service.base, market.key, session), "marketfront")
        await subscription.skip()
        async with subscription.endpoint() as endpoint:
            bought = await market.front.buy(1)
            await market.simulator.complete(bought.order_id)
            await other.journal.until(lambda: len(other.events.get(bought.order_id, ())) == 5)
        async with asyncio.timeout(PATIENCE):
            while subscription.read < 5:
                await subscription.drain()
        assert all(one.believed for one in other.journal.of("event"))
        told = [event.webhook_id for _, event in sorted(other.events[bought.order_id].items())]
        assert [one.answer["eventId"] for one in other.journal.of("feed")] == told
        assert subscription.gaps == 0
        listed = await subscription.caller.get("/v1/marketfront/webhook-endpoints")
        assert endpoint not in [one["endpointId"] for one in listed.json()["endpoints"]]


async def test_a_merchant_hears_of_its_catalogs_at_its_own_endpoint(market: Market) -> None:
    subscription = Subscription(market.merchant, market.caller, "commerce")
    opening, _ = market.opening()
    async with subscription.endpoint():
        await opening.open(SHOP)  # which publishes its catalog, because the store is known
        kinds = ["ping", "catalog.sync.succeeded"]
        async with asyncio.timeout(PATIENCE):
            await market.merchant.journal.until(
                lambda: len(market.merchant.journal.of("event")) >= len(kinds)
            )
    heard = market.merchant.journal.of("event")
    assert all(one.believed and one.status == HTTPStatus.NO_CONTENT for one in heard)
    assert {one.json()["type"] for one in heard} == set(kinds)


async def test_the_next_run_takes_over_the_endpoint_that_a_killed_one_has_left(market: Market) -> None:
    subscription = Subscription(market.merchant, market.caller, "commerce")
    body = {"url": market.merchant.endpoint_url, "enabled": True}
    left = (await market.caller.post("/v1/commerce/webhook-endpoints", body)).json()["endpointId"]
    async with subscription.endpoint() as endpoint:
        assert endpoint == left
        (ping,) = await market.merchant.heard("event")
    assert ping.believed
