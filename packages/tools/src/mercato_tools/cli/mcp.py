"""`mercato mcp`: passes the messages of an AI agent that speaks stdio on to a service's `/mcp`.

Each line is one message of the Model Context Protocol, and so is each line that is answered. Notes for people go to
standard error: clients show or keep them.
"""

import asyncio
import base64
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from mercato_client.testing.caller import open_session
from mercato_contract import USER_AGENT
from mercato_contract.wire import as_json
from mercato_tools.cli import UnusableError
from mercato_tools.cli.inputs import read_secret
from mercato_tools.cli.output import note, sanitize

KEY: Final = "MERCATO_KEY"
PATH: Final = "/mcp"

MAX_LINE: Final = 1 << 20
"""Bytes of a line. The service takes 64 KiB, and says so itself."""

MAX_ANSWER: Final = 1 << 20
"""Bytes of an answer. The service's have 32,000 at most."""

AT_ONCE: Final = 8
"""Messages that are on their way at the same time."""

TIMEOUT: Final = aiohttp.ClientTimeout(total=60)
"""Seconds for one answer: longer than placing an order may take."""

PARSE_ERROR: Final = -32700

_PLAIN: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
"""What a header says as it is; any other name is base64."""

_VERSION: Final = "io.modelcontextprotocol/protocolVersion"


class _Meta(Struct, frozen=True, rename={"version": _VERSION}):
    version: str | UnsetType = UNSET


class _Params(Struct, frozen=True, rename={"meta": "_meta", "request_id": "requestId"}):
    meta: _Meta = _Meta()
    name: str | UnsetType = UNSET
    request_id: int | str | UnsetType = UNSET


class _Addressed(Struct, frozen=True):
    """Which message an answer is of."""

    id: Raw | UnsetType = UNSET


class _Message(_Addressed, frozen=True):
    """What of a message the headers and the answer need."""

    method: str | UnsetType = UNSET
    params: _Params = _Params()


class _Negotiated(Struct, frozen=True, rename="camel"):
    protocol_version: str | UnsetType = UNSET


class _Answer(Struct, frozen=True):
    jsonrpc: str
    result: _Negotiated = _Negotiated()


def _or_empty(kind: Any, text: bytes) -> Any:
    """Return a struct of a JSON text, one without members if the text has another form."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read(line: bytes) -> _Message:
    """Return the message. One whose params have another form has its id, too: its client waits for an answer."""
    message: _Message | None = _or_empty(_Message, line)
    if message is not None:
        return message
    addressed = _or_empty(_Addressed, line) or _Addressed()
    return _Message(id=addressed.id)


@dataclass(kw_only=True)
class Bridge:
    """Sends messages to a service, and writes what it answers."""

    url: str
    key: str = field(repr=False)
    session: aiohttp.ClientSession
    write: Callable[[bytes], None]
    _version: str | None = None
    """The revision that `initialize` has agreed on; later ones say it in each message."""
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Pass on every line until their end, and then wait for the answers."""
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            async for line in lines:
                if not line.strip():
                    continue
                message = _read(line)
                if message.method == "notifications/cancelled":
                    self._cancel(message)
                    continue
                await room.acquire()
                task = tasks.create_task(self._pass_on(line, message))
                task.add_done_callback(lambda _: room.release())
                if message.id is not UNSET:
                    self._running[bytes(message.id).decode()] = task
                    task.add_done_callback(partial(self._forget, bytes(message.id).decode()))
                if message.method == "initialize":
                    # What follows is of the revision that it agrees on.
                    await asyncio.wait({task})

    def _forget(self, request_id: str, _task: asyncio.Task[None]) -> None:
        self._running.pop(request_id, None)

    def _cancel(self, message: _Message) -> None:
        """Stop waiting for an answer. What was asked for may happen all the same."""
        wanted = message.params.request_id
        task = None if wanted is UNSET else self._running.get(as_json(wanted).decode())
        if task is not None:
            task.cancel()

    async def _pass_on(self, line: bytes, message: _Message) -> None:
        try:
            async with self.session.post(
                self.url, data=line, headers=self._headers(message), allow_redirects=False
            ) as reply:
                body, status = await _read_answer(reply), reply.status
        except (aiohttp.ClientError, TimeoutError) as error:
            self._refuse(message, 0, f"No answer from {self.url}: {_words(error)}")
            return
        if body is None:
            self._refuse(
                message, 0,
                f"The answer of {self.url} has more than {MAX_ANSWER:,} bytes, so no Mercato service wrote it, and it "
                "was dropped. Check the address. What was asked for may have happened: look before you ask again.",
            )  # fmt: skip
            return
        answer = _or_empty(_Answer, body)
        if answer is not None:
            if message.method == "initialize" and answer.result.protocol_version is not UNSET:
                self._version = answer.result.protocol_version
            # One line: the service writes none of its own, but a proxy might.
            self.write(body if b"\n" not in body else msgspec.json.format(body, indent=-1))
        elif message.id is not UNSET or status >= HTTPStatus.BAD_REQUEST:
            problem = _or_empty(dict[str, Any], body) or {}
            detail = sanitize(str(problem.get("detail", "")))
            words = detail or f"{self.url} isn't the agents' door of a Mercato service."
            self._refuse(message, status, f"HTTP {status}: {words}", problem)

    def _headers(self, message: _Message) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        sent = message.params.meta.version
        version = self._version if sent is UNSET else sent
        if version is not None:
            headers["MCP-Protocol-Version"] = _header(version)
        if message.method is not UNSET:
            headers["Mcp-Method"] = _header(message.method)
        if message.params.name is not UNSET:
            headers["Mcp-Name"] = _header(message.params.name)
        return headers

    def _refuse(
        self, message: _Message, status: int, words: str, problem: dict[str, Any] | None = None
    ) -> None:
        """Answer a request with an error, whose code is the HTTP status, 0 without one; else tell people."""
        if message.id is UNSET:
            note(words)
            return
        error: dict[str, Any] = {"code": status, "message": words}
        if problem:
            error["data"] = problem
        self.write(as_json({"jsonrpc": "2.0", "id": message.id, "error": error}))


async def _read_answer(reply: aiohttp.ClientResponse) -> bytes | None:
    """Return the body, None if it has more than MAX_ANSWER bytes: the rest isn't read."""
    body = bytearray()
    async for part in reply.content.iter_any():
        body += part
        if len(body) > MAX_ANSWER:
            return None
    return bytes(body)


def _header(text: str) -> str:
    """Return a header's value: base64 of UTF-8 unless the text is visible ASCII."""
    if _PLAIN.fullmatch(text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


# --- standard input and output ----------------------------------------------------------------------


async def _lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input."""
    reader = asyncio.StreamReader(limit=MAX_LINE)
    loop = asyncio.get_running_loop()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    except ValueError:  # a file, which is read at once
        for line in sys.stdin.buffer:
            yield line
        return
    while True:
        try:
            line = await reader.readline()
        except ValueError:  # the line is too long; its beginning is gone
            note(f"A message of more than {MAX_LINE:,} bytes was dropped.")
            continue
        if not line:
            return
        yield line


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def mcp(*, url: str, key_file: Path | None = None) -> int:
    """Pass an AI agent's messages on to a service: the Model Context Protocol over stdio.

    For clients that start a program and speak through its standard input and output. The key is in the environment
    variable MERCATO_KEY or in a file, never in an argument, which every user of the machine can read.

    Exit code 0: standard input has ended; 2: it can't be used.

    Args:
        url: The service's address.
        key_file: A file whose first line is the key, in place of MERCATO_KEY.

    """
    key = read_secret(f"@{key_file}") if key_file is not None else os.environ.get(KEY, "").strip()
    if not key:
        raise UnusableError(f"There is no key. Set {KEY}, or name a file with --key-file.")
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise UnusableError(
            "The key has a character that a key can't have. It is mk_… or mt_…, on the first line."
        )
    endpoint = _endpoint(url)
    with suppress(BrokenPipeError):  # the client has ended
        asyncio.run(_run(endpoint, key))
    return 0


async def _run(url: str, key: str) -> None:
    async with open_session(timeout=TIMEOUT, headers={"User-Agent": USER_AGENT}) as session:
        note(f"passing messages on to {sanitize(url)}")
        try:
            await Bridge(url=url, key=key, session=session, write=_write).run(_lines())
        except* BrokenPipeError as ended:
            raise BrokenPipeError from ended


def _endpoint(url: str) -> str:
    """Return the address of the agents' door of a service. Raises UnusableError."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or parts.scheme not in {"http", "https"} or parts.username is not None:
        raise UnusableError("--url is the address of a service, like https://commerce.example.com.")
    path = parts.path.rstrip("/").removesuffix(PATH)
    return parts._replace(path=path + PATH, query="", fragment="").geturl()


def _words(error: Exception) -> str:
    """Return why a message wasn't answered; where the system refused the connection, in its own words."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.errno is not None and error.errno > 0:
        return f"{os.strerror(error.errno)}; is it running, and is this its address?"
    return f"{sanitize(str(error)) or type(error).__name__}."
