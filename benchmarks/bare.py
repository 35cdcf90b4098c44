"""Floors: the least that a server does for the same bytes, on the same server."""

import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import msgspec
import uvloop
from msgspec import UNSET, UnsetType

from mercato.http.server import serving

Answer = Callable[[bytes], Awaitable[bytes]]
"""Makes the body of an answer of the body of a request."""


def static(body: bytes) -> Any:
    """Return an application that answers every request with the same bytes."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def conditional(body: bytes, headers: bytes) -> Any:
    """Return an application that answers with the same bytes, head included; 304 to who sends the ETag of them."""
    pairs = [(name.encode(), value.encode()) for name, value in msgspec.json.decode(headers)]
    tag = dict(pairs)[b"etag"]
    of_unchanged = [pair for pair in pairs if pair[0] in OF_UNCHANGED]

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        for name, value in scope["headers"]:
            if name == b"if-none-match" and value == tag:
                await send({"type": "http.response.start", "status": 304, "headers": of_unchanged})
                await send({"type": "http.response.body", "body": b""})
                return
        await send({"type": "http.response.start", "status": 200, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    return app


OF_UNCHANGED = frozenset({b"etag", b"vary", b"cache-control", b"x-request-id"})
"""The headers of a 304."""


class Amounts(msgspec.Struct, rename="camel", omit_defaults=True):
    unit_price: str | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    sub_total: str | UnsetType = UNSET
    total: str = ""


class Line(msgspec.Struct, rename="camel", gc=False):
    item_id: str
    modifier_groups: list["Group"]
    quantity: int
    line_item_id: str | None = None
    amounts: Amounts | UnsetType = UNSET


class Group(msgspec.Struct, rename="camel", gc=False):
    modifier_group_id: str
    line_items: list[Line]


class Cart(msgspec.Struct, rename="camel"):
    catalog_set_id: str
    line_items: list[Line]
    store_id: str
    amounts: Amounts | UnsetType = UNSET
    errors: tuple[()] = ()


class AddItem(msgspec.Struct, rename="camel"):
    item: Line
    cart: Cart


def cart(prices: bytes) -> Any:
    """Return a typed application that adds an item to a cart and prices it, in cents, from a dictionary of prices."""
    cents: dict[str, int] = msgspec.json.decode(prices)
    decode = msgspec.json.Decoder(AddItem).decode
    encode = msgspec.json.Encoder().encode

    def price(line: Line) -> int:
        total = cents[line.item_id]
        for group in line.modifier_groups:
            for below in group.line_items:
                total += below.quantity * price(below)
        return total

    def identify(line: Line) -> None:
        line.line_item_id = str(uuid4())
        for group in line.modifier_groups:
            for below in group.line_items:
                identify(below)

    async def answer(body: bytes) -> bytes:
        request = decode(body)
        cart, sub_total = request.cart, 0
        identify(request.item)
        cart.line_items.append(request.item)
        for line in cart.line_items:
            unit = price(line)
            total = unit * line.quantity
            sub_total += total
            line.amounts = Amounts(unit_price=text(unit), total=text(total))
        cart.amounts = Amounts(currency="USD", sub_total=text(sub_total), total=text(sub_total))
        return encode(cart)

    return answering(answer)


def text(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def relay(url: bytes, told: bytes, answered: bytes) -> Any:
    """Return an application that decodes, makes one POST, decodes the reply, and encodes the answer."""
    import aiohttp

    question, reply = msgspec.json.decode(told), msgspec.json.decode(answered)
    session: Any = None

    async def answer(body: bytes) -> bytes:
        nonlocal session
        if session is None:
            session = aiohttp.ClientSession()
        msgspec.json.decode(body)
        async with session.post(
            url.decode(), data=msgspec.json.encode(question), headers={"Content-Type": "application/json"}
        ) as response:
            msgspec.json.decode(await response.read())
        return msgspec.json.encode(reply)

    return answering(answer)


def hanging() -> Any:
    """Return an application that takes every request and answers none."""

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        await asyncio.sleep(3600)

    return app


def answering(answer: Answer) -> Any:
    """Return an application that reads a body and sends what is made of it."""

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        said = await answer(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(said))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})

    return app


def starlette() -> Any:
    """Return the smallest Starlette application."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def hello(_request: Any) -> PlainTextResponse:
        return PlainTextResponse("ok")

    return Starlette(routes=[Route("/", hello)])


FLOORS: dict[str, Callable[..., Any]] = {
    "static": static,
    "conditional": conditional,
    "cart": cart,
    "relay": relay,
    "hanging": hanging,
    "starlette": starlette,
}


async def main(name: str, *arguments: str) -> None:
    app = FLOORS[name](*(base64.b64decode(argument) for argument in arguments))
    async with serving(app, host="127.0.0.1", port=0) as base:
        print(f"listening on {base}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
