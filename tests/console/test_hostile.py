"""The console against hostile partners and visitors: other people's ids, odd forms, and too many of them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete
from tests.api.trade import CUSTOMER, Trade, trade
from tests.calibration import cpu_within
from tests.catalog.documents import TEA, cafe
from tests.console.browser import Browser
from tests.console.test_certification import report, signed, upload
from tests.console.visiting import (
    enter,
    enter_as_operator,
    enter_as_partner,
    partner_link,
)
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, Client, MerchantServer, Service, service, standing_clock
from tests.sharing import own, shared
from tests.slow_requests import SlowRequest

from mercato.console.forms import MAX_FORM
from mercato.console.screen import MERCHANTS, OPERATORS, PARTNERS, STOREFRONTS, Screen
from mercato.console.session import SESSIONS, Cookies
from mercato.console.site import SCREENS
from mercato.features.partners import accounts
from mercato.features.partners.limits import MAX_VISITS
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in import sessions
from mercato.features.sign_in.tables import console_sessions
from mercato.http.browsers import check_form
from mercato.http.head import Head
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.errors import RateLimited
from mercato.settings import Settings
from mercato_contract import clock

pytestmark = [shared, mostly_sqlite]


@pytest.fixture
async def limited(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    """A service with limits, whose minute doesn't end."""
    settings: dict[str, Any] = {"rate_limits": True, "rate_limit_reads": 5, "rate_limit_writes": 50}
    async with service(database_url, tmp_path / "data", now=standing_clock(), **settings) as running:
        yield running


LINK = re.compile(rb'"/console/([a-z/-]+)/([0-9a-f-]{36})[/"?]')
PLACES = {
    "orders": "order",
    "stores": "store",
    "webhooks": "delivery",
    "catalogs": "run",
    "refused-requests": "request",
    "keys": "key",
    "certification": "report",
    "account/sessions": "session",
}


def path_of(screen: Screen, ids: Mapping[str, str]) -> str:
    """Return the path of the screen with these ids, and random ones for others."""
    parts = screen.path.split("/")
    return "/console/" + "/".join(
        ids.get(part[1:-1], str(clock.new_id())) if part.startswith("{") else part for part in parts
    )


async def ids_on(browser: Browser, *pages: str) -> dict[str, str]:
    """Return an id of each kind that the pages link to."""
    found = {}
    for page in pages:
        for place, one in LINK.findall((await browser.open(f"/console/{page}")).body):
            if place.decode() in PLACES:
                found[PLACES[place.decode()]] = one.decode()
    return found


async def all_ids(deal: Trade, client: Client, *, merchant: bool) -> dict[str, str]:
    """Return an id of each kind that the client's account has, among them those of another session and of a report."""
    browser = await enter_as_partner(deal.mercato, client)
    await enter_as_partner(deal.mercato, client)
    if merchant:
        await upload(browser, signed(deal.mercato, report()))
    side = "commerce" if merchant else "marketfront"
    assert (await client.get(f"/v1/{side}/orders/{clock.new_id()}")).status == 404
    await deal.mercato.app.request_log.flush()
    pages = ["orders", "stores", "webhooks", "refused-requests", "keys", "account"]
    return await ids_on(browser, *pages, *(["catalogs", "certification"] if merchant else []))


VALID = {
    "catalogs/uploads/{upload}/publish": {"storeId": str(clock.new_id())},
    "stores/{store}/items": {"itemId": str(clock.new_id()), "available": "true"},
}
"""Fields of actions that look at them first."""


async def visit(browser: Browser, screen: Screen, ids: Mapping[str, str]) -> int:
    path = path_of(screen, ids)
    if screen.act is not None:
        return (await browser.post(path, VALID.get(screen.path))).status
    return (await browser.open(path)).status


@on_both
async def test_other_partners_ids_are_not_found_on_any_screen_and_by_no_action(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await deal.placed()
    await mercato.until(deal.front, "/v1/marketfront/webhook-deliveries", lambda page: page["deliveries"])
    merchants = await all_ids(deal, deal.pos, merchant=True)
    storefronts = await all_ids(deal, deal.front, merchant=False)
    assert set(merchants) == set(PLACES.values())
    assert set(storefronts) >= {"order", "delivery", "request", "session"}
    commerce = await enter_as_partner(mercato, (await mercato.partner())[1])
    front = await enter_as_partner(mercato, (await mercato.partner(PartnerKind.MARKETFRONT))[1])
    with_ids = [one for one in SCREENS if "{" in one.path]
    assert len(with_ids) > 20
    kinds = {
        part[1:-1]
        for one in with_ids
        if one.audiences & PARTNERS
        for part in one.path.split("/")
        if "{" in part
    }
    # The others are of their own tests: test_agents.py, test_endpoints.py, test_passkeys.py, test_people.py,
    # test_registration.py and test_menu_uploads.py.
    assert kinds - set(merchants) == {"agent", "endpoint", "passkey", "person", "registration", "upload"}
    for screen in with_ids:
        # A storefront sees every store of the network.
        is_public = screen.path in {"stores/{store}", "stores/{store}/menu"}
        needed = {part[1:-1] for part in screen.path.split("/") if "{" in part}
        for ids in (merchants, storefronts):
            if ids is storefronts and not needed & set(ids):
                continue  # it was tried with ids of nothing
            assert await visit(commerce, screen, ids) == 404, screen.path
            assert await visit(front, screen, ids) == (200 if is_public and "store" in ids else 404), (
                screen.path
            )


@on_both
async def test_a_session_for_one_store_reaches_nothing_of_another_store(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    await deal.placed()
    other = await mercato.live(deal.pos, shop.host(CATALOG, "/b.json"), name="b")
    ids = await all_ids(deal, deal.pos, merchant=True)
    ids["store"] = deal.store["storeId"]
    browser = await enter_as_partner(mercato, deal.pos, store_id=other["storeId"])
    for screen in SCREENS:
        if "{" in screen.path or (screen.whole_account and screen.act is not None):
            assert await visit(browser, screen, ids) == 404, screen.path
    done = await browser.post("/console/webhooks/resend-failed", {"storeId": deal.store["storeId"]})
    assert done.status_region == (
        "0 failed deliveries sent again. No delivery that the filters match has failed."
    )


SIGNED_IN = "application/x-www-form-urlencoded"


async def send(browser: Browser, path: str, body: bytes, kind: str = SIGNED_IN, **headers: str) -> int:
    """Send a body as it is; return the status."""
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    sent = {"Content-Type": kind, "Sec-Fetch-Site": "same-origin", "Cookie": cookies} | headers
    async with browser._session.post(
        browser.base + path, data=body, headers=sent, allow_redirects=False
    ) as answer:
        await answer.read()
        return answer.status


async def test_a_body_that_is_no_form_is_refused(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    for kind in (
        "text/plain",
        "application/json",
        "application/octet-stream",
    ):
        assert await send(browser, "/console/sign-out", b"a=b", kind) == 415, kind
    assert (await browser.open("/console/account")).status == 200
    assert await send(browser, "/console/sign-out", b"", SIGNED_IN + "; charset=UTF-8") == 303


FIELDS = (
    *(
        "side",
        "status",
        "type",
        "storeId",
        "orderId",
        "code",
        "since",
        "partner",
        "cursor",
        "kind",
        "job",
        "surface",
    ),
    *(
        "description",
        "expiresInDays",
        "eventUrl",
        "webhookToken",
        "origin",
        "customer",
        "name",
        "reads",
        "writes",
    ),
    *(
        "pauseReason",
        "resumeAt",
        "itemId",
        "available",
        "item",
        "report",
        "headers",
        "body",
        "receivedAt",
        "text",
    ),
    *(
        "credential",
        "store",
        "quantity",
        "cart",
        "token",
        "key",
        "line",
        "mode",
        "scheduledTime",
        "tip",
        "payment",
    ),
)
ODD = (
    *(
        b"%00",
        b"%ff",
        b"%ED%A0%80",
        b"\xff",
        b"x" * 10_240,
        b"%F0%9F%8D%95" * 800,
        b"%E2%80%AE",
        b"9" * 30,
        b"-1",
    ),
    *(
        b"9223372036854775808",
        b"0001-01-01T00:00:00%2B23:59",
        b"9999-12-31T23:59:59-23:59",
        b"%0D%0AX:y",
        b"[",
    ),
)
ALONE = (
    b"payment=" + b"%5B" * 1000,
    b"report=" + b"%5B" * 9000,
    b"cart=" + b"%5B" * 9000,
    b"job=" + b"9" * 30,
)


@on_both
@pytest.mark.parametrize("share", [24, pytest.param(1, marks=pytest.mark.long)])
@own()
async def test_no_form_makes_an_action_stumble(mercato: Service, shop: MerchantServer, share: int):
    """`make test` sends every 24th form to each screen, in each run others; `make test-long` sends all."""
    deal = await trade(mercato, shop, event_url=shop.base + "/events")
    store = deal.store["storeId"]
    seen = (
        (MERCHANTS, await enter_as_partner(mercato, deal.pos)),
        (STOREFRONTS, await enter_as_partner(mercato, deal.front)),
        (OPERATORS, await enter_as_operator(mercato)),
    )
    first = Random().randrange(share)
    forms = [b"&".join(name.encode() + b"=" + value for name in FIELDS) for value in ODD]
    forms += [*ALONE, b"&".join(b"a%d=1" % number for number in range(5000)), b"a=1&" * 2 + b"&=&==&;", b""]
    for audience, browser in seen:
        for number, screen in enumerate(SCREENS):
            if screen.act is None or not screen.audiences & audience:
                continue
            for form in forms[(number + first) % share :: share]:
                body = f"store={store}&".encode() + form if "playground" in screen.path else form
                status = await send(browser, path_of(screen, {"store": store}), body)
                assert status < 500, (screen.path, form[:60])


async def test_no_check_beyond_a_report_is_shown(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    path = (await upload(browser, signed(mercato, report()))).url
    for number in (2, 200, 10**20):
        assert (await browser.open(f"{path}?check={number}")).status in {404, 422}, number


async def test_a_session_has_rate_limits_of_its_own(limited: Service):
    _, client = await limited.partner()
    one = await enter_as_partner(limited, client)
    other = await enter_as_partner(limited, client)
    statuses = [(await one.open("/console/account")).status for _ in range(8)]
    assert statuses[-1] == 429
    refused = await one.open("/console/account")
    assert "Wait" in refused.text
    assert int(refused.headers["Retry-After"]) > 0
    assert (await other.open("/console/account")).status == 200
    assert (await client.get("/v1/commerce/orders")).status == 200
    assert (await one.post("/console/sign-out")).heading == "Sign in"


async def test_the_sessions_of_a_partner_have_a_limit_together_that_leaves_its_programs_alone(
    limited: Service,
):
    _, client = await limited.partner()
    _, others = await limited.partner()
    other = await enter_as_partner(limited, others)
    entered = [(await enter_as_partner(limited, client)) for _ in range(SESSIONS + 3)]
    # The first page after each sign-in counts.
    refused = [browser for browser in entered for _ in range(4) if (await opened(browser)) == 429]
    assert {id(browser) for browser in refused} >= {id(browser) for browser in entered[-2:]}
    assert await opened(entered[-1]) == 429
    assert await opened(other) == 200
    assert (await client.get("/v1/commerce/orders")).status == 200


async def opened(browser: Browser) -> int:
    return (await browser.open("/console/account")).status


async def test_requests_without_a_session_are_limited_by_their_address(limited: Service):
    _, client = await limited.partner()
    inside = await enter_as_partner(limited, client)
    link = await partner_link(client)
    stranger = Browser(limited.base, limited.session)
    pages = ["/console/passkey", link, "/console", "/console/orders"]
    for number in range(MAX_VISITS):
        assert (await stranger.open(pages[number % len(pages)])).status in {200, 401}
    refused = await stranger.open(link)
    assert refused.status == 429
    assert refused.heading == RateLimited.title
    assert int(refused.headers["Retry-After"]) > 0
    assert (await stranger.post("/console/passkey", {"credential": "{}"})).status == 429
    stranger.cookies = {"__Host-mercato-session": "x" * 43}
    assert (await stranger.open("/console/account")).status == 429
    assert (await inside.open("/console/account")).status == 200
    assert (await client.get("/v1/commerce/orders")).status == 200
    assert (await stranger.open("/documentation")).status == 200


async def test_twenty_people_sign_in_from_one_address_within_a_minute(limited: Service):
    _, client = await limited.partner()
    for _ in range(20):
        stranger = Browser(limited.base, limited.session)
        assert (await stranger.open("/console")).heading == "Sign in"
        _, page = await enter(limited, await partner_link(client))
        assert page.status_region == "You are signed in."


@own()
async def test_a_form_without_a_session_has_at_most_32_kib(mercato: Service):
    browser = await enter_as_operator(mercato)
    stranger = Browser(mercato.base, mercato.session)
    stranger.cookies = dict.fromkeys(browser.cookies, "x" * 43)
    beyond = b"credential=" + b"x" * MAX_FORM
    assert await send(stranger, "/console/passkey", beyond[:MAX_FORM]) == 422
    assert await send(stranger, "/console/passkey", beyond) == 413
    # What nobody reads isn't refused for its size.
    assert await send(stranger, "/console/certification", beyond * 15) == 401
    assert await send(browser, "/console/erasure/find", beyond) == 413


@own()
async def test_a_form_that_no_browser_sends_is_refused(mercato: Service):
    browser = await enter_as_operator(mercato)
    for form in (b"text=%", b"text=%4", b"text=%zz", b"text=\xff", "text=\u00e9".encode()):
        assert await send(browser, "/console/search", form) == 400, form
    assert await send(browser, "/console/search", b"text=%C3%A9+%ff") == 200


@on_both
async def test_a_message_fits_into_a_cookie(mercato: Service, shop: MerchantServer):
    name = "\N{SLICE OF PIZZA}" * 1000
    document = json.loads(json.dumps(CATALOG))
    item = next(iter(document["items"]))
    document["items"][item]["name"] = name
    _, client = await mercato.partner()
    store = (await mercato.live(client, shop.host(document)))["storeId"]
    browser = await enter_as_partner(mercato, client)
    page = await browser.open(f"/console/stores/{store}")
    button = page.form("Mark sold out")
    fields = {one.attributes["name"]: one.attributes.get("value", "") for one in button.all("input")}
    async with mercato.session.post(
        mercato.base + button.attributes["action"],
        data=fields,
        allow_redirects=False,
        headers={"Cookie": "; ".join(f"{key}={value}" for key, value in browser.cookies.items())},
    ) as answer:
        assert answer.status == 303
        for cookie in answer.headers.getall("Set-Cookie"):
            assert len(cookie.partition(";")[0]) <= 4096


async def test_odd_cookies_of_others_do_not_sign_out(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    own = browser.cookies
    for name, value in (("a@b", "1"), ("a", '"\\"'), ("", ""), ("a,b[c]", "{}"), ("a", "\xe9")):
        browser.cookies = {name: value} | own
        assert (await browser.open("/console/account")).status == 200, name


def test_a_cookie_of_backslashes_is_read_at_once():
    sent = b'a="' + b"\\1" * 30_000 + b'"'
    scope = {"headers": [(b"cookie", sent)], "path": "/console", "raw_path": b"/console"}
    with cpu_within(1):
        assert Cookies(Head(scope, None), Settings()).read("a") is None


@pytest.mark.parametrize(
    "host", ["mercato", "my_shop:8080", "shop.example:8000", "127.0.0.1:8000", "[::1]:8000"]
)
def test_a_form_of_a_page_at_the_host_that_the_browser_calls_is_our_own(host: str):
    """Browsers don't send Sec-Fetch-Site to plain http; container names and machine names may have underscores."""
    own = f"http://{host}"
    headers = [(b"host", host.encode()), (b"origin", own.encode()), (b"content-length", b"0")]
    head = Head({"headers": headers, "path": "/console", "scheme": "http"}, None)
    assert head.base_url == own
    check_form(head)


@own()
async def test_a_link_is_in_no_stored_request_and_no_log(
    mercato: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Whoever sees refused requests may be allowed to look only, and the link may not be used yet."""
    _, client = await mercato.partner()
    link = await partner_link(client)
    token = link.rpartition("/")[2]
    for fault in (DatabaseUnavailable("away"), RuntimeError("a bug")):

        async def fail(*_: object, fault: Exception = fault, **__: object) -> None:
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr(sessions, "sign_in", fail)
            page = await Browser(mercato.base, mercato.session).post(link)
        assert page.status >= 500
    await mercato.app.request_log.flush()
    operator = await enter_as_operator(mercato)
    listed = await operator.open("/console/refused-requests")
    seen = [listed.body, capsys.readouterr().err.encode()]
    for _, one in LINK.findall(listed.body):
        seen.append((await operator.open(f"/console/refused-requests/{one.decode()}")).body)
    assert sum(body.count(b"/console/links/***") for body in seen[2:]) == 2
    assert not [body for body in seen if token.encode() in body]
    assert (await enter(mercato, link))[1].status_region == "You are signed in."


def uuid(number: int) -> str:
    return str(UUID(int=(0x0190F5FE7E3B7CCC8000 << 48) + number))


@on_both
async def test_a_menu_of_countless_groups_is_shown_at_once(mercato: Service, shop: MerchantServer):
    """A merchant may list any number of groups, also without choices, and a storefront opens them."""
    empty = {
        uuid(1000 + number): {"modifierGroupId": uuid(1000 + number), "name": "g", "itemIds": []}
        for number in range(200)
    }
    top = {
        "modifierGroupId": uuid(9),
        "name": "top",
        "itemIds": [uuid(100 + number) for number in range(199)],
    }
    inner = {
        one: {"itemId": one, "name": "B", "basePrice": "1.00", "modifierGroupIds": list(empty)}
        for one in top["itemIds"]
    }
    first = {"itemId": uuid(1), "name": "A", "basePrice": "1.00", "modifierGroupIds": [uuid(9)]}
    document = CATALOG | {
        "items": CATALOG["items"] | {uuid(1): first} | inner,  # type: ignore[operator]
        "modifierGroups": empty | {uuid(9): top},
        "sections": {"s1": {"sectionId": "s1", "name": "Mains", "itemIds": [uuid(1)]}},
    }
    store = await mercato.live((await mercato.partner())[1], shop.host(document))
    front = (await mercato.partner(PartnerKind.MARKETFRONT))[1]
    browser = await enter_as_partner(mercato, front)
    page = await browser.open(f"/console/playground?store={store['storeId']}&item={uuid(1)}")
    assert page.status == 200
    assert page.body.count(b"<fieldset") < 250
    assert len(page.body) < 500_000


# --- characters that nobody sees ----------------------------------------------------------------------


@own()
async def test_names_that_differ_in_characters_that_nobody_sees_look_different(
    mercato: Service, shop: MerchantServer
):
    catalog = cafe()
    catalog["items"][TEA]["name"] = "T\u200bea"
    deal = await trade(mercato, shop, catalog=catalog)
    store = deal.store["storeId"]
    customer = CUSTOMER | {"firstName": "A\u2066da", "lastName": "Love\xadlace"}
    order = (await deal.place(deal.order(customer=customer))).json()["orderId"]
    browser = await enter_as_operator(mercato)
    for name, shown in {
        "Joe's\u200b Pizza": "Joe's[U+200B] Pizza",
        "Joe's\u202e Pizza": "Joe's[U+202E] Pizza",
        "Joe\u200d's Pizza\ufe0f": "Joe[U+200D]'s Pizza[U+FE0F]",
        "Joe's\u2060 Pizza\U000e0041": "Joe's[U+2060] Pizza[U+E0041]",
        "Joe\u3164s Pizza\x07": "Joe[U+3164]s Pizza[U+0007]",
    }.items():
        changed = await deal.pos.call("PUT", f"/v1/commerce/stores/{store}", {"name": name})
        assert changed.status == 200, changed.body
        for path in ("stores", f"stores/{store}", "orders", f"orders/{order}"):
            page = await browser.open(f"/console/{path}")
            assert shown in page.text, path
            assert name not in page.text, path
    merchant = await enter_as_partner(mercato, deal.pos)
    page = await merchant.open(f"/console/orders/{order}")
    assert "A[U+2066]da Love[U+00AD]lace" in page.text
    assert "T[U+200B]ea" in page.text


@own()
async def test_joiners_and_selectors_stay_where_they_shape_what_is_seen(
    mercato: Service, shop: MerchantServer
):
    deal = await trade(mercato, shop)
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    cook, heart, one = "\U0001f469\u200d\U0001f373", "\u2764\ufe0f", "1\ufe0f\u20e3"
    persian, hindi, chinese = "\u0645\u06cc\u200c\u062e", "\u0915\u094d\u200d\u0937", "\u845b\U000e0100"
    name = f"{cook} {heart} {one} {persian} {hindi} {chinese} {flag}"
    path = f"stores/{deal.store['storeId']}"
    assert (await deal.pos.call("PUT", f"/v1/commerce/{path}", {"name": name})).status == 200
    browser = await enter_as_operator(mercato)
    assert (await browser.open(f"/console/{path}")).heading == name


@on_both
async def test_a_session_that_ends_while_a_form_arrives_does_nothing(mercato: Service):
    made, _ = await mercato.partner()
    browser = await enter_as_operator(mercato)
    headers = {
        "Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items()),
        "Content-Type": "application/x-www-form-urlencoded",
        "Sec-Fetch-Site": "same-origin",
        "Accept": "text/html",
    }
    path = f"/console/partners/{made.id}/suspend"
    slow = await SlowRequest.begin(mercato.base, "POST", path, headers, b"confirmed=yes")
    await asyncio.sleep(1.2)
    async with mercato.app.db.write() as tx:
        await tx.execute(delete(console_sessions))
    await slow.end()
    async with mercato.app.db.read() as tx:
        assert (await accounts.get_partner(tx, made.id)).suspended_at is None
