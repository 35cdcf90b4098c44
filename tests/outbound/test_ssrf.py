"""No partner's URL reaches an internal address: not directly, not by DNS, not by a redirect.

The public server is on loopback. The socket factory checks every address that would be connected to; none of them is
really connected to.
"""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from tests.outbound import internal_addresses as internal
from tests.outbound.conftest import RecordedSleep
from tests.servers import Server, StubDns, Tls, raw, reply, self_signed, serve

from mercato_outbound.client import Outbound
from mercato_outbound.connections import AddressRefused, socket_factory
from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import Fault, Options, RequestFailed

OPEN = "93.184.215.14"
REFUSED = Fault.REFUSED_ADDRESS

Ask = Callable[[Outbound, str], Any]


async def pull(outbound: Outbound, url: str) -> Fault | None:
    """Pull a catalog; return the failure."""
    try:
        await outbound.pull(url)
    except RequestFailed as failed:
        return failed.fault
    return None


async def post(outbound: Outbound, url: str) -> Fault | None:
    """Deliver an event; return the failure."""
    try:
        await outbound.post(url, headers={}, body=b"{}", timeout=5)
    except RequestFailed as failed:
        return failed.fault
    return None


async def post_order(outbound: Outbound, url: str) -> Fault | None:
    """Call a store for an order; return the failure."""
    try:
        await outbound.post(url, headers={}, body=b"{}", timeout=5, urgent=True)
    except RequestFailed as failed:
        return failed.fault
    return None


WAYS = {"pull": pull, "post": post, "post_order": post_order}


class Wire:
    """Replaces the network: one loopback server answers for every public address."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.reached: list[str] = []

    async def connect(self, *, addr_infos: Any, socket_factory: Any, loop: Any, **_: Any) -> socket.socket:
        for info in addr_infos:
            socket_factory(info).close()  # the last check; the socket is never connected
        self.reached += [info[4][0] for info in addr_infos]
        assert self.server is not None, f"{self.reached} would have been connected to"
        plug = socket.socket()
        plug.setblocking(False)
        await loop.sock_connect(plug, (self.server.host, self.server.port))
        return plug


@pytest.fixture(autouse=True)
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    made = Wire()
    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", made.connect)
    return made


@pytest.fixture(scope="module")
def tls() -> Tls:
    return self_signed("menu.example")


@asynccontextmanager
async def outside(dns: StubDns, tls: Tls | None = None, *, private: bool = False) -> AsyncIterator[Outbound]:
    """Return a client as in production, except for its resolver and its certificate authority."""
    policy = AddressPolicy(allow_private=private)
    async with Outbound(
        Options(
            policy=policy, resolver=dns, tls=tls.client if tls else None, sleep=RecordedSleep(), dns_seconds=0
        )
    ) as outbound:
        yield outbound


def test_there_are_enough_internal_addresses() -> None:
    assert len(internal.HOSTS) + len(internal.NAMES) >= 120
    assert len(set(internal.ADDRESSES.values())) >= 60


@pytest.mark.parametrize("way", ["pull", "post"])
@pytest.mark.parametrize("form", internal.HOSTS)
async def test_a_url_of_an_internal_address_is_neither_opened_nor_resolved(
    wire: Wire, form: str, way: str
) -> None:
    dns = StubDns({})
    async with outside(dns) as outbound:
        for url in (f"https://{internal.HOSTS[form]}/menu.json", f"https://{internal.HOSTS[form]}:8443"):
            assert await WAYS[way](outbound, url) is REFUSED
    assert (wire.reached, dns.asked) == ([], [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", internal.NAMES)
async def test_a_name_of_an_internal_address_is_resolved_but_not_opened(
    wire: Wire, form: str, way: str
) -> None:
    class Everywhere(StubDns):
        async def resolve(self, host: str, *options: Any) -> Any:
            self._table[host] = [["127.0.0.1"]]
            return await super().resolve(host, *options)

    async with outside(Everywhere({})) as outbound:
        assert await WAYS[way](outbound, f"https://{internal.NAMES[form]}/") is REFUSED
    assert wire.reached == []


@pytest.mark.parametrize("way", ["pull", "post"])
@pytest.mark.parametrize("form", internal.ADDRESSES)
async def test_one_internal_address_disqualifies_a_name_at_any_position(
    wire: Wire, form: str, way: str
) -> None:
    inside = internal.ADDRESSES[form]
    for answer in ([inside], [OPEN, inside], [inside, OPEN], [OPEN] * 20 + [inside]):
        async with outside(StubDns({"menu.example": [answer]})) as outbound:
            assert await WAYS[way](outbound, "https://menu.example/") is REFUSED
    assert wire.reached == []


@pytest.mark.parametrize("form", internal.ADDRESSES)
def test_an_address_that_changes_between_check_and_connection_gets_no_socket(form: str) -> None:
    family = socket.AF_INET6 if ":" in internal.ADDRESSES[form] else socket.AF_INET
    with pytest.raises(AddressRefused):
        socket_factory(AddressPolicy())((family, socket.SOCK_STREAM, 6, "", (internal.ADDRESSES[form], 443)))


@pytest.mark.parametrize("way", WAYS)
async def test_a_name_that_is_public_once_and_internal_afterwards_is_reached_once(
    wire: Wire, way: str, tls: Tls
) -> None:
    dns = StubDns({"menu.example": [[OPEN], ["10.0.0.1"]]})
    async with (
        serve(reply(200, b"{}", connection="close"), tls=tls.server) as wire.server,
        outside(dns, tls) as outbound,
    ):
        assert await WAYS[way](outbound, "https://menu.example/") is None
        assert await WAYS[way](outbound, "https://menu.example/") is REFUSED
    assert wire.reached == [OPEN]


def location(form: str) -> bytes | None:
    """Return the form as bytes of a header; None if a header can't contain it."""
    host = internal.HOSTS[form] if form in internal.HOSTS else internal.NAMES[form]
    try:
        header = f"://{host}/inside".encode()
    except UnicodeEncodeError:
        return None
    return None if any(byte in b"\r\n\0" for byte in header) else header


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_no_form_of_an_internal_address_is_reached_by_a_redirect(
    wire: Wire, scheme: str, tls: Tls
) -> None:
    forms = [form for form in [*internal.HOSTS, *internal.NAMES] if location(form) is not None]
    answers = {
        "menu.example": [[OPEN]],
        "localhost": [["127.0.0.1"]],
        "metadata.google.internal": [["10.9.8.7"]],
    }
    got: dict[str, Fault | None] = {}
    async with outside(StubDns(answers), tls) as outbound:
        for number, form in enumerate(forms):
            status = (301, 302, 303, 307, 308)[number % 5]
            to = scheme.encode() + (location(form) or b"")
            head = b"HTTP/1.1 %d Found\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % (status, to)
            async with serve(raw(head), tls=tls.server if scheme == "https" else None) as wire.server:
                got[form] = await pull(outbound, f"{scheme}://menu.example/")
    # Without a host it redirects to itself.
    assert got.pop("no host") is Fault.REDIRECT
    # An unknown name, or bytes that aren't a header: these reach nothing internal either.
    assert set(got.values()) <= {REFUSED, Fault.DNS, Fault.PROTOCOL}
    assert sum(fault is REFUSED for fault in got.values()) > 100
    assert set(wire.reached) == {OPEN}


@pytest.mark.parametrize("form", internal.ADDRESSES)
async def test_a_redirect_to_a_name_with_an_internal_address_is_not_followed(wire: Wire, form: str) -> None:
    dns = StubDns({"menu.example": [[OPEN]], "inside.example": [[OPEN, internal.ADDRESSES[form]]]})
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://inside.example/\r\n\r\n"
    async with serve(raw(head)) as wire.server, outside(dns) as outbound:
        assert await pull(outbound, "http://menu.example/") is REFUSED
    assert wire.reached == [OPEN]


async def test_a_webhook_follows_no_redirect_at_all(wire: Wire, tls: Tls) -> None:
    head = b"HTTP/1.1 307 Temporary\r\nContent-Length: 0\r\nLocation: https://menu.example/else\r\n\r\n"
    async with (
        serve(raw(head), tls=tls.server) as wire.server,
        outside(StubDns({"menu.example": [[OPEN]]}), tls) as outbound,
    ):
        for way in (post, post_order):
            assert await way(outbound, "https://menu.example/hook") is None
        assert [request.path for request in wire.server.requests] == ["/hook", "/hook"]


@pytest.mark.parametrize("form", internal.PUBLIC)
async def test_public_addresses_are_reached(wire: Wire, form: str) -> None:
    address = internal.PUBLIC[form]
    async with (
        serve(reply(200, b"{}")) as wire.server,
        outside(StubDns({"menu.example": [[address]]})) as outbound,
    ):
        literal = f"[{address}]" if ":" in address else address
        assert await pull(outbound, f"http://{literal}/") is None
        assert await pull(outbound, "http://menu.example/") is None
    assert len(wire.reached) == 2


@pytest.mark.parametrize(
    "form", [name for name in internal.ADDRESSES if "metadata" in name or "link-local" in name]
)
async def test_development_opens_no_metadata_service(wire: Wire, form: str) -> None:
    address = internal.ADDRESSES[form]
    async with outside(StubDns({"menu.example": [[address]]}), private=True) as outbound:
        literal = f"[{quote(address)}]" if ":" in address else address
        for url in (f"http://{literal}/latest/meta-data/", "http://menu.example/"):
            assert await pull(outbound, url) is REFUSED
            assert await post(outbound, url) is REFUSED
    assert wire.reached == []
