"""Connections that end too early: what networks and restarts do to a webhook on its way."""

import asyncio
import contextlib
import ssl
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from mercato.certify.model import NoAnswer
from mercato.certify.sending import Message, Sender
from mercato.certify.shown import address

CONNECT_SECONDS: Final = 5.0

GRACE: Final = 0.05
"""Seconds that the server has for reading what was sent, before the connection is gone."""


async def left(bench: Sender, message: Message) -> None:
    """Send a whole webhook and close the connection without waiting for the answer."""
    await _send(bench, message, message.body, "The connection was closed before an answer came.")


async def cut_off(bench: Sender, message: Message) -> None:
    """Send the first half of a webhook and close the connection."""
    half = message.body[: len(message.body) // 2]
    await _send(bench, message, half, "The connection was closed in the middle of the body.")


async def _send(bench: Sender, message: Message, body: bytes, words: str) -> None:
    url = bench.url_of(message.suffix)
    parts = urlsplit(url)
    headers = bench.headers(message) | {"Host": parts.netloc.rpartition("@")[2], "Connection": "close"}
    headers["Content-Length"] = str(len(message.body))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
    began = monotonic()
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port or (443 if tls else 80), ssl=tls
            )
            writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
            await writer.drain()
    except (OSError, TimeoutError) as error:
        raise NoAnswer(f"There was no connection: {error}") from None
    await asyncio.sleep(GRACE)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    shown = bench.receiver.shower.request(f"POST {address(url)}", bench.headers(message), body)
    bench.say(shown, words, began)
