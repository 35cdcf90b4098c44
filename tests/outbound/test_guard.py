import asyncio
import socket
from collections.abc import Sequence

import aiohttp
import pytest
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult
from tests.outbound.conftest import PUBLIC
from tests.servers import StubDns, reply, serve

from mercato_outbound.client import Outbound
from mercato_outbound.connections import (
    AddressRefused,
    GuardedResolver,
    SystemResolver,
    socket_factory,
)
from mercato_outbound.guard import AddressPolicy, AddressVerdict
from mercato_outbound.results import Fault, Options, PulledDocument, RequestFailed

OPEN = "93.184.215.14"

INSIDE = [
    "127.0.0.1",
    "10.1.2.3",
    "169.254.169.254",
    "::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "fe80::1%2",
    "fd00:ec2::254",
    "no address",
]


def _resolver(*addresses: str) -> GuardedResolver:
    return GuardedResolver(StubDns({"x.example": [addresses]}), AddressPolicy())


@pytest.mark.parametrize("address", INSIDE)
@pytest.mark.parametrize("order", [1, -1])
async def test_a_name_with_one_internal_address_is_refused_whatever_its_other_addresses_are(
    address: str, order: int
) -> None:
    with pytest.raises(AddressRefused) as refused:
        await _resolver(*[OPEN, address][::order]).resolve("x.example", 443)
    assert address not in str(refused.value)


async def test_a_name_with_many_public_addresses_is_resolved_to_a_few() -> None:
    many = [f"93.184.215.{n}" for n in range(1, 100)]
    found = await _resolver(*many).resolve("x.example", 443)
    assert [result["host"] for result in found] == many[:8]
    assert {result["port"] for result in found} == {443}


async def test_addresses_that_are_not_used_are_checked_too() -> None:
    with pytest.raises(AddressRefused):
        await _resolver(*[f"93.184.215.{n}" for n in range(1, 100)], "10.0.0.1").resolve("x.example")


async def test_a_name_without_addresses_is_not_found() -> None:
    with pytest.raises(socket.gaierror):
        await _resolver().resolve("x.example")


@pytest.mark.parametrize("address", INSIDE)
def test_no_socket_is_made_for_an_internal_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", None)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with pytest.raises(AddressRefused) as refused:
        socket_factory(AddressPolicy())((family, socket.SOCK_STREAM, 6, "", (address, 80)))
    assert address not in str(refused.value)


def test_an_address_within_a_zone_gets_no_socket() -> None:
    where = ("2606:4700::1", 80, 0, 3)
    with pytest.raises(AddressRefused) as refused:
        socket_factory(AddressPolicy())((socket.AF_INET6, socket.SOCK_STREAM, 6, "", where))
    assert refused.value.verdict is AddressVerdict.SCOPED


def test_an_allowed_address_gets_a_socket_that_is_not_connected_yet() -> None:
    with socket_factory(PUBLIC)((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))) as plug:
        assert (plug.family, plug.type) == (socket.AF_INET, socket.SOCK_STREAM)


async def test_the_system_resolver_finds_localhost_and_the_guard_refuses_it() -> None:
    resolver = SystemResolver()
    found = await resolver.resolve("localhost", 80)
    assert {result["host"] for result in found} <= {"127.0.0.1", "::1"}
    with pytest.raises(AddressRefused):
        await GuardedResolver(resolver, AddressPolicy()).resolve("localhost", 80)
    await resolver.close()


async def test_a_name_server_that_never_answers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def never(*_: object) -> list[object]:
        asked.set()
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(loop, "run_in_executor", never)
    resolver = SystemResolver(timeout=0.01)
    with pytest.raises(socket.gaierror):
        await resolver.resolve("slow.example", 80)
    assert asked.is_set()
    await resolver.close()


class _Trusting(AbstractResolver):
    """A resolver without a guard, as if the first two layers had failed."""

    def __init__(self, *addresses: str) -> None:
        self._dns = StubDns({"x.example": [addresses]})

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return await self._dns.resolve(host, port, family)

    async def close(self) -> None: ...


@pytest.mark.parametrize("addresses", [["127.0.0.2"], ["127.0.0.2", "10.0.0.1", "::1"]])
async def test_the_socket_factory_alone_refuses_a_name_that_passed_the_resolver(
    addresses: Sequence[str],
) -> None:
    connector = aiohttp.TCPConnector(resolver=_Trusting(*addresses), socket_factory=socket_factory(PUBLIC))
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as failed:
            await session.get("http://x.example/")
    assert isinstance(failed.value.__cause__, AddressRefused)


async def test_the_socket_factory_alone_refuses_a_literal_address() -> None:
    async with serve(reply(200, b"secret"), host="127.0.0.2") as inside:
        connector = aiohttp.TCPConnector(socket_factory=socket_factory(PUBLIC))
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(aiohttp.ClientConnectorError) as failed:
                await session.get(inside.url)
        assert isinstance(failed.value.__cause__, AddressRefused)
        assert inside.connections == 0


def test_the_guard_works_on_the_event_loop_of_production_too() -> None:
    async def story() -> None:
        dns = StubDns({"menu.example": [["127.0.0.1"]], "inside.example": [["127.0.0.2"]]})
        async with (
            serve(reply(200, b"{}")) as server,
            serve(reply(200, b"secret"), host="127.0.0.2") as inside,
            Outbound(Options(policy=PUBLIC, resolver=dns)) as outbound,
        ):
            pulled = await outbound.pull(server.at("menu.example") + "/a")
            assert isinstance(pulled, PulledDocument)
            assert pulled.body == b"{}"
            for url in (inside.url, inside.at("inside.example")):
                with pytest.raises(RequestFailed) as failed:
                    await outbound.pull(url)
                assert failed.value.fault is Fault.REFUSED_ADDRESS
            connector = aiohttp.TCPConnector(socket_factory=socket_factory(PUBLIC))
            async with aiohttp.ClientSession(connector=connector) as session:
                with pytest.raises(aiohttp.ClientConnectorError) as refused:
                    await session.get(inside.url)
            assert isinstance(refused.value.__cause__, AddressRefused)
            assert inside.connections == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())
