"""`mercato listen`: receives webhooks, verifies, shows and forwards them."""

import asyncio
import signal
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import hdrs, web

from mercato.cli import FAILED, UnusableError
from mercato.cli.failures import cannot_listen
from mercato.cli.inputs import check_secrets, read_secret, read_secrets
from mercato.cli.options import DataDir, Json, Port, Secrets
from mercato.cli.output import finding, note, sanitize, say, truncate, view, width, wrap
from mercato.cli.session import opened
from mercato.features.partners import accounts
from mercato.features.webhooks.explanations import list_own_secrets
from mercato.platform import clock
from mercato.platform.outbound.client import Outbound
from mercato.platform.outbound.guard import AddressPolicy, UrlRefused, check_url
from mercato.platform.outbound.results import Fault, Options, RequestFailed
from mercato_client.testing.server import listening
from mercato_contract.debugger.explain import Secret, SecretOrigin, SignatureExplanation, Webhook, explain
from mercato_contract.debugger.findings import ERROR
from mercato_contract.wire import Instant, Wire, as_json, redacted

MAX_BODY: Final = 1 << 20
MAX_REPLY: Final = 1 << 20
MAX_REMEMBERED: Final = 1_000
"""webhook-ids remembered, to recognise repeats."""

FORWARD_SECONDS: Final = 30.0

_NOT_FORWARDED: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of the connection, not of the message."""


class _Typed(msgspec.Struct):
    """The part of a body that names its type."""

    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedWebhook:
    """A webhook and its result. `explanation` is None without a secret to verify it."""

    at: datetime
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    webhook_id: str
    times: int
    """How many times its webhook-id was received, this one included."""
    status: int
    explanation: SignatureExplanation | None = None
    too_large: bool = False
    forward_error: str | None = None
    ms: int | None = None
    """Milliseconds until the program that it was forwarded to responded."""

    @property
    def type(self) -> str:
        """Return the event's type from the body."""
        try:
            return msgspec.json.decode(self.body, type=_Typed).type
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ""

    @property
    def is_valid(self) -> bool | None:
        """Return whether its signature is valid; None if it wasn't verified."""
        return None if self.explanation is None else self.explanation.valid


@dataclass(kw_only=True)
class Listener:
    """Receives webhooks. `report` is called with each result; `answer` is the status for valid ones."""

    secrets: Sequence[Secret] = field(repr=False)
    answer: int
    report: Callable[[ReceivedWebhook], None]
    forward: str | None = None
    outbound: Outbound | None = None
    _seen: OrderedDict[str, int] = field(default_factory=OrderedDict)

    async def receive(self, request: web.Request) -> web.Response:
        """Answer one request."""
        headers = _combined(request)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            self._report(request, headers, b"", status=413, too_large=True)
            return _text(413, f"A webhook has at most {MAX_BODY:,} bytes.")
        explanation = await self._verify(headers, body)
        if self.forward is not None:
            return await self._forward(self.forward, request, headers, body, explanation)
        status = self.answer if explanation is None or explanation.valid else HTTPStatus.UNAUTHORIZED.value
        self._report(request, headers, body, status=status, explanation=explanation)
        return web.Response(status=status, body=b"{}", content_type="application/json")

    async def _verify(self, headers: Mapping[str, str], body: bytes) -> SignatureExplanation | None:
        if not self.secrets:
            return None
        now = clock.now()
        webhook = Webhook(headers=headers, body=body, received_at=now)
        return await asyncio.to_thread(explain, webhook, secrets=self.secrets, now=now)

    async def _forward(
        self,
        base: str,
        request: web.Request,
        headers: Mapping[str, str],
        body: bytes,
        explanation: SignatureExplanation | None,
    ) -> web.Response:
        """Forward it unchanged, valid or not: the program under test must refuse it itself."""
        assert self.outbound is not None
        passed = {name: text for name, text in headers.items() if name.lower() not in _NOT_FORWARDED}
        url = below(base, request.path_qs)
        try:
            reply = await self.outbound.post(
                url, headers=passed, body=body, timeout=FORWARD_SECONDS, max_reply=MAX_REPLY
            )
        except RequestFailed as failed:
            why = describe_failure(failed, base)
            results: dict[str, Any] = {
                "explanation": explanation,
                "ms": failed.elapsed_ms,
                "forward_error": why,
            }
            self._report(request, headers, body, status=502, **results)
            return _text(502, why)
        self._report(
            request, headers, body, status=reply.status, explanation=explanation, ms=reply.elapsed_ms
        )
        answer = web.Response(status=reply.status, body=reply.body)
        if reply.content_type is not None:
            answer.headers[hdrs.CONTENT_TYPE] = reply.content_type
        if reply.retry_after is not None:
            answer.headers[hdrs.RETRY_AFTER] = str(round(reply.retry_after))
        return answer

    def _report(self, request: web.Request, headers: Mapping[str, str], body: bytes, **results: Any) -> None:
        webhook_id = next((text for name, text in headers.items() if name.lower() == "webhook-id"), "")
        times = self._count(webhook_id) if webhook_id else 1
        self.report(
            ReceivedWebhook(
                at=clock.now(),
                path=request.path,
                headers=headers,
                body=body,
                webhook_id=webhook_id,
                times=times,
                **results,
            )
        )

    def _count(self, webhook_id: str) -> int:
        times = self._seen[webhook_id] = self._seen.pop(webhook_id, 0) + 1
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)
        return times


async def _refuse(request: web.Request) -> web.Response:
    return _text(405, f"Webhooks are sent by POST; this was {request.method}.", allow="POST")


def receiving(listener: Listener, *, host: str, port: int) -> AbstractAsyncContextManager[str]:
    """Listen while the block runs; yields the base URL. Raises OSError if the address can't be bound."""
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/{path:.*}", listener.receive)
    app.router.add_route("*", "/{path:.*}", _refuse)
    return listening(app, host=host, port=port, closing=5.0)


def below(base: str, path: str) -> str:
    """Return the URL with a path and its query appended: a webhookUrl is also called with suffixes."""
    parts = urlsplit(base)
    rest, _, query = path.partition("?")
    joined = parts.path.rstrip("/") + (rest if rest != "/" else "") or "/"
    queries = "&".join(filter(None, (parts.query, query)))
    return parts._replace(path=joined, query=queries, fragment="").geturl()


def _combined(request: web.Request) -> dict[str, str]:
    """Return the headers by name as sent; repeated ones are joined by commas (RFC 9110, 5.3)."""
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, text in request.headers.items():
        known = names.setdefault(name.lower(), name)
        found[known] = f"{found[known]}, {text}" if known in found else text
    return found


def _text(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)


def describe_failure(failed: RequestFailed, forward: str) -> str:
    """Return why a webhook couldn't be forwarded, for whom it concerns."""
    match failed.fault:
        case Fault.CONNECT | Fault.DNS:
            return f"Nothing answers at {forward}. Is your program running, and on that port?"
        case Fault.TIMEOUT:
            return f"Your program at {forward} gave no full answer within {FORWARD_SECONDS:g} seconds."
        case _:
            return failed.message.replace("webhook URL", "address that it is forwarded to")


PORT: Final = 9100
POLL_SECONDS: Final = 60.0
"""The timeout of a read: longer than the service holds one."""

_LOCAL: Final = AddressPolicy(allow_private=True)
"""Addresses to forward to: also this machine and its network, but never a metadata service."""

_MARKS: Final = {True: "ok", False: "NO", None: "--"}
_VERDICTS: Final = {True: "valid", False: "not valid", None: "not verified"}
_INDENT: Final = " " * 9


@redacted("body")
class Line(Wire):
    """A webhook with `--json`. `valid` is null without a secret to verify it."""

    at: Instant | None
    path: str
    type: str
    webhook_id: str
    times: int
    status: int
    valid: bool | None
    code: str | None
    message: str | None
    advice: str | None
    forward_error: str | None
    ms: int | None
    body: str


def listen(
    *,
    host: str = "127.0.0.1",
    port: Port = PORT,
    secret: Secrets = None,
    partner: str | None = None,
    forward: str | None = None,
    answer: int | None = None,
    body: bool = False,
    count: int | None = None,
    poll: bool = False,
    api: str | None = None,
    key: str | None = None,
    cursor: Path | None = None,
    oldest: bool = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Receive webhooks, verify them, and explain what is wrong with each, until Ctrl-C.

    With --poll it reads the events of a key's account instead, and needs no port that the service can reach.

    Exit code 0: all were valid; 1: some were not; 2: it can't listen.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        partner: Verify with this partner's own secrets.
        forward: Forward each to this URL with the path appended, and return its response.
        answer: Status of the response to valid webhooks (200).
        body: Show bodies, too.
        count: End after this many webhooks.
        poll: Read events with --api and --key; what is forwarded is signed here, with --secret or a new secret.
        api: The service's address, with --poll.
        key: The API key, @FILE, or @- for standard input, with --poll.
        cursor: File that keeps the place in the events, so that --poll goes on after a restart.
        oldest: Begin with the oldest event that is kept, and not with the next one, if there is no cursor yet.

    """
    _check(answer=answer, forward=forward, count=count)
    given = read_secrets(secret)
    check_secrets(given)
    if given and partner is not None:
        raise UnusableError("Give --secret or --partner, not both.")
    screen = Screen(as_json=json, bodies=body, limit=count)
    if poll:
        if partner is not None or answer is not None:
            raise UnusableError("With --poll nothing is received: leave --partner and --answer out.")
        if api is None or key is None:
            raise UnusableError("--poll needs --api, the service's address, and --key, an API key.")
        polling = _poll(screen, given, api, read_secret(key), cursor=cursor, oldest=oldest, forward=forward)
        return _ended(screen, polling)
    if (api, key, cursor, oldest) != (None, None, None, False):
        raise UnusableError("--api, --key, --cursor and --oldest are for --poll.")
    secrets = [Secret(text, SecretOrigin.GIVEN, index) for index, text in enumerate(given)]
    if partner is not None:
        secrets = asyncio.run(_find_secrets(partner, data_dir))
    return _ended(screen, _listen(screen, secrets, host=host, port=port, forward=forward, answer=answer))


def _ended(screen: "Screen", work: Coroutine[Any, Any, None]) -> int:
    """Do the work, print the summary, and return the exit code."""
    try:
        asyncio.run(work)
    finally:
        screen.end()
    if screen.broken_pipe is not None:
        raise screen.broken_pipe
    return FAILED if screen.refused else 0


def _check(*, answer: int | None, forward: str | None, count: int | None) -> None:
    if answer is not None and forward is not None:
        raise UnusableError("With --forward your program's response is returned: leave --answer out.")
    if answer is not None and not HTTPStatus.OK <= answer <= 599:  # noqa: PLR2004  # HTTP's last status
        raise UnusableError("--answer is an HTTP status from 200 to 599.")
    if count is not None and count < 1:
        raise UnusableError("--count is at least 1.")
    if forward is not None:
        try:
            check_url(forward, _LOCAL, https_only=False)
        except UrlRefused as refused:
            raise UnusableError(f"--forward cannot be used: {refused}") from None


async def _find_secrets(partner: str, data_dir: Path | None) -> list[Secret]:
    async with opened(data_dir) as core, core.db.read() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        return await list_own_secrets(tx, await core.open_vault(tx), owner.id, now=clock.now)


async def _listen(
    screen: "Screen",
    secrets: Sequence[Secret],
    *,
    host: str,
    port: int,
    forward: str | None,
    answer: int | None,
) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, screen.ended.set)
    async with AsyncExitStack() as stack:
        outbound = (
            None if forward is None else await stack.enter_async_context(Outbound(Options(policy=_LOCAL)))
        )
        status = HTTPStatus.OK.value if answer is None else answer
        listener = Listener(
            secrets=secrets, answer=status, report=screen.show, forward=forward, outbound=outbound
        )
        try:
            base = await stack.enter_async_context(receiving(listener, host=host, port=port))
        except (OSError, UnicodeError) as error:
            raise cannot_listen(error, host, port) from None
        if forward is not None:
            note(f"forwarding to {sanitize(forward)}")
        if not secrets:
            note("Nothing is verified: give the signing secret with --secret, or a partner with --partner.")
        note(f"listening on {base}, Ctrl-C ends it")
        await screen.ended.wait()


async def _poll(
    screen: "Screen",
    given: Sequence[str],
    api: str,
    key: str,
    *,
    cursor: Path | None,
    oldest: bool,
    forward: str | None,
) -> None:
    # Imported here, because they import this module.
    from mercato.cli.poll import Poller, session_secret, surface_of
    from mercato_client import AsyncClient

    surface, secret = surface_of(key), session_secret(given)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, screen.ended.set)
    try:
        client = AsyncClient(api, key, timeout=POLL_SECONDS)
    except ValueError as error:
        raise UnusableError(f"--api: {error}") from None
    async with client, Outbound(Options(policy=_LOCAL)) as outbound:
        poller = Poller(client, surface, secret, screen.show, cursor, forward, outbound, screen.limit)
        note(f"reading {surface} events of {sanitize(api)}, Ctrl-C ends it")
        reading = asyncio.create_task(poller.run(from_oldest=oldest))
        ending = asyncio.create_task(screen.ended.wait())
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not screen.is_full:  # else it stores the cursor, and returns
            reading.cancel()
        await asyncio.wait({reading, ending})
        if not reading.cancelled():
            await reading


@dataclass
class Screen:
    """Prints webhooks as they arrive, and a summary at the end."""

    as_json: bool
    bodies: bool
    limit: int | None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    broken_pipe: BrokenPipeError | None = None
    _count: int = 0
    _repeated: int = 0
    _verdicts: Counter[bool | None] = field(default_factory=Counter)
    _codes: Counter[str] = field(default_factory=Counter)
    _statuses: Counter[int] = field(default_factory=Counter)

    @property
    def is_full(self) -> bool:
        """Return whether it has shown as many as it should, and could."""
        return self.limit is not None and self._count >= self.limit and self.broken_pipe is None

    @property
    def refused(self) -> int:
        """Return how many weren't valid."""
        return self._verdicts[False]

    def show(self, received: "ReceivedWebhook") -> None:
        """Print one at once, without buffering."""
        self._count += 1
        self._repeated += received.times > 1
        self._statuses[received.status] += 1
        self._verdicts[received.is_valid] += 1
        if received.explanation is not None and not received.explanation.valid:
            self._codes[received.explanation.code] += 1
        try:
            if self.as_json:
                say(as_json(_line(received)).decode())
            else:
                say(*lines_of(received), *(_body_lines(received.body) if self.bodies else ()))
            sys.stdout.flush()
        except BrokenPipeError as error:
            self.broken_pipe = error
            self.ended.set()
        if self.limit is not None and self._count >= self.limit:
            self.ended.set()

    def end(self) -> None:
        """Print the summary to standard error."""
        parts = [f"{count} {_VERDICTS[verdict]}" for verdict, count in self._verdicts.items()]
        codes = ", ".join(f"{code} {count}" for code, count in self._codes.most_common())
        if self._repeated:
            parts.append(f"{self._repeated} again")
        answered = ", ".join(f"{status} {count}" for status, count in sorted(self._statuses.items()))
        text = f"{self._count} received" + (f": {', '.join(parts)}; answered {answered}" if parts else "")
        note("\n".join(wrap(f"{text}{f'; why not: {codes}' if codes else ''}.")))


def lines_of(received: "ReceivedWebhook") -> list[str]:
    """Return one line about a webhook, followed by its faults."""
    start = f"{received.at.astimezone():%H:%M:%S} {received.status} {_MARKS[received.is_valid]}"
    name, webhook_id = sanitize(received.type or received.path), sanitize(received.webhook_id)
    room = width() - len(start) - 2 - (len(webhook_id) + 1 if webhook_id else 0)
    lines = [f"{start} {truncate(name, max(room, 12))} {webhook_id}".rstrip()]
    if received.too_large:
        lines += wrap("The body is longer than any webhook; it was not read.", indent=_INDENT)
    if received.times > 1:
        lines += wrap(f"Repeated: this webhook-id was received {received.times} times.", indent=_INDENT)
    if received.explanation is not None and not received.explanation.valid:
        for fault in received.explanation.findings:
            if fault.level == ERROR:
                lines += finding(
                    fault.message, fault.advice, first=f"{_INDENT}[{fault.code}] ", indent=_INDENT
                )
    if received.forward_error:
        lines += wrap(received.forward_error, indent=_INDENT)
    return lines


def _body_lines(body: bytes) -> list[str]:
    """Return a body in lines: JSON indented, anything else unchanged."""
    try:
        text = msgspec.json.format(body, indent=2).decode() if body else ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
    return [f"  {sanitize(line)}" for line in text.split("\n")] if text else []


def _line(received: "ReceivedWebhook") -> Line:
    explanation = received.explanation
    first = None if explanation is None or explanation.valid else next(iter(explanation.findings), None)
    return view(
        Line,
        received,
        valid=received.is_valid,
        code=None if explanation is None else explanation.code,
        message=None if explanation is None else explanation.message,
        advice=None if first is None else first.advice,
        body=received.body.decode("utf-8", "replace"),
    )
