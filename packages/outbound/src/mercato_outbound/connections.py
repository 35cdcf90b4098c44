"""The connections to other servers: the guard of each, and the pools. The only place that sets aiohttp up.

`urls` checks the text of a URL, `addresses` an address. Here the address of each connection is checked: a resolver
refuses names, and a socket factory makes the final check. Only checked addresses are connected to, so a second answer
of the DNS (rebinding) is checked as well.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from msgspec import Struct

from mercato_contract import USER_AGENT
from mercato_outbound.guard import AddressPolicy, AddressVerdict
from mercato_outbound.results import Options

AddrInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]

MAX_ADDRESSES = 8  # of one name; they are tried one after the other
CONNECTIONS = 512  # open at a time; one file descriptor each
CONNECTIONS_PER_HOST = 64  # a partner's systems often share one host
URGENT_CONNECTIONS = 1024  # for calls that somebody waits for; the caller bounds those to one server
URGENT_DNS_THREADS = 64  # a name whose DNS servers don't answer occupies one until the system gives up
IDLE_SECONDS = 15  # after which a kept connection is closed; servers commonly close theirs after 5 to 75
MAX_HEADS = (
    20  # of one response: informational ones (1xx) come before the final one, and few servers send any
)
MAX_HEADERS = 64 * 1024  # bytes of all headers of one response
_PARSED = 1 << 20  # bytes of one header, and their number, that aiohttp refuses: it never gets so many


class AddressRefused(OSError):  # noqa: N818  # a verdict, not an error
    """An address that may not be connected to.

    It is an OSError because the HTTP client passes those on, as the `__cause__` of its own error. All have the same
    text: only then does asyncio raise the first of several as it is; and the text names no address.
    """

    def __init__(self, verdict: AddressVerdict) -> None:
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
    """The operating system's resolver, in separate threads and with a timeout.

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
            verdict = AddressVerdict.SCOPED
        if not verdict.allowed:
            raise AddressRefused(verdict)
        return socket.socket(family, kind, protocol)

    return make


connection_was_reused: Final[ContextVar[bool]] = ContextVar("connection_was_reused", default=False)
"""Whether the last connection of the current task had carried a request before."""


class TooManyHeadsError(aiohttp.ClientError):
    """A server sends informational responses without end."""


class HeadersTooLargeError(aiohttp.ClientError):
    """A response has more than MAX_HEADERS bytes of headers, or of trailers."""


class _BoundedHeads(asyncio.Protocol):
    """Passes what arrives on a connection to aiohttp's handler, which reads headers and any number of heads.

    aiohttp bounds each header and their number, which bounds their sum only loosely, and it reads any number of
    informational responses: a server that sends nothing else would keep the event loop busy for as long as a call may
    last. So bytes are counted that bring neither a head nor a part of a body.
    """

    def __init__(self, handler: ResponseHandler) -> None:
        self._handler = handler
        self._heads = 0
        self._unread = 0
        self._payload: Any = None
        self._fed = 0
        handler.read = self._read  # type: ignore[method-assign]  # each response of a connection is read by it

    def begin(self) -> None:
        """Let the next response on the connection have MAX_HEADS heads."""
        self._heads = self._unread = self._fed = 0
        self._payload = None

    async def _read(self) -> Any:
        self._heads += 1
        if self._heads > MAX_HEADS:
            raise TooManyHeadsError
        message, self._payload = await ResponseHandler.read(self._handler)
        check_headers(message.raw_headers)
        return message, self._payload

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        self._handler.data_received(data)
        fed = self._fed if self._payload is None else self._payload.total_bytes
        if len(self._handler) or fed != self._fed:
            self._unread, self._fed = 0, fed
        elif self._unread > MAX_HEADERS:
            self._refuse()

    def _refuse(self) -> None:
        transport, error = self._handler.transport, HeadersTooLargeError()
        if self._payload is not None:
            self._payload.set_exception(error)
        self._handler.set_exception(error)
        if transport is not None:
            transport.abort()

    def eof_received(self) -> None:
        self._handler.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


def check_headers(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise HeadersTooLargeError if the headers have too many bytes together, with their colons and line ends."""
    if sum([len(name) + len(value) + 4 for name, value in headers]) > MAX_HEADERS:
        raise HeadersTooLargeError


def _bound_heads(protocol: ResponseHandler) -> None:
    """Bound the heads of the next response on the connection."""
    transport = protocol.transport
    assert transport is not None, "it has just been connected"
    bounded = transport.get_protocol()
    if not isinstance(bounded, _BoundedHeads):
        bounded = _BoundedHeads(protocol)
        transport.set_protocol(bounded)
    bounded.begin()


class ConnectionPool(aiohttp.TCPConnector):
    """A pool that never reuses a connection on which bytes arrived after its last response.

    aiohttp would read them as the response to the next request: a 408 from a server that closes, or a response sent
    twice.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used_protocols: WeakSet[ResponseHandler] = WeakSet()

    async def connect(self, *request: Any, **options: Any) -> Connection:
        """Return a connection for the request, and set `connection_was_reused`."""
        while True:
            connection = await super().connect(*request, **options)
            protocol = connection.protocol
            assert protocol is not None, "it has just been connected"
            reused = protocol in self._used_protocols
            # A server may also send first on a new connection: another new one would not help.
            if not (reused and protocol.should_close):
                break
            connection.close()
        self._used_protocols.add(protocol)
        _bound_heads(protocol)
        connection_was_reused.set(reused)
        return connection


class Session(Struct, frozen=True):
    """Two connection pools: one for urgent calls, one for the rest."""

    http: aiohttp.ClientSession
    urgent: aiohttp.ClientSession
    resolvers: tuple[AbstractResolver, ...]

    async def close(self) -> None:
        await self.http.close()
        await self.urgent.close()
        for resolver in self.resolvers:
            await resolver.close()


def open_session(options: Options) -> Session:
    """Return a session on the running event loop."""
    resolver = GuardedResolver(options.resolver or SystemResolver(), options.policy)
    # Urgent calls have connections and DNS threads of their own, which downloads and deliveries can't occupy, and no
    # bound per host: a host may serve a thousand partners' systems, and one that hangs must not block the others.
    for_urgent = GuardedResolver(
        options.resolver or SystemResolver(threads=URGENT_DNS_THREADS), options.policy
    )
    return Session(
        http=_pool(options, resolver, limit=CONNECTIONS, per_host=CONNECTIONS_PER_HOST),
        urgent=_pool(options, for_urgent, limit=URGENT_CONNECTIONS, per_host=0),
        resolvers=(resolver, for_urgent),
    )


def _pool(
    options: Options, resolver: AbstractResolver, *, limit: int, per_host: int
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=ConnectionPool(
            resolver=resolver,
            socket_factory=socket_factory(options.policy),
            ssl=options.tls or True,
            use_dns_cache=options.dns_seconds > 0,
            ttl_dns_cache=options.dns_seconds,
            limit=limit,
            limit_per_host=per_host,
            keepalive_timeout=IDLE_SECONDS,
        ),
        headers={aiohttp.hdrs.USER_AGENT: USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        max_line_size=_PARSED,
        max_field_size=_PARSED,
        max_headers=_PARSED,
    )
