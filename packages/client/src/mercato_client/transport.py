"""Sends requests with httpx: bounds their time and bytes, and says whether a failed one may have arrived."""

import asyncio
import ssl
import time
from typing import Any, Final

import httpx

from mercato_client import exchange
from mercato_client.errors import MercatoError, NoAnswerError, UnreadableError
from mercato_client.exchange import Prepared, Response

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for a connection."""

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Transport:
    """Sends requests to one service. Threads may share it.

    `timeout` bounds an attempt, except for a head of the answer that arrives byte by byte: it bounds each of them.
    A client of one's own isn't closed with it.
    """

    def __init__(self, url: str, *, timeout: float, http_client: httpx.Client | None = None) -> None:
        self._url = url
        self._timeout = timeout
        self._owned = http_client is None
        self._http = http_client or httpx.Client(verify=_tls(url))

    def send(self, prepared: Prepared, within: float | None = None) -> Response:
        """Return the reply. Raises NoAnswerError, UnreadableError."""
        seconds = min(self._timeout, within or self._timeout)
        deadline = time.monotonic() + seconds
        try:
            with self._http.stream(**_arguments(self._url, prepared, seconds)) as response:
                if response.is_stream_consumed:
                    return _read(response)
                body = bytearray()
                for chunk in response.iter_raw():
                    _add(body, chunk)
                    if time.monotonic() > deadline:
                        raise TimeoutError
                return _reply(response, body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
            raise _no_answer(self._url, prepared, fault) from _cause(fault)

    def close(self) -> None:
        """Close the connections that are kept."""
        if self._owned:
            self._http.close()


class AsyncTransport:
    """The same for asyncio; `timeout` bounds an attempt as a whole."""

    def __init__(self, url: str, *, timeout: float, http_client: httpx.AsyncClient | None = None) -> None:
        self._url = url
        self._timeout = timeout
        self._owned = http_client is None
        self._http = http_client or httpx.AsyncClient(verify=_tls(url))

    async def send(self, prepared: Prepared, within: float | None = None) -> Response:
        """Return the reply. Raises NoAnswerError, UnreadableError."""
        seconds = min(self._timeout, within or self._timeout)
        try:
            async with (
                asyncio.timeout(seconds),
                self._http.stream(**_arguments(self._url, prepared, seconds)) as response,
            ):
                if response.is_stream_consumed:
                    return _read(response)
                body = bytearray()
                async for chunk in response.aiter_raw():
                    _add(body, chunk)
                return _reply(response, body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
            raise _no_answer(self._url, prepared, fault) from _cause(fault)

    async def close(self) -> None:
        """Close the connections that are kept."""
        if self._owned:
            await self._http.aclose()


def _tls(url: str) -> ssl.SSLContext:
    """Return the machine's trust store, which may have a company's own authority; nothing is trusted for http."""
    if url.startswith("https:"):
        return ssl.create_default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _arguments(url: str, prepared: Prepared, seconds: float) -> dict[str, Any]:
    return {
        "method": prepared.method,
        "url": url + prepared.target,
        "headers": prepared.headers,
        "content": prepared.body,
        "timeout": httpx.Timeout(seconds, connect=min(CONNECT_TIMEOUT, seconds)),
        "follow_redirects": False,  # the key is for this host alone
    }


def _read(response: httpx.Response) -> Response:
    """Return the reply of a response that a transport has read: a cache, or a double. httpx has decompressed it."""
    body = bytearray()
    _add(body, response.content)
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return Response(response.status_code, headers, bytes(body))


def _add(body: bytearray, chunk: bytes) -> None:
    body += chunk
    if len(body) > exchange.MAX_BYTES:
        raise UnreadableError(f"The answer is too long: more than {exchange.MAX_BYTES:,} bytes.")


def _reply(response: httpx.Response, body: bytearray) -> Response:
    return Response(response.status_code, dict(response.headers), bytes(body))


def _no_answer(url: str, prepared: Prepared, fault: Exception) -> MercatoError:
    words = _words(fault)
    if isinstance(fault, _NOT_SENT):
        message = f"{url} can't be reached ({words}). Is the service running, and is this its address?"
        return NoAnswerError(message, sent=False)
    return NoAnswerError(f"{url} did not answer {prepared.method} {prepared.target} ({words}).", sent=True)


def _cause(fault: BaseException) -> BaseException:
    """Return the operating system's error below httpx's, if there is one: it says more."""
    below: BaseException | None = fault
    while below is not None and not isinstance(below, OSError):
        below = below.__cause__ or below.__context__
    return fault if below is None else below


def _words(fault: Exception) -> str:
    """Return what went wrong in a few words."""
    if isinstance(fault, TimeoutError | httpx.TimeoutException):
        return "timed out"
    cause = _cause(fault)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate isn't trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
        return "it doesn't speak https; its address may begin with http:"
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__)
