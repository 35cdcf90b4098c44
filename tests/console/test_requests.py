"""The screen `Requests`: refused requests, their reasons, and links to what to do."""

from typing import Any

from tests.api.trade import PLACE, Trade, trade
from tests.console.browser import Browser
from tests.console.test_screens import HOSTILE, check_frame
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite
from tests.service import Client, MerchantServer, Service
from tests.sharing import own, shared

from mercato.features.partners.model import PartnerKind
from mercato.features.requests import queries
from mercato.features.requests.queries import Filter, Refusal
from mercato_contract import clock
from mercato_contract.problems import OrderError

pytestmark = shared


async def refuse(mercato: Service, client: Client, path: str = "/v1/commerce/stores/x") -> None:
    assert (await client.get(path)).status == 404
    await mercato.app.request_log.flush()


async def refused_order(deal: Trade) -> Browser:
    """Send an order without lines, and return a browser of the storefront."""
    sent = await deal.front.post(PLACE, {"cart": 1}, headers={"Idempotency-Key": "k", "X-Request-Id": "mine"})
    assert sent.status == 400
    await deal.mercato.app.request_log.flush()
    return await enter_as_partner(deal.mercato, deal.front)


@mostly_sqlite
async def test_a_refused_request_is_shown_with_its_faults_and_what_to_do(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    browser = await refused_order(deal)
    listed = await browser.open("/console/refused-requests")
    (row,) = listed.rows("Requests")
    assert row[:3] == ["400 INVALID_REQUEST", "mine", "placeOrder"]
    page = await browser.open(listed.link("mine"))
    assert (page.status, page.heading) == (200, "Request mine")
    assert "/cart" in [cells[1] for cells in page.rows("Errors")]
    assert "POST /v1/marketfront/orders/place" in page.text
    assert page.link("Why this happens and what to do") == "/errors/INVALID_REQUEST"
    assert (await browser.open("/errors/INVALID_REQUEST")).status == 200


@mostly_sqlite
async def test_a_refused_requests_page_has_the_detail_of_its_answer(mercato: Service):
    _, client = await mercato.partner()
    for path in (
        "/v1/commerce/stores/x",
        "/v1/commerce/nothing/here",
        f"/v1/commerce/stores/{'mk_secret_' * 60}",
    ):
        # Whose request of no operation it is, is known while the key is in memory: it has just been used.
        await client.get("/v1/commerce/stores")
        answer = (await client.get(path)).json()
        await mercato.app.request_log.flush()
        browser = await enter_as_partner(mercato, client)
        listed = await browser.open("/console/refused-requests")
        page = await browser.open(listed.link(listed.rows("Requests")[0][1]))
        assert answer["detail"].partition("mk_")[0] in page.text
        assert "mk_secret_mk_" not in page.text, "what looks like a key is masked"


@mostly_sqlite
@own()
async def test_the_words_of_a_store_are_not_kept_as_the_detail_of_a_refused_request(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    shop.answers["place"] = {
        "accepted": False,
        "errors": [{"code": "STORE_CLOSED", "message": "Not for Ada"}],
    }
    refused = await deal.place(deal.order())
    assert refused.json()["detail"] == "Not for Ada"
    await mercato.app.request_log.flush()
    async with mercato.app.db.read() as tx:
        (kept,) = await queries.list_refused(tx, Filter(), limit=9)
    assert kept.detail is None
    assert "Ada" not in str(kept)


async def test_refused_requests_are_found_by_code_store_and_time(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    browser = await refused_order(deal)
    unknown = str(clock.new_id())
    await refuse(mercato, deal.front, f"/v1/marketfront/stores/{unknown}")

    async def answers(query: str) -> list[str]:
        page = await browser.open(f"/console/refused-requests?{query}")
        check_frame(page)
        return [row[0] for row in page.rows("Requests") if len(row) > 1]

    assert len(await answers("")) == 2
    assert await answers("errorCode=STORE_NOT_FOUND") == ["404 STORE_NOT_FOUND"]
    assert await answers(f"storeId={unknown}&errorCode=&since=") == ["404 STORE_NOT_FOUND"]
    assert await answers("since=2999-01-01T00:00") == []


@mostly_sqlite
async def test_a_partner_sees_its_own_refused_requests_alone(mercato: Service):
    _, owner = await mercato.partner(name="Owner")
    _, stranger = await mercato.partner(PartnerKind.BOTH)
    await refuse(mercato, owner)
    first = await enter_as_partner(mercato, owner)
    path = (await first.open("/console/refused-requests")).link(await only_id(first))
    assert (await first.open(path)).status == 200
    other = await enter_as_partner(mercato, stranger)
    for query in ("", "?side=marketfront", "?partner=Owner"):
        assert len((await other.open(f"/console/refused-requests{query}")).rows("Requests")[0]) == 1, "none"
    assert (await other.open(path)).status == 404


async def only_id(browser: Browser) -> str:
    return (await browser.open("/console/refused-requests")).rows("Requests")[0][1]


@mostly_sqlite
@own()
async def test_the_operator_sees_all_refused_requests_with_their_partners(mercato: Service):
    _, one = await mercato.partner(name="First")
    _, two = await mercato.partner(PartnerKind.MARKETFRONT, name="Second")
    await refuse(mercato, one)
    await refuse(mercato, two, "/v1/marketfront/stores/x")
    assert (await mercato.anonymous().get("/v1/commerce/orders")).status == 401
    await mercato.app.request_log.flush()
    operator = await enter_as_operator(mercato)
    listed = await operator.open("/console/refused-requests")
    rows = {row[4]: row for row in listed.rows("Requests")}  # in any order: one millisecond may have all
    assert rows.keys() == {"no valid key", "Second", "First"}
    assert [
        row[4] for row in (await operator.open("/console/refused-requests?partner=First")).rows("Requests")
    ] == ["First"]
    page = await operator.open(listed.link(rows["First"][1]))
    assert "First" in page.text


@mostly_sqlite
async def test_a_session_for_one_store_sees_the_requests_that_name_it(mercato: Service, shop: MerchantServer):
    deal = await trade(mercato, shop)
    await refuse(mercato, deal.pos)
    order = deal.order()
    order["cart"]["lineItems"][0]["itemId"] = str(clock.new_id())
    assert (await deal.place(order)).status >= 400
    await mercato.app.request_log.flush()
    whole = await enter_as_partner(mercato, deal.pos)
    path = (await whole.open("/console/refused-requests")).link(await only_id(whole))
    one = await enter_as_partner(mercato, deal.pos, store_id=deal.store["storeId"])
    assert len((await one.open("/console/refused-requests")).rows("Requests")[0]) == 1, "none"
    assert (await one.open(path)).status == 404


@own()
async def test_what_clients_send_is_shown_as_text(mercato: Service):
    made, client = await mercato.partner(name="<b>Bold</b>")
    hostile = Refusal(
        id=clock.new_id(), at=clock.now(), request_id=HOSTILE, partner_id=made.id, key_id=None,
        surface="commerce", operation=None, method="GET", path=f"/v1/{HOSTILE}", status=400, error_code="<i>",
        errors=(OrderError(code=HOSTILE, message=HOSTILE * 100, pointer=HOSTILE),), store_id=None, milliseconds=1,
    )  # fmt: skip
    async with mercato.app.db.write() as tx:
        queries.insert(tx, hostile)
    for browser in (await enter_as_partner(mercato, client), await enter_as_operator(mercato)):
        for path in ("/console/refused-requests", f"/console/refused-requests/{hostile.id}"):
            page = await browser.open(path)
            check_frame(page)
            assert page.status == 200
            assert not [one for one in page.root.all("img") if one.attributes["src"] == "x"]
            assert "<script>alert(1)" in page.text, "as text"


async def test_a_partners_requests_of_all_surfaces_come_in_pages(mercato: Service):
    made, _ = await mercato.partner(PartnerKind.BOTH)
    ids = sorted(clock.new_id() for _ in range(6))
    async with mercato.app.db.write() as tx:
        for number, id_ in enumerate(ids):
            queries.insert(tx, refusal(id_, made.id, ("commerce", "marketfront", None)[number % 3]))
    found: list[Any] = []
    async with mercato.app.db.read() as tx:
        while page := await queries.list_refused(
            tx, Filter(partner_id=made.id), before=found[-1] if found else None, limit=4
        ):
            found += [one.id for one in page]
    assert found == ids[::-1]


def refusal(id_: Any, partner_id: Any, surface: str | None) -> Refusal:
    return Refusal(
        id=id_, at=clock.now(), request_id=str(id_), partner_id=partner_id, key_id=None, surface=surface,
        operation="getStore", method="GET", path="/v1", status=404, error_code="STORE_NOT_FOUND", errors=(),
        store_id=None, milliseconds=1,
    )  # fmt: skip


@own()
async def test_unknown_members_are_shown_with_what_is_meant_in_the_log_and_on_the_stores_page(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    path = f"/v1/commerce/stores/{deal.store['storeId']}"
    sent = await deal.pos.call("PUT", path, {"webhookURL": shop.base}, headers={"X-Request-Id": "mine"})
    assert sent.status == 200
    await mercato.app.request_log.flush()
    message = "`webhookURL` is not a member; did you mean `webhookUrl`?"
    browser = await enter_as_partner(mercato, deal.pos)
    listed = await browser.open("/console/refused-requests?errorCode=unknown_member")
    assert [row[0] for row in listed.rows("Requests")] == ["200 UNKNOWN_MEMBER"]
    page = await browser.open(listed.link("mine"))
    assert page.rows("Errors") == [["UNKNOWN_MEMBER", "/webhookURL", message]]
    assert "Accepted, but some members of the body are unknown" in page.text
    assert message in (await browser.open(f"/console/stores/{deal.store['storeId']}")).text
    storefront = await enter_as_partner(mercato, deal.front)
    assert message not in (await storefront.open(f"/console/stores/{deal.store['storeId']}")).text
    operator = await enter_as_operator(mercato)
    rows = (await operator.open("/console/refused-requests")).rows("Requests")
    assert "200 UNKNOWN_MEMBER" in [row[0] for row in rows]
