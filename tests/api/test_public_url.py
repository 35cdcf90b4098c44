"""A proxy may serve the service below a path, which MERCATO_PUBLIC_URL names: links and redirects contain it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.console.browser import Browser
from tests.databases import only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service, service

from mercato_client.testing.server import app_of, listening

pytestmark = only_sqlite  # independent of the database

PREFIX = "/network/eu"
HOPS = {
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "server",
    "transfer-encoding",
}
"""Headers that the proxy doesn't pass on: it decodes."""


@pytest.fixture
async def below(
    database_url: str, tmp_path: Path, shop: MerchantServer
) -> AsyncIterator[tuple[Service, Client]]:
    """A service behind a proxy that removes the prefix, and a partner's client of the proxy's origin."""
    assert shop.base
    target: list[Service] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        assert request.path.startswith(PREFIX), "every path that clients use is below the prefix"
        body = await request.read()
        async with target[0].session.request(
            request.method,
            target[0].base + request.path_qs.removeprefix(PREFIX),
            data=body or None,
            headers={name: value for name, value in request.headers.items() if name.lower() not in HOPS},
            allow_redirects=False,
        ) as reply:
            headers = [(name, value) for name, value in reply.headers.items() if name.lower() not in HOPS]
            return web.Response(status=reply.status, body=await reply.read(), headers=headers)

    async with (
        listening(app_of(forward), closing=1) as origin,
        service(database_url, tmp_path / "data", public_url=origin + PREFIX + "/") as running,
    ):
        target.append(running)
        _, client = await running.partner()
        yield running, Client(origin, client.key, running.session)


async def test_locations_and_status_urls_lead_through_the_proxy(
    below: tuple[Service, Client], shop: MerchantServer
):
    mercato, pos = below
    path = f"{PREFIX}/v1/commerce/onboarding/stores"
    body = {"partnerStoreId": "s", "name": "S", "address": {}, "catalogCallbackUrl": shop.host(CATALOG)}
    made = await pos.post(path, body)
    location = made.headers["Location"]
    assert location == f"{path}/{made.json()['onboardingId']}"
    assert (await pos.get(location)).status == 200
    again = await pos.post(path, body)
    assert (again.status, again.headers["Location"]) == (409, location)
    await mercato.until(pos, location, lambda status: status["status"] == "ready_to_activate")
    store = (await pos.post(location + "/activate")).json()
    run = await pos.post(
        f"{PREFIX}/v1/commerce/catalogset-notification?storeId={store['storeId']}",
        {"callbackUrl": shop.host(CATALOG)},
    )
    assert run.json()["statusUrl"] == run.headers["Location"]
    assert (await pos.get(run.headers["Location"])).json()["catalogIngestId"] == run.json()["catalogIngestId"]


async def test_a_problems_type_and_the_links_of_documents_are_below_the_public_url(
    below: tuple[Service, Client],
):
    _, pos = below
    anybody = Client(pos.base, None, pos.session)
    problem = (await pos.get(f"{PREFIX}/no")).json()
    assert problem["type"] == f"{pos.base}{PREFIX}/errors/NOT_FOUND"
    assert (await anybody.get(problem["type"].removeprefix(pos.base))).status == 200
    [server] = (await anybody.get(f"{PREFIX}/openapi.json")).json()["servers"]
    assert server["url"].rstrip("/") == pos.base + PREFIX
    text = (await anybody.get(f"{PREFIX}/llms.txt")).body.decode()
    assert set(re.findall(r"\]\((\S+?)/(?:docs|errors|openapi)", text)) == {pos.base + PREFIX}


async def test_every_link_of_a_page_leads_through_the_proxy(below: tuple[Service, Client]):
    _, pos = below
    anybody = Client(pos.base, None, pos.session)
    for page in ("/", "/docs", "/documentation", "/console"):
        html = (await anybody.get(PREFIX + page, headers={"Accept": "text/html"})).body.decode()
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', html)
        assert links, page
        for link in links:
            assert (await anybody.get(link, headers={"Accept": "text/html"})).status == 200, (page, link)
    start = (await anybody.get(f"{PREFIX}/docs/assets/start.js")).body.decode()
    assert 'url: "openapi.json"' in start, "relative to /docs"


async def test_the_console_is_signed_in_to_and_used_below_the_prefix(below: tuple[Service, Client]):
    _, pos = below
    url = (await pos.post(f"{PREFIX}/v1/console/links", {})).json()["url"]
    assert url.startswith(f"{pos.base}{PREFIX}/console/links/")
    browser = Browser(pos.base, pos.session)
    overview = await browser.press(await browser.open(url), "Continue")
    assert (overview.status, overview.heading) == (200, "Overview")
    links = [
        value
        for element in overview.root.all()
        for name, value in element.attributes.items()
        if name in {"href", "src", "action", "formaction", "hx-get"}
    ]
    assert len(links) > 5
    assert all(link.startswith((f"{PREFIX}/", "#")) for link in links), links
    assert (await browser.press(overview, "Sign out")).heading == "Sign in"
