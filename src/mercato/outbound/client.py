"""The one way out: every connection that the service opens to a partner's server is made here."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mercato.clock import Clock, now
from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.document import Document, NewDocument
from mercato.outbound.outcomes import CallFailed, Fault, NotModified, Pulled, PullFailed, PullLimits, Reply

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from mercato.outbound.session import Session

__all__ = ["CallFailed", "Fault", "NotModified", "Outbound", "PullFailed", "PullLimits", "Pulled", "Reply"]

DNS_SECONDS = 10  # a name's judged addresses are used again for so long
ORDER_REPLY = 1 << 20  # bytes of a reply that is parsed


class Outbound:
    """Guarded downloads and webhook calls, over two pools of connections: one for orders, one for the rest.

    It connects lazily; `close` it in the event loop that used it, or use it in `async with`. Nothing of the
    environment reaches it: no proxy, no netrc, no cookies. `resolver` is asked for addresses and its answers
    are judged; `tls` trusts other authorities than the system's; `sleep` waits between attempts;
    `new_document` makes what a pull is written to, by default in memory.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: "AbstractResolver | None" = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock = now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        dns_seconds: int = DNS_SECONDS,
        new_document: NewDocument = Document,
    ) -> None:
        self._open = partial(
            _open,
            policy,
            resolver=resolver,
            tls=tls,
            clock=clock,
            sleep=sleep,
            dns_seconds=dns_seconds,
            new_document=new_document,
        )
        self._session: Session | None = None

    async def pull(
        self, url: str, *, limits: PullLimits | None = None, etag: str | None = None
    ) -> Pulled | NotModified:
        """Return the document at `url`, or `NotModified` when `etag` is still its; raise `PullFailed`."""
        session = await self._opened()
        return await session.puller.pull(url, limits=limits or PullLimits(), etag=etag)

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float,  # noqa: ASYNC109  # it bounds several steps, and what came by then can be an answer
        max_reply: int = ORDER_REPLY,
        truncate: bool = False,
    ) -> Reply:
        """Return the endpoint's reply of whatever status, or raise `CallFailed`.

        `timeout` seconds bound everything from the name look-up to the last byte. With `truncate` the status is
        what matters: a body beyond `max_reply` bytes, late, broken or unreadable leaves `complete` false.
        """
        session = await self._opened()
        return await session.caller.post(
            url, headers=headers, body=body, seconds=timeout, max_reply=max_reply, truncate=truncate
        )

    async def ask(self, url: str, *, headers: Mapping[str, str], body: bytes, seconds: float) -> Reply:
        """Return the whole reply to a question that somebody waits for, or raise `CallFailed`.

        Over connections of its own, as many to one host as are asked for: whoever asks bounds how many.
        """
        session = await self._opened()
        return await session.order_caller.post(
            url, headers=headers, body=body, seconds=seconds, max_reply=ORDER_REPLY, truncate=False
        )

    async def _opened(self) -> "Session":
        if self._session is None:
            # In a thread, because the loop has requests to answer meanwhile.
            await asyncio.to_thread(_load)
            # Whoever waited beside us may have been quicker; from here on nothing waits.
            self._session = self._session or self._open()
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _load() -> None:
    """Import the HTTP client, on first use: a start that waited for it would take a fifth longer."""
    import mercato.outbound.session  # noqa: F401  # for what it leaves in sys.modules


def _open(policy: AddressPolicy, **options: Any) -> "Session":
    from mercato.outbound.session import open_session

    return open_session(policy, **options)
