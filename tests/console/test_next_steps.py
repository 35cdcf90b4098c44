"""What a merchant opens next: empty pages say what fills them, and one thing's page links to the others."""

from tests.api.trade import trade
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite
from tests.service import MerchantServer, Service

from mercato.features.partners.model import PartnerKind

pytestmark = mostly_sqlite


async def test_empty_pages_of_a_new_merchant_say_what_to_do(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    for path, words in (
        ("stores", "Systems register one with POST /v1/commerce/onboarding/stores"),
        ("catalogs", "Registering a store starts one"),
        ("requests", "No request was refused."),
        ("requests?errorCode=FORBIDDEN", "No matching requests."),
        ("stores?status=paused", "No matching stores."),
    ):
        assert words in (await browser.open(f"/console/{path}")).text


async def test_every_empty_list_says_what_would_be_there_to_whoever_opens_it(mercato: Service):
    operator = await enter_as_operator(mercato)
    for path, words in (
        ("orders", "from the moment a storefront places them"),
        ("stores", "Merchants register them with the API"),
        ("partners", "Create the first one: New partner"),
        ("catalogs", "A merchant who registers a store"),
        ("webhooks", "Calls to stores and events for partners are here"),
        ("jobs", "One that fails too often is here"),
        ("refused-requests", "What the API refuses is here for 7 days"),
        ("people", "Whoever is invited here signs in with a passkey"),
        ("account", "With one, this device signs in without a link."),
    ):
        assert words in (await operator.open(f"/console/{path}")).text, path
    storefront = await enter_as_partner(mercato, (await mercato.partner(PartnerKind.MARKETFRONT))[1])
    for path, words in (
        ("orders", "Place one in the Playground"),
        ("stores", "Those of all merchants are here once they are activated."),
        ("playground", "Once a merchant has activated one, you fill a cart here"),
        ("webhooks", "set an event URL under Keys"),
        ("webhooks/endpoints", "Your events go nowhere yet."),
    ):
        assert words in (await storefront.open(f"/console/{path}")).text, path
    filtered = await storefront.open("/console/orders?state=open")
    assert filtered.link("Show all") == "/console/orders"
    for link in ("take-orders", "place-an-order", "replace-a-catalog", "test-without-the-other-side"):
        assert (await storefront.open(f"/documentation/{link}")).status == 200


async def test_a_refused_request_a_run_and_a_list_of_orders_lead_to_the_order_and_the_store(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    order, store = (await deal.placed())["orderId"], deal.store["storeId"]
    refused = await deal.pos.post(f"/v1/commerce/orders/{order}/status", {"status": "delivered"})
    assert refused.status == 422
    await mercato.app.request_log.flush()
    browser = await enter_as_partner(mercato, deal.pos)
    listed = await browser.open("/console/refused-requests")
    request = await browser.open(listed.link(listed.rows("Requests")[0][1]))
    assert request.link(order) == f"/console/orders/{order}"
    runs = await browser.open("/console/catalogs")
    run = await browser.open(f"/console/catalogs/{runs.ids('Runs')[0]}")
    assert run.link(store) == f"/console/stores/{store}"
    assert (await browser.open("/console/orders")).link("Test Store") == f"/console/stores/{store}"
    timeline = (await browser.open(f"/console/orders/{order}")).rows("Timeline")
    assert "Accepted by the store" in [row[1] for row in timeline]
