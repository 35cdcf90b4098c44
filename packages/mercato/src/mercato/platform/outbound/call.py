"""One webhook call: POST, and the reply read within limits."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic

import aiohttp
from aiohttp import ClientSession, ClientTimeout, hdrs
from msgspec.structs import replace
from yarl import URL

from mercato.platform.clock import Clock
from mercato.platform.outbound.addresses import AddressPolicy
from mercato.platform.outbound.body import BodyRefused, read_body
from mercato.platform.outbound.connections import connection_was_reused
from mercato.platform.outbound.document import Document
from mercato.platform.outbound.failures import body_failure, connection_failure, url_failure
from mercato.platform.outbound.results import Fault, Reply, RequestFailed, elapsed_ms
from mercato.platform.outbound.urls import UrlRefused, check_url
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
