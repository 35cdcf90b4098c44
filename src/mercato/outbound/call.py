"""One webhook call: posted, its reply read within limits, or an error that says how far it came."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, hdrs
from msgspec.structs import replace
from yarl import URL

from mercato.clock import Clock
from mercato.outbound import USER_AGENT
from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.body import BodyRefused, read_body
from mercato.outbound.document import Document
from mercato.outbound.failures import body_failure, connection_failure, url_failure
from mercato.outbound.pool import connection_was_reused
from mercato.outbound.results import Fault, Reply, RequestFailed
from mercato.outbound.urls import UrlRefused, check_url
from mercato.wire.base import parse_retry_after

CONNECT_SECONDS = 5.0
MAX_URLS = 4_096  # that passed, remembered: the same few are called again and again
SUBJECT = "webhook URL"

_TIMEOUT = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)


@dataclass(slots=True, kw_only=True)
class Call:
    """One call, with its state, so that what had arrived when time ran out isn't lost."""

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

    @property
    def _status(self) -> int | None:
        return self.head.status if self.head else None

    def _elapsed_ms(self) -> int:
        return round((monotonic() - self.started) * 1000)

    def _truncated_reply(self) -> Reply | None:
        """Return the reply as far as it came, if the caller is content with that."""
        if self.head is None or not self.truncate:
            return None
        return replace(self.head, body=self.document.content(), elapsed_ms=self._elapsed_ms())

    async def run(self, url: str, *, seconds: float) -> Reply:
        """Return the reply, or raise `RequestFailed`. `seconds` include connecting."""
        try:
            async with asyncio.timeout(seconds):
                return await self._run(url)
        except TimeoutError:
            if truncated := self._truncated_reply():
                return truncated
            message = f"The server of the {SUBJECT} gave no full answer within {round(seconds, 1):g} seconds."
            failure = RequestFailed(Fault.TIMEOUT, message, status=self._status)
        except RequestFailed as failed:
            failure = failed
        failure.elapsed_ms = self._elapsed_ms()
        raise failure

    async def _run(self, url: str) -> Reply:
        try:
            target = _check(url, self.policy)
        except UrlRefused as refused:
            raise url_failure(refused.fault, SUBJECT, self.policy) from refused
        # A server may close a kept connection in the very moment in which we use it. The webhook-id makes the
        # second sending harmless, and a fresh connection tells whether the server is there.
        try:
            return await self._exchange(target)
        except aiohttp.ClientError as error:
            if not self._was_stale(error):
                raise self._failed(error) from error
        try:
            return await self._exchange(target)
        except aiohttp.ClientError as error:
            raise self._failed(error) from error

    def _was_stale(self, error: aiohttp.ClientError) -> bool:
        dropped = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
        return dropped and connection_was_reused.get() and self.head is None

    def _failed(self, error: aiohttp.ClientError) -> RequestFailed:
        failure = connection_failure(error, SUBJECT, self.policy, connect_seconds=CONNECT_SECONDS)
        failure.status = self._status
        return failure

    async def _exchange(self, target: URL) -> Reply:
        headers = {hdrs.ACCEPT_ENCODING: "identity", hdrs.USER_AGENT: USER_AGENT, **self.headers}
        async with self.http.post(
            target, data=self.body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            return await self._read(response)

    async def _read(self, response: ClientResponse) -> Reply:
        headers, limit = response.headers, self.max_reply
        self.head = head = Reply(
            status=response.status,
            content_type=headers.get(hdrs.CONTENT_TYPE),
            retry_after=parse_retry_after(headers.get(hdrs.RETRY_AFTER), self.clock()),
            body=b"",
            complete=False,
            elapsed_ms=0,
        )
        try:
            # Most receivers answer without a body.
            if not response.content.at_eof() or hdrs.CONTENT_ENCODING in headers:
                await read_body(response, self.document, max_raw=limit, max_decoded=limit)
        except BodyRefused as refused:
            if truncated := self._truncated_reply():
                return truncated
            failure = body_failure(refused.fault, SUBJECT, max_raw=limit, max_decoded=limit)
            failure.status = self._status
            if failure.fault is Fault.ENCODING:
                failure.fault = Fault.PROTOCOL
            raise failure from refused
        except aiohttp.ClientError:
            if truncated := self._truncated_reply():
                return truncated
            raise
        return replace(head, body=self.document.content(), complete=True, elapsed_ms=self._elapsed_ms())


@lru_cache(maxsize=MAX_URLS)
def _check(url: str, policy: AddressPolicy) -> URL:
    # What is judged here is the text alone, so once is enough; where it leads is judged at every connection.
    return check_url(url, policy, https_only=not policy.allow_private).url
