"""The only client of the service, which opens every connection to a partner's server.

Cheap to import: aiohttp comes with the first request.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from mercato_outbound.guard import AddressPolicy
from mercato_outbound.results import (
    MAX_REPLY,
    EndpointResponse,
    NotModified,
    Options,
    PulledDocument,
    PullLimits,
)

if TYPE_CHECKING:
    from mercato_outbound.connections import Session


class Outbound:
    """Guarded downloads and webhook calls, over two pools of connections: one for urgent calls, one for the rest.

    It connects lazily; `close` it in the event loop that used it, or use it in `async with`. It ignores the
    environment: no proxy, no netrc, no cookies.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session: Session | None = None

    @property
    def policy(self) -> AddressPolicy:
        return self._options.policy

    async def pull(
        self, url: str, *, limits: PullLimits | None = None, etag: str | None = None
    ) -> PulledDocument | NotModified:
        """Return the document at `url`, or `NotModified` if it still has the `etag`. Raises RequestFailed."""
        session = self._session or await self._open()
        from mercato_outbound.call import Pull

        return await Pull(
            http=session.http, options=self._options, limits=limits or PullLimits(), etag=etag
        ).run(url)

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float,  # noqa: ASYNC109  # it bounds several steps, and what has arrived by then can be a reply
        max_reply: int = MAX_REPLY,
        truncate: bool = False,
        urgent: bool = False,
    ) -> EndpointResponse:
        """Return the endpoint's reply, with any status. Raises RequestFailed.

        `timeout` seconds bound everything from the DNS lookup to the last byte. With `truncate` only the status
        matters: a body beyond `max_reply` bytes, late, broken or unreadable leaves `complete` false. `urgent`:
        somebody waits. Such calls have a connection pool of their own, without a bound per host: the caller bounds
        how many there are.
        """
        session = self._session or await self._open()
        from mercato_outbound.call import Call

        call = Call(
            http=session.urgent if urgent else session.http,
            policy=self._options.policy,
            clock=self._options.clock,
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
            from mercato_outbound.connections import open_session

            # Another task may have opened it during the import; nothing is awaited from here on.
            self._session = self._session or open_session(self._options)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _import_aiohttp() -> None:
    import mercato_outbound.call
    import mercato_outbound.connections  # noqa: F401  # into sys.modules
