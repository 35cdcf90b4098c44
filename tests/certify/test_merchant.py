"""A merchant with one bug fails the check of its name, and no other."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.certify.menu import menu
from tests.certify.merchant_mutants import MUTANTS, CorrectMerchant
from tests.certify.mutants import ids, one_of_each_group
from tests.certify.receiver_mutants import SECRET

from mercato_client.testing import DECLINED_CARD, Received, Reply
from mercato_client.testing.acts import Act
from mercato_contract.certification import CheckOutcome, Verdict
from mercato_contract.signing import new_secret
from mercato_contract.wire import as_json
from mercato_tools.certify import receiver
from mercato_tools.certify.merchant.certification import MERCHANT, certify_merchant
from mercato_tools.certify.merchant.context import MerchantOptions
from mercato_tools.certify.suite import UnusableTargetError

_LONG_LIMITS = {
    "declined_card": DECLINED_CARD,
    "seconds": 300.0,
    "validate_seconds": 60.0,
    "place_seconds": 60.0,
}


async def certified(
    merchant: CorrectMerchant, only: Sequence[str] = (), **options: Any
) -> dict[str, CheckOutcome]:
    given: dict[str, Any] = {
        "webhook_url": merchant.webhook_url,
        "secret": SECRET,
        "catalog_url": merchant.catalog_url,
    }
    given_options = MerchantOptions(**(given | _LONG_LIMITS | options))
    reported: list[CheckOutcome] = []
    outcomes = await certify_merchant(given_options, MERCHANT.select(only), reported.append)
    assert list(outcomes) == reported
    return {one.id: one for one in outcomes}


async def test_a_correct_merchant_passes_every_check():
    async with CorrectMerchant(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant)
    assert {name: one.seen for name, one in outcomes.items() if one.verdict is not Verdict.PASS} == {
        "merchant.transport.https": outcomes["merchant.transport.https"].seen
    }
    assert len(outcomes) > 60


INTERRUPTED = {"merchant.place.lost-answer", "merchant.place.cut-off"}
"""Bugs of calls that are interrupted, which the merchant must have read for that."""


@pytest.mark.parametrize("check", one_of_each_group(MUTANTS))
async def test_a_merchant_with_one_bug_fails_the_check_of_its_name(
    check: str, monkeypatch: pytest.MonkeyPatch
):
    if check in INTERRUPTED:
        # Of a busy machine the merchant gets no turn within 50 ms.
        monkeypatch.setattr(receiver, "INTERRUPT_SECONDS", 0.5)
    async with MUTANTS[check](secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, [check.rpartition(".")[0] + "."])
    assert ids(outcomes, Verdict.FAIL) == {check}
    assert outcomes[check].advice
    assert outcomes[check].exchanges


REFUSED_REPEATS = {
    "409": Reply(409, {"message": "Order already exists"}),
    "409 with its number": Reply(409, {"partnerOrderId": "A-1", "message": "Order already exists"}),
    "422": Reply(422, {"errors": [{"code": "OTHER"}]}),
    "accepted: false": Reply(200, {"accepted": False}),
}


@pytest.mark.parametrize("refusal", REFUSED_REPEATS)
async def test_a_merchant_that_refuses_what_it_has_accepted_is_warned(refusal: str):
    class Denies(CorrectMerchant):
        def answer_place(self, webhook: Received, act: Act) -> Reply:
            reply = super().answer_place(webhook, act)
            return REFUSED_REPEATS[refusal] if self.times[webhook.webhook_id] > 1 else reply

    group = [check for name, check in MERCHANT.checks.items() if name.startswith("merchant.place.")]
    names = ("repeat-same-answer", "repeat-one-order", "lost-answer")
    alone = [replace(check, needs=()) for check in group if check.id.endswith(names)]
    async with Denies(secret=SECRET, catalog=menu()) as merchant:
        options = MerchantOptions(webhook_url=merchant.webhook_url, secret=SECRET, document=as_json(menu()))
        outcomes = {one.id: one for one in await certify_merchant(options, alone, lambda _: None)}
    assert ids(outcomes, Verdict.FAIL) == {f"merchant.place.{name}" for name in names}
    assert "whose answer was lost" in outcomes["merchant.place.lost-answer"].seen
    assert all("Don't refuse a repeat" in str(one.advice) for one in outcomes.values())


async def test_a_refusal_in_other_words_fails_and_says_what_is_read():
    class OtherWords(CorrectMerchant):
        def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
            reply = super().answer(operation, webhook, act)
            is_no = operation == "place" and reply.status == 409
            return Reply(200, {"success": False, "error": "Sold out"}) if is_no else reply

    async with OtherWords(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, ["merchant.place.unknown-item-refused"])
    seen = outcomes["merchant.place.unknown-item-refused"].seen
    assert seen.startswith("It accepted an order for an item it does not have. This counted as a yes")
    assert "'/success', '/error' look like a refusal" in seen


async def test_refusing_everything_passes_no_check_of_webhooks():
    async with CorrectMerchant(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, secret=new_secret(lambda size: b"w" * size))
    assert ids(outcomes, Verdict.FAIL) == {"merchant.signature.accepted"}
    assert {name.rpartition(".")[0] for name in ids(outcomes, Verdict.PASS)} == {"merchant.catalog"}


async def test_no_report_holds_a_secret():
    token = "tok-of-the-partner"
    async with CorrectMerchant(secret=SECRET, catalog=menu(), token=token) as merchant:
        outcomes = await certified(merchant, token=token)
    reported = repr(list(outcomes.values()))
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), token, DECLINED_CARD):
        assert hidden not in reported


async def test_without_a_catalog_the_orders_are_made_from_an_example():
    async with CorrectMerchant(secret=SECRET) as merchant:
        outcomes = await certified(
            merchant, ["merchant.validate.accepted", "merchant.catalog"], catalog_url=None
        )
    assert outcomes["merchant.validate.accepted"].verdict is Verdict.PASS
    assert outcomes["merchant.catalog.served"].verdict is Verdict.SKIPPED


async def test_http_beyond_this_machine_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mercato_tools.certify.receiver.is_loopback", lambda _host: False)
    async with CorrectMerchant(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, ["transport.https"])
    assert outcomes["merchant.transport.https"].verdict is Verdict.FAIL


async def test_a_merchant_that_never_answers_does_not_delay_the_certifier():
    class Hangs(CorrectMerchant):
        async def take(self, request: Any) -> Any:
            await asyncio.Event().wait()

    async with Hangs(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, ["signature", "events"], seconds=0.5)
    assert outcomes["merchant.signature.accepted"].verdict is Verdict.FAIL
    assert ids(outcomes, Verdict.PASS) == set()


async def nothing_listens(url: str) -> None:
    """Return once its port can be bound. A connection could arrive just when the server ends, and stay open."""
    parts = urlsplit(url)
    while True:
        with socket.socket() as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                own.bind((parts.hostname, parts.port))
            except OSError:
                await asyncio.sleep(0)
            else:
                return


async def test_a_merchant_that_ends_during_the_checks_fails_one_of_them():
    class Ends(CorrectMerchant):
        ended: asyncio.Task[None] | None = None

        async def take(self, request: Any) -> Any:
            if self.ended is None and sum(self.times.values()) > 30:
                self.ended = asyncio.create_task(self.stop())
            if self.ended is not None:
                await nothing_listens(self.webhook_url)
                request.transport.abort()
            return await super().take(request)

    async with Ends(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant)
        assert merchant.ended is not None
        await merchant.ended
    (failed,) = ids(outcomes, Verdict.FAIL)
    assert "nothing listens any more" in outcomes[failed].seen
    assert failed in outcomes[failed].seen
    skipped = [one for one in outcomes.values() if one.verdict is Verdict.SKIPPED and failed in one.seen]
    assert len(skipped) > 10
    assert all("Start it again" in (one.advice or "") for one in skipped)


async def test_an_unreachable_merchant_is_reported_before_any_check():
    async with CorrectMerchant(secret=SECRET, catalog=menu()) as merchant:
        url = merchant.webhook_url
    with pytest.raises(UnusableTargetError, match="Nothing answers"):
        await certify_merchant(MerchantOptions(webhook_url=url, secret=SECRET), (), print)


async def test_a_catalog_without_items_on_sale_is_unusable():
    nothing: dict[str, Any] = {"items": {}, "sections": []}
    async with CorrectMerchant(secret=SECRET, catalog=nothing) as merchant:
        with pytest.raises(UnusableTargetError, match="Nothing of the catalog"):
            await certified(merchant)


NONSENSE = {
    "no JSON": b"<html>Welcome</html>",
    "deep": b"[" * 100_000,
    "a list": b"[1, null]",
    "a string": b'"yes"',
    "other types": b'{"isValid": "yes", "accepted": 1, "amounts": [], "errors": {"code": 5}, "partnerOrderId": {}}',
    "odd amounts": b'{"isValid": true, "accepted": true, "amounts": {"taxes": "NaN", "total": 1e999}}',
    "not UTF-8": b'{"isValid": true, "partnerOrderId": "\xff"}',
    "nothing": b"",
}


@pytest.mark.parametrize("nonsense", NONSENSE)
@pytest.mark.parametrize("status", [200, *(pytest.param(no, marks=pytest.mark.long) for no in (409, 500))])
async def test_nonsense_from_a_merchant_does_not_crash_the_certifier(nonsense: str, status: int):
    class Nonsensical(CorrectMerchant):
        def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
            return Reply(status, NONSENSE[nonsense])

    async with Nonsensical(secret=SECRET, catalog=menu()) as merchant:
        options = MerchantOptions(webhook_url=merchant.webhook_url, secret=SECRET, document=as_json(menu()))
        hooks = [check for check in MERCHANT.checks.values() if check.group != "merchant.catalog"]
        alone = [replace(check, needs=()) for check in hooks]
        outcomes = {one.id: one for one in await certify_merchant(options, alone, lambda _: None)}
    assert len(ids(outcomes, Verdict.FAIL)) > 5
