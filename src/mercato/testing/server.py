"""A web server on loopback that runs as long as a block: every receiver of the doubles and the tools uses it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

HOST: Final = "127.0.0.1"

MOST_BODY: Final = 16 << 20
"""Bytes of a request that are read."""

CLOSING: Final = 0.2
"""Seconds that requests in flight have when the server stops."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def app_of(handler: Handler, *, max_body: int = MOST_BODY) -> web.Application:
    """Return an application that passes every request to one handler."""
    app = web.Application(client_max_size=max_body)
    app.router.add_route("*", "/{path:.*}", handler)
    return app


@asynccontextmanager
async def listening(
    app: web.Application, *, host: str = HOST, port: int = 0, closing: float = CLOSING, backlog: int = 128
) -> AsyncIterator[str]:
    """Serve the application while the block runs; yields its base URL. Raises OSError if the address isn't free."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=closing)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=backlog).start()
        yield f"http://{f'[{host}]' if ':' in host else host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
