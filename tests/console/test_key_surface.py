"""A session that a key began shows and does what that key may: its surface of a partner of both kinds, and no more."""

from collections.abc import Mapping
from typing import Any

from tests.api.trade import Trade, trade
from tests.catalog.documents import cafe
from tests.console.browser import Browser
from tests.console.test_hostile import PLACES, all_ids, visit
from tests.console.visiting import enter_as_partner, enter_whole_account
from tests.databases import mostly_sqlite
from tests.service import Client, MerchantServer, Service
from tests.sharing import shared

from mercato.console.site import SCREENS
from mercato.features.partners.model import PartnerKind

pytestmark = shared

BOTH = PartnerKind.BOTH


async def both_sides(mercato: Service, shop: MerchantServer) -> tuple[Trade, Trade]:
    """Return two trades of one partner of both kinds: one as the merchant, one as the storefront."""
    made, pos = await mercato.partner(BOTH, event_url=shop.base + "/events", webhook_token="token")
    assert made.marketfront_key is not None
    as_storefront = await trade(mercato, shop)
    other_front = as_storefront.front
    as_storefront.front = Client(mercato.base, made.marketfront_key.text, mercato.session)
    store = await mercato.live(pos, shop.host(cafe(), "/own.json"), webhook=shop.base + "/hooks", name="own")
    as_merchant = Trade(mercato, shop, pos, other_front, store)
    await as_storefront.placed()
    await as_merchant.placed()
    for client, side in ((pos, "commerce"), (as_storefront.front, "marketfront")):
        path = f"/v1/{side}/webhook-deliveries"
        await mercato.until(client, path, lambda page: page["deliveries"])
    return as_merchant, as_storefront


def body_ids(ids: Mapping[str, str]) -> set[bytes]:
    return {one.encode() for one in ids.values()}


async def assert_lists_none_of(
    browser: Browser, ids: Mapping[str, str], *, other_side: str, public: frozenset[str]
) -> None:
    """Check that no list shows one of the ids, as it is opened, and with the other side as a filter."""
    hidden = body_ids({kind: one for kind, one in ids.items() if kind not in public})
    for screen in SCREENS:
        if screen.show is None or "{" in screen.path:
            continue
        for query in ("", f"?side={other_side}"):
            page = await browser.open(f"/console/{screen.path}{query}")
            assert not [one for one in hidden if one in page.body], (screen.path, query)


# `test_hostile.py` sends the same statements to PostgreSQL.
@mostly_sqlite
async def test_a_keys_session_reaches_nothing_of_the_other_surface_on_any_screen_and_by_no_action(
    mercato: Service, shop: MerchantServer
):
    as_merchant, as_storefront = await both_sides(mercato, shop)
    commerce_ids = await all_ids(as_merchant, as_merchant.pos, merchant=True)
    marketfront_ids = await all_ids(as_storefront, as_storefront.front, merchant=False)
    assert set(commerce_ids) == set(PLACES.values())
    assert set(marketfront_ids) >= {"order", "delivery", "request", "key", "session"}
    # A storefront sees every store of the network.
    marketfront_ids.pop("store", None)
    commerce = await enter_as_partner(mercato, as_merchant.pos)
    marketfront = await enter_as_partner(mercato, as_storefront.front)
    for screen in SCREENS:
        if "{" not in screen.path:
            continue
        is_public = screen.path in {"stores/{store}", "stores/{store}/menu"}
        assert await visit(marketfront, screen, commerce_ids) == (200 if is_public else 404), screen.path
        assert await visit(commerce, screen, marketfront_ids) == 404, screen.path
    await assert_lists_none_of(marketfront, commerce_ids, other_side="commerce", public=frozenset({"store"}))
    await assert_lists_none_of(commerce, marketfront_ids, other_side="marketfront", public=frozenset())


async def test_a_keys_session_has_the_pages_and_actions_of_its_surface_alone(mercato: Service):
    made, pos = await mercato.partner(BOTH)
    assert made.marketfront_key is not None
    front = Client(mercato.base, made.marketfront_key.text, mercato.session)
    merchant, storefront = (await mercato.partner())[1], (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    for side, client, like, refused in (
        ("commerce", pos, merchant, ["keys/event-url", "playground", "playground/place"]),
        ("marketfront", front, storefront, ["keys/webhook-token", "certification"]),
    ):
        browser = await enter_as_partner(mercato, client)
        page = await browser.open("/console")
        assert page.navigation == (await (await enter_as_partner(mercato, like)).open("/console")).navigation
        for path in refused:
            assert (await browser.post(f"/console/{path}")).status == 404, path
        for surface in ("commerce", "marketfront"):
            created = await browser.post("/console/keys", {"surface": surface})
            assert created.status == (200 if surface == side else 403), surface
        assert (await browser.post("/console/keys/rotate-secret")).status == 403
        assert "Rotate secret" not in (await browser.open("/console/keys")).buttons
    whole = await enter_whole_account(mercato, made.id)
    assert (await whole.post("/console/keys/rotate-secret")).status == 200


@mostly_sqlite
async def test_an_order_of_an_account_with_itself_is_on_both_sides(mercato: Service, shop: MerchantServer):
    as_merchant, as_storefront = await both_sides(mercato, shop)
    as_merchant.front = as_storefront.front
    order: Any = await as_merchant.placed()
    for client in (as_merchant.pos, as_storefront.front):
        browser = await enter_as_partner(mercato, client)
        assert order["orderId"] in (await browser.open("/console/orders")).body.decode()
        assert (await browser.open(f"/console/orders/{order['orderId']}")).status == 200
