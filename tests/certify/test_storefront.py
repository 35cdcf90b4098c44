"""Each bug of a storefront is found by the check that is named after it, and by no other."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from tests.certify.receivers import SECRET
from tests.certify.storefronts import MUTANTS, UNMUTATED, InProcess, Shop

from mercato.certify.model import Outcome, Verdict
from mercato.certify.storefront.drivers import CommandDriver, Ended, HandDriver
from mercato.certify.storefront.network import Network
from mercato.certify.storefront.service import Service
from mercato.certify.storefront.suite import STOREFRONT
from mercato.certify.storefront.visit import StorefrontOptions, certify_storefront
from mercato.testing.caller import Answer

KEY = "mk_marketfront_of_a_storefront_under_test"

TOGETHER = {
    "storefront.order.patient": ("storefront.order.patient",),
    "storefront.retry.": ("storefront.retry.same", "storefront.retry.retry-after"),
}
"""What is looked at beside a check, where the whole of its group would take long."""


async def certified(kind: type[Shop], only: Sequence[str] = (), **options: Any) -> dict[str, Outcome]:
    given: dict[str, Any] = {"key": KEY, "driver": InProcess(kind), "seconds": 300.0, "slow_seconds": 1.0}
    async with kind(secret=SECRET) as receiver:
        given |= {"event_url": receiver.event_url, "secret": SECRET, "order_url": receiver.order_url}
        told: list[Outcome] = []
        outcomes = await certify_storefront(
            StorefrontOptions(**(given | options)), STOREFRONT.select(only), told.append
        )
    assert list(outcomes) == told
    return {one.id: one for one in outcomes}


def of(outcomes: dict[str, Outcome], verdict: Verdict) -> set[str]:
    return {name for name, one in outcomes.items() if one.verdict is verdict}


class Follows(Shop):
    followed = 1.5


async def test_a_storefront_that_does_everything_right_passes_every_check():
    outcomes = await certified(Follows)
    assert {name: one.seen for name, one in outcomes.items() if one.verdict is not Verdict.PASS} == {
        "storefront.transport.https": outcomes["storefront.transport.https"].seen
    }
    assert len(outcomes) > 60


@pytest.mark.parametrize("check", MUTANTS)
async def test_a_storefront_with_one_bug_fails_the_check_that_is_named_after_it(check: str):
    group = f"{check.rpartition('.')[0]}."
    beside = TOGETHER.get(check) or TOGETHER.get(group) or (group,)
    # Long enough for a request to arrive that is not waited for.
    slow = 8.0 if check == "storefront.order.patient" else 1.0
    outcomes = await certified(MUTANTS[check], [check, *beside], slow_seconds=slow)
    assert of(outcomes, Verdict.FAIL) == {check}, {one.id: one.seen for one in outcomes.values()}
    assert outcomes[check].advice


def test_every_check_has_its_mutant_or_a_reason_why_not():
    assert MUTANTS.keys() | UNMUTATED.keys() == STOREFRONT.checks.keys()
    assert not MUTANTS.keys() & UNMUTATED.keys()


NONSENSE: dict[str, Any] = {
    "no JSON": b"order=1&tip=2",
    "deep": b"[" * 100_000,
    "a list": b"[1, null]",
    "no cart": b"{}",
    "other types": b'{"cart": 5, "fulfillment": [], "amounts": "all", "validatedOrderToken": {}}',
    "odd lines": b'{"cart": {"lineItems": [null, {"itemId": "x"}]}, "amounts": {"total": "NaN", "tip": 1}}',
    "not UTF-8": b'{"cart": "\xff"}',
    "nothing": b"",
}


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_a_storefront_that_sends_nonsense_breaks_nothing_here(nonsense: str):
    class Babbles(Shop):
        async def ask(
            self, operation: str, method: str, path: str, body: Any = None, **headers: str
        ) -> Answer:
            assert self._session is not None
            base, key = self._service
            sent = (
                NONSENSE[nonsense]
                if method == "POST" and operation in {"validate", "place", "cart"}
                else None
            )
            if sent is None:
                return await super().ask(operation, method, path, body, **headers)
            given = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
            async with self._session.post(base + path, data=sent, headers=given) as reply:
                return Answer(reply.status, reply.headers, await reply.read())

        async def buy(self, *_number: int, **_asked: Any) -> Any:
            for operation in ("discover", "cart", "validate", "place", "place"):
                where = {"discover": "stores/discover", "cart": "carts/add"}.get(
                    operation, f"orders/{operation}"
                )
                await self.ask(
                    operation, "POST", f"/v1/marketfront/{where}", {}, **{"Idempotency-Key": "k" * 20}
                )

    alone = [replace(check, needs=()) for check in STOREFRONT.checks.values()]
    options = StorefrontOptions(key=KEY, driver=InProcess(Babbles), seconds=300.0, slow_seconds=0.1)
    outcomes = {one.id: one for one in await certify_storefront(options, alone, lambda _: None)}
    assert "storefront.order.sent" in of(outcomes, Verdict.PASS)
    assert len(of(outcomes, Verdict.FAIL)) > 5


async def test_without_anybody_who_buys_events_are_looked_at_all_the_same():
    outcomes = await certified(Shop, ["storefront.order.sent", "storefront.events"], driver=None)
    assert outcomes["storefront.order.sent"].verdict is Verdict.SKIPPED
    assert outcomes["storefront.events.late"].verdict is Verdict.PASS


async def test_without_a_receiver_purchases_are_looked_at_all_the_same():
    outcomes = await certified(Shop, ["storefront.order.placed", "storefront.events.created"], event_url=None)
    assert outcomes["storefront.order.placed"].verdict is Verdict.PASS
    assert outcomes["storefront.events.created"].verdict is Verdict.SKIPPED


async def test_no_report_holds_a_secret():
    told = repr(list((await certified(Shop, ["storefront.order", "storefront.signature"])).values()))
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), KEY):
        assert hidden not in told


def test_ids_and_titles_fit_on_a_line_of_eighty_columns():
    for check in STOREFRONT.checks.values():
        assert len(check.id.rpartition(".")[2]) <= 27, check.id
        assert len(check.title) <= 44, check.title
        assert check.proves
        assert check.advice
        assert check.section


async def test_a_person_is_asked_to_buy_and_may_stop():
    """Whoever is asked buys at the address that was told; after that nobody comes any more."""
    told: list[str] = []
    asked = asyncio.Event()

    def say(line: str) -> None:
        told.append(line)
        asked.set()

    driver = HandDriver(0, say, patience=60.0, quiet=2.0)

    async def buys() -> None:
        await asked.wait()
        base = told[0].removeprefix("The service is at ").partition(",")[0]
        async with Shop(api=base, key=KEY) as shop:
            await shop.buy()
        driver._patience = 0.1

    buying = asyncio.create_task(buys())
    only = ["storefront.order.once", "storefront.order.three-decimals", "storefront.refusal.unknown-reason"]
    outcomes = await certified(Shop, only, driver=driver, event_url=None)
    await buying
    assert outcomes["storefront.order.once"].verdict is Verdict.PASS
    assert outcomes["storefront.order.three-decimals"].verdict is Verdict.SKIPPED
    assert told[1].startswith("Place an order now: nothing goes wrong.")
    assert len([line for line in told if "Place an order" in line]) == 2


async def test_a_command_has_ended_when_it_has_whatever_it_leaves_running():
    """A storefront's own server may have been started by it, in the background: it holds the output open."""
    driver = CommandDriver("sleep 60 & echo bought", seconds=5.0)
    service = Service("http://127.0.0.1:9", KEY, ())
    async with aiohttp.ClientSession() as session:
        network = Network(service, session, key=KEY, script={}, is_later=False)
        ended = await driver.buy(network, KEY, "", "nothing goes wrong")
    assert ended == Ended(crashed=False, words="bought")
