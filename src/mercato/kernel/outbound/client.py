"""The only client of the service: it opens every connection to a partner's server."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Self

from mercato.kernel.clock import Clock, now
from mercato.kernel.outbound.addresses import AddressPolicy
from mercato.kernel.outbound.document import Document, NewDocument
from mercato.kernel.outbound.results import NotModified, PulledDocument, PullLimits, Reply

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

    from mercato.kernel.outbound.session import Session

DNS_SECONDS = 10  # for which the checked addresses of a name are cached
MAX_ORDER_REPLY = 1 << 20  # bytes of a reply that is parsed


@dataclass(eq=False)
class Outbound:
    """Guarded downloads and webhook calls, over two pools of connections: one for orders, one for the rest.

    It connects lazily; `close` it in the event loop that used it, or use it in `async with`. It ignores the
    environment: no proxy, no netrc, no cookies. `resolver` returns addresses, which the policy checks; `tls` trusts
    other authorities than the system's; `sleep` waits between attempts; `new_document` makes the document that a pull
    writes, by default in memory.
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
    ) -> PulledDocument | NotModified:
        """Return the document at `url`, or `NotModified` if it still has the `etag`. Raises RequestFailed."""
        session = await self._open()
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
        """Return the endpoint's reply, whatever its status. Raises RequestFailed.

        `timeout` seconds bound everything from the DNS lookup to the last byte. With `truncate` only the status
        matters: a body beyond `max_reply` bytes, late, broken or unreadable leaves `complete` false. `for_order`: a
        customer waits. Such calls have a connection pool of their own, without a bound per host: the caller bounds
        how many there are.
        """
        session = await self._open()
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

    async def _open(self) -> "Session":
        if self._session is None:
            # aiohttp is imported at the first use: it would make a start a fifth longer. In a thread, because the event
            # loop has requests to serve.
            await asyncio.to_thread(_import_aiohttp)
            from mercato.kernel.outbound.session import open_session

            # Another task may have opened it during the import; nothing is awaited from here on.
            self._session = self._session or open_session(self)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _import_aiohttp() -> None:
    import mercato.kernel.outbound.call
    import mercato.kernel.outbound.pull
    import mercato.kernel.outbound.session  # noqa: F401  # into sys.modules
