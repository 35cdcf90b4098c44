"""Signing in to the console: links, sessions, and who may use them."""

from datetime import timedelta

import pytest
from tests.api.trade import Time
from tests.console.browser import Browser
from tests.console.visiting import (
    count_writes,
    enter,
    enter_as_operator,
    enter_as_partner,
    enter_whole_account,
    partner_link,
)
from tests.databases import mostly_sqlite, on_both
from tests.service import CATALOG, MerchantServer, Service

from mercato.console.screen import Audience
from mercato.console.site import SCREENS
from mercato.features.partners import accounts, credentials
from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in import sessions
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.audit import list_entries
from mercato.platform.db.errors import DatabaseUnavailable
from mercato_contract import clock

pytestmark = mostly_sqlite


async def test_the_landing_page_names_documentation_reference_and_console(mercato: Service):
    browser = Browser(mercato.base, mercato.session)
    page = await browser.open("/")
    assert page.status == 200
    for name in ("Documentation", "API reference", "Console"):
        there = await browser.open(page.link(name))
        assert there.status == 200, name


async def test_a_client_that_does_not_ask_for_html_finds_nothing_at_the_root(mercato: Service):
    for method, accept in (("GET", "*/*"), ("GET", "application/json"), ("POST", "text/html")):
        reply = await mercato.anonymous().call(method, "/", headers={"Accept": accept})
        assert (reply.status, reply.json()["errorCode"]) == (404, "NOT_FOUND")


async def test_without_a_session_the_console_says_how_to_sign_in(mercato: Service):
    browser = Browser(mercato.base, mercato.session)
    page = await browser.open("/console")
    assert (page.status, page.title, page.heading) == (200, "Sign in", "Sign in")
    assert "mercato console link --operator" in page.text
    assert "/v1/console/links" in page.text
    deeper = await browser.open("/console/orders")
    assert (deeper.status, deeper.heading) == (401, "Sign in")


async def test_a_link_asks_before_it_is_used_and_works_once(mercato: Service):
    client = (await mercato.partner())[1]
    link = await partner_link(client)
    scanner = Browser(mercato.base, mercato.session)
    for _ in range(2):
        assert (await scanner.open(link)).buttons == ["Continue"]
    assert not scanner.cookies
    browser, page = await enter(mercato, link)
    assert page.status == 200
    assert page.status_region == "You are signed in."
    assert (await browser.open("/console/account")).status_region == ""
    thief = Browser(mercato.base, mercato.session)
    for again in (await thief.open(link), await thief.post(link)):
        assert (again.status, again.heading) == (410, "This link has been used")
    assert not thief.cookies


async def test_a_link_that_will_be_refused_takes_no_write_transaction(
    mercato: Service, clock_ahead: Time, monkeypatch: pytest.MonkeyPatch
):
    made, client = await mercato.partner()
    used, expired, withdrawn = [await partner_link(client) for _ in range(3)]
    stranger = Browser(mercato.base, mercato.session)
    writes = count_writes(monkeypatch)
    assert (await stranger.post(used)).status == 200
    assert writes == ["mercato.console.sign_in"]
    await suspend(mercato, made)
    for link in (used, withdrawn, f"/console/links/{'x' * 43}", "/console/links/", "/console/links/%00"):
        assert (await stranger.post(link)).status == 410, link
    clock_ahead.ahead = timedelta(minutes=16)
    assert (await stranger.post(expired)).status == 410
    assert len(writes) == 1


async def test_null_for_a_member_of_a_links_request_is_the_same_as_leaving_it_out(mercato: Service):
    client = (await mercato.partner())[1]
    for wanted in ({"readOnly": None}, {"storeId": None}, {}):
        _, page = await enter(mercato, await partner_link(client, **wanted))
        assert "read-only" not in page.text


async def test_a_link_expires_after_fifteen_minutes(mercato: Service, clock_ahead: Time):
    link = await partner_link((await mercato.partner())[1])
    clock_ahead.ahead = timedelta(minutes=15, seconds=1)
    browser = Browser(mercato.base, mercato.session)
    assert (await browser.open(link)).heading == "This link has expired"
    assert (await browser.post(link)).status == 410
    assert not browser.cookies


async def test_a_session_ends_twelve_hours_after_its_last_use_and_after_seven_days(
    mercato: Service, clock_ahead: Time
):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    idle = await enter_as_partner(mercato, (await mercato.partner())[1])
    for hours in range(8, 168, 8):
        clock_ahead.ahead = timedelta(hours=hours)
        assert (await browser.open("/console/account")).status == 200, hours
    assert (await idle.open("/console/account")).status == 401
    clock_ahead.ahead = timedelta(days=7, seconds=1)
    ended = await browser.open("/console/account")
    assert ended.status == 401
    assert "Your session has ended" in ended.text


async def test_a_session_ends_with_its_key_and_its_partner(mercato: Service):
    for end in (revoke, suspend):
        made, client = await mercato.partner()
        browser = await enter_as_partner(mercato, client)
        unused = await partner_link(client)
        await end(mercato, made)
        assert (await browser.open("/console/account")).status == 401
        assert (await Browser(mercato.base, mercato.session).post(unused)).status == 410


async def revoke(mercato: Service, made: NewPartner) -> None:
    async with mercato.app.db.write() as tx:
        await credentials.revoke_key(tx, await credentials.get_key(tx, str(made.keys[0].id)))


async def suspend(mercato: Service, made: NewPartner) -> None:
    async with mercato.app.db.write() as tx:
        await accounts.set_suspended(tx, made.id, clock.now())


async def test_the_cookie_is_for_this_host_and_no_script(mercato: Service):
    link = await partner_link((await mercato.partner())[1])
    async with mercato.session.post(link, allow_redirects=False) as answer:
        kept = next(one for one in answer.headers.getall("Set-Cookie") if "session" in one)
    name, *attributes = [part.strip() for part in kept.split(";")]
    assert name.startswith("__Host-")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert not any(one.startswith("Domain") for one in attributes)


async def test_a_cookie_from_before_the_sign_in_grants_nothing(mercato: Service):
    _made, client = await mercato.partner()
    victim = Browser(mercato.base, mercato.session)
    victim.cookies["__Host-mercato-session"] = "chosen-by-somebody-else"
    await victim.press(await victim.open(await partner_link(client)), "Continue")
    assert victim.cookies["__Host-mercato-session"] != "chosen-by-somebody-else"
    attacker = Browser(mercato.base, mercato.session)
    attacker.cookies["__Host-mercato-session"] = "chosen-by-somebody-else"
    assert (await attacker.open("/console/account")).status == 401


async def test_a_form_of_another_site_does_nothing(mercato: Service):
    client = (await mercato.partner())[1]
    link = await partner_link(client)
    browser = await enter_as_partner(mercato, client)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": mercato.base},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        for path in ("/console/sign-out", link):
            refused = await browser.post(path, None, **headers)
            assert refused.status == 403, headers
            assert "another site" in refused.text
    assert (await browser.open("/console/account")).status == 200
    assert (await browser.post("/console/sign-out", Origin=mercato.base)).heading == "Sign in"


async def test_the_account_lists_its_sessions_and_ends_any(mercato: Service):
    client = (await mercato.partner())[1]
    mine = await enter_as_partner(mercato, client)
    other = await enter_as_partner(mercato, client)
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await mine.open("/console/account")
    assert len(page.rows("Sessions")) == 2
    theirs = next(row for row in page.root.all("tr") if row.all("td") and "This session" not in row.text)
    action = theirs.all("form")[0].attributes["action"]
    assert (await stranger.post(action)).status == 404
    assert (await mine.post(action)).status_region == "The session has ended."
    assert (await other.open("/console/account")).status == 401
    assert (await mine.open("/console/account")).status == 200


@on_both
async def test_all_sessions_of_the_account_end_at_once_and_its_unused_links_sign_nobody_in(mercato: Service):
    made, client = await mercato.partner()
    mine = await enter_as_partner(mercato, client)
    other = await enter_whole_account(mercato, made.id)
    stranger = await enter_as_partner(mercato, (await mercato.partner())[1])
    operator = await enter_as_operator(mercato)
    unused = await partner_link(client)
    question = await mine.press(await mine.open("/console/account"), "End all sessions")
    assert "including you" in question.text
    assert (await other.open("/console/account")).status == 200, "nothing ended before Confirm"
    signed_out = await mine.press(question, "Confirm")
    assert (signed_out.heading, "somebody ended it" in signed_out.text) == ("Sign in", True)
    for browser in (mine, other):
        assert (await browser.open("/console/account")).status == 401
    assert (await Browser(mercato.base, mercato.session).post(unused)).status == 410
    for browser in (stranger, operator):
        assert (await browser.open("/console/account")).status == 200
    await enter_as_partner(mercato, client)
    async with mercato.app.db.read() as tx:
        entry = (await list_entries(tx, action="console.endAllSessions", limit=1))[0]
    assert (entry.partner_id, entry.detail) == (made.id, {"ended": 2})


@on_both
async def test_all_sessions_of_operators_end_at_once_and_operators_end_a_partners(mercato: Service):
    made, client = await mercato.partner()
    partner = await enter_as_partner(mercato, client)
    operators = [(await enter_as_operator(mercato)) for _ in range(2)]
    page = await operators[0].open(f"/console/partners/{made.id}")
    done = await operators[0].press(await operators[0].press(page, "End all sessions"), "Confirm")
    assert "1 session of" in done.status_region
    assert (await partner.open("/console/account")).status == 401
    partner = await enter_as_partner(mercato, client)
    page = await operators[0].open("/console/account")
    await operators[0].press(await operators[0].press(page, "End all sessions"), "Confirm")
    for browser in operators:
        assert (await browser.open("/console/account")).status == 401
    assert (await partner.open("/console/account")).status == 200


@on_both
async def test_a_session_ends_only_the_sessions_that_it_sees(mercato: Service, shop: MerchantServer):
    """One for a store those for the store, one of a surface those of the surface, and a read-only one none."""
    made, client = await mercato.partner(PartnerKind.BOTH)
    assert made.marketfront_key is not None
    front = client.with_key(made.marketfront_key.text)
    store = await mercato.live(client, shop.host(CATALOG))
    whole = await enter_whole_account(mercato, made.id)
    storefront = await enter_as_partner(mercato, front)
    merchant = await enter_as_partner(mercato, client)
    of_store = await enter_as_partner(mercato, client, store_id=store["storeId"])
    reader = await enter_as_partner(mercato, client, read_only=True)
    path = "/console/account/sessions/end"
    assert (await reader.post(path)).status == 403
    assert (await of_store.post(path)).heading == "Sign in"
    assert (await merchant.open("/console/account")).status == 200
    assert (await merchant.post(path)).heading == "Sign in"
    assert (await reader.open("/console/account")).status == 401
    for browser in (whole, storefront):
        assert (await browser.open("/console/account")).status == 200


async def test_sign_out_ends_the_session_everywhere(mercato: Service):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])
    page = await browser.open("/console")
    copied = Browser(mercato.base, mercato.session)
    copied.cookies = dict(browser.cookies)
    assert (await browser.press(page, "Sign out")).heading == "Sign in"
    assert not browser.cookies
    assert (await copied.open("/console/account")).status == 401


async def test_a_read_only_session_changes_nothing(mercato: Service):
    client = (await mercato.partner())[1]
    await enter_as_partner(mercato, client)
    browser = await enter_as_partner(mercato, client, read_only=True)
    page = await browser.open("/console")
    assert page.buttons == ["Sign out"] or "Sign out" in page.buttons
    for screen in SCREENS:
        if screen.act is None or screen.needs is Permission.SEE:
            continue
        path = "/".join(str(clock.new_id()) if one.startswith("{") else one for one in screen.path.split("/"))
        refused = await browser.post(f"/console/{path}")
        assert refused.status == (403 if screen.audiences & {Audience.COMMERCE} else 404), path
    account = await browser.open("/console/account")
    # The time zone is this browser's alone.
    assert account.buttons == ["Sign out", "Set time zone"]
    assert (await browser.press(account, "Sign out")).heading == "Sign in"


async def test_links_sign_ins_and_ended_sessions_are_in_the_audit_trail(mercato: Service):
    made, client = await mercato.partner()
    browser, page = await enter(mercato, await partner_link(client))
    await browser.press(page, "Sign out")
    async with mercato.app.db.read() as tx:
        entries = await list_entries(tx, partner_id=made.id, limit=10)
    actor = f"console:key:{made.keys[0].id}"
    assert [(one.action, one.actor) for one in entries][:3] == [
        ("console.signOut", actor),
        ("console.signIn", actor),
        ("createConsoleLink", f"key:{made.keys[0].id}"),
    ]


async def test_an_operator_signs_in_with_a_link_of_the_command(mercato: Service):
    browser = await enter_as_operator(mercato)
    page = await browser.open("/console")
    assert page.status == 200
    account = await browser.open("/console/account")
    assert "cli:anna" in account.text


@on_both
async def test_an_unavailable_database_is_reported_on_a_page(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    browser = await enter_as_partner(mercato, (await mercato.partner())[1])

    async def fail(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("the database did not answer in time")

    monkeypatch.setattr(sessions, "find_session", fail)
    page = await browser.open("/console/account")
    assert page.status == 503
    assert "database" in page.text
    assert "Traceback" not in page.text
    assert page.headers["Content-Type"].startswith("text/html")
