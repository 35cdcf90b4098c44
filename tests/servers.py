"""Loopback servers with scripted misbehaviour, and a DNS with scripted answers.

    async with serve(reply(200, b'{"items": {}}', etag='"1"')) as server:
        await outbound.pull(server.url + "/menu.json")
    assert server.requests[0].headers["accept-encoding"]

A *script* is what a server does with one request: `async def script(request, peer)`. The ones here are made by
functions and can be combined:

- `reply` answers properly; `raw` sends bytes as they are and closes; `redirect` sends elsewhere;
- `drip` sends a body slowly, `endless` never stops sending, `hang` stops sending, `drop` closes at once,
  `reset` resets the connection;
- `in_turn` takes the scripts one after the other (the last one stays), `by_path` chooses by path.

Nothing here reaches beyond loopback: `StubDns` answers from a table, and the client's own guard decides what to do
with the answer.
"""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it arrived; header names are lower-case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int  # the number of the server's connection, from 0: shows whether one was reused


@dataclass(slots=True)
class Peer:
    """The other end of a connection, for a script to write to."""

    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader
    open: bool = True

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Return once the client has disconnected."""
        while await self.reader.read(1 << 16):
            pass

    def close(self) -> None:
        self.open = False


Script = Callable[[Request, Peer], Awaitable[None]]


@dataclass(slots=True)
class Server:
    """A running server: its address and the requests that it got."""

    scheme: str
    host: str
    port: int
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request has arrived."""
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection has ended."""

    @property
    def url(self) -> str:
        return self.at(self.host)

    def at(self, name: str) -> str:
        """Return the server's base URL under another host name."""
        return f"{self.scheme}://{f'[{name}]' if ':' in name else name}:{self.port}"


# --- scripts --------------------------------------------------------------------------------------


def head(status: int = 200, /, **headers: str | int) -> bytes:
    """Return a status line and headers (`content_length=3` becomes `content-length: 3`), without a body."""
    lines = [
        f"HTTP/1.1 {status} Scripted",
        *(f"{name.replace('_', '-')}: {v}" for name, v in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def reply(status: int = 200, body: bytes = b"", /, **headers: str | int) -> Script:
    """Answer properly, and keep the connection."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.send(head(status, content_length=len(body), **headers) + body)

    return script


def redirect(location: str, status: int = 302) -> Script:
    return reply(status, location=location)


def raw(*parts: bytes) -> Script:
    """Send these bytes and close."""

    async def script(_: Request, peer: Peer) -> None:
        for part in parts:
            await peer.send(part)
        peer.close()

    return script


def drip(body: bytes, *, pause: float, **headers: str | int) -> Script:
    """Answer 200 at once, then send one byte of the body after the other with a pause before each."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.send(head(200, content_length=len(body), **headers))
        for byte in body:
            await asyncio.sleep(pause)
            await peer.send(bytes([byte]))

    return script


def endless(
    piece: bytes = bytes(1 << 16), start: bytes = head(connection="close"), pause: float = 0.0
) -> Script:
    """Send `start` and then the same piece until the client leaves."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.send(start)
        while True:
            await peer.send(piece)
            await asyncio.sleep(pause)

    return script


def hang(start: bytes = b"") -> Script:
    """Send `start` and then nothing more, until the client leaves."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.send(start)
        await peer.gone()
        peer.close()

    return script


def drop() -> Script:
    """Close without an answer."""
    return raw()


def reset(start: bytes = b"") -> Script:
    """Send `start` and reset the connection."""

    async def script(_: Request, peer: Peer) -> None:
        await peer.send(start)
        plug = peer.writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.writer.transport.abort()
        peer.close()

    return script


def in_turn(*scripts: Script) -> Script:
    """Take the next script at each request; the last one stays."""
    waiting = list(scripts)

    async def script(request: Request, peer: Peer) -> None:
        await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(request, peer)

    return script


def by_path(scripts: Mapping[str, Script]) -> Script:
    """Choose the script by the request's path (with its query); any other path is a 404."""
    nothing = reply(404)

    async def script(request: Request, peer: Peer) -> None:
        await scripts.get(request.path, nothing)(request, peer)

    return script


# --- servers --------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def serve(
    script: Script,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    greeting: bytes = b"",
) -> AsyncIterator[Server]:
    """Run a server of the script on a free port; at the end every connection is dropped.

    A `greeting` is sent at once on each connection, before any request is read.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        number, server.connections = server.connections, server.connections + 1
        try:
            writer.write(greeting)
            await _converse(script, server, Peer(writer, reader), number)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        finally:
            tasks.discard(task)
            writer.close()
            server.dropped.set()

    listener = await asyncio.start_server(accept, host, 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    server = Server("https" if tls else "http", host, port)
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def receiving(*scripts: Script) -> contextlib.AbstractAsyncContextManager[Server]:
    """Run a receiver of webhooks that uses the scripts in turn; without any it answers 204."""
    return serve(in_turn(*scripts or (reply(204),)))


async def _converse(script: Script, server: Server, peer: Peer, number: int) -> None:
    while peer.open:
        request = await _read_request(peer.reader, number)
        if request is None:
            return
        server.requests.append(request)
        server.arrived.set()
        await script(request, peer)


async def _read_request(reader: asyncio.StreamReader, number: int) -> Request | None:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = lines[0].split(" ")
    pairs = (line.split(":", 1) for line in lines[1:] if line)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method=method, path=path, headers=headers, body=body, connection=number)


# --- names ----------------------------------------------------------------------------------------


class StubDns(AbstractResolver):
    """Answers names from a table; a name's answers are given in turn, the last one stays.

    `StubDns({"menu.example": [["127.0.0.1"]], "rebind.example": [["127.0.0.1"], ["10.0.0.1"]]})`; a name that
    isn't there doesn't exist. `asked` holds the names in the order of the questions.
    """

    def __init__(self, table: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._table = {name: list(answers) for name, answers in table.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._table.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        pass


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


# --- TLS ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tls:
    """A self-signed certificate: `server` shows it, `client` trusts it and nothing else. `pem` has it and its key."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    pem: bytes


def self_signed(*names: str, days: int = 1) -> Tls:
    """Return contexts for a new certificate of these host names and addresses; negative `days`: expired."""
    key = ec.generate_private_key(ec.SECP256R1())
    today = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Mercato tests")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=10))
        .not_valid_after(today + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
        (pem := Path(folder) / "server.pem").write_bytes(private + public)
        server.load_cert_chain(pem)
    return Tls(server, ssl.create_default_context(cadata=public.decode()), private + public)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
