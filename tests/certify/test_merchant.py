"""Each bug of a merchant is found by the check that is named after it, and by no other."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.certify.menu import menu
from tests.certify.merchants import MUTANTS, UNMUTATED, Healthy
from tests.certify.receivers import SECRET

from mercato.certify.merchant.suite import MERCHANT
from mercato.certify.merchant.visit import MerchantOptions, certify_merchant
from mercato.certify.model import Outcome, UnusableTargetError, Verdict
from mercato.outbound.signing import new_secret
from mercato.testing import DECLINED_CARD, Received, Reply
from mercato.testing.acts import Act
from mercato.wire import as_json

_PATIENT = {"declined_card": DECLINED_CARD, "seconds": 300.0, "validate_seconds": 60.0, "place_seconds": 60.0}


async def certified(merchant: Healthy, only: Sequence[str] = (), **options: Any) -> dict[str, Outcome]:
    given: dict[str, Any] = {
        "webhook_url": merchant.webhook_url,
        "secret": SECRET,
        "catalog_url": merchant.catalog_url,
    }
    asked = MerchantOptions(**(given | _PATIENT | options))
    told: list[Outcome] = []
    outcomes = await certify_merchant(asked, MERCHANT.select(only), told.append)
    assert list(outcomes) == told
    return {one.id: one for one in outcomes}


def of(outcomes: dict[str, Outcome], verdict: Verdict) -> set[str]:
    return {name for name, one in outcomes.items() if one.verdict is verdict}


async def test_a_merchant_that_does_everything_right_passes_every_check():
    async with Healthy(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant)
    assert {name: one.seen for name, one in outcomes.items() if one.verdict is not Verdict.PASS} == {
        "merchant.transport.https": outcomes["merchant.transport.https"].seen
    }
    assert len(outcomes) > 60


@pytest.mark.parametrize("check", MUTANTS)
async def test_a_merchant_with_one_bug_fails_the_check_that_is_named_after_it(check: str):
    async with MUTANTS[check](secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, [check.rpartition(".")[0] + "."])
    assert of(outcomes, Verdict.FAIL) == {check}
    assert outcomes[check].advice
    assert outcomes[check].exchanges


def test_every_check_has_its_mutant_or_a_reason_why_not():
    assert MUTANTS.keys() | UNMUTATED.keys() == MERCHANT.checks.keys()
    assert not MUTANTS.keys() & UNMUTATED.keys()


async def test_who_refuses_everything_passes_nothing_by_that():
    async with Healthy(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, secret=new_secret(lambda size: b"w" * size))
    assert of(outcomes, Verdict.FAIL) == {"merchant.signature.accepted"}
    assert {name.rpartition(".")[0] for name in of(outcomes, Verdict.PASS)} == {"merchant.catalog"}


async def test_no_report_holds_a_secret():
    token = "tok-of-the-partner"
    async with Healthy(secret=SECRET, catalog=menu(), token=token) as merchant:
        outcomes = await certified(merchant, token=token)
    told = repr(list(outcomes.values()))
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), token, DECLINED_CARD):
        assert hidden not in told


async def test_without_a_catalog_an_order_of_the_examples_is_asked_for():
    async with Healthy(secret=SECRET) as merchant:
        outcomes = await certified(
            merchant, ["merchant.validate.accepted", "merchant.catalog"], catalog_url=None
        )
    assert outcomes["merchant.validate.accepted"].verdict is Verdict.PASS
    assert outcomes["merchant.catalog.served"].verdict is Verdict.SKIPPED


async def test_http_beyond_this_machine_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mercato.certify.transport.LOOPBACK", ())
    async with Healthy(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, ["transport.https"])
    assert outcomes["merchant.transport.https"].verdict is Verdict.FAIL


async def test_a_merchant_that_never_answers_does_not_hold_the_certifier_up():
    class Hangs(Healthy):
        async def take(self, request: Any) -> Any:
            await asyncio.Event().wait()

    async with Hangs(secret=SECRET, catalog=menu()) as merchant:
        outcomes = await certified(merchant, ["signature", "events"], seconds=0.5)
    assert outcomes["merchant.signature.accepted"].verdict is Verdict.FAIL
    assert of(outcomes, Verdict.PASS) == set()


async def test_nobody_at_home_is_told_before_anything_is_checked():
    async with Healthy(secret=SECRET, catalog=menu()) as merchant:
        url = merchant.webhook_url
    with pytest.raises(UnusableTargetError, match="Nothing answers"):
        await certify_merchant(MerchantOptions(webhook_url=url, secret=SECRET), (), print)


async def test_a_catalog_of_which_nothing_is_for_sale_is_unusable():
    nothing: dict[str, Any] = {"items": {}, "sections": []}
    async with Healthy(secret=SECRET, catalog=nothing) as merchant:
        with pytest.raises(UnusableTargetError, match="Nothing of the catalog"):
            await certified(merchant)


def test_ids_and_titles_fit_on_a_line_of_eighty_columns():
    for check in MERCHANT.checks.values():
        assert len(check.id.rpartition(".")[2]) <= 27, check.id
        assert len(check.title) <= 44, check.title
        assert check.proves
        assert check.advice
        assert check.section


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
@pytest.mark.parametrize("status", [200, 409, 500])
async def test_a_merchant_that_answers_nonsense_breaks_nothing_here(nonsense: str, status: int):
    class Babbles(Healthy):
        def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
            return Reply(status, NONSENSE[nonsense])

    async with Babbles(secret=SECRET, catalog=menu()) as merchant:
        options = MerchantOptions(webhook_url=merchant.webhook_url, secret=SECRET, document=as_json(menu()))
        hooks = [check for check in MERCHANT.checks.values() if check.group != "merchant.catalog"]
        alone = [replace(check, needs=()) for check in hooks]
        outcomes = {one.id: one for one in await certify_merchant(options, alone, lambda _: None)}
    assert len(of(outcomes, Verdict.FAIL)) > 5
