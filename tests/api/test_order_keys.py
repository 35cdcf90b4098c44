"""An Idempotency-Key identifies one request, and gets one answer for 24 hours."""

import asyncio
import json
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from aiohttp import web
from msgspec import UNSET
from msgspec.structs import replace
from sqlalchemy import select, update
from tests.api.examples import in_turn
from tests.api.trade import CUSTOMER, MERCHANT, ORDERS, PLACE, Time, Trade, line, tea, trade
from tests.catalog.documents import CAKE, EXTRAS, MILK, TEA
from tests.databases import mostly_sqlite, on_both, only_postgresql
from tests.orders.samples import placing
from tests.service import MerchantServer, Service, service
from tests.sharing import own, shared
from tests.waiting import PATIENCE

from mercato.features.compression import compress, decompress
from mercato.features.orders import idempotency
from mercato.features.orders.placement import placement_meaning
from mercato.features.orders.tables import idempotency_keys, orders
from mercato.features.partners.model import PartnerKind
from mercato.features.upkeep import Upkeep
from mercato.platform.errors import RequestInProgress
from mercato_client.testing.caller import Answer
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import as_json

pytestmark = [shared, mostly_sqlite]

MILKY = {"modifierGroupId": EXTRAS, "lineItems": [line(MILK)]}
MILKY_NULL = {"modifierGroupId": EXTRAS, "lineItems": [line(MILK, note=None)]}
CARD = {"type": "cardOnFile", "cardToken": "tok_card_4242", "processorType": "stripe"}


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


def same(first: Answer, again: Answer) -> None:
    """Assert that a reply was replayed unchanged, with its header."""
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (again.status, again.body) == (first.status, first.body)
    for name in ("Content-Type", "Location", "Vary"):
        assert again.headers.getall(name, []) == first.headers.getall(name, []), name


def refused(reply: Answer, status: int, code: str) -> Any:
    said = reply.json()
    assert (reply.status, said["errorCode"]) == (status, code), said
    return said


def placed_at(shop: MerchantServer) -> list[str]:
    """Return the webhook-ids of the place calls that the merchant got so far."""
    calls = []
    while not shop.received.empty():
        path, headers, _ = shop.received.get_nowait()
        if path.endswith("/place"):
            calls.append(headers["webhook-id"])
    return calls


# --- the header -----------------------------------------------------------------------------------


async def test_without_a_key_nothing_is_placed(here: Trade):
    for headers in ({}, {"Idempotency-Key": ""}, {"Idempotency-Key": "  "}):
        refused(await here.front.post(PLACE, here.order(), headers=headers), 400, "MISSING_IDEMPOTENCY_KEY")
    assert here.shop.received.empty()
    assert (await here.pos.get(MERCHANT)).json()["orders"] == []


@in_turn("key", ["x" * 256, "caf\u00e9", "a\tb"])
async def test_a_key_has_1_to_255_printable_ascii_characters(here: Trade, key: str):
    said = refused(await here.place(here.order(), key=key), 422, "VALIDATION_FAILED")
    assert said["errors"][0]["pointer"] is None
    assert here.shop.received.empty()


@in_turn("key", ["x" * 255, "a b", "!~{}\"'\\"])
async def test_any_printable_ascii_is_a_key(here: Trade, key: str):
    first = await here.place(here.order(), key=key)
    assert first.status == 201, first.body
    same(first, await here.place(here.order(), key=key))


# --- the same again -------------------------------------------------------------------------------


@on_both
async def test_a_repeat_gets_the_first_reply_byte_for_byte_after_any_change_of_the_order(here: Trade):
    order = here.order(payment=CARD)
    first = await here.place(order, key="k")
    assert first.status == 201, first.body
    assert (await here.update(first.json(), status="ready", state="completed")).status == 200
    same(first, await here.place(order, key="k"))
    assert placed_at(here.shop) == [first.json()["orderId"]]
    assert len((await here.pos.get(MERCHANT)).json()["orders"]) == 1


@on_both
async def test_the_formatting_of_a_request_makes_no_difference(here: Trade):
    order = here.order(payment=CARD | {"more": {"a": 1, "b": [1, 2]}}, amounts={"tip": "1.00"})
    first = await here.place(order, key="k")
    assert first.status == 201, first.body
    turned = dict(reversed(order.items()))
    turned["payment"] = {"more": {"b": [1, 2], "a": 1}} | dict(reversed(CARD.items()))
    turned["cart"] = order["cart"] | {"storeId": order["cart"]["storeId"].upper()}
    turned |= {"validatedOrderToken": None, "ignored": [1]}
    turned["amounts"] = {"total": None, "tip": "1.00"}
    spelt = json.dumps(turned, indent=3, ensure_ascii=True).encode()
    headers = {"Idempotency-Key": "k"}
    same(first, await here.front.post(PLACE, spelt, headers=headers))


@in_turn(
    "change",
    [
        {"cart": "another"},
        {"payment": CARD | {"cardToken": "tok_card_4243"}},
        {"payment": None},
        {"customer": CUSTOMER | {"phone": "+1"}},
        {"amounts": {"tip": "0.01"}},
        {"validatedOrderToken": "vo_x"},
    ],
)
async def test_another_request_with_the_key_is_refused_and_changes_nothing(here: Trade, change: Any):
    order, key = here.order(payment=CARD), str(uuid4())
    first = await here.place(order, key=key)
    other = order | change
    if "cart" in change:
        other["cart"] = order["cart"] | {"lineItems": [tea(1)]}
    refused(await here.place(other, key=key), 422, "IDEMPOTENCY_KEY_REUSED")
    same(first, await here.place(order, key=key))
    assert placed_at(here.shop) == [first.json()["orderId"]]


@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
@in_turn(
    ("one", "other"),
    [
        ({}, {"note": None}),
        ({}, {"note": ""}),
        ({}, {"payment": None}),
        ({}, {"validatedOrderToken": None}),
        ({}, {"amounts": None}),
        ({"customer": None}, {"customer": "absent"}),
        ({"amounts": {"tip": "1.0"}}, {"amounts": {"tip": "1.00", "total": None}}),
        ({"amounts": {"total": "5.80"}}, {"amounts": {"total": "5.8", "tip": "0"}}),
        ({"cart": [tea() | {"note": None}]}, {}),
        ({"cart": [tea() | {"lineItemId": None}]}, {}),
        ({"cart": [line(TEA, 2, MILKY)]}, {"cart": [line(TEA, 2, MILKY_NULL)]}),
    ],
)
async def test_the_same_request_in_other_words_gets_the_first_reply(
    here: Trade, one: Any, other: Any, turned: bool
):
    def order(change: Any) -> Any:
        made = here.order(*change.get("cart", ()))
        made |= {name: value for name, value in change.items() if name != "cart"}
        return {name: value for name, value in made.items() if value != "absent"}

    key = str(uuid4())
    first, again = (order(other), order(one)) if turned else (order(one), order(other))
    placed = await here.place(first, key=key)
    assert placed.status == 201, placed.body
    same(placed, await here.place(again, key=key))
    refused(await here.place(again | {"note": "no sugar"}, key=key), 422, "IDEMPOTENCY_KEY_REUSED")


@own()
@on_both
async def test_a_repeat_is_known_on_either_side_of_an_upgrade(here: Trade):
    """Servers of two releases run side by side: each knows the requests that the other has stored."""
    order = here.order(payment=CARD, note=None, amounts={"tip": "1.0"})
    placed = await here.place(order, key="k")
    plain = replace(placing(json.dumps(order).encode()), payment=UNSET)
    payment = msgspec.json.encode(CARD, order="deterministic")
    secret = here.mercato.app.placements.secrets[0]

    def meant(request: bytes) -> bytes:
        return hmac_sha256(secret, request + placement_meaning(plain, payment))

    async with here.mercato.app.db.read() as tx:
        key = await tx.first(select(idempotency_keys))
    # What the previous release compares.
    assert key is not None
    assert key.meaning == meant(key.request)
    # What it stores, and what an earlier one does.
    sent = hmac_sha256(secret, as_json(plain) + payment)
    for meaning in (meant(sent), None):
        await change_key(here, request=sent, meaning=meaning)
        same(placed, await here.place(order, key="k"))
        refused(await here.place(order | {"note": "x"}, key="k"), 422, "IDEMPOTENCY_KEY_REUSED")


@own()
@on_both
async def test_a_key_that_an_earlier_release_uses_again_forgets_what_it_meant(here: Trade):
    first, second = here.order(note="first"), here.order(note="second")
    placed = await here.place(first, key="k")
    sent = as_json(placing(json.dumps(second).encode())) + b"null"
    # It writes the hash of a request's bytes alone.
    await change_key(here, request=hmac_sha256(here.mercato.app.placements.secrets[0], sent))
    refused(await here.place(first, key="k"), 422, "IDEMPOTENCY_KEY_REUSED")
    same(placed, await here.place(second, key="k"))


async def change_key(here: Trade, **columns: Any) -> None:
    async with here.mercato.app.db.write() as tx:
        await tx.execute(update(idempotency_keys).where(idempotency_keys.c.key == "k").values(columns))


async def test_a_reused_key_names_the_order_that_it_placed(here: Trade):
    """Who builds the request again after a crash reads the order first, and doesn't place a second one."""
    placed = await here.place(here.order(), key="k")
    said = refused(await here.place(here.order(tea(1)), key="k"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert said["orderId"] == placed.json()["orderId"]
    assert f"the order {said['orderId']}. Read that order first" in said["detail"]
    assert (await here.front.get(f"{ORDERS}/{said['orderId']}")).json()["state"] == "open"


async def test_a_reused_key_names_the_order_that_its_store_has_not_answered(
    database_url: str, tmp_path: Path, shop: MerchantServer
):
    async with service(database_url, tmp_path / "data", place_seconds=1.0) as mercato:
        here = await trade(mercato, shop)
        shop.answers["place"] = broken
        waiting = refused(await here.place(here.order(), key="k"), 503, "STORE_UNREACHABLE")
        said = refused(await here.place(here.order(tea(1)), key="k"), 422, "IDEMPOTENCY_KEY_REUSED")
        assert said["orderId"] == waiting["orderId"]


async def test_an_empty_cart_asks_which_order_a_key_placed(here: Trade):
    empty = here.order()
    empty["cart"]["lineItems"] = []
    refused(await here.place(empty, key="k"), 400, "CART_EMPTY")
    placed = await here.place(here.order(), key="k")
    said = refused(await here.place(empty, key="k"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert said["orderId"] == placed.json()["orderId"]


async def test_a_reused_key_without_an_order_says_so(here: Trade):
    here.shop.answers["validate"] = {"isValid": False, "errors": [{"code": "ITEM_UNAVAILABLE"}]}
    refused(await here.place(here.order(), key="k"), 400, "ITEM_UNAVAILABLE")
    said = refused(await here.place(here.order(tea(1)), key="k"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert "orderId" not in said
    assert "nothing was placed" in said["detail"]


async def test_another_storefronts_key_is_another_key(here: Trade):
    other = (await here.mercato.partner(PartnerKind.MARKETFRONT))[1]
    mine = await here.place(here.order(), key="k")
    theirs = await here.place(here.order(tea(1)), key="k", front=other)
    assert (mine.status, theirs.status) == (201, 201)
    assert mine.json()["orderId"] != theirs.json()["orderId"]
    assert "Idempotent-Replayed" not in theirs.headers


async def test_a_stores_rejection_is_pinned(here: Trade):
    here.shop.answers["place"] = {"accepted": False, "errors": [{"code": "PAYMENT_DECLINED"}]}
    declined = await here.place(here.order(), key="no")
    said = refused(declined, 400, "PAYMENT_DECLINED")
    here.shop.answers["place"] = {"accepted": True}
    same(declined, await here.place(here.order(), key="no"))
    refused(await here.place(here.order(tea(1)), key="no"), 422, "IDEMPOTENCY_KEY_REUSED")
    assert (await here.front.get(f"{ORDERS}/{said['orderId']}")).json()["state"] == "cancelled"


async def test_a_rejection_without_a_token_is_pinned(here: Trade):
    here.shop.answers["validate"] = {"isValid": False, "errors": [{"code": "ITEM_UNAVAILABLE"}]}
    no = await here.place(here.order(), key="k")
    refused(no, 400, "ITEM_UNAVAILABLE")
    here.shop.answers["validate"] = {"isValid": True}
    same(no, await here.place(here.order(), key="k"))
    refused(await here.place(here.order(tea(1)), key="k"), 422, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize("accept", ["application/json", "text/markdown"])
@pytest.mark.parametrize(
    "answer", [{"accepted": True}, {"errors": [{"code": "OTHER", "message": "1: \u20ac"}]}]
)
@own()
@on_both
async def test_a_reply_that_the_previous_release_pinned_is_repeated_byte_for_byte(
    here: Trade, answer: Any, accept: str
):
    here.shop.answers["place"] = answer
    headers = {"Idempotency-Key": "k", "Accept": accept}
    first = await here.front.post(PLACE, here.order(), headers=headers)
    # That release pinned what it had sent.
    sent = {"media_type": first.headers["Content-Type"], "body": compress(first.body)}
    async with here.mercato.app.db.write() as tx:
        await tx.execute(update(idempotency_keys).values(**sent))
    same(first, await here.front.post(PLACE, here.order(), headers={"Idempotency-Key": "k"}))


@pytest.mark.parametrize(
    "answer", [{"accepted": True}, {"errors": [{"code": "OTHER", "message": "1: \u20ac"}]}]
)
@own()
@on_both
async def test_the_previous_release_can_repeat_a_reply_as_it_is_stored(here: Trade, answer: Any):
    here.shop.answers["place"] = answer
    first = await here.place(here.order(), key="k")
    async with here.mercato.app.db.read() as tx:
        key = await tx.first(
            select(idempotency_keys, orders.c.content).join(
                orders, orders.c.id == idempotency_keys.c.order_id
            )
        )
    assert key is not None
    stored = (key.status, key.media_type, decompress(key.body, base=key.content))
    assert stored == (first.status, first.headers["Content-Type"], first.body)


async def test_an_unreadable_request_leaves_its_key_free(here: Trade):
    headers = {"Idempotency-Key": "k"}
    refused(await here.front.post(PLACE, b"{", headers=headers), 400, "INVALID_REQUEST")
    assert (await here.place(here.order(), key="k")).status == 201


@on_both
async def test_a_failed_payment_can_be_tried_again_with_the_key(here: Trade):
    here.shop.answers["place"] = no_money
    order = here.order(payment=CARD)
    first = await here.place(order, key="k")
    failed = refused(first, 400, "PAYMENT_FAILED")
    assert (failed["retryable"], failed["errorCategory"]) == (True, "payment")
    here.shop.answers["place"] = {"accepted": True, "partnerOrderId": "B"}
    again = await here.place(order, key="k")
    assert (again.status, again.json()["partnerOrderId"]) == (201, "B")
    assert "Idempotent-Replayed" not in again.headers
    assert again.json()["orderId"] != failed["orderId"]
    same(again, await here.place(order, key="k"))
    states = [order["state"] for order in (await here.pos.get(MERCHANT)).json()["orders"]]
    assert states == ["open", "cancelled"]


async def test_without_the_stores_validation_no_order_is_stored_and_the_key_stays_free(here: Trade):
    here.shop.answers["validate"] = broken
    said = refused(await here.place(here.order(), key="k"), 503, "STORE_UNREACHABLE")
    assert said["retryable"] is True
    assert said["retryAfter"] > 0
    assert "orderId" not in said
    assert (await here.pos.get(MERCHANT)).json()["orders"] == []
    here.shop.answers["validate"] = {"isValid": True}
    assert (await here.place(here.order(tea(1)), key="k")).status == 201


# --- at the same time, and much later -------------------------------------------------------------


async def test_a_repeat_during_the_request_gets_retry_after(here: Trade):
    begun, go = asyncio.Event(), asyncio.Event()

    async def slowly(_request: web.Request, _body: bytes) -> web.Response:
        begun.set()
        await go.wait()
        return web.json_response({"accepted": True})

    here.shop.answers["place"] = slowly
    first = asyncio.create_task(here.place(here.order(), key="k"))
    await asyncio.wait_for(begun.wait(), PATIENCE)
    meanwhile = await here.place(here.order(), key="k")
    said = refused(meanwhile, 409, "REQUEST_IN_PROGRESS")
    assert said["retryable"] is True
    assert int(meanwhile.headers["Retry-After"]) == said["retryAfter"] > 0
    said = refused(await here.place(here.order(tea(9)), key="k"), 422, "IDEMPOTENCY_KEY_REUSED")
    go.set()
    done = await first
    assert (done.status, done.json()["orderId"]) == (201, said["orderId"])
    same(done, await here.place(here.order(), key="k"))


async def test_after_24_hours_a_key_is_free_again(here: Trade, time: Time):
    first = await here.place(here.order(), key="k")
    time.ahead = timedelta(hours=23, minutes=59)
    same(first, await here.place(here.order(), key="k"))
    time.ahead = timedelta(hours=24, minutes=1)
    second = await here.place(here.order(tea(1)), key="k")
    assert second.status == 201, second.body
    assert second.json()["orderId"] != first.json()["orderId"]
    same(second, await here.place(here.order(tea(1)), key="k"))
    assert len((await here.pos.get(MERCHANT)).json()["orders"]) == 2


@own(place_seconds=15.0)
async def test_a_claim_that_was_taken_over_pins_nothing(here: Trade, time: Time):
    """A request sleeps while its claim runs out; another fails with the key for now; a third starts over."""
    here.shop.answers["place"] = gate = Gate({"accepted": False, "errors": [{"code": "ITEM_UNAVAILABLE"}]})
    slow = asyncio.create_task(here.place(here.order(payment=CARD), key="k"))
    await gate.reached(1)
    time.ahead += timedelta(minutes=1)
    joined = asyncio.create_task(here.place(here.order(payment=CARD), key="k"))
    await gate.reached(2)
    gate.let(2, {"accepted": False, "errors": [{"code": "PAYMENT_FAILED"}]})
    refused(await joined, 400, "PAYMENT_FAILED")
    anew = asyncio.create_task(here.place(here.order(tea(1)), key="k"))
    await gate.reached(3)
    gate.let(1)
    refused(await slow, 400, "PAYMENT_FAILED")
    gate.let(3, {"accepted": True, "partnerOrderId": "third"})
    third = await anew
    assert (third.status, third.json()["partnerOrderId"]) == (201, "third"), third.body
    same(third, await here.place(here.order(tea(1)), key="k"))


@on_both
async def test_a_clock_that_is_set_back_does_not_keep_a_key_claimed(here: Trade, time: Time):
    db = here.mercato.app.db
    request = idempotency.KeyedRequest(
        partner_id=UUID(int=1),
        key="k",
        secrets=[b"secret"],
        sent=lambda: b"sent",
        meaning=b"meaning",
        lease=timedelta(seconds=20),
    )

    async def claimed() -> idempotency.Claim | idempotency.Pinned:
        async with db.write() as tx:
            return await idempotency.claim(tx, request, now=time())

    first = await claimed()
    with pytest.raises(RequestInProgress):
        await claimed()
    time.ahead -= timedelta(hours=1)
    second = await claimed()
    assert isinstance(first, idempotency.Claim)
    assert isinstance(second, idempotency.Claim)
    assert second.number == first.number + 1
    with pytest.raises(RequestInProgress):
        async with db.write() as tx:
            idempotency.set_order(tx, first, order_id=UUID(int=2))
    async with db.write() as tx:
        idempotency.set_order(tx, second, order_id=UUID(int=3))


@only_postgresql
@on_both
async def test_each_transaction_of_a_placement_is_one_round_trip(
    here: Trade, monkeypatch: pytest.MonkeyPatch
):
    """Of one that its store validates on the way: its key, the order, and the store's answer with the pinned reply."""
    import asyncpg

    sent: list[str] = []
    is_begun: defaultdict[int, bool] = defaultdict(bool)
    execute = asyncpg.Connection.execute

    async def recorded(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
        session = self.get_server_pid()
        if "idempotency_keys" in query:
            assert not is_begun[session]
            sent.append(query)
        is_begun[session] = query == "BEGIN" or (is_begun[session] and query not in {"COMMIT", "ROLLBACK"})
        return await execute(self, query, *arguments, **options)

    monkeypatch.setattr(asyncpg.Connection, "execute", recorded)
    answer = await here.place(here.order())
    assert answer.status == 201, answer.body
    assert [("INTO orders" in query, "UPDATE orders" in query) for query in sent] == [
        (False, False),
        (True, False),
        (False, True),
    ]


async def test_expired_keys_are_deleted(here: Trade, time: Time):
    await here.place(here.order(), key="old")
    time.ahead = timedelta(hours=24, minutes=1)
    new = await here.place(here.order(), key="new")
    app = here.mercato.app
    await Upkeep(app.db, time, catalog_days=30, delivery_days=30).once()
    async with app.db.read() as tx:
        assert [row.key for row in await tx.all(select(idempotency_keys))] == ["new"]
    same(new, await here.place(here.order(), key="new"))


@own()
async def test_neither_request_nor_payment_is_stored_with_the_key(here: Trade):
    await here.place(here.order(line(CAKE), payment=CARD), key="k")
    async with here.mercato.app.db.read() as tx:
        rows = await tx.all(select(idempotency_keys))
    assert len(rows) == 1
    assert CARD["cardToken"] not in repr(rows)
    assert (len(rows[0].request), len(rows[0].meaning)) == (1, 32)


async def broken(_request: web.Request, _body: bytes) -> web.Response:
    return web.Response(status=500)


async def no_money(_request: web.Request, _body: bytes) -> web.Response:
    return web.json_response({"errorCode": "PAYMENT_FAILED", "detail": "try again"}, status=402)


class Gate:
    """Holds calls of a webhook, from the first, until each is released with its answer."""

    def __init__(self, answer: Any) -> None:
        self._default = answer
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._calls = 0
        self._came = asyncio.Condition()

    async def __call__(self, _request: web.Request, _body: bytes) -> web.Response:
        async with self._came:
            self._calls += 1
            number = self._calls
            self._came.notify_all()
        return web.json_response(await self._answer(number))

    def _answer(self, number: int) -> asyncio.Future[Any]:
        return self._answers.setdefault(number, asyncio.get_running_loop().create_future())

    async def reached(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE), self._came:
            await self._came.wait_for(lambda: self._calls >= number)

    def let(self, number: int, answer: Any = None) -> None:
        self._answer(number).set_result(self._default if answer is None else answer)
