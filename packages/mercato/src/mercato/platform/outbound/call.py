"""One call to another server: a webhook's POST, or the download of a document, with its reply read within limits."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from time import monotonic
from urllib.parse import urljoin

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, hdrs
from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from mercato.platform.clock import Clock
from mercato.platform.outbound import failures
from mercato.platform.outbound.body import ACCEPT_ENCODING, BodyFault, BodyRefused, read_body
from mercato.platform.outbound.connections import connection_was_reused
from mercato.platform.outbound.document import Document
from mercato.platform.outbound.failures import body_failure, connection_failure, url_failure
from mercato.platform.outbound.guard import AddressPolicy, ParsedUrl, UrlFault, UrlRefused, check_url
from mercato.platform.outbound.results import (
    Fault,
    NotModified,
    Options,
    PulledDocument,
    PullLimits,
    Reply,
    RequestFailed,
    elapsed_ms,
)
from mercato_contract import USER_AGENT
from mercato_contract.wire import parse_retry_after

CONNECT_SECONDS = 5.0
MAX_URLS = 4_096  # checked ones that are cached: the same few are called again and again
SUBJECT = "webhook URL"

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
    head: Reply | None = field(default=None, init=False)
    document: Document = field(default_factory=Document, init=False)

    async def run(self, url: str, *, seconds: float) -> Reply:
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
        failure.elapsed_ms = elapsed_ms(self.started)
        raise failure

    async def _run(self, url: str) -> Reply:
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

    async def _exchange(self, target: URL) -> Reply:
        headers = {hdrs.ACCEPT_ENCODING: "identity", hdrs.USER_AGENT: USER_AGENT, **self.headers}
        async with self.http.post(
            target, data=self.body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            self.head = Reply(
                status=response.status,
                content_type=response.headers.get(hdrs.CONTENT_TYPE),
                retry_after=parse_retry_after(response.headers.get(hdrs.RETRY_AFTER), self.clock()),
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

    def _reply(self, head: Reply, *, complete: bool) -> Reply:
        """Return the reply with the body that has arrived."""
        body = self.document.content()
        return replace(head, body=body, complete=complete, elapsed_ms=elapsed_ms(self.started))


@lru_cache(maxsize=MAX_URLS)
def _check(url: str, policy: AddressPolicy) -> URL:
    # Only the text is checked here, so once is enough; addresses are checked at every connection.
    return check_url(url, policy, https_only=not policy.allow_private).url


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
            raise failures.connection_failure(error, subject, policy, connect_seconds=seconds) from error
        except BodyRefused as refused:
            bounds = {"max_raw": limits.max_raw, "max_decoded": limits.max_decoded}
            raise failures.body_failure(refused.fault, subject, **bounds) from refused

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
            raise failures.url_failure(
                fault, self.limits.subject, policy, redirected=base is not None
            ) from error

    def _redirect_failed(self, problem: str) -> RequestFailed:
        return failures.redirect_failure(problem, self.limits.subject)

    async def _receive(
        self, response: ClientResponse, subject: str, number: int
    ) -> PulledDocument | NotModified:
        status, headers, limits = response.status, response.headers, self.limits
        final_url, redirects = self.responses[-1].url.text, len(self.responses) - 1
        if status == HTTPStatus.NOT_MODIFIED and self.etag is not None:
            return NotModified(final_url=final_url, redirects=redirects, elapsed_ms=elapsed_ms(self.started))
        if status != HTTPStatus.OK:
            wait = parse_retry_after(headers.get(hdrs.RETRY_AFTER), self.options.clock())
            raise failures.status_failure(status, subject, attempts=number, retry_after=wait)
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
