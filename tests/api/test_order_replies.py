"""What a store may reply to validate and place, and what happens to the order."""

import json
import tracemalloc
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.api.examples import example
from tests.api.trade import MERCHANT, ORDERS, VALIDATE, Trade, trade
from tests.databases import only_sqlite
from tests.servers import Script, drip, drop, endless, hang, head, raw, redirect, reply, serve
from tests.service import MerchantServer, Service
from tests.sharing import Services

from mercato_client.testing.caller import Answer

SECONDS = 1.4
"""The time limit where a store's silence uses it up; all other calls have as long as they need."""


@pytest.fixture
def timeouts() -> dict[str, Any]:
    return {}


@pytest.fixture
async def mercato(services: Services, database_kind: str, timeouts: dict[str, Any]) -> Service:
    return await services.of(database_kind, **timeouts)


@pytest.fixture
async def here(mercato: Service, shop: MerchantServer) -> Trade:
    return await trade(mercato, shop)


async def answering(here: Trade, url: str) -> None:
    path = f"/v1/commerce/stores/{here.store['storeId']}"
    assert (await here.pos.call("PUT", path, {"webhookUrl": url})).status == 200


def replied(value: Any, status: int = 200, **headers: Any) -> Script:
    return reply(status, json.dumps(value).encode(), **headers)


def amounts(**members: Any) -> Script:
    return replied({"amounts": members})


FAULTS: dict[str, Script] = {
    "late": hang(),
    "a byte at a time": drip(b'{"isValid": true}', pause=0.2),
    "breaks off": raw(head(200, content_length=100) + b"{"),
    "dropped": drop(),
    "no HTTP": raw(b"\x00\xff garbage\r\n\r\n"),
    "garbage": reply(200, b"<html>OK</html>"),
    "not UTF-8": reply(200, b'{"isValid": "\xff", "accepted": "\xff"}'),
    "200 and no body": reply(200),
    "204": reply(204),
    "a list": replied([]),
    "null": replied(None),
    "text": replied("yes"),
    "deep": reply(200, b'{"x":' * 50_000),
    "a redirect": redirect("/elsewhere", 307),
    "429": replied({"errors": [{"code": "OTHER"}]}, 429, retry_after=60),
    "500": replied({"isValid": True}, 500),
    "404": reply(404),
    "401": replied({"errors": [{"code": "PAYMENT_DECLINED"}]}, 401),
    "endless": endless(start=head(200, content_length=1 << 30)),
}

LATE = ("late", "a byte at a time")

VALIDATE_FAULTS = FAULTS | {
    "isValid isn't a boolean": replied({"isValid": "true"}),
    "a total that does not add up": amounts(fees="1.00", total="5.80"),
    "a list that does not add up": amounts(
        fees="1.00", feesDescription=[{"amount": "0.99", "description": "x"}]
    ),
    "too many digits": amounts(taxes="0.001"),
    "NaN": reply(200, b'{"amounts": {"taxes": NaN}}'),
    "1e3": reply(200, b'{"amounts": {"taxes": "1e3"}}'),
    "a huge number": reply(200, b'{"amounts": {"taxes": 1e999999999}}'),
    "out of range": amounts(taxes="92233720368547758.07"),
    "a negative amount": amounts(promotions="5.81"),
    "another currency": amounts(currency="EUR"),
    "amounts are a list": replied({"amounts": []}),
}

PLACE_FAULTS = FAULTS | {"accepted isn't a boolean": replied({"accepted": 1})}


# Place calls again until its time is over.
short_place = pytest.mark.parametrize("timeouts", [{"place_seconds": SECONDS}], ids=["short"])


@only_sqlite
@pytest.mark.parametrize(
    ("names", "timeouts"),
    [(VALIDATE_FAULTS.keys() - LATE, {}), (LATE, {"validate_seconds": SECONDS})],
    ids=["in time", "late"],
)
async def test_a_validate_reply_that_cannot_be_used_is_the_stores_fault(
    here: Trade, database_kind: str, names: Collection[str], timeouts: dict[str, Any]
):
    for number, name in enumerate(sorted(names), 1):
        with example(name):
            async with serve(VALIDATE_FAULTS[name]) as store:
                await answering(here, store.url)
                answer = await here.front.post(VALIDATE, here.order())
                problem = unreachable(answer)
                assert "orderId" not in problem
                assert [request.path for request in store.requests] == ["/validate"]
            logged = await calls(here, "order.validate")
            assert len(logged) == number
            assert (logged[0]["status"], logged[0]["attempts"]) == ("failed", 1), logged
            assert logged[0]["error"]


@only_sqlite
@short_place
async def test_a_place_reply_that_cannot_be_used_leaves_the_order_open_and_is_the_stores_fault(
    here: Trade, database_kind: str, timeouts: dict[str, Any]
):
    hooks = here.shop.base + "/hooks"
    for number, (name, script) in enumerate(PLACE_FAULTS.items(), 1):
        with example(name):
            await answering(here, hooks)
            token = await here.token(here.order())
            async with serve(script) as store:
                await answering(here, store.url)
                problem = unreachable(await here.place(here.order(validatedOrderToken=token)))
                assert {request.path for request in store.requests} == {"/place"}
                # None is sent again to this store, nor to the next.
                order = (await here.front.get(f"{ORDERS}/{problem['orderId']}")).json()
            assert (order["state"], order["status"]) == ("open", "pending")
            logged = await calls(here, "order.place")
            assert len(logged) == number
            assert (logged[0]["status"], logged[0]["attempts"]) == ("pending", 1), logged
            assert logged[0]["error"]


async def calls(here: Trade, type_: str) -> Any:
    """Return the logged calls of the type, the newest first."""
    return (await here.pos.get(f"/v1/commerce/webhook-deliveries?type={type_}")).json()["deliveries"]


def unreachable(answer: Answer) -> Any:
    problem = answer.json()
    assert (answer.status, problem["errorCode"]) == (503, "STORE_UNREACHABLE"), problem
    assert (problem["retryable"], problem["errorCategory"]) == (True, "availability")
    assert problem["retryAfter"] == int(answer.headers["Retry-After"]) > 0
    return problem


@only_sqlite
@short_place
async def test_a_reply_of_1_gib_costs_both_operations_hardly_any_memory(
    here: Trade, database_kind: str, timeouts: dict[str, Any]
):
    token = await here.token(here.order())
    async with serve(endless(start=head(200, content_length=1 << 30))) as store:
        await answering(here, store.url)
        tracemalloc.start()
        try:
            unreachable(await here.front.post(VALIDATE, here.order()))
            unreachable(await here.place(here.order(validatedOrderToken=token)))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 16 << 20


@only_sqlite
@short_place
async def test_a_redirect_is_never_followed_even_to_a_store_that_would_accept(
    here: Trade, database_kind: str, timeouts: dict[str, Any]
):
    async with (
        serve(replied({"accepted": True})) as other,
        serve(redirect(other.url + "/place", 308)) as store,
    ):
        await answering(here, store.url)
        unreachable(await here.front.post(VALIDATE, here.order()))
        unreachable(await here.place(here.order()))
        assert other.requests == []


# --- no -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class No:
    """A store's rejection, the resulting codes, and the status of place."""

    script: Script
    codes: list[str]
    status: int = 400
    pointers: list[str | None] = field(default_factory=lambda: [None])


NOES = {
    "errors in a 200": No(
        replied({"errors": [{"code": "ITEM_UNAVAILABLE", "message": "No tea", "pointer": "/cart/lineItems/0"}]}),
        ["ITEM_UNAVAILABLE"], pointers=["/cart/lineItems/0"],
    ),
    "two errors": No(
        replied({"errors": [{"code": "PAYMENT_METHOD_INVALID"}, {"code": "STORE_CLOSED"}]}, 422),
        ["PAYMENT_METHOD_INVALID", "STORE_CLOSED"], pointers=[None, None],
    ),
    "400 without a message": No(reply(400), ["OTHER"]),
    "402 with a problem": No(
        replied({"errorCode": "PAYMENT_DECLINED", "detail": "No funds"}, 402), ["PAYMENT_DECLINED"]
    ),
    "409 with garbage": No(reply(409, b"\xff<html>"), ["OTHER"]),
    "422 with an empty list": No(replied({"errors": []}, 422), ["OTHER"]),
    "an unknown code": No(replied({"errors": [{"code": "OVEN_BROKEN", "message": "Sorry"}]}, 409), ["OVEN_BROKEN"]),
    "an unusable code": No(replied({"errors": [{"code": "no way!"}]}, 409), ["OTHER"]),
    "a code that doesn't apply to orders": No(replied({"errors": [{"code": "UNAUTHENTICATED"}]}, 400), ["OTHER"]),
    "unusable errors": No(replied({"errors": ["sold out", 1, None]}, 400), ["OTHER", "OTHER", "OTHER"],
                               pointers=[None, None, None]),
}  # fmt: skip


@only_sqlite
async def test_a_stores_rejection_is_an_answer_to_validate_and_a_refusal_to_place(
    here: Trade, database_kind: str
):
    for name, no in NOES.items():
        with example(name):
            await answering(here, here.shop.base + "/hooks")
            await validate_and_place_are_refused(here, no)


async def validate_and_place_are_refused(here: Trade, no: No) -> None:
    token = await here.token(here.order())
    async with serve(no.script) as store:
        await answering(here, store.url)
        checked = await here.validate(here.order())
        assert checked["isValid"] is False
        assert checked["validatedOrderToken"] is None
        listed = checked["order"]["errors"]
        assert [(one["code"], one["pointer"]) for one in listed] == list(
            zip(no.codes, no.pointers, strict=True)
        )
        assert all(one["message"] for one in listed)

        without = await here.place(here.order())
        assert (without.status, without.json()["errorCode"]) == (no.status, no.codes[0])
        assert without.json()["errors"] == listed
        assert "orderId" not in without.json()

        answer = await here.place(here.order(validatedOrderToken=token))
        problem = answer.json()
        assert (answer.status, problem["errorCode"]) == (no.status, no.codes[0])
        assert problem["errors"] == listed
        assert "/errors/" in problem["type"]
        page = problem["type"].partition("/errors/")[2]
        assert (await here.front.get(f"/errors/{page}")).status == 200
        assert [r.path for r in store.requests] == ["/validate", "/validate", "/place"]
    order = (await here.pos.get(f"{MERCHANT}/{problem['orderId']}")).json()
    assert (order["state"], order["cancelReason"]) == ("cancelled", no.codes[0])
    assert order["errors"] == listed


@only_sqlite
async def test_an_explicit_verdict_counts(here: Trade, database_kind: str):
    here.shop.answers["validate"] = {"isValid": False}
    checked = await here.validate(here.order())
    assert (checked["isValid"], [e["code"] for e in checked["order"]["errors"]]) == (False, ["OTHER"])
    here.shop.answers["validate"] = {"isValid": True, "errors": []}
    assert (await here.validate(here.order()))["isValid"] is True
    here.shop.answers["place"] = {"accepted": False}
    assert (await here.place(here.order())).json()["errorCode"] == "OTHER"


# --- yes, and what the store adds -----------------------------------------------------------------


YESES: dict[str, tuple[Any, dict[str, str]]] = {
    "nothing": ({}, {"total": "6.80"}),
    "unknown members": ({"isValid": True, "accepted": True, "x": {"y": [1]}}, {"total": "6.80"}),
    "null amounts": ({"amounts": None, "errors": None}, {"total": "6.80"}),
    "fees and taxes": (
        {"amounts": {"fees": "1.00", "taxes": "0.55"}},
        {"fees": "1.00", "taxes": "0.55", "total": "8.35"},
    ),
    "numbers": (
        {"amounts": {"fees": 1.5, "taxes": 0.1, "subTotal": 5.8, "total": 8.4}},
        {"fees": "1.50", "taxes": "0.10", "total": "8.40"},
    ),
    "a total without the tip": ({"amounts": {"fees": "1", "total": "6.80"}}, {"fees": "1.00", "total": "7.80"}),
    "a total with the tip": ({"amounts": {"fees": "1", "total": "7.80"}}, {"fees": "1.00", "total": "7.80"}),
    "negative adjustments": (
        {"amounts": {"adjustments": "-0.80", "promotions": "1.00"}},
        {"adjustments": "-0.80", "promotions": "1.00", "total": "5.00"},
    ),
    "a tip of its own": ({"amounts": {"tip": "9.00"}}, {"tip": "1.00", "total": "6.80"}),
    "all of it for free": ({"amounts": {"promotions": "6.80"}}, {"promotions": "6.80", "total": "0.00"}),
}  # fmt: skip


@only_sqlite
async def test_the_amounts_of_a_validate_reply_are_applied(here: Trade, database_kind: str):
    for name, (answer, expected) in YESES.items():
        with example(name):
            here.shop.answers["validate"] = answer
            await amounts_are_applied(here, expected)


async def amounts_are_applied(here: Trade, expected: dict[str, str]) -> None:
    order = here.order(amounts={"tip": "1.00", "fees": "9.99"})
    checked = await here.validate(order)
    assert checked["isValid"] is True, checked
    got = checked["order"]["amounts"]
    assert {name: got[name] for name in expected} == expected
    for member in ("fees", "taxes", "promotions", "adjustments", "tip"):
        cents = sum(int(one["amount"].replace(".", "")) for one in got[f"{member}Description"])
        assert cents == int(got[member].replace(".", ""))
        assert all(one["description"] for one in got[f"{member}Description"])
    placed = (await here.place(order | {"validatedOrderToken": checked["validatedOrderToken"]})).json()
    assert placed["amounts"] == got


@only_sqlite
async def test_another_sub_total_is_a_changed_price(here: Trade, database_kind: str):
    here.shop.answers["validate"] = {"amounts": {"subTotal": "6.00"}}
    checked = await here.validate(here.order())
    assert [e["code"] for e in checked["order"]["errors"]] == ["ITEM_PRICE_CHANGED"]
    refused = await here.place(here.order())
    assert (refused.status, refused.json()["errorCode"]) == (400, "ITEM_PRICE_CHANGED")
    assert refused.json()["errorCategory"] == "availability"


@only_sqlite
async def test_amounts_of_a_place_reply_are_ignored(here: Trade, database_kind: str):
    odd: tuple[Any, ...] = ({"total": "1.00"}, {"fees": "NaN"}, [], {"subTotal": 1}, "x")
    for amounts in odd:
        here.shop.answers["place"] = {"accepted": True, "partnerOrderId": 4711, "amounts": amounts}
        placed = await here.placed()
        assert (placed["amounts"]["total"], placed["partnerOrderId"]) == ("5.80", "4711"), amounts
