"""The guides at /documentation: every one is a page of its own, and every link on it leads somewhere."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pytest
from tests.api.trade import trade
from tests.console.browser import Browser
from tests.console.visiting import enter_as_operator, enter_as_partner
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import Client, MerchantServer, Service
from tests.sharing import own, shared

from mercato.console import guides
from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in import sessions
from mercato.platform.db.errors import DatabaseUnavailable
from mercato_client.testing.caller import Answer

pytestmark = [shared, mostly_sqlite]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packages/mercato"
PAGES = ["/documentation", *(f"/documentation/{name}" for name in sorted(guides.names()))]
MAX_BYTES = 100_000


class Parsed(HTMLParser):
    """The parts of a page that the tests are about."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self._within = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._within = tag
        if tag == "h1":
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "h1":
            self.headings[-1] += data

    def values(self, attribute: str) -> Iterator[str]:
        for _, attributes in self.tags:
            if (value := attributes.get(attribute)) is not None:
                yield value


@pytest.fixture
def browser(mercato: Service) -> Client:
    return mercato.anonymous()


_replies: dict[str, dict[str, Answer]] = {}


@pytest.fixture
async def replies(mercato: Service, browser: Client) -> dict[str, Answer]:
    """Every page of the documentation, as the service answers to anybody: the tests that look at all have the same."""
    if mercato.base not in _replies:
        _replies[mercato.base] = {path: await browser.get(path) for path in PAGES}
    return _replies[mercato.base]


def test_every_guide_of_the_repository_is_served():
    documents = {
        path.stem for folder in ("how-to", "reference") for path in (ROOT / "docs" / folder).glob("*.md")
    }
    assert documents - guides.names() == {"README", "operations", "errors"}
    assert guides.names() - documents == {"start-here"}


async def test_every_guide_has_one_heading_and_title_and_no_inline_style_or_script(
    replies: dict[str, Answer],
):
    for path, reply in replies.items():
        html = reply.body.decode()
        page = Parsed(html)
        assert (reply.status, len(page.headings)) == (200, 1), path
        assert f"<title>{page.headings[0].replace(chr(39), '&#39;')}</title>" in html, path
        assert len(reply.body) <= MAX_BYTES, path
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert not [*page.values("style"), *page.values("onclick")], path
        assert "script" not in {tag for tag, _ in page.tags}
        assert "&lt;sub&gt;" not in html
        assert len([*page.values("id")]) == len({*page.values("id")}), path


async def test_every_link_of_every_guide_leads_to_a_page_of_this_service_or_is_external_https(
    browser: Client, replies: dict[str, Answer]
):
    pages: dict[str, Parsed] = {}
    links = set()
    for path, page in replies.items():
        pages[path] = Parsed(page.body.decode())
        links |= {(path, href) for href in pages[path].values("href")}
    outside = {href for _, href in links if href.startswith("https://")}
    assert {"https://www.standardwebhooks.com"} <= outside
    for path, href in sorted(links):
        target, _, anchor = href.partition("#")
        target = target or path
        if href not in outside and target not in pages:
            assert target.startswith("/"), (path, href)
            reply = await browser.get(target, headers={"Accept": "text/html"})
            assert reply.status == 200, (path, href)
            assert not anchor, (path, href)
        elif anchor:
            assert anchor in pages[target].values("id"), (path, href)


async def test_the_overview_lists_every_guide(browser: Client):
    listed = set(Parsed((await browser.get("/documentation")).body.decode()).values("href"))
    assert {*PAGES} - {"/documentation"} <= listed


@only_sqlite
@pytest.mark.parametrize(
    "name",
    [
        "nothing",
        "README",
        "../settings",
        "..%2Fsettings",
        "how-to/take-orders",
        "take-orders.md",
        "take-orders/",
        "%00",
    ],
)
async def test_any_other_name_is_not_found(browser: Client, name: str):
    reply = await browser.get(f"/documentation/{name}")
    assert reply.status in {400, 404}
    assert b"take" not in re.sub(rb"(?s)<nav.*?</nav>", b"", reply.body)


async def test_every_picture_of_a_guide_is_served_with_words_for_who_cannot_see_it(
    browser: Client, replies: dict[str, Answer]
):
    sources: dict[str | None, str | None] = {}
    for answer in replies.values():
        page = Parsed(answer.body.decode())
        sources |= {
            attributes["src"]: attributes["alt"]
            for tag, attributes in page.tags
            if tag == "img" and "/pictures/" in (attributes["src"] or "")
        }
    assert {f"/documentation/pictures/pictures/{name}.svg" for name in ("catalog", "order")} <= sources.keys()
    assert "/documentation/pictures/how-to/console/order.png" in sources
    for source, words in sources.items():
        reply = await browser.get(source or "")
        assert (reply.status, bool(words)) == (200, True), source
        assert reply.headers["Content-Type"] in {"image/svg+xml", "image/png"}
        assert reply.headers["X-Content-Type-Options"] == "nosniff"


@only_sqlite
@pytest.mark.parametrize(
    "name", ["pictures/order.dot", "../settings.py", "%2e%2e/settings.py", "x.svg", "", "%00"]
)
async def test_a_picture_of_any_other_name_is_not_found(browser: Client, name: str):
    assert (await browser.get(f"/documentation/pictures/{name}")).status in {400, 404}


READERS = {
    "merchant": ("take-orders", "verify-a-webhook", "find-stores", "operate"),
    "storefront": ("find-stores", "verify-a-webhook", "take-orders", "operate"),
    "operator": ("operate", "go-to-postgresql", "take-orders", "find-stores"),
}
"""Two guides that fit each reader, and two that don't."""


@only_sqlite
@pytest.mark.parametrize("reader", READERS)
async def test_the_guides_fit_who_reads(browser: Client, reader: str):
    page = Parsed((await browser.get(f"/documentation?for={reader}")).body.decode())
    listed = set(page.values("href"))
    assert [f"/documentation/{name}" in listed for name in READERS[reader]] == [True, True, False, False]


@own()
async def test_who_is_signed_in_sees_the_guides_of_their_role_until_they_choose_others(
    mercato: Service, monkeypatch: pytest.MonkeyPatch
):
    merchant = await enter_as_partner(mercato, (await mercato.partner())[1])
    storefront = await enter_as_partner(mercato, (await mercato.partner(PartnerKind.MARKETFRONT))[1])
    operator = await enter_as_operator(mercato)
    everything = Browser(mercato.base, mercato.session)
    for browser, current in (
        (merchant, "Merchants"),
        (storefront, "Storefronts"),
        (operator, "Operators"),
        (everything, "Everybody"),
    ):
        page = await browser.open("/documentation")
        assert [one.text for one in page.root.all("a", **{"aria-current": "page"})] == [current]
        every = await browser.open("/documentation?for=everybody")
        assert [one.text for one in every.root.all("a", **{"aria-current": "page"})] == ["Everybody"]

    async def unavailable(*_args: object, **_options: object) -> None:
        raise DatabaseUnavailable("no connection")

    with monkeypatch.context() as outage:
        outage.setattr(sessions, "find_session", unavailable)
        page = await merchant.open("/documentation")
        assert (page.status, "Take orders" in page.text, "Find stores" in page.text) == (200, True, True)
    await merchant.post("/console/sign-out")
    page = await merchant.open("/documentation")
    assert [one.text for one in page.root.all("a", **{"aria-current": "page"})] == ["Everybody"]


async def test_no_guide_names_the_port_of_another_installation(replies: dict[str, Answer]):
    for path, reply in replies.items():
        assert b"localhost:8000" not in reply.body, path


async def test_an_unknown_reader_sees_every_guide(browser: Client):
    everything, odd = [
        (await browser.get(path)).body.partition(b"<main")[2]
        for path in ("/documentation", "/documentation?for=%3Cscript%3E&for=nobody")
    ]
    assert odd == everything


async def test_the_examples_have_this_installations_address(mercato: Service, browser: Client):
    html = (await browser.get("/documentation/take-orders")).body.decode()
    assert "http://127.0.0.1:8000" not in html
    assert mercato.base in (await browser.get("/documentation/start-here")).body.decode()


async def test_an_address_of_a_host_header_is_only_text(browser: Client):
    reply = await browser.get("/documentation/start-here", headers={"Host": "x<script>.example"})
    assert reply.status == 400 or b"<script>" not in reply.body


@only_sqlite
@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("circuit breaker", "/documentation/orders#the-circuit-breaker", "The circuit breaker"),
        ("IDEMPOTENCY keys", "/documentation/orders#idempotency-keys", "Idempotency keys"),
        ("webhook signature verify", "/documentation/verify-a-webhook", "Verify a webhook"),
    ],
)
async def test_a_search_finds_the_section_that_has_every_word(
    browser: Client, text: str, path: str, words: str
):
    html = (await browser.get(f"/documentation?text={text.replace(' ', '+')}")).body.decode()
    found = html.partition('id="found"')[2].partition("<h2")[0]
    assert f'href="{path}"' in found
    assert words in found


@only_sqlite
@pytest.mark.parametrize(
    "text", ["xyzzy", "%25", "<script>alert(1)</script>", "شاورما", "a " * 5_000, "\u0000", "'\""]
)
async def test_a_search_of_anything_is_a_page(browser: Client, text: str):
    reply = await browser.get(f"/documentation?{urlencode({'text': text})}")
    assert reply.status == 200
    assert len(reply.body) <= MAX_BYTES
    assert b"<script>alert" not in reply.body


async def test_a_guide_is_compressed_for_who_accepts_it_and_read_only(mercato: Service, browser: Client):
    url = f"{mercato.base}/documentation/operate"
    async with mercato.session.get(url, headers={"Accept-Encoding": "gzip"}) as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
    assert (await browser.post("/documentation/operate")).status == 405


BUILDS: Final = """
import os, sys, tarfile
from hatchling.build import build_sdist, build_wheel
to = sys.argv[1]
build_wheel(to + "/repository")
with tarfile.open(os.path.join(to, build_sdist(to))) as archive:
    archive.extractall(to, filter="data")
    os.chdir(os.path.join(to, archive.getnames()[0].split("/")[0]))
build_wheel(to + "/sdist")
"""
"""Builds a wheel of the package in this directory, and one of its sdist."""


def test_a_wheel_of_the_repository_and_one_of_its_sdist_have_every_guide(tmp_path: Path):
    subprocess.run([sys.executable, "-c", BUILDS, tmp_path], cwd=PACKAGE, check=True, capture_output=True)
    for source in ("repository", "sdist"):
        (wheel,) = (tmp_path / source).glob("*.whl")
        check_guides(wheel)


def check_guides(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as built:
        files = {name for name in built.namelist() if "/documents/" in name}
    have = {Path(name).stem for name in files if name.endswith(".md")}
    assert have - {"README", "operations", "errors"} == guides.names()
    pictures = {Path(name).name for name in files if not name.endswith(".md")}
    assert pictures == {
        path.name
        for folder in ("pictures", "how-to/console")
        for path in (ROOT / "docs" / folder).iterdir()
        if path.suffix in {".svg", ".png"}
    }


async def test_the_documentation_begins_with_three_doors_and_this_installations_address(mercato: Service):
    visitor = Browser(mercato.base, mercato.session)
    page = await visitor.open("/documentation?for=everybody")
    (doors,) = page.root.all("ul", **{"aria-label": "Begin"})
    assert [one.text for one in doors.all("h2")] == ["Sell", "Shop", "Operate"]
    assert [len(one.all("li")) for one in doors.all("ol")] == [3, 3, 3]
    assert f"POST {mercato.base}/v1/marketfront/stores/discover" in doors.text
    assert "env.sh" not in page.text
    assert ":9100" not in page.text
    merchant = await visitor.open("/documentation?for=merchant")
    (doors,) = merchant.root.all("ul", **{"aria-label": "Begin"})
    assert [one.text for one in doors.all("h2")] == ["Sell"]
    assert not (await visitor.open("/documentation?text=cart")).root.all("ul", **{"aria-label": "Begin"})


async def test_a_guide_has_this_installations_address_and_the_readers_own_store_in_its_examples(
    mercato: Service, shop: MerchantServer
):
    visitor = Browser(mercato.base, mercato.session)
    page = await visitor.open("/documentation/pause-a-store")
    assert "$URL" not in page.text
    assert "env.sh" not in page.text
    assert f"{mercato.base}/v1/commerce/stores/$STORE/status" in page.text
    assert "$STORE is the id of a store" in page.text
    deal = await trade(mercato, shop)
    merchant = await enter_as_partner(mercato, deal.pos)
    page = await merchant.open("/documentation/pause-a-store")
    assert f"{mercato.base}/v1/commerce/stores/{deal.store['storeId']}/status" in page.text
    assert "$STORE" not in page.text
    assert "$KEY is your Commerce key" in page.text
    for stranger in (
        await enter_as_partner(mercato, deal.front),
        await enter_as_partner(mercato, (await mercato.partner())[1]),
        await enter_as_operator(mercato),
    ):
        assert "$STORE" in (await stranger.open("/documentation/pause-a-store")).text


def test_no_guide_that_is_served_reads_a_file_of_a_clone():
    for name in guides.names() - {"start-here"}:
        assert ". ./env.sh" not in guides.get_guide(name).body, name
