"""A partner's receiver on a loopback socket: records every request, and answers what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Where it listens, what it got, and the answers it will give; the last one for ever."""

    base: str
    answers: list[Answer]
    requests: list[Request] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def reply(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Answer at once. `Retry_After="5"` becomes a header."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return answer


async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Answer nothing, until the caller goes."""
    while await reader.read(1024):
        pass
    raise ConnectionResetError


def pour(receiver_of: Callable[[], Receiver], size: int) -> Answer:
    """Answer 200 with a body of that size, for as long as somebody reads it."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver = receiver_of()
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        chunk = b"x" * 65_536
        try:
            while receiver.sent < size:
                writer.write(chunk)
                await writer.drain()
                receiver.sent += len(chunk)
        except ConnectionError:
            receiver.dropped.set()

    return answer


@asynccontextmanager
async def receiving(*answers: Answer) -> AsyncIterator[Receiver]:
    """Listen on a free port; without answers every request gets 204."""
    receiver = Receiver(base="", answers=list(answers) or [reply(204)])
    open_calls: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_calls.add(task)
        try:
            receiver.requests.append(await _read(reader))
            receiver.arrived.set()
            await receiver.next_answer()(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            receiver.dropped.set()
        finally:
            open_calls.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    receiver.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        server.close()
        calls = list(open_calls)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body)
