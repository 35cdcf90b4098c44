"""The guard at connect time: a resolver that refuses names, and a socket factory that makes the final check.

`urls` checks the text of a URL, `addresses` an address. Here the address of each connection is checked: only checked
addresses are connected to, so a second answer of the DNS (rebinding) is checked as well.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from mercato.platform.outbound.addresses import AddressPolicy, Verdict

AddrInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]

MAX_ADDRESSES = 8  # of one name; they are tried one after the other


class AddressRefused(OSError):  # noqa: N818  # a verdict, not an error
    """An address that may not be connected to.

    It is an OSError because the HTTP client passes those on, as the `__cause__` of its own error. All have the same
    text: only then does asyncio raise the first of several as it is; and the text names no address.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__("the address is not public")
        self.verdict = verdict


class GuardedResolver(AbstractResolver):
    """Resolves like `inner`, and refuses a name if ANY of its addresses is refused.

    One private address among public ones is a mistake or an attack by a race.
    """

    def __init__(self, inner: AbstractResolver, policy: AddressPolicy) -> None:
        self._inner = inner
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        results = await self._inner.resolve(host, port, family)
        for result in results:
            verdict = self._policy.verdict(result["host"])
            if not verdict.allowed:
                raise AddressRefused(verdict)
        if not results:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return results[:MAX_ADDRESSES]

    async def close(self) -> None:
        await self._inner.close()


class SystemResolver(AbstractResolver):
    """The operating system's resolver, in threads of its own and with a timeout.

    A name whose DNS servers don't answer occupies a thread for as long as the system waits: in the event loop's default
    pool a few such names would block everything else that needs a thread.
    """

    def __init__(self, *, threads: int = 16, timeout: float = 5.0) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="mercato-dns")
        self._timeout = timeout

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout):
                found = await loop.run_in_executor(self._pool, _look_up, host, port, family)
        except TimeoutError as error:
            raise socket.gaierror(socket.EAI_AGAIN, "no answer in time") from error
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[Any]:
    return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)


def socket_factory(policy: AddressPolicy) -> Callable[[AddrInfo], socket.socket]:
    """Return the socket factory for `TCPConnector`, which checks the address of every connection.

    Literal addresses don't pass through the resolver, so only this check covers all connections.
    """

    def make(info: AddrInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        verdict = policy.verdict(str(address[0]))
        if verdict.allowed and len(address) > 3 and address[3]:  # noqa: PLR2004  # (host, port, flow, scope)
            verdict = Verdict.SCOPED
        if not verdict.allowed:
            raise AddressRefused(verdict)
        return socket.socket(family, kind, protocol)

    return make
