"""The screen `Partners`: created with their credentials shown once, limited, suspended and resumed."""

from pathlib import Path
from typing import Any

import pytest
from tests.api.trade import trade
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter, enter_as_operator, enter_whole_account
from tests.databases import mostly_sqlite, on_both
from tests.service import Client, MerchantServer, Service, service

from mercato.features.partners import accounts
from mercato.features.partners.model import Limits, PartnerKind
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.platform.db.audit import list_entries
from mercato_contract import clock

pytestmark = mostly_sqlite


def shown_once(page: Any) -> dict[str, str]:
    (region,) = page.root.all("section", **{"aria-label": "Shown once"})
    names, values = region.all("dt"), region.all("dd")
    return {name.text: value.text for name, value in zip(names, values, strict=True)}


async def test_a_partner_is_created_and_its_credentials_are_shown_once(mercato: Service):
    browser = await enter_as_operator(mercato)
    form = await browser.open((await browser.open("/console/partners")).link("New partner"))
    check_frame(form)
    made = await browser.press(form, "Create partner", name="Joe's <b>Pizza", kind="both")
    check_frame(made)
    assert made.status_region == "Joe's <b>Pizza was created."
    credentials = shown_once(made)
    assert credentials.keys() == {"Commerce key", "Marketfront key", "Signing secret"}
    client = Client(mercato.base, credentials["Commerce key"], mercato.session)
    assert (await client.get("/v1/commerce/stores")).status == 200
    page = await browser.open(made.link("Joe's <b>Pizza"))
    assert page.heading == "Joe's <b>Pizza"
    assert {row[1] for row in page.rows("Keys")} == {"commerce", "marketfront"}
    for text in credentials.values():
        assert text not in page.body.decode()
    assert "Joe's <b>Pizza" in [row[0] for row in (await browser.open("/console/partners")).rows("Partners")]
    async with mercato.app.db.read() as tx:
        entry = (await list_entries(tx, action="console.createPartner", limit=1))[0]
    assert entry.actor == "console:cli:anna"
    again = await browser.press(form, "Create partner", name="Joe's <b>Pizza", kind="both")
    assert (again.status, "already" in again.text) == (409, True)
    wrong = await browser.press(form, "Create partner", name="x", kind="commerce", eventUrl="https://e.com")
    assert "Only marketfront partners get order events" in wrong.text


async def test_an_event_url_that_could_never_be_called_is_refused(database_url: str, tmp_path: Path):
    async with service(database_url, tmp_path, allow_private_networks=False) as mercato:
        browser = await enter_as_operator(mercato)
        form = await browser.open("/console/partners/new")
        refused = await browser.press(form, "Create partner", name="x", kind="both", eventUrl="http://e.com")
        assert "The event URL must begin with https://." in refused.text
        assert "No partners yet" in (await browser.open("/console/partners")).text


async def test_a_suspension_asks_first_and_is_undone(mercato: Service):
    made, client = await mercato.partner()
    browser = await enter_as_operator(mercato)
    page = await browser.open(f"/console/partners/{made.id}")
    question = await browser.press(page, "Suspend")
    assert "Confirm" in question.buttons
    assert "the deliveries to it go on" in question.text
    assert (await client.get("/v1/commerce/stores")).status == 200
    done = await browser.press(question, "Confirm")
    assert "is suspended." in done.status_region
    assert (await client.get("/v1/commerce/stores")).status in {401, 403}
    assert "suspended" in done.text
    resumed = await browser.press(done, "Resume")
    assert "is resumed" in resumed.status_region
    assert (await client.get("/v1/commerce/stores")).status == 200
    async with mercato.app.db.read() as tx:
        found = await list_entries(tx, partner_id=made.id, limit=9)
    assert {"console.suspendPartner", "console.resumePartner"} <= {one.action for one in found}


@on_both
async def test_a_partner_is_renamed_unless_another_has_the_name(mercato: Service):
    made, _ = await mercato.partner(name="Old")
    await mercato.partner(name="Taken")
    browser = await enter_as_operator(mercato)
    page = await browser.open(f"/console/partners/{made.id}")
    refused = await browser.press(page, "Rename", name="Taken")
    assert (refused.status, "Choose another name" in refused.text) == (409, True)
    assert "mercato " not in refused.text
    done = await browser.press(page, "Rename", name="New")
    assert (done.status_region, done.heading) == ("Old is now called New.", "New")


async def test_an_operator_revokes_a_partners_key_after_being_asked(mercato: Service):
    made, client = await mercato.partner()
    other, _ = await mercato.partner(name="Other")
    browser = await enter_as_operator(mercato)
    question = await browser.press(await browser.open(f"/console/partners/{made.id}"), "Revoke key")
    assert (await client.get("/v1/commerce/stores")).status == 200
    done = await browser.press(question, "Confirm")
    assert "is revoked" in done.status_region
    assert (await client.get("/v1/commerce/stores")).status == 401
    assert "Revoke key" not in done.buttons
    assert made.commerce_key is not None
    path = f"/console/partners/{other.id}/keys/{made.commerce_key.id}/revoke"
    assert (await browser.open(path)).status == (await browser.post(path)).status == 404


@on_both
async def test_a_partner_is_deleted_after_being_asked_unless_an_order_is_open(
    mercato: Service, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch
):
    deal = await trade(mercato, shop)
    order = await deal.placed()
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console/partners")
    page = await browser.open(
        page.link(next(row[0] for row in page.rows("Partners") if row[1] == "commerce"))
    )
    question = await browser.press(page, "Delete")
    assert "1 store" in question.text
    refused = await browser.press(question, "Confirm")
    assert (refused.status, "has open orders: 1" in refused.text) == (409, True)
    assert "page Orders" in refused.text
    await deal.update(order, state="completed")
    monkeypatch.setattr("mercato.console.screens.operators.partners.MAX_DELETED", 0)
    assert "mercato partner delete" in (await browser.press(question, "Confirm")).text
    monkeypatch.undo()
    done = await browser.press(question, "Confirm")
    assert done.status_region == f"{page.heading} is deleted."
    assert page.heading not in [row[0] for row in done.rows("Partners")]
    assert (await deal.pos.get("/v1/commerce/stores")).status == 401
    async with mercato.app.db.read() as tx:
        assert "console.deletePartner" in {one.action for one in await list_entries(tx, limit=20)}


async def test_a_partners_limits_are_set_and_removed(mercato: Service):
    made, _ = await mercato.partner()
    browser = await enter_as_operator(mercato)
    page = await browser.open(f"/console/partners/{made.id}")
    done = await browser.press(page, "Set limits", reads="120", writes="", discovery="7")
    assert "limits were set" in done.status_region
    async with mercato.app.db.read() as tx:
        assert (await accounts.get_partner(tx, made.id)).limits == Limits(reads=120, discovery=7)
    cleared = await browser.press(done, "Set limits", reads="", writes="", discovery="")
    async with mercato.app.db.read() as tx:
        assert (await accounts.get_partner(tx, made.id)).limits == Limits()
    assert (await browser.press(cleared, "Set limits", reads="0")).status in {400, 422}


async def test_a_partners_page_leads_to_what_it_has(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop, event_url=shop.base + "/events?token=hush")
    order = await deal.placed()
    browser = await enter_as_operator(mercato)
    for row in (await browser.open("/console/partners")).rows("Partners"):
        page = await browser.open((await browser.open("/console/partners")).link(row[0]))
        check_frame(page)
        assert order["orderId"] in page.ids("Orders")
        assert "hush" not in page.body.decode()
        for name in ("All orders", "Webhooks", "Refused requests"):
            assert (await browser.open(page.link(name))).status == 200
    assert "Test Store" in str((await browser.open("/console/stores")).rows("Stores"))


async def test_what_a_partner_is_called_is_shown_as_text(mercato: Service):
    made, _ = await mercato.partner(name=HOSTILE.rstrip("\N{RIGHT-TO-LEFT OVERRIDE}"))
    browser = await enter_as_operator(mercato)
    for path in ("partners", f"partners/{made.id}", f"partners/{made.id}/suspend"):
        page = await browser.open(f"/console/{path}")
        check_frame(page)
        assert "<script>alert(1)" in page.text, "as text"
        assert not [one for one in page.root.all("img") if one.attributes["src"] == "x"]


@on_both
async def test_partners_come_in_pages(mercato: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mercato.console.screens.operators.partners.PAGE", 2)
    made = [(await mercato.partner(name=f"P{number}"))[0] for number in range(3)]
    # Of two that are made within a millisecond, either may be the later.
    names = [f"P{made.index(one)}" for one in sorted(made, key=lambda one: one.id, reverse=True)]
    browser = await enter_as_operator(mercato)
    first = await browser.open("/console/partners")
    second = await browser.open(first.link("Next page"))
    assert [row[0] for row in [*first.rows("Partners"), *second.rows("Partners")]] == names


async def test_a_partner_sees_no_partners(mercato: Service):
    made, _ = await mercato.partner(PartnerKind.BOTH)
    browser = await enter_whole_account(mercato, made.id)
    for path in ("partners", "partners/new", f"partners/{made.id}", f"partners/{made.id}/suspend"):
        assert (await browser.open(f"/console/{path}")).status == 404
    for path in ("new", f"{made.id}/suspend", f"{made.id}/resume", f"{made.id}/limits"):
        assert (await browser.post(f"/console/partners/{path}", {"name": "x", "kind": "both"})).status == 404


async def test_a_read_only_operator_cannot_change_a_partner(mercato: Service):
    made, _ = await mercato.partner()
    grant = Grant(partner_id=None, created_by="cli:eve", read_only=True)
    async with mercato.app.db.write() as tx:
        link = await sessions.create_link(tx, grant, now=clock.now())
    browser, _ = await enter(mercato, f"{mercato.base}/console/links/{link.token}")
    page = await browser.open(f"/console/partners/{made.id}")
    assert page.buttons == ["Sign out"]
    assert (await browser.post(f"/console/partners/{made.id}/suspend")).status == 403
    assert (await browser.open("/console/partners/" + str(clock.new_id()))).status == 404
