"""Sends requests with http.client, and with aiohttp: both reuse connections and limit time and bytes."""

import http.client
import io
import selectors
import socket
import ssl
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mercato.client.errors import NoAnswerError, UnreadableError
from mercato.client.exchange import MAX_BYTES, Prepared, Reply

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for a connection."""

MAX_IDLE: Final = 8
"""Idle connections that are kept, for as many threads that share a client."""

_CHUNK: Final = 64 * 1024


class Transport:
    """Sends requests to one service. Threads may share it: a connection is one thread's while it is used."""

    def __init__(self, url: str, *, timeout: float) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host = parts.hostname or ""
        self._port = parts.port
        self._prefix = parts.path
        self._timeout = timeout
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: deque[http.client.HTTPConnection] = deque()

    def send(self, prepared: Prepared, within: float | None = None) -> Reply:
        """Return the reply. Raises NoAnswerError, UnreadableError."""
        seconds = min(self._timeout, within or self._timeout)
        deadline = time.monotonic() + seconds
        connection = self._idle_connection() or self._connect(min(CONNECT_TIMEOUT, seconds))
        try:
            reply, again = self._exchange(connection, prepared, deadline)
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            raise _no_answer(self._url, prepared, fault) from fault
        except BaseException:
            # Also at Ctrl-C: the rest of this answer must not be read as the next one.
            connection.close()
            raise
        if again and len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _idle_connection(self) -> http.client.HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not _readable(connection):
                return connection
            # The service has closed it, or sent data without a request.
            connection.close()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=self._tls
            )
        try:
            connection.connect()
        except OSError as fault:
            connection.close()
            raise _unreachable(self._url, _words(fault)) from fault
        return connection

    def _exchange(
        self, connection: http.client.HTTPConnection, prepared: Prepared, deadline: float
    ) -> tuple[Reply, bool]:
        _bound(connection.sock, deadline)
        connection.request(
            prepared.method,
            self._prefix + prepared.target,
            body=prepared.body,
            headers=dict(prepared.headers),
        )
        connection.response_class = partial(_Response, deadline=deadline)  # type: ignore[assignment]  # it is called alone
        response = connection.getresponse()
        try:
            body = self._read(response)
        finally:
            # http.client sends no other request before the answer is closed, even if it was read completely.
            response.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        declared = headers.get("content-length", "")
        if declared.isdigit() and len(body) < int(declared):
            raise http.client.IncompleteRead(body, int(declared) - len(body))
        return Reply(response.status, headers, body), not response.will_close

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                raise UnreadableError(f"The answer has more than {MAX_BYTES:,} bytes.")
        return b"".join(chunks)


class _Response(http.client.HTTPResponse):
    """An answer whose head and body are read within the deadline, however slowly they arrive."""

    def __init__(self, sock: socket.socket, *args: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_TimedReader(sock, self.fp.detach(), deadline))


class _TimedReader(io.RawIOBase):
    """Reads from a socket, each within the time that remains."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, deadline: float) -> None:
        self._sock = sock
        self._raw = raw
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        _bound(self._sock, self._deadline)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        super().close()
        self._raw.close()


def _bound(sock: socket.socket, deadline: float) -> None:
    """Set the socket's timeout to the time that remains."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    sock.settimeout(remaining)


def _readable(connection: http.client.HTTPConnection) -> bool:
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _unreachable(url: str, words: str) -> NoAnswerError:
    message = f"{url} can't be reached ({words}). Is the service running, and is this its address?"
    return NoAnswerError(message, sent=False)


def _no_answer(url: str, prepared: Prepared, fault: BaseException) -> NoAnswerError:
    message = f"{url} did not answer {prepared.method} {prepared.target} ({_words(fault)})."
    return NoAnswerError(message, sent=True)


def _words(fault: BaseException) -> str:
    """Return what went wrong in a few words."""
    if isinstance(fault, TimeoutError):
        return "timed out"
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate isn't trusted: {fault.verify_message}"
    return str(getattr(fault, "strerror", None) or fault or type(fault).__name__)


class AsyncTransport:
    """Sends requests with aiohttp, which is imported at the first one, in its event loop."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._session: ClientSession | None = None

    async def send(self, prepared: Prepared, within: float | None = None) -> Reply:
        """Return the reply. Raises NoAnswerError, UnreadableError."""
        import aiohttp
        from yarl import URL

        seconds = min(self._timeout, within or self._timeout)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_TIMEOUT, seconds))
        url = URL(self._url + prepared.target, encoded=True)
        try:
            async with self._open_session().request(
                prepared.method,
                url,
                data=prepared.body,
                headers=dict(prepared.headers),
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Reply(response.status, headers, await _read(response))
        except aiohttp.ClientConnectorError as fault:
            raise _unreachable(self._url, str(fault.strerror or fault.os_error)) from fault
        except aiohttp.ConnectionTimeoutError as fault:
            raise _unreachable(self._url, "timed out") from fault
        except (TimeoutError, aiohttp.ClientError, OSError) as fault:
            raise _no_answer(self._url, prepared, fault) from fault

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open_session(self) -> "ClientSession":
        import aiohttp

        from mercato.kernel.outbound.pool import ConnectionPool

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=ConnectionPool(), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


async def _read(response: "ClientResponse") -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise UnreadableError(f"The answer has more than {MAX_BYTES:,} bytes.")
    return b"".join(chunks)
