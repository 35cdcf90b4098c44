"""The one way out: every connection that the service opens to a partner's server is made here."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Self

from mercato.kernel.clock import Clock, now
from mercato.kernel.outbound.addresses import AddressPolicy
from mercato.kernel.outbound.document import Document, NewDocument
from mercato.kernel.outbound.results import NotModified, Pulled, PullLimits, Reply

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from mercato.kernel.outbound.session import Session

DNS_SECONDS = 10  # a name's judged addresses are used again for so long
MAX_ORDER_REPLY = 1 << 20  # bytes of a reply that is parsed


@dataclass(eq=False)
class Outbound:
    """Guarded downloads and webhook calls, over two pools of connections: one for orders, one for the rest.

    It connects lazily; `close` it in the event loop that used it, or use it in `async with`. Nothing of the
    environment reaches it: no proxy, no netrc, no cookies. `resolver` is asked for addresses and its answers
    are judged; `tls` trusts other authorities than the system's; `sleep` waits between attempts;
    `new_document` makes what a pull is written to, by default in memory.
    """

    policy: AddressPolicy
    _: KW_ONLY
    resolver: "AbstractResolver | None" = None
    tls: ssl.SSLContext | None = None
    clock: Clock = now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    dns_seconds: int = DNS_SECONDS
    new_document: NewDocument = Document
    _session: "Session | None" = field(default=None, init=False)

    async def pull(
        self, url: str, *, limits: PullLimits | None = None, etag: str | None = None
    ) -> Pulled | NotModified:
        """Return the document at `url`, or `NotModified` when `etag` is still its; raise `RequestFailed`."""
        session = await self._opened()
        from mercato.kernel.outbound.pull import Pull

        return await Pull(http=session.http, options=self, limits=limits or PullLimits(), etag=etag).run(url)

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float,  # noqa: ASYNC109  # it bounds several steps, and what has arrived by then can be a reply
        max_reply: int = MAX_ORDER_REPLY,
        truncate: bool = False,
        for_order: bool = False,
    ) -> Reply:
        """Return the endpoint's reply of whatever status, or raise `RequestFailed`.

        `timeout` seconds bound everything from the name look-up to the last byte. With `truncate` the status is
        what matters: a body beyond `max_reply` bytes, late, broken or unreadable leaves `complete` false.
        `for_order`: a customer waits. Such calls have connections of their own, as many to one host as are asked
        for: the caller bounds how many.
        """
        session = await self._opened()
        from mercato.kernel.outbound.call import Call

        call = Call(
            http=session.orders if for_order else session.http,
            policy=self.policy,
            clock=self.clock,
            headers=headers,
            body=body,
            max_reply=max_reply,
            truncate=truncate,
        )
        return await call.run(url, seconds=timeout)

    async def _opened(self) -> "Session":
        if self._session is None:
            # The HTTP client is imported on first use: a start that waited for it would take a fifth longer. In a
            # thread, because the loop has requests to answer meanwhile.
            await asyncio.to_thread(_load)
            from mercato.kernel.outbound.session import open_session

            # Another task may have been quicker; from here on nothing waits.
            self._session = self._session or open_session(self)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _load() -> None:
    import mercato.kernel.outbound.call
    import mercato.kernel.outbound.pull
    import mercato.kernel.outbound.session  # noqa: F401  # for what they leave in sys.modules
