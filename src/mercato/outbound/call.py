"""One webhook call: posted, its reply read within limits, or an error that says how far it came."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, hdrs
from msgspec.structs import replace
from yarl import URL

from mercato.clock import Clock
from mercato.outbound.agent import USER_AGENT
from mercato.outbound.body import BodyReader, BodyRefused, coding_of
from mercato.outbound.connection import connection_failure
from mercato.outbound.faults import Failure, Fault, body_failure, url_failure
from mercato.outbound.guard import AddressPolicy, UrlRefused, check_url
from mercato.outbound.outcomes import CallFailed, Reply
from mercato.outbound.pool import connection_was_reused
from mercato.outbound.waits import retry_after

CONNECT_SECONDS = 5.0
_TIMEOUT = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
MOST_URLS = 4_096  # that passed, remembered: the same few are called again and again


class _Stopped(Exception):  # noqa: N818  # always caught below
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What every call of a process shares."""

    session: ClientSession
    policy: AddressPolicy
    clock: Clock
    subject: str = "webhook URL"

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        seconds: float,
        max_reply: int,
        truncate: bool,
    ) -> Reply:
        """Return the reply, or raise `CallFailed`. `seconds` are all there is, connecting included."""
        started = asyncio.get_running_loop().time()
        call = _Call(
            caller=self, headers=headers, body=body, max_reply=max_reply, truncate=truncate, started=started
        )
        try:
            async with asyncio.timeout(seconds):
                return await call.run(url)
        except TimeoutError:
            partial = call.partial()
            if partial is None:
                message = f"The server of the {self.subject} gave no full answer within {round(seconds, 1):g} seconds."
                raise CallFailed(
                    Failure(fault=Fault.TIMEOUT, message=message, status=call.status),
                    ms=_ms_since(started),
                ) from None
            return partial
        except _Stopped as stopped:
            raise CallFailed(stopped.failure, ms=_ms_since(started)) from stopped


@dataclass(slots=True, kw_only=True)
class _Call:
    """The state of one call, so that what had arrived when time ran out isn't lost."""

    caller: Caller
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    max_reply: int
    truncate: bool
    started: float
    head: Reply | None = None
    reader: BodyReader | None = None

    @property
    def status(self) -> int | None:
        return self.head.status if self.head else None

    def partial(self) -> Reply | None:
        """Return the reply as far as it came, if the caller is content with that."""
        if self.head is None or not self.truncate:
            return None
        body = self.reader.document.content() if self.reader else b""
        return replace(self.head, body=body, ms=_ms_since(self.started))

    async def run(self, url: str) -> Reply:
        policy = self.caller.policy
        try:
            target = _checked(url, policy)
        except UrlRefused as refused:
            raise _Stopped(url_failure(refused.fault, self.caller.subject, policy)) from refused
        try:
            return await self._exchange(target)
        except aiohttp.ClientError as error:
            if not self._was_stale(error):
                raise self._stopped(error) from error
        # A server may close a kept connection in the very moment in which we use it. The webhook-id makes the
        # second sending harmless, and a fresh connection tells whether the server is there.
        try:
            return await self._exchange(target)
        except aiohttp.ClientError as error:
            raise self._stopped(error) from error

    def _was_stale(self, error: aiohttp.ClientError) -> bool:
        dropped = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
        return dropped and connection_was_reused.get() and self.head is None

    def _stopped(self, error: aiohttp.ClientError) -> _Stopped:
        failure = connection_failure(
            error, self.caller.subject, self.caller.policy, connect_seconds=CONNECT_SECONDS
        )
        return _Stopped(replace(failure, status=self.status))

    async def _exchange(self, target: URL) -> Reply:
        headers = {hdrs.ACCEPT_ENCODING: "identity", hdrs.USER_AGENT: USER_AGENT, **self.headers}
        async with self.caller.session.post(
            target, data=self.body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            return await self._read(response)

    async def _read(self, response: ClientResponse) -> Reply:
        headers, content = response.headers, response.content
        self.head = head = Reply(
            status=response.status,
            content_type=headers.get(hdrs.CONTENT_TYPE),
            retry_after=retry_after(headers.get(hdrs.RETRY_AFTER), self.caller.clock),
            body=b"",
            complete=False,
            ms=0,
        )
        if content.at_eof() and hdrs.CONTENT_ENCODING not in headers:
            # A receiver says yes, and nothing more: most of them.
            return replace(head, complete=True, ms=_ms_since(self.started))
        try:
            coding = coding_of(headers.getall(hdrs.CONTENT_ENCODING, ()))
            self.reader = BodyReader(coding, max_raw=self.max_reply, max_decoded=self.max_reply)
            async for chunk in content.iter_any():
                await self.reader.take(chunk)
            self.reader.finish()
            body = self.reader.document.content()
            return replace(head, body=body, complete=True, ms=_ms_since(self.started))
        except BodyRefused as refused:
            if partial := self.partial():
                return partial
            raise self._unread(refused) from refused
        except aiohttp.ClientError:
            if partial := self.partial():
                return partial
            raise

    def _unread(self, refused: BodyRefused) -> _Stopped:
        limit = self.max_reply
        failure = body_failure(refused.fault, self.caller.subject, max_raw=limit, max_decoded=limit)
        fault = Fault.PROTOCOL if failure.fault is Fault.ENCODING else failure.fault
        return _Stopped(replace(failure, fault=fault, status=self.status))


@lru_cache(maxsize=MOST_URLS)
def _checked(url: str, policy: AddressPolicy) -> URL:
    # What is judged here is the text alone, so once is enough; where it leads is judged at every connection.
    return check_url(url, policy, https_only=not policy.allow_private).url


def _ms_since(started: float) -> int:
    return round((asyncio.get_running_loop().time() - started) * 1000)
