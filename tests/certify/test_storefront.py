"""A storefront with one bug fails the check of its name, and no other."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import aiohttp
import pytest
from tests.certify.mutants import ids, one_of_each_group
from tests.certify.receiver_mutants import SECRET
from tests.certify.storefront_mutants import MUTANTS, CorrectStorefront, InProcess

from mercato.features.partners.model import PartnerKind
from mercato.local.service import temporary_service
from mercato.local.storefront import service
from mercato.local.storefront.certification import (
    STOREFRONT,
    StorefrontOptions,
    certify_storefront,
)
from mercato.local.storefront.drivers import CommandDriver, ManualDriver, PurchaseEnd
from mercato.local.storefront.proxy import FaultProxy
from mercato.local.storefront.service import Service
from mercato.settings import Settings
from mercato_client.testing import storefront
from mercato_client.testing.caller import Answer
from mercato_contract.certification import CheckOutcome, Verdict
from mercato_contract.discovery import MAX_LIMIT

KEY = "mk_marketfront_of_a_storefront_under_test"

TOGETHER = {
    "storefront.order.patient": ("storefront.order.patient",),
    # All but that of many stores, which a correct storefront passes above.
    "storefront.cart.current-set": tuple(
        check
        for check in MUTANTS
        if check.startswith("storefront.cart.") and check != "storefront.cart.pages"
    ),
    "storefront.retry.": ("storefront.retry.same", "storefront.retry.retry-after"),
}
"""The checks to run beside a mutant's own, where its whole group would take long."""


async def certified(
    kind: type[CorrectStorefront], only: Sequence[str] = (), **options: Any
) -> dict[str, CheckOutcome]:
    given: dict[str, Any] = {"key": KEY, "driver": InProcess(kind), "seconds": 300.0, "slow_seconds": 1.0}
    async with kind(secret=SECRET) as receiver:
        given |= {"event_url": receiver.event_url, "secret": SECRET, "order_url": receiver.order_url}
        reported: list[CheckOutcome] = []
        outcomes = await certify_storefront(
            StorefrontOptions(**(given | options)), STOREFRONT.select(only), reported.append
        )
    assert list(outcomes) == reported
    return {one.id: one for one in outcomes}


async def test_the_service_of_a_certification_is_slow_rather_than_unavailable_while_its_database_is_busy():
    async with temporary_service("certify") as here:
        async with here.app.db.write():
            waiting = asyncio.create_task(here.create_partner("POS", PartnerKind.COMMERCE))
            await asyncio.wait([waiting], timeout=Settings().database_pool_seconds + 1)
            assert not waiting.done()
        assert (await waiting).key


class Follows(CorrectStorefront):
    followed = 1.5


@pytest.mark.parametrize("page", [10, pytest.param(MAX_LIMIT, marks=pytest.mark.long)])
async def test_a_correct_storefront_passes_every_check(page: int, monkeypatch: pytest.MonkeyPatch):
    # To open more stores than fit on the largest page is as much work as everything else.
    assert service.PAUSED_STORES > MAX_LIMIT
    monkeypatch.setattr(service, "PAUSED_STORES", page + 1)
    monkeypatch.setattr(storefront, "PAGE", page)
    outcomes = await certified(Follows)
    assert outcomes["storefront.cart.pages"].seen == "2 pages"
    assert {name: one.seen for name, one in outcomes.items() if one.verdict is not Verdict.PASS} == {
        "storefront.transport.https": outcomes["storefront.transport.https"].seen
    }
    assert len(outcomes) > 60


@pytest.mark.parametrize("check", one_of_each_group(MUTANTS))
async def test_a_storefront_with_one_bug_fails_the_check_of_its_name(check: str):
    group = f"{check.rpartition('.')[0]}."
    beside = TOGETHER.get(check) or TOGETHER.get(group) or (group,)
    # Long enough for a request to arrive that is not waited for.
    slow = 8.0 if check == "storefront.order.patient" else 1.0
    outcomes = await certified(MUTANTS[check], [check, *beside], slow_seconds=slow)
    assert ids(outcomes, Verdict.FAIL) == {check}, {one.id: one.seen for one in outcomes.values()}
    assert outcomes[check].advice


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


@pytest.mark.parametrize(
    "kinds",
    [tuple(NONSENSE), *(pytest.param((kind,), marks=pytest.mark.long) for kind in NONSENSE)],
    ids=", ".join,
)
async def test_nonsense_from_a_storefront_does_not_crash_the_certifier(
    kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    # It turns no page, and to open a hundred stores is half of the work.
    monkeypatch.setattr(service, "PAUSED_STORES", 3)
    nonsense = cycle(NONSENSE[kind] for kind in kinds)

    class Nonsensical(CorrectStorefront):
        async def ask(
            self, operation: str, method: str, path: str, body: Any = None, **headers: str
        ) -> Answer:
            if method != "POST" or operation not in {"validate", "place", "cart"}:
                return await super().ask(operation, method, path, body, **headers)
            assert self._session is not None
            base, key = self._service
            given = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
            async with self._session.post(base + path, data=next(nonsense), headers=given) as reply:
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
    options = StorefrontOptions(key=KEY, driver=InProcess(Nonsensical), seconds=300.0, slow_seconds=0.1)
    outcomes = {one.id: one for one in await certify_storefront(options, alone, lambda _: None)}
    assert "storefront.order.sent" in ids(outcomes, Verdict.PASS)
    assert len(ids(outcomes, Verdict.FAIL)) > 5


async def test_without_a_driver_events_are_checked():
    outcomes = await certified(CorrectStorefront, ["storefront.order.sent", "storefront.events"], driver=None)
    assert outcomes["storefront.order.sent"].verdict is Verdict.SKIPPED
    assert outcomes["storefront.events.late"].verdict is Verdict.PASS


async def test_without_a_receiver_purchases_are_checked():
    outcomes = await certified(
        CorrectStorefront, ["storefront.order.placed", "storefront.events.created"], event_url=None
    )
    assert outcomes["storefront.order.placed"].verdict is Verdict.PASS
    assert outcomes["storefront.events.created"].verdict is Verdict.SKIPPED


async def test_no_report_holds_a_secret():
    lines = repr(
        list((await certified(CorrectStorefront, ["storefront.order", "storefront.signature"])).values())
    )
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), KEY):
        assert hidden not in lines


async def test_a_person_is_asked_to_buy_and_may_stop():
    """The person buys at the address that the driver says, and then stops."""
    lines: list[str] = []
    requested = asyncio.Event()

    def say(line: str) -> None:
        lines.append(line)
        requested.set()

    driver = ManualDriver(0, say, first_seconds=60.0, idle_seconds=2.0)

    async def buys() -> None:
        await requested.wait()
        base = lines[0].removeprefix("The service is at ").partition(",")[0]
        async with CorrectStorefront(api=base, key=KEY) as shop:
            await shop.buy()
        driver.first_seconds = 0.1

    buying = asyncio.create_task(buys())
    only = ["storefront.order.once", "storefront.order.three-decimals", "storefront.refusal.unknown-reason"]
    outcomes = await certified(CorrectStorefront, only, driver=driver, event_url=None)
    await buying
    assert outcomes["storefront.order.once"].verdict is Verdict.PASS
    assert outcomes["storefront.order.three-decimals"].verdict is Verdict.SKIPPED
    assert lines[1].startswith("Place an order now: nothing goes wrong.")
    assert len([line for line in lines if "Place an order" in line]) == 2


async def test_a_command_has_ended_although_a_process_in_the_background_has_not():
    """The command may start the storefront's server in the background, which holds the output open."""
    driver = CommandDriver("sleep 60 & echo bought", seconds=5.0)
    service = Service("http://127.0.0.1:9", KEY, ())
    async with aiohttp.ClientSession() as session:
        proxy = FaultProxy(service, session, key=KEY, faults={})
        ended = await driver.buy(proxy, "", "nothing goes wrong", cancels=False)
    assert ended == PurchaseEnd(crashed=False, message="bought")
