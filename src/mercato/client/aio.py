"""Requests by aiohttp, which is loaded when the first of them is sent."""

from typing import TYPE_CHECKING

from mercato.client.errors import NoAnswerError, UnreadableError
from mercato.client.exchange import MOST_BYTES, Prepared, Reply
from mercato.client.transport import CONNECT_TIMEOUT

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession


class AsyncTransport:
    """Sends requests to one service, from the loop that sends the first."""

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
            async with self._opened().request(
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
            raise NoAnswerError(
                f"{self._url} cannot be reached ({fault.strerror or fault.os_error}). "
                "Is the service running, and is this its address?",
                sent=False,
            ) from fault
        except aiohttp.ConnectionTimeoutError as fault:
            raise NoAnswerError(f"{self._url} cannot be reached (timed out).", sent=False) from fault
        except (TimeoutError, aiohttp.ClientError, OSError) as fault:
            words = "timed out" if isinstance(fault, TimeoutError) else str(fault) or type(fault).__name__
            raise NoAnswerError(
                f"{self._url} did not answer {prepared.method} {prepared.target} ({words}).", sent=True
            ) from fault

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> "ClientSession":
        import aiohttp

        from mercato.outbound.pool import ConnectionPool

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
        if size > MOST_BYTES:
            raise UnreadableError(f"The answer has more than {MOST_BYTES:,} bytes.")
    return b"".join(chunks)
