"""Signing in to the console: links, sessions, and who may use them."""

from tests.console.browser import Browser
from tests.console.visiting import enter, partner_link
from tests.service import Service


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
