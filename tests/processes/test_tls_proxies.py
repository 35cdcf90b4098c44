"""The configurations of nginx and Caddy in docs/how-to/operate.md, run as they stand there before `mercato serve`.

Only names, ports and certificates are this machine's. Where a proxy isn't installed, its tests are skipped.
"""

import asyncio
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
import pytest
from tests.console.browser import Browser
from tests.docs.documents import ROOT, blocks
from tests.ports import free_port
from tests.processes.test_serve import environment, mercato, serving, until_status
from tests.servers import StubDns, self_signed
from tests.service import CATALOG, Client, merchant
from tests.waiting import PATIENCE, loop_timeout

from mercato_client.testing.caller import Answer

HOST: Final = "mercato.example.com"
PATH: Final = "/network"
MiB: Final = 1 << 20


# --- what is documented, on this machine --------------------------------------------------------------


def documented(start: str) -> str:
    """Return the text block of the page that begins so."""
    page = ROOT / "docs/how-to/operate.md"
    (text,) = [one.text for one in blocks(page) if one.language == "text" and one.text.startswith(start)]
    return text


def replaced(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


NGINX: Final = """
{user}
daemon off;
pid {folder}/nginx.pid;
events {{}}
http {{
    access_log off;
    gzip on;  # as in Debian's nginx.conf
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {documented}
}}
"""


def nginx(folder: Path, path: str, *, port: int, service: int) -> tuple[list[Any], ssl.SSLContext]:
    """Write the configuration; return the command, and what a client trusts."""
    text = documented("upstream mercato {")
    if path:
        at_root = "".join(line for line in text.splitlines(keepends=True) if line.startswith("    location "))
        text = replaced(text, (at_root, documented("    location = /network")))
    tls = self_signed(HOST)
    (folder / "both.pem").write_bytes(tls.pem)
    text = replaced(
        text,
        ("127.0.0.1:8000", f"127.0.0.1:{service}"),
        ("listen 443 ", f"listen 127.0.0.1:{port} "),
        ("/etc/ssl/mercato.pem", f"{folder}/both.pem"),
        ("/etc/ssl/mercato.key", f"{folder}/both.pem"),
    )
    # The workers of a root's nginx belong to another user, who may not write here.
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(user=user, folder=folder, documented=text))
    return ["nginx", "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf"], tls.client


CADDY: Final = """
{{
    # No certificates, and nothing else, from elsewhere.
    local_certs
    skip_install_trust
    auto_https disable_redirects
    admin off
    default_bind 127.0.0.1
    https_port {port}
    storage file_system {folder}/storage
}}
{documented}
"""


def caddy(folder: Path, path: str, *, port: int, service: int) -> tuple[list[Any], ssl.SSLContext]:
    """Write the configuration; return the command, and what a client trusts."""
    text = replaced(documented(f"{HOST} {{"), ("127.0.0.1:8000", f"127.0.0.1:{service}"))
    if path:
        first, *inner, last = text.splitlines()
        text = "\n".join([first, f"handle_path {path}/* {{", *inner, "}", last])
    (folder / "Caddyfile").write_text(CADDY.format(port=port, folder=folder, documented=text))
    # It makes its own authority when it starts; the one of this run isn't known yet.
    return [
        "caddy",
        "run",
        "--adapter",
        "caddyfile",
        "--config",
        folder / "Caddyfile",
    ], ssl.create_default_context()


PROXIES: Final[dict[str, Callable[..., tuple[list[Any], ssl.SSLContext]]]] = {"nginx": nginx, "caddy": caddy}


@dataclass(frozen=True)
class Front:
    """A service behind a proxy: the URL that clients know, the service's own, a partner, and whom clients trust."""

    url: str
    direct: str
    partner: Any
    trust: ssl.SSLContext

    @property
    def origin(self) -> str:
        return self.url.removesuffix(PATH)

    @property
    def path(self) -> str:
        return self.url.removeprefix(self.origin)

    @asynccontextmanager
    async def session(self, source: str = "127.0.0.1") -> AsyncIterator[aiohttp.ClientSession]:
        """Open a session of a client with that address."""
        sockets: list[socket.socket] = []

        def tracked(address: tuple[Any, ...]) -> socket.socket:
            sockets.append(socket.socket(*address[:3]))
            return sockets[-1]

        connector = aiohttp.TCPConnector(
            resolver=StubDns({HOST: [["127.0.0.1"]]}),
            ssl=self.trust,
            local_addr=(source, 0),
            socket_factory=tracked,
        )
        # Only what a test says is sent.
        async with aiohttp.ClientSession(
            connector=connector, skip_auto_headers={"Accept-Encoding"}
        ) as session:
            yield session
        # TLS says goodbye after the session has ended, which must not be after the event loop has.
        async with asyncio.timeout(PATIENCE):
            while any(one.fileno() >= 0 for one in sockets):
                await asyncio.sleep(0.01)

    def merchant(self, session: aiohttp.ClientSession) -> Client:
        return Client(self.origin, self.partner["commerceKey"], session)


@contextmanager
def running(command: list[Any], folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program; its output is a pipe, its log a file of the folder."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(**variables)
        )
    try:
        yield process
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def until_listening(process: subprocess.Popen[str], port: int, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert process.poll() is None and time.monotonic() < until, log.read_text()  # noqa: PT018
            time.sleep(0.02)
        else:
            return


@pytest.fixture(scope="module", params=[(name, path) for name in PROXIES for path in ("", PATH)], ids="".join)
async def front(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Front]:
    name, path = request.param
    async with fronted(name, path, tmp_path_factory.mktemp(name)) as made:
        yield made


COMPRESSING: Final = {
    "nginx": ("nginx.conf", "gzip off;", "gzip on; gzip_proxied any; gzip_types application/json;"),
    "caddy": ("Caddyfile", "reverse_proxy", "encode zstd gzip\n    reverse_proxy"),
}
"""What people do in spite of the page: a line of the proxy's file, and what it is instead."""


@pytest.fixture(params=COMPRESSING)
async def compressor(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Front]:
    async with fronted(request.param, "", tmp_path, change=COMPRESSING[request.param]) as made:
        yield made


@asynccontextmanager
async def fronted(
    name: str, path: str, folder: Path, change: tuple[str, str, str] | None = None
) -> AsyncIterator[Front]:
    """Run a service behind a proxy, whose configuration has a change."""
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    port = free_port()
    url = f"https://{HOST}:{port}{path}"
    settings = {
        "MERCATO_PUBLIC_URL": url, "MERCATO_TRUSTED_PROXIES": "127.0.0.1", "MERCATO_RATE_LIMITS": "on"
    }  # fmt: skip
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    async with serving(folder / "data", **settings) as (service, base):
        command, trust = PROXIES[name](folder, path, port=port, service=int(base.rpartition(":")[2]))
        if change is not None:
            file, *texts = change
            (folder / file).write_text(replaced((folder / file).read_text(), (texts[0], texts[1])))
        with running(command, folder, **homes) as proxy:
            until_listening(proxy, port, folder / f"{name}.log")
            if name == "caddy":
                trust.load_verify_locations(folder / "storage/pki/authorities/local/root.crt")
            words = ("partner", "create", "Test", "--kind", "both", "--json", "--data-dir", folder / "data")
            code, made, said = await mercato(*words)
            assert code == 0, said
            yield Front(url, base, json.loads(made), trust)
        assert service.returncode is None


# --- what clients and browsers see --------------------------------------------------------------------


async def test_an_onboarding_is_followed_by_its_location_and_its_catalog_is_read_as_the_service_sent_it(
    front: Front,
):
    async with front.session() as session, merchant() as shop:
        pos = front.merchant(session)
        body = {"partnerStoreId": "s", "name": "S", "address": {}, "catalogCallbackUrl": shop.host(CATALOG)}
        made = await pos.post(f"{front.path}/v1/commerce/onboarding/stores", body)
        location = made.headers["Location"]
        assert location == f"{front.path}/v1/commerce/onboarding/stores/{made.json()['onboardingId']}"
        await until_status(pos, location, {"ready_to_activate"})
        store = (await pos.post(f"{location}/activate")).json()
        catalog = f"/v1/marketfront/catalog-sets/{store['catalogSetId']}"
        shopper = Client(front.origin, front.partner["marketfrontKey"], session)
        direct = Client(front.direct, shopper.key, session)
        for accepted in ({}, {"Accept-Encoding": "gzip"}, {"Accept-Encoding": "identity"}):
            read = await shopper.get(front.path + catalog, headers=accepted)
            sent = await direct.get(catalog, headers=accepted)
            for header in ("ETag", "Content-Encoding", "Content-Length", "Vary", "Cache-Control"):
                assert read.headers.get(header) == sent.headers.get(header), (accepted, header)
            known = accepted | {"If-None-Match": read.headers["ETag"]}
            assert (await shopper.get(front.path + catalog, headers=known)).status == 304


async def test_an_etag_that_a_compressor_in_front_has_changed_still_finds_the_catalog_unchanged(
    compressor: Front,
):
    async with compressor.session() as session, merchant() as shop:
        pos = compressor.merchant(session)
        items = {str(uuid4()): {"name": f"Dish {place}", "basePrice": "1.00"} for place in range(200)}
        body = {
            "partnerStoreId": "s",
            "name": "S",
            "address": {},
            "catalogCallbackUrl": shop.host({"items": items}),
        }
        location = (await pos.post("/v1/commerce/onboarding/stores", body)).headers["Location"]
        await until_status(pos, location, {"ready_to_activate"})
        store = (await pos.post(f"{location}/activate")).json()
        catalog = f"/v1/marketfront/catalog-sets/{store['catalogSetId']}"
        shopper = Client(compressor.origin, compressor.partner["marketfrontKey"], session)
        for coding in ("", "identity", "gzip", "zstd", "br", "zstd, br, gzip"):
            accepted = {"Accept-Encoding": coding} if coding else {}
            read = await shopper.get(catalog, headers=accepted)
            assert read.status == 200
            for sent in (accepted, {"Accept-Encoding": "gzip"}, {}):
                again = await shopper.get(catalog, headers=sent | {"If-None-Match": read.headers["ETag"]})
                assert again.status == 304, (
                    coding,
                    read.headers["ETag"],
                    read.headers.get("Content-Encoding"),
                )


async def test_a_waiting_page_of_events_is_answered_by_the_event_through_the_proxy(front: Front):
    async with front.session() as session, merchant() as shop:
        pos = front.merchant(session)
        body = {
            "partnerStoreId": "feed",
            "name": "S",
            "address": {},
            "catalogCallbackUrl": shop.host(CATALOG),
        }
        location = (await pos.post(f"{front.path}/v1/commerce/onboarding/stores", body)).headers["Location"]
        await until_status(pos, location, {"ready_to_activate"})
        feed = f"{front.path}/v1/marketfront/stores/changes"
        shopper = Client(front.origin, front.partner["marketfrontKey"], session)
        after = (await shopper.get(feed)).json()["nextCursor"]
        waiting = asyncio.create_task(shopper.get(feed, params={"after": after, "wait": "25"}))
        store = (await pos.post(f"{location}/activate")).json()
        async with loop_timeout(15):
            page = (await waiting).json()
        assert [change["storeId"] for change in page["changes"]] == [store["storeId"]]
        # Without an event the proxy waits as long as the service does: it buffers, and gives up later.
        nothing = await shopper.get(feed, params={"after": page["nextCursor"], "wait": "2"})
        assert (nothing.status, nothing.json()["changes"]) == (200, [])


async def test_a_problem_has_the_public_url_and_the_ids_that_the_client_sent(front: Front):
    sent = {"X-Request-Id": "mine-1", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    async with front.session() as session:
        refused = await front.merchant(session).get(f"{front.path}/v1/commerce/stores/no", headers=sent)
        assert refused.headers["X-Request-Id"] == "mine-1"
        assert (refused.json()["requestId"], refused.json()["traceId"]) == ("mine-1", "a" * 32)
        assert refused.json()["type"] == f"{front.url}/errors/STORE_NOT_FOUND"
        async with session.get(refused.json()["type"], headers={"Accept": "text/html"}) as page:
            assert page.status == 200
            assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]


async def test_the_console_is_used_by_https_with_secure_cookies_and_links_of_the_public_url(front: Front):
    async with front.session() as session:
        link = (await front.merchant(session).post(f"{front.path}/v1/console/links", {})).json()["url"]
        assert link.startswith(f"{front.url}/console/links/")
        browser = Browser(front.origin, session)
        asked = await browser.open(link)
        # As Chromium does: the form's origin is the proxy's.
        overview = await browser.post(
            asked.form("Continue").attributes.get("action", link), Origin=front.origin
        )
        assert (overview.status, overview.heading) == (200, "Overview")
        assert all(name.startswith("__Host-") for name in browser.cookies)
        assert browser.cookies
        assert "Content-Encoding" not in overview.headers or not overview.headers["ETag"].startswith("W/")
        for element in overview.root.all("a", "link", "script", "form"):
            for name in {"href", "src", "action"} & element.attributes.keys():
                assert element.attributes[name].startswith((f"{front.path}/", "#")), element
        styles = next(one.attributes["href"] for one in overview.root.all("link", rel="stylesheet"))
        assert (await browser.open(styles)).status == 200
        assert (await browser.press(overview, "Sign out")).heading == "Sign in"


async def test_a_catalog_of_10_mib_passes_and_what_is_too_large_is_refused(front: Front):
    catalog = json.dumps(CATALOG | {"filler": "x" * (10 * MiB)}).encode()
    async with front.session() as session:
        pos = front.merchant(session)

        async def post(path: str, body: bytes) -> Answer:
            json_type = {"Content-Type": "application/json"}
            return await pos.call(
                "POST", f"{front.path}/v1/commerce/{path}", data=io.BytesIO(body), headers=json_type
            )

        checked = await post("catalogset-validation", catalog)
        assert (checked.status, checked.json()["valid"]) == (200, True)
        refused = await post("onboarding/stores", catalog)
        assert (refused.status, refused.code) == (413, "PAYLOAD_TOO_LARGE")
        # The service reads 16 MiB of what it refuses; whether Caddy has sent the rest by then is a race.
        far_too_large = await post("catalogset-validation", b" " * (33 * MiB))
        assert far_too_large.status in {413, 502}


async def test_a_client_counts_by_its_own_address_whatever_it_says(front: Front):
    url = f"{front.url}/v1/oauth/token"

    async def status(session: aiohttp.ClientSession, number: int, **headers: str) -> int:
        form = {"grant_type": "client_credentials", "client_secret": "guess"}
        form["client_id"] = f"01a1fcb9-1275-7872-9163-{number:012}"
        async with session.post(
            url, data=form, headers={name.replace("_", "-"): v for name, v in headers.items()}
        ) as one:
            await one.read()
            return one.status

    async with front.session("127.0.0.2") as one, front.session("127.0.0.3") as other:
        assert await status(one, 0) == 401
        number = 1
        async with asyncio.timeout(PATIENCE):
            # 60 failures a minute: on a busy machine the first ones are forgotten before the last.
            while await status(one, number) != 429:
                number += 1
        assert await status(one, 100_000, X_Forwarded_For="203.0.113.7") == 429
        assert await status(one, 100_001, Forwarded="for=203.0.113.7") == 429
        assert await status(other, 100_002, X_Forwarded_For="127.0.0.2", Forwarded="for=127.0.0.2") == 401


async def test_the_metrics_are_hidden_however_their_path_is_written(front: Front):
    """The service shows them to everybody on its machine, the proxy among them."""
    async with front.session() as session, session.get(f"{front.direct}/metrics") as own:
        assert own.status == 200
    assert re.fullmatch(r"https://[^:]+:\d+", front.origin)
    port = int(front.origin.rpartition(":")[2])
    for path in (
        "/metrics",
        "/metrics?a=b",
        "//metrics",
        "/./metrics",
        "/%6Detrics",
        "/a/../metrics",
        "/metrics/",
        "/metrics;a",
        "/METRICS",
    ):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=front.trust, server_hostname=HOST
        )
        writer.write(f"GET {front.path}{path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 30")), (path, answer[:200])
        assert b"mercato_requests" not in answer, path
