"""The screen `Audit`: who changed what, by actor, action, partner and time."""

import asyncio
from typing import Any

import pytest
from tests.console.browser import Page
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite
from tests.service import Service

from mercato.platform.db import audit as trail
from mercato.platform.db.audit import audit
from mercato.platform.telemetry.context import WorkContext, set_context
from mercato_contract import clock


async def change(mercato: Service, *, user: str, action: str, partner: Any = None, **detail: Any) -> None:
    set_context(WorkContext(action=action, user=user))
    # Ids of one millisecond have no order.
    await asyncio.sleep(0.002)
    async with mercato.app.db.write() as tx:
        await audit(tx, "store", clock.new_id(), partner_id=partner, detail=detail)


def entries(page: Page) -> list[list[str]]:
    return [row for row in page.rows("Audit entries") if len(row) > 1]


async def test_changes_are_found_by_actor_action_partner_and_time(mercato: Service):
    browser = await enter_as_operator(mercato)
    made, _ = await mercato.partner(name="Joe's")
    await change(mercato, user="bob", action="store pause", partner=made.id, status="paused")
    await change(mercato, user="bob", action="key revoke")
    await change(mercato, user="eve", action="store pause", partner=made.id)

    async def found(query: str) -> list[tuple[str, str]]:
        page = await browser.open(f"/console/audit?{query}")
        check_frame(page)
        return [(row[1], row[2]) for row in entries(page)]

    assert await found("actor=cli:bob") == [("cli:bob", "key revoke"), ("cli:bob", "store pause")]
    assert await found("action=store+pause&actor=") == [
        ("cli:eve", "store pause"),
        ("cli:bob", "store pause"),
    ]
    assert ("cli:bob", "store pause") in await found("partner=Joe%27s")
    assert await found("partner=Joe%27s&actor=cli:bob") == [("cli:bob", "store pause")]
    assert await found("action=store+pause&until=2020-01-01T00:00") == []
    assert await found("action=store+pause&since=2999-01-01T00:00") == []
    page = await browser.open("/console/audit?actor=cli:bob")
    row = entries(page)[1]
    assert row[4:6] == ["Joe's", "status: paused"]
    assert (await browser.open(page.link("cli:bob"))).status == 200
    assert (await browser.open(page.link("Joe's"))).heading == "Joe's"


async def test_a_search_by_actor_examines_a_bounded_number_of_entries_per_page(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    browser = await enter_as_operator(mercato)
    for user in ("bob", "eve", "eve", "eve", "bob"):
        await change(mercato, user=user, action="store pause")
    monkeypatch.setattr(trail, "MAX_SEARCHED_BY_INDEX", 2)
    page = await browser.open("/console/audit?actor=cli:bob&action=store+pause")
    assert len(entries(page)) == 1
    pages = 1
    found = len(entries(page))
    while any(link.text == "Next page" for link in page.root.all("a")):
        page = await browser.open(page.link("Next page"))
        pages, found = pages + 1, found + len(entries(page))
    assert (found, pages) == (2, 3)


async def test_changes_come_in_pages(mercato: Service, monkeypatch: pytest.MonkeyPatch):
    browser = await enter_as_operator(mercato)
    monkeypatch.setattr("mercato.console.screens.operators.administration.PAGE", 2)
    for number in range(3):
        await change(mercato, user="bob", action="store pause", number=number)
    first = await browser.open("/console/audit?action=store+pause")
    second = await browser.open(first.link("Next page"))
    assert [row[5] for row in entries(first) + entries(second)] == ["number: 2", "number: 1", "number: 0"]


async def test_what_others_wrote_is_shown_as_text(mercato: Service):
    browser = await enter_as_operator(mercato)
    await change(mercato, user=HOSTILE, action=HOSTILE, reason=[HOSTILE])
    page = await browser.open("/console/audit")
    check_frame(page)
    assert "<script>alert(1)" in page.text, "as text"
    assert not [one for one in page.root.all("img") if one.attributes["src"] == "x"]


@mostly_sqlite
async def test_a_partner_has_no_audit(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    assert (await browser.open("/console/audit")).status == 404
