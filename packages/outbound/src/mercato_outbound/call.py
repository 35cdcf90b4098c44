"""One call to another server: a webhook's POST, or the download of a document, with its reply read within limits."""

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from http.client import responses
from time import monotonic
from typing import Final, TypeVar
from urllib.parse import urljoin

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, hdrs
from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from mercato_contract import USER_AGENT
from mercato_contract.clock import Clock
from mercato_contract.wire import parse_retry_after
from mercato_outbound.body import ACCEPT_ENCODING, BodyFault, BodyRefused, read_body
from mercato_outbound.connections import (
    MAX_HEADERS,
    MAX_HEADS,
    AddressRefused,
    HeadersTooLargeError,
    TooManyHeadsError,
    connection_was_reused,
)
from mercato_outbound.document import Document
from mercato_outbound.guard import (
    AddressPolicy,
    ParsedUrl,
    UrlFault,
    UrlRefused,
    check_call,
    check_url,
    explain,
)
from mercato_outbound.results import (
    EndpointResponse,
    Fault,
    NotModified,
    Options,
    PulledDocument,
    PullLimits,
    RequestFailed,
)

CONNECT_SECONDS = 5.0
MAX_URLS = 4_096  # checked ones that are cached: the same few are called again and again
SUBJECT = "webhook URL"


def elapsed_ms(started: float) -> int:
    """Return the milliseconds since `started`, an instant of `time.monotonic`."""
    return round((monotonic() - started) * 1000)


_TIMEOUT = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)


@dataclass(slots=True, kw_only=True)
class Call:
    """One call with its state: at a timeout, what has arrived may be the reply."""

    http: ClientSession
    policy: AddressPolicy
    clock: Clock
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    max_reply: int
    truncate: bool
    started: float = field(default_factory=monotonic, init=False)
    head: EndpointResponse | None = field(default=None, init=False)
    repeated: bool = field(default=False, init=False)
    document: Document = field(default_factory=Document, init=False)

    async def run(self, url: str, *, seconds: float) -> EndpointResponse:
        """Return the reply. `seconds` include connecting. Raises RequestFailed."""
        try:
            async with asyncio.timeout(seconds):
                return await self._run(url)
        except TimeoutError:
            if self.head is not None and self.truncate:
                return self._reply(self.head, complete=False)
            message = f"The server of the {SUBJECT} gave no full answer within {round(seconds, 1):g} seconds."
            failure = RequestFailed(Fault.TIMEOUT, message)
        except RequestFailed as failed:
            failure = failed
        failure.status = self.head.status if self.head else None
        failure.repeated = self.repeated
        failure.elapsed_ms = elapsed_ms(self.started)
        raise failure

    async def _run(self, url: str) -> EndpointResponse:
        try:
            target = _check(url, self.policy)
        except UrlRefused as refused:
            raise url_failure(refused.fault, SUBJECT, self.policy) from refused
        try:
            return await self._exchange(target)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if self.head is not None or not connection_was_reused.get():
                raise self._failure(error) from error
        except (aiohttp.ClientError, BodyRefused) as error:
            raise self._failure(error) from error
        # A server may close a kept connection at the moment in which we use it. The webhook-id makes a second attempt
        # harmless, and a new connection tells whether the server is reachable.
        self.repeated = True
        try:
            return await self._exchange(target)
        except (aiohttp.ClientError, BodyRefused) as error:
            raise self._failure(error) from error

    def _failure(self, error: aiohttp.ClientError | BodyRefused) -> RequestFailed:
        if not isinstance(error, BodyRefused):
            return connection_failure(error, SUBJECT, self.policy, connect_seconds=CONNECT_SECONDS)
        failure = body_failure(error.fault, SUBJECT, max_raw=self.max_reply, max_decoded=self.max_reply)
        if failure.fault is Fault.ENCODING:
            failure.fault = Fault.PROTOCOL
        return failure

    async def _exchange(self, target: URL) -> EndpointResponse:
        headers = {hdrs.ACCEPT_ENCODING: "identity", hdrs.USER_AGENT: USER_AGENT, **self.headers}
        async with self.http.post(
            target, data=self.body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            wait = response.headers.get(hdrs.RETRY_AFTER)
            self.head = EndpointResponse(
                status=response.status,
                content_type=response.headers.get(hdrs.CONTENT_TYPE),
                retry_after=None if wait is None else parse_retry_after(wait, self.clock()),
            )
            try:
                # Most receivers answer without a body.
                if not response.content.at_eof() or hdrs.CONTENT_ENCODING in response.headers:
                    limit = self.max_reply
                    await read_body(response, self.document, max_raw=limit, max_decoded=limit)
            except (aiohttp.ClientError, BodyRefused):
                if not self.truncate:
                    raise
                return self._reply(self.head, complete=False)
            return self._reply(self.head, complete=True)

    def _reply(self, head: EndpointResponse, *, complete: bool) -> EndpointResponse:
        """Return the reply with the body that has arrived."""
        body = self.document.content()
        return replace(
            head,
            body=body,
            complete=complete,
            repeated=self.repeated,
            elapsed_ms=elapsed_ms(self.started),
        )


@lru_cache(maxsize=MAX_URLS)
def _check(url: str, policy: AddressPolicy) -> URL:
    # Only the text is checked here, so once is enough; addresses are checked at every connection.
    return check_call(url, policy).url


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,250}"')


class ResponseHead(Struct, frozen=True):
    """The head of one response. `location` is the target of a redirect; `ms` counts from the pull's start."""

    url: ParsedUrl
    status: int
    location: str | None
    ms: int


@dataclass(slots=True, kw_only=True)
class Pull:
    """One pull, with its retries. `responses` are those of the last attempt, redirects included."""

    http: ClientSession
    options: Options
    limits: PullLimits
    etag: str | None
    document: Document = field(init=False)
    responses: list[ResponseHead] = field(default_factory=list, init=False)
    started: float = field(default_factory=monotonic, init=False)

    def __post_init__(self) -> None:
        self.etag = _usable_etag(self.etag)
        self.document = self.options.new_document()

    async def run(self, url: str) -> PulledDocument | NotModified:
        """Return the document, or `NotModified` if it still has the `etag`. Raises RequestFailed."""
        pulled: PulledDocument | NotModified | None = None
        try:
            async with asyncio.timeout(self.limits.total):
                pulled = await self._retry(url)
                return pulled
        except TimeoutError:
            message = (
                f"The {self.limits.subject} could not be read within {self.limits.total:g} seconds. "
                "Check how fast its server answers, or send a compressed document."
            )
            failure = RequestFailed(Fault.TIMEOUT, message, retryable=True)
        except RequestFailed as failed:
            failure = failed
        finally:
            if not isinstance(pulled, PulledDocument):
                self.document.close()
        failure.elapsed_ms = elapsed_ms(self.started)
        raise failure

    async def _retry(self, url: str) -> PulledDocument | NotModified:
        for number, wait in enumerate((*self.limits.waits, None), start=1):
            self.document.clear()
            self.responses.clear()
            try:
                return await self._attempt(url, number)
            except RequestFailed as failure:
                if wait is None or not failure.at_once:
                    raise
                pause = max(wait, failure.retry_after or 0.0)
                if elapsed_ms(self.started) + pause * 1000 >= self.limits.total * 1000:
                    raise
                await self.options.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, url: str, number: int) -> PulledDocument | NotModified:
        """Follow redirects from the URL to a response."""
        subject, limits = self.limits.subject, self.limits
        headers = {hdrs.ACCEPT: "application/json, */*;q=0.5", hdrs.ACCEPT_ENCODING: ACCEPT_ENCODING}
        if self.etag:
            headers[hdrs.IF_NONE_MATCH] = self.etag
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=limits.connect)
        target = self._check(url)
        try:
            while True:
                async with self.http.get(
                    target.url, headers=headers, timeout=timeout, allow_redirects=False
                ) as response:
                    location = response.headers.get(hdrs.LOCATION)
                    self.responses.append(
                        ResponseHead(target, response.status, location, elapsed_ms(self.started))
                    )
                    if response.status not in _REDIRECTS:
                        return await self._receive(response, subject, number)
                    target = self._next(target, location)
                subject = f"address to which the {limits.subject} redirects"
        except aiohttp.ClientError as error:
            policy, seconds = self.options.policy, limits.connect
            raise connection_failure(error, subject, policy, connect_seconds=seconds) from error
        except BodyRefused as refused:
            bounds = {"max_raw": limits.max_raw, "max_decoded": limits.max_decoded}
            raise body_failure(refused.fault, subject, **bounds) from refused

    def _next(self, target: ParsedUrl, location: str | None) -> ParsedUrl:
        """Return the URL to which the target redirects. Raises RequestFailed."""
        if not location:
            raise self._redirect_failed("redirects without a Location")
        if len(self.responses) > self.limits.redirects:
            raise self._redirect_failed(f"redirects more than {self.limits.redirects} times")
        url = self._check(location, base=target.text)
        if target.scheme == "https" and url.scheme != "https":
            raise self._redirect_failed("redirects from https to http")
        if url.text in {response.url.text for response in self.responses}:
            raise self._redirect_failed("redirects in a circle")
        return url

    def _check(self, url: str, *, base: str | None = None) -> ParsedUrl:
        policy = self.options.policy
        try:
            return check_url(url if base is None else urljoin(base, url), policy, https_only=False)
        except ValueError as error:  # `urljoin` raises its own for a host in unbalanced brackets
            fault = error.fault if isinstance(error, UrlRefused) else UrlFault.HOST
            raise url_failure(fault, self.limits.subject, policy, redirected=base is not None) from error

    def _redirect_failed(self, problem: str) -> RequestFailed:
        return redirect_failure(problem, self.limits.subject)

    async def _receive(
        self, response: ClientResponse, subject: str, number: int
    ) -> PulledDocument | NotModified:
        status, headers, limits = response.status, response.headers, self.limits
        final_url, redirects = self.responses[-1].url.text, len(self.responses) - 1
        if status == HTTPStatus.NOT_MODIFIED and self.etag is not None:
            return NotModified(final_url=final_url, redirects=redirects, elapsed_ms=elapsed_ms(self.started))
        if status != HTTPStatus.OK:
            wait = parse_retry_after(headers.get(hdrs.RETRY_AFTER), self.options.clock())
            raise status_failure(status, subject, attempts=number, retry_after=wait)
        if (response.content_length or 0) > limits.max_raw:
            raise BodyRefused(BodyFault.TOO_MUCH_SENT)
        encoding, raw_size = await read_body(
            response, self.document, max_raw=limits.max_raw, max_decoded=limits.max_decoded
        )
        return PulledDocument(
            document=self.document,
            etag=_usable_etag(headers.get(hdrs.ETAG)),
            content_type=headers.get(hdrs.CONTENT_TYPE),
            encoding=encoding,
            final_url=final_url,
            redirects=redirects,
            raw_size=raw_size,
            elapsed_ms=elapsed_ms(self.started),
        )


def _usable_etag(value: str | None) -> str | None:
    return value if value is not None and _ETAG.fullmatch(value) else None


# --- failures, with messages for the partner whose URL was called ---------------------------------


CHECK_SERVER: Final = "Check that the server is running and reachable from the internet on that port."


def url_failure(
    fault: UrlFault, subject: str, policy: AddressPolicy, *, redirected: bool = False
) -> RequestFailed:
    """Return the failure of a URL that may not be opened: the partner's own, or the target of its redirect."""
    start = f"The {subject} redirects to a URL that" if redirected else f"The {subject}"
    return RequestFailed(Fault.REFUSED_ADDRESS, explain(fault, start, policy))


def redirect_failure(problem: str, subject: str) -> RequestFailed:
    """Return the failure of redirects that are not followed."""
    return RequestFailed(Fault.REDIRECT, f"The {subject} {problem}. Use the final URL instead.")


def status_failure(status: int, subject: str, *, attempts: int, retry_after: float | None) -> RequestFailed:
    """Return the failure of a response whose status isn't 200."""
    retryable = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    count = f" ({attempts} attempts)" if attempts > 1 else ""
    named = f"{status} {responses.get(status, '')}".rstrip()
    message = f"The server of the {subject} answered {named}{count}. {_status_advice(status)}"
    return RequestFailed(
        Fault.STATUS, message, retryable=retryable, at_once=retryable, status=status, retry_after=retry_after
    )


def _status_advice(status: int) -> str:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "It must be readable without logging in: put what grants access into the URL."
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "Allow more requests, or notify less often."
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Check the server's own log, then try again."
    if status >= HTTPStatus.BAD_REQUEST:
        return "Check that the URL is complete and the document is still there."
    return "It must answer 200 with the document."


def body_failure(fault: BodyFault, subject: str, *, max_raw: int, max_decoded: int) -> RequestFailed:
    """Return the failure of a body that was refused."""
    too_large = fault in {BodyFault.TOO_MUCH_SENT, BodyFault.TOO_MUCH_DECODED}
    description = fault.value.format(max_raw=_mebibytes(max_raw), max_decoded=_mebibytes(max_decoded))
    kind = Fault.REPLY_TOO_LARGE if too_large else Fault.ENCODING
    # Without a length, a body that was cut off on its way looks complete.
    again = fault is BodyFault.CUT_SHORT
    message = f"The server of the {subject} {description}"
    return RequestFailed(kind, message, retryable=again, at_once=again)


def _mebibytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def connection_failure(
    error: Exception, subject: str, policy: AddressPolicy, *, connect_seconds: float
) -> RequestFailed:
    """Return the failure that an error of the HTTP client means."""
    if _cause(error, AddressRefused):
        return url_failure(UrlFault.ADDRESS, subject, policy)
    if _cause(error, socket.gaierror) or isinstance(error, aiohttp.ClientConnectorDNSError):
        message = (
            f"The host name of the {subject} could not be found. Check its spelling and its DNS records."
        )
        return RequestFailed(Fault.DNS, message, retryable=True, at_once=True)
    # The client's own error for a bad certificate is an SSLError too, but without OpenSSL's code.
    if tls := _cause(error.__cause__ or error, ssl.SSLError):
        return RequestFailed(Fault.TLS, _tls_message(tls, subject))
    fault, advice, at_once = Fault.PROTOCOL, "Check the server's own log.", False
    match error:
        case aiohttp.ServerTimeoutError():
            fault, advice, at_once = Fault.CONNECT, CHECK_SERVER, True
            description = f"accepted no connection within {connect_seconds:g} seconds"
        case aiohttp.ClientConnectorError():
            fault, advice, at_once = Fault.CONNECT, CHECK_SERVER, True
            refused = _cause(error, ConnectionRefusedError)
            description = "refused the connection" if refused else "could not be reached"
        case HeadersTooLargeError():
            advice = "Shorten them: cookies and policies are the longest."
            description = f"sent more than {MAX_HEADERS >> 10} KiB of headers"
        case TooManyHeadsError():
            advice = "Send the final answer: 1xx only announce it."
            description = f"sent more than {MAX_HEADS - 1} informational responses (1xx) before the final one"
        case aiohttp.ClientPayloadError():
            description = "closed the connection or sent broken chunks before the body was complete"
            at_once = True
        case aiohttp.ClientOSError() | aiohttp.ServerDisconnectedError():
            description, at_once = "closed the connection without answering", True
        case _:
            description = "sent an answer that is not valid HTTP"
    message = f"The server of the {subject} {description}. {advice}"
    return RequestFailed(fault, message, retryable=True, at_once=at_once)


_Error = TypeVar("_Error", bound=BaseException)


def _cause(error: BaseException, kind: type[_Error]) -> _Error | None:
    """Return the error of `kind` among `error` and its causes."""
    cause: BaseException | None = error
    for _ in range(8):
        if isinstance(cause, kind):
            return cause
        cause = cause.__cause__ if cause is not None else None
    return None


_CERTIFICATE_FAULTS: Final = {  # by OpenSSL's verify codes
    9: "is not valid yet",
    10: "has expired",
    18: "is self-signed",
    19: "is self-signed",
    20: "is not followed by the certificates that lead to a known authority",
    21: "is not followed by the certificates that lead to a known authority",
    62: "is for another host name",
    64: "is for another address",
}


def _tls_message(error: ssl.SSLError, subject: str) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"No TLS connection to the server of the {subject} could be made. "
            "Check that it speaks TLS 1.2 or later on that port."
        )
    description = _CERTIFICATE_FAULTS.get(getattr(error, "verify_code", 0), "could not be verified")
    return (
        f"The TLS certificate of the {subject} {description}. "
        "Install one that a public authority issued for this host, with its intermediate certificates."
    )
