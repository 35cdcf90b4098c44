"""The guarded download: one document from a stranger's server, within limits, or a sentence why not."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urljoin

import aiohttp
from aiohttp import ClientResponse, ClientSession, hdrs

from mercato.clock import Clock
from mercato.outbound.body import ACCEPT_ENCODING, BodyReader, BodyRefused, coding_of
from mercato.outbound.connection import connection_failure
from mercato.outbound.document import Document, NewDocument
from mercato.outbound.faults import (
    Failure,
    Fault,
    body_failure,
    redirect_failure,
    status_failure,
    url_failure,
)
from mercato.outbound.guard import AddressPolicy, ParsedUrl, UrlFault, UrlRefused, check_url
from mercato.outbound.outcomes import NotModified, Pulled, PullFailed, PullLimits
from mercato.outbound.waits import retry_after

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,250}"')
_HEADERS = {
    hdrs.ACCEPT: "application/json, */*;q=0.5",
    hdrs.ACCEPT_ENCODING: ACCEPT_ENCODING,
}


class AttemptFailed(Exception):  # noqa: N818  # caught below, always
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Puller:
    """What every pull of a process shares."""

    session: ClientSession
    policy: AddressPolicy
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    new_document: NewDocument = Document
    subject: str = "catalog URL"
    seen: Callable[[ParsedUrl, ClientResponse], None] | None = None
    """Called with each answer whose head has come, redirects included: for whoever wants to know how it went."""

    async def pull(self, url: str, *, limits: PullLimits, etag: str | None) -> Pulled | NotModified:
        """Return the document, or `NotModified` if `etag` still holds; raise `PullFailed`."""
        started = asyncio.get_running_loop().time()
        document = self.new_document()
        pulled: Pulled | NotModified | None = None
        try:
            async with asyncio.timeout(limits.total):
                pulled = await self._with_retries(
                    url, limits, etag if _is_etag(etag) else None, document, started
                )
                return pulled
        except TimeoutError:
            message = (
                f"The {self.subject} could not be read within {limits.total:g} seconds. "
                "Check how fast its server answers, or send a compressed document."
            )
            failure = Failure(fault=Fault.TIMEOUT, message=message, retryable=True)
        except AttemptFailed as failed:
            failure = failed.failure
        finally:
            if not isinstance(pulled, Pulled):
                document.close()
        raise PullFailed(failure, elapsed_ms=_ms_since(started))

    async def _with_retries(
        self, url: str, limits: PullLimits, etag: str | None, document: Document, started: float
    ) -> Pulled | NotModified:
        for attempt, wait in enumerate((*limits.waits, None), start=1):
            document.clear()
            try:
                return await _Attempt(
                    puller=self, limits=limits, etag=etag, document=document, number=attempt, started=started
                ).run(url)
            except AttemptFailed as failed:
                failure = failed.failure
                if wait is None or not failure.at_once:
                    raise
                pause = max(wait, failure.retry_after or 0.0)
                if _ms_since(started) + pause * 1000 >= limits.total * 1000:
                    raise
                await self.sleep(pause)
        raise AssertionError("the last round returns or raises")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hop:
    """One request of an attempt; `subject` is what its server is called when something goes wrong there."""

    url: ParsedUrl
    redirects: int
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One walk from the URL over its redirects to an answer."""

    puller: Puller
    limits: PullLimits
    etag: str | None
    document: Document
    number: int
    started: float

    async def run(self, url: str) -> Pulled | NotModified:
        subject = self.puller.subject
        hop = _Hop(url=self._checked(url, redirected=False), redirects=0, subject=subject)
        visited = {hop.url.text}
        while True:
            async with self._opened(hop) as response:
                if self.puller.seen is not None:
                    self.puller.seen(hop.url, response)
                if response.status not in _REDIRECTS:
                    return await self._received(response, hop)
                hop = self._next(hop, response.headers.get(hdrs.LOCATION))
            if hop.url.text in visited:
                raise AttemptFailed(redirect_failure("redirects in a circle", subject))
            visited.add(hop.url.text)

    def _next(self, hop: _Hop, location: str | None) -> _Hop:
        subject, most = self.puller.subject, self.limits.redirects
        if not location:
            raise AttemptFailed(redirect_failure("redirects without saying where to", subject))
        if hop.redirects == most:
            raise AttemptFailed(redirect_failure(f"redirects more than {most} times", subject))
        try:
            url = self._checked(urljoin(hop.url.text, location), redirected=True)
        except ValueError as error:  # `urljoin` has its own for a host in broken brackets
            raise AttemptFailed(
                url_failure(UrlFault.HOST, subject, self.puller.policy, redirected=True)
            ) from error
        if hop.url.scheme == "https" and url.scheme != "https":
            raise AttemptFailed(redirect_failure("redirects from https to http", subject))
        return _Hop(url=url, redirects=hop.redirects + 1, subject=f"address to which the {subject} redirects")

    def _checked(self, url: str, *, redirected: bool) -> ParsedUrl:
        try:
            return check_url(url, self.puller.policy, https_only=False)
        except UrlRefused as refused:
            failure = url_failure(
                refused.fault, self.puller.subject, self.puller.policy, redirected=redirected
            )
            raise AttemptFailed(failure) from refused

    @asynccontextmanager
    async def _opened(self, hop: _Hop) -> AsyncIterator[ClientResponse]:
        headers = _HEADERS | ({hdrs.IF_NONE_MATCH: self.etag} if self.etag else {})
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect)
        get = self.puller.session.get(hop.url.url, headers=headers, timeout=timeout, allow_redirects=False)
        try:
            async with get as response:
                yield response
        except aiohttp.ClientError as error:
            failure = connection_failure(
                error, hop.subject, self.puller.policy, connect_seconds=self.limits.connect
            )
            raise AttemptFailed(failure) from error

    async def _received(self, response: ClientResponse, hop: _Hop) -> Pulled | NotModified:
        status, headers = response.status, response.headers
        if status == HTTPStatus.NOT_MODIFIED and self.etag is not None:
            return NotModified(
                final_url=hop.url.text, redirects=hop.redirects, elapsed_ms=_ms_since(self.started)
            )
        if status != HTTPStatus.OK:
            wait = retry_after(headers.get(hdrs.RETRY_AFTER), self.puller.clock)
            raise AttemptFailed(status_failure(status, hop.subject, attempts=self.number, retry_after=wait))
        encoding, raw_size = await self._body(response, hop.subject)
        etag = headers.get(hdrs.ETAG)
        return Pulled(
            document=self.document,
            etag=etag if _is_etag(etag) else None,
            content_type=headers.get(hdrs.CONTENT_TYPE),
            encoding=encoding,
            final_url=hop.url.text,
            redirects=hop.redirects,
            raw_size=raw_size,
            elapsed_ms=_ms_since(self.started),
        )

    async def _body(self, response: ClientResponse, subject: str) -> tuple[str, int]:
        max_raw, max_decoded = self.limits.max_raw, self.limits.max_decoded
        try:
            encoding = coding_of(response.headers.getall(hdrs.CONTENT_ENCODING, ()))
            reader = BodyReader(encoding, max_raw=max_raw, max_decoded=max_decoded, document=self.document)
            reader.expect(response.content_length)
            async for chunk in response.content.iter_any():
                await reader.take(chunk)
            reader.finish()
        except BodyRefused as refused:
            failure = body_failure(refused.fault, subject, max_raw=max_raw, max_decoded=max_decoded)
            raise AttemptFailed(failure) from refused
        return encoding, reader.raw_size


def _is_etag(value: str | None) -> bool:
    return value is not None and _ETAG.fullmatch(value) is not None


def _ms_since(started: float) -> int:
    return round((asyncio.get_running_loop().time() - started) * 1000)
