"""The screen `Erasure`: a preview, a confirmation, and the erasure."""

from tests.api.trade import MERCHANT, trade
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter, enter_as_operator, enter_whole_account
from tests.databases import mostly_sqlite
from tests.service import MerchantServer, Service

from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.platform.db.audit import list_entries
from mercato_contract import clock

ADA = "ada@example.com"


@mostly_sqlite
async def test_a_customer_is_erased_after_a_preview_and_a_confirmation(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    order = (await deal.placed())["orderId"]
    browser = await enter_as_operator(mercato)
    form = await browser.open("/console/erasure")
    check_frame(form)
    found = await browser.press(form, "Find", customer=ADA)
    check_frame(found)
    assert "would be erased from 1 order," in found.text
    assert found.rows("Orders") == [[order]]
    question = await browser.press(found, "Erase")
    check_frame(question)
    assert "Confirm" in question.buttons
    path = f"{MERCHANT}/{order}"
    assert (await deal.pos.get(path)).json()["customer"]["email"] == ADA
    done = await browser.press(question, "Confirm")
    assert done.status_region == "The customer was erased from 1 order."
    assert ADA not in done.url
    assert (await deal.pos.get(path)).json().get("customer") is None
    again = await browser.press(done, "Find", customer=ADA)
    assert "Nothing is stored about ada@example.com" in again.text
    assert "Erase" not in again.buttons
    async with mercato.app.db.read() as tx:
        (entry,) = await list_entries(tx, action="console.eraseCustomer", limit=9)
    assert (entry.actor, entry.subject_id) == ("console:cli:anna", order)
    assert ADA not in str(entry)


@mostly_sqlite
async def test_an_erasure_names_its_customer(mercato: Service):
    browser = await enter_as_operator(mercato)
    for step in ("find", "confirm", "erase"):
        refused = await browser.post(f"/console/erasure/{step}", {"customer": "  "})
        assert (refused.status, refused.text.count("Name the customer")) == (422, 1), "said once"
    hostile = await browser.post("/console/erasure/find", {"customer": HOSTILE})
    check_frame(hostile)
    assert "<script>alert(1)" in hostile.text, "as text"


@mostly_sqlite
async def test_neither_a_partner_nor_a_viewer_can_erase_or_look_for_a_customer(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    await deal.placed()
    browser = await enter_whole_account(mercato, (await mercato.partner(PartnerKind.BOTH))[0].id)
    assert (await browser.open("/console/erasure")).status == 404
    for step in ("find", "confirm", "erase"):
        assert (await browser.post(f"/console/erasure/{step}", {"customer": ADA})).status == 404
    grant = Grant(partner_id=None, created_by="cli:eve", read_only=True)
    async with mercato.app.db.write() as tx:
        link = await sessions.create_link(tx, grant, now=clock.now())
    looking, _ = await enter(mercato, f"{mercato.base}/console/links/{link.token}")
    assert (await looking.open("/console/erasure")).status == 403
    for step in ("find", "confirm", "erase"):
        assert (await looking.post(f"/console/erasure/{step}", {"customer": ADA})).status == 403
