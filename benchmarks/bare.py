"""Floors: the least that a server does for the same bytes, on the same server."""

import asyncio
import base64
import sys
from typing import Any

import uvloop

from mercato.web.server import serving


def static(body: bytes) -> Any:
    """Return an application that answers every request with the same bytes."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def starlette() -> Any:
    """Return the smallest Starlette application."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def hello(_request: Any) -> PlainTextResponse:
        return PlainTextResponse("ok")

    return Starlette(routes=[Route("/", hello)])


async def main(name: str, *arguments: str) -> None:
    app = starlette() if name == "starlette" else static(base64.b64decode(arguments[0]))
    async with serving(app, host="127.0.0.1", port=0) as base:
        print(f"listening on {base}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
