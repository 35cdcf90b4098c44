"""Certification in the console: reports uploaded, shown with each check, and deleted."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select
from tests.api.trade import trade
from tests.console.browser import Browser, Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_partner
from tests.databases import mostly_sqlite, on_both, only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import own, shared

from mercato.features import offboarding
from mercato.features.certification.report import sign
from mercato.features.certification.tables import certification_reports
from mercato.features.partners.vault import Vault
from mercato_contract import clock
from mercato_contract.certification import CheckOutcome, Exchange, Report, Verdict, count

pytestmark = [shared, mostly_sqlite]


def report(**changes: Any) -> Report:
    """Return a report of one check that passed and one that failed, with texts of a hostile implementation."""
    checks = tuple(
        CheckOutcome(
            id=f"place.{verdict}",
            title="Accepts an order",
            proves="Orders are accepted.",
            section="Guide: Take orders",
            verdict=verdict,
            seen=HOSTILE,
            advice=None if verdict is Verdict.PASS else "Answer 200.",
            exchanges=(Exchange(sent="POST /hooks", received="HTTP 500 " + HOSTILE, ms=12),),
        )
        for verdict in (Verdict.PASS, Verdict.FAIL)
    )
    made = Report(
        kind="merchant",
        target="https://pos.example.com",
        version="1.0",
        started_at="2026-01-31T18:30:00.000Z",
        finished_at="2026-01-31T18:30:09.000Z",
        counts=count(checks),
        checks=checks,
    )
    return msgspec.structs.replace(made, **changes)


def signed(mercato: Service, of: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(sign(of, mercato.app.vault)), indent=2).decode()


async def upload(browser: Browser, text: str) -> Page:
    return await browser.press(await browser.open("/console/certification"), "Upload report", report=text)


async def test_a_report_is_uploaded_and_shown_with_each_check(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await upload(browser, signed(mercato, report()))
    assert page.status_region == "The report was uploaded."
    check_frame(page)
    assert [row[1] for row in page.rows("Checks")] == ["passed", "failed"]
    assert "<script>alert(1)" in page.rows("Checks")[1][2]
    check = await browser.open(page.url + "?check=1")
    check_frame(check)
    assert "Answer 200." in check.text
    assert "HTTP 500 <script>" in check.text
    assert (await browser.open(page.url + "?check=2")).status == 404
    listed = await browser.open("/console/certification")
    assert listed.rows("Reports")[0][2:] == [
        "merchant",
        "1 passed, 1 failed, 0 skipped",
        "https://pos.example.com",
        "this service",
    ]
    deleted = await browser.press(await browser.press(page, "Delete report"), "Confirm")
    assert deleted.rows("Reports") == [
        [
            "No reports yet. A report is here once it is uploaded, with each check, what was seen and what to do."
        ]
    ]


async def test_a_report_is_uploaded_as_a_file(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    form = await browser.open("/console/certification")
    page = await browser.press(form, "Upload report", file=signed(mercato, report()))
    assert page.status_region == "The report was uploaded."
    assert [row[1] for row in page.rows("Checks")] == ["passed", "failed"]


async def test_a_form_without_a_report_is_refused_with_what_to_do(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await browser.press(await browser.open("/console/certification"), "Upload report")
    assert (page.status, "Choose its file" in page.text) == (422, True)


async def test_a_report_of_another_installation_says_so(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    other = msgspec.json.encode(sign(report(), Vault((b"k" * 32,)))).decode()
    page = await upload(browser, other)
    assert "anyone may have signed it" in page.text


@only_sqlite
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("Answer 200.", "Answer 201."), "changed after it was signed"),
        (lambda _: "{}", "isn't a report"),
        (lambda _: "<b>", "isn't a report"),
        (lambda _: "[" * 100_000, "isn't a report"),
        (lambda text: text.ljust(400_000), "report"),
    ],
)
async def test_a_file_that_is_not_a_signed_report_is_refused_with_the_reason(
    mercato: Service, change: Any, reason: str
):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await upload(browser, change(signed(mercato, report())))
    assert page.status == 422
    assert reason in page.text


async def test_a_signed_report_whose_counts_or_kind_are_wrong_is_refused(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    wrong = report()
    for changed, reason in (
        (report(counts=count(wrong.checks[:1])), "counts differ"),
        (report(kind="saint"), "neither merchant nor storefront"),
        (report(checks=wrong.checks * 101, counts=count(wrong.checks * 101)), "more than 200 checks"),
    ):
        page = await upload(browser, signed(mercato, changed))
        assert (page.status, reason in page.text) == (422, True)


@on_both
@own()
async def test_the_newest_reports_are_kept_and_deleted_with_their_partner(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("mercato.features.certification.queries.MAX_KEPT", 2)
    made, client = await mercato.partner()
    browser = await enter_as_partner(mercato, client)
    pages = [await upload(browser, signed(mercato, report(target=f"t{n}"))) for n in range(3)]
    listed = await browser.open("/console/certification")
    assert [row[4] for row in listed.rows("Reports")] == ["t2", "t1"]
    assert (await browser.open(pages[0].url)).status == 404
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert (await stranger.open(pages[2].url)).status == 404
    assert (await stranger.post(pages[2].url + "/delete")).status == 404
    await offboarding.delete(mercato.app.db, made.id, now=clock.now)
    async with mercato.app.db.read() as tx:
        assert await tx.scalar(select(func.count()).select_from(certification_reports)) == 0


async def test_a_session_for_one_store_sees_no_reports(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await enter_as_partner(mercato, deal.pos, store_id=deal.store["storeId"])
    page = await browser.open("/console")
    assert "Certification" not in page.navigation
    assert (await browser.open("/console/certification")).status == 404


@pytest.mark.parametrize("target", ["https://a\x00b", "https://a\u202eb", "a\nb"])
async def test_a_report_whose_target_has_characters_that_nobody_sees_is_refused(
    mercato: Service, target: str
):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await upload(browser, signed(mercato, report(target=target)))
    assert (page.status, "characters that nobody sees" in page.text) == (422, True)
