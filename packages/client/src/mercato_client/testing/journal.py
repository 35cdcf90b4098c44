"""The journal of a double: every call with its verdict and its answer, without secrets; and its page."""

import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, Final, Protocol

from aiohttp import web
from msgspec.structs import replace

from mercato_client.testing.caller import Answer
from mercato_contract.wire import Wire, as_json, rfc3339

MAX_KEPT: Final = 1000
"""Calls that are kept; the oldest are dropped."""

MAX_BODY: Final = 64 * 1024
"""Characters of a body that are kept."""

TIMEOUT: Final = 30.0
"""Seconds to wait for a call."""

HIDDEN: Final = "[hidden]"
VALID: Final = "valid"

_SECRET_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"}
)
_SCHEME: Final = re.compile(r"[A-Za-z]+(?= )")
_PLAIN: Final = frozenset({"type", "processorType"})
"""Members of a payment that aren't secret."""


class Seen(Wire, kw_only=True):
    """A call and its answer. `verdict` is `valid`, or why the webhook was rejected, or null if it isn't one."""

    number: int = 0
    at: str = ""
    operation: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: str = ""
    verdict: str | None = None
    act: str = "accept"
    status: int
    """The answer's status; 0 if the connection was closed without an answer."""
    answer: Any = None
    ours: bool = False
    """Whether the double sent the call."""

    @property
    def believed(self) -> bool:
        """Return whether the webhook was genuine."""
        return self.verdict == VALID

    def json(self) -> Any:
        """Return the body's value."""
        return json.loads(self.body)


class Journal:
    """The newest calls, in order. Any thread may read it and wait on it."""

    def __init__(self) -> None:
        self._kept: deque[Seen] = deque(maxlen=MAX_KEPT)
        self._news = threading.Condition()  # of an RLock, so that a waiting thread may read
        self._readers: list[Callable[[Seen], object]] = []
        self.count = 0

    def add(self, call: Seen) -> Seen:
        """Record a call, numbered and without its secrets, and return it."""
        with self._news:
            self.count += 1
            seen = replace(
                call,
                number=self.count,
                at=rfc3339(datetime.now(UTC)),
                headers=redact_headers(call.headers),
                body=redact_body(call.body)[:MAX_BODY],
            )
            self._kept.append(seen)
            readers = list(self._readers)
            self._news.notify_all()
        for read in readers:
            read(seen)
        return seen

    def sent(
        self, operation: str, method: str, path: str, *, headers: Mapping[str, str], body: Any, answer: Answer
    ) -> Seen:
        """Record a call that the double sent; the key isn't in these headers."""
        try:
            value = answer.json()
        except (ValueError, RecursionError):  # it isn't JSON, or nested too deep
            value = answer.words()
        return self.add(
            Seen(
                operation=operation,
                method=method,
                path=path,
                headers=headers,
                body="" if body is None else json.dumps(body, ensure_ascii=False),
                ours=True,
                status=answer.status,
                answer=value if len(answer.body) <= MAX_BODY else f"{len(answer.body):,} bytes",
            )
        )

    def read(self, path: str, event: Any) -> Seen:
        """Record an event that the double read from a feed."""
        return self.add(
            Seen(operation="feed", method="GET", path=path, headers={}, ours=True, status=200, answer=event)
        )

    def tell(self, reader: Callable[[Seen], object]) -> None:
        """Call the reader with every later call, in the thread that records it."""
        self._readers.append(reader)

    def of(self, operation: str | None = None, *, after: int = 0) -> list[Seen]:
        """Return the calls after that number, of one operation or of all, oldest first."""
        with self._news:
            return [
                call
                for call in self._kept
                if call.number > after and (operation is None or call.operation == operation)
            ]

    def wait(self, operation: str | None = None, *, count: int = 1, seconds: float = TIMEOUT) -> list[Seen]:
        """Wait for that many calls and return them, without asyncio. Raises TimeoutError."""
        with self._news:
            enough = self._news.wait_for(lambda: len(self.of(operation)) >= count, seconds)
        if not enough:
            raise TimeoutError(self._missing(operation, count))
        return self.of(operation)

    async def heard(
        self, operation: str | None = None, *, count: int = 1, seconds: float = TIMEOUT
    ) -> list[Seen]:
        """Wait for that many calls and return them. Raises TimeoutError."""
        try:
            async with asyncio.timeout(seconds):
                await self.until(lambda: len(self.of(operation)) >= count)
        except TimeoutError:
            raise TimeoutError(self._missing(operation, count)) from None
        return self.of(operation)

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait for a condition; it is checked again after every call."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake(_seen: Seen) -> None:
            loop.call_soon_threadsafe(event.set)

        self._readers.append(wake)
        try:
            while not done():
                await event.wait()
                event.clear()
        finally:
            self._readers.remove(wake)

    def _missing(self, operation: str | None, count: int) -> str:
        return f"{len(self.of(operation))} of {count} calls of {operation or 'any kind'} arrived"


def line_of(seen: Seen) -> str:
    """Return a call as one line of JSON."""
    return as_json(seen).decode()


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers, of credentials only the scheme."""
    return {
        name: _without_credentials(text) if name.lower() in _SECRET_HEADERS else text
        for name, text in headers.items()
    }


def redact_body(text: str) -> str:
    """Return a body's text with the values of a payment hidden."""
    if "payment" not in text:
        return text
    try:
        return json.dumps(_redact(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return HIDDEN


def _without_credentials(text: str) -> str:
    scheme = _SCHEME.match(text)
    return f"{scheme[0]} {HIDDEN}" if scheme else HIDDEN


def _redact(value: Any, *, payment: bool = False) -> Any:
    if isinstance(value, list):
        return [_redact(item, payment=payment) for item in value]
    if isinstance(value, dict):
        return {
            name: one if payment and name in _PLAIN else _redact(one, payment=payment or name == "payment")
            for name, one in value.items()
        }
    return HIDDEN if payment and value is not None else value


# --- the page -----------------------------------------------------------------------------------------

MAX_SHOWN: Final = 100

_ENTRY: Final = Template(
    '<details id="n$number"><summary><span>$number</span><time>$time</time><b>$operation</b>'
    '<span class="$kind">$verdict</span><span>$status$act</span></summary>'
    "<pre>$method $path\n$headers\n\n$body</pre><pre>$status\n$answer</pre></details>"
)


class Shown(Protocol):
    """What the page shows: a double."""

    @property
    def title(self) -> str: ...
    @property
    def journal(self) -> "Journal": ...
    def addresses(self) -> Iterable[tuple[str, str]]: ...
    def facts(self) -> Iterable[tuple[str, object]]: ...


def add_pages(app: web.Application, double: Shown) -> None:
    """Add `/`, the page, and `/log`, the same as lines of JSON (`?after=N`: what came after number N)."""

    async def show(_request: web.Request) -> web.Response:
        headers = {"Cache-Control": "no-store"}
        return web.Response(text=page(double), content_type="text/html", headers=headers)

    async def log(request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        seen = double.journal.of(after=int(after) if after.isdecimal() else 0)
        text = "".join(f"{line_of(call)}\n" for call in seen)
        return web.Response(text=text, content_type="application/x-ndjson")

    app.router.add_get("/", show)
    app.router.add_get("/log", log)


def page(double: Shown) -> str:
    """Return the page of a double."""
    newest = reversed(double.journal.of()[-MAX_SHOWN:])
    facts = (*double.addresses(), *double.facts())
    return Template(files("mercato_client.testing").joinpath("page.html").read_text("utf-8")).substitute(
        title=escape(double.title),
        facts="<br>".join(f"{escape(name)}: <code>{escape(str(text))}</code>" for name, text in facts),
        count=f"{double.journal.count:,} call{'' if double.journal.count == 1 else 's'}",
        entries="".join(map(_entry, newest)) or "<p>No calls yet.</p>",
    )


def _entry(one: Seen) -> str:
    texts = {
        "number": str(one.number),
        "time": one.at[11:23],
        "operation": one.operation,
        "kind": {None: "", VALID: "good"}.get(one.verdict, "bad"),
        "verdict": one.verdict or ("sent by us" if one.ours else "not signed"),
        "status": str(one.status) if one.status else "no answer",
        "method": one.method,
        "path": one.path,
        "headers": "\n".join(f"{name}: {text}" for name, text in one.headers.items()),
        "body": _pretty(one.body),
        "answer": _pretty(one.answer),
    }
    act = "" if one.act == "accept" else f" <small>{escape(one.act)}</small>"
    return _ENTRY.substitute({name: escape(text) for name, text in texts.items()}, act=act)


def _pretty(value: Any) -> str:
    if value is None or value == "":
        return ""
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)
    return json.dumps(value, indent=2, ensure_ascii=False)
