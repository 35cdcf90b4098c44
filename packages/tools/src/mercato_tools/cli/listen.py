"""`mercato listen`: receives webhooks, verifies, shows and forwards them."""

import asyncio
import signal
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from mercato_client.testing.server import listening
from mercato_contract import clock
from mercato_contract.debugger.explain import Secret, SecretOrigin, SignatureExplanation, Webhook, explain
from mercato_outbound.client import Outbound
from mercato_outbound.guard import AddressPolicy, UrlRefused, check_url
from mercato_outbound.results import Options
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.extensions import get_service
from mercato_tools.cli.failures import cannot_listen
from mercato_tools.cli.inputs import check_secrets, read_secret, read_secrets
from mercato_tools.cli.options import DataDir, Json, Port, Secrets
from mercato_tools.cli.output import note, sanitize
from mercato_tools.cli.received import ReceivedWebhook, WebhookDisplay, forward_webhook

MAX_BODY: Final = 1 << 20
MAX_REMEMBERED: Final = 1_000
"""webhook-ids remembered, to recognise repeats."""

_NOT_FORWARDED: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of the connection, not of the message."""


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
        sent = await forward_webhook(self.outbound, url, base=base, headers=passed, body=body)
        results = {"explanation": explanation, "ms": sent.ms, "forward_error": sent.error}
        self._report(request, headers, body, status=sent.status, **results)
        reply = sent.response
        if reply is None:
            return _text(sent.status, sent.error or "")
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


PORT: Final = 9100
POLL_SECONDS: Final = 60.0
"""The timeout of a read: longer than the service holds one."""

_LOCAL: Final = AddressPolicy(allow_private=True)
"""Addresses to forward to: also this machine and its network, but never a metadata service."""


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
    display = WebhookDisplay(as_json=json, bodies=body, limit=count)
    if poll:
        if partner is not None or answer is not None:
            raise UnusableError("With --poll nothing is received: leave --partner and --answer out.")
        if api is None or key is None:
            raise UnusableError("--poll needs --api, the service's address, and --key, an API key.")
        polling = _poll(display, given, api, read_secret(key), cursor=cursor, oldest=oldest, forward=forward)
        return _ended(display, polling)
    if (api, key, cursor, oldest) != (None, None, None, False):
        raise UnusableError("--api, --key, --cursor and --oldest are for --poll.")
    secrets = [Secret(text, SecretOrigin.GIVEN, index) for index, text in enumerate(given)]
    if partner is not None:
        secrets, _ = get_service("--partner", "Give the signing secret with --secret.").look_up(
            partner, None, data_dir
        )
    return _ended(display, _listen(display, secrets, host=host, port=port, forward=forward, answer=answer))


def _ended(display: WebhookDisplay, work: Coroutine[Any, Any, None]) -> int:
    """Do the work, print the summary, and return the exit code."""
    try:
        asyncio.run(_until_signalled(display, work))
    finally:
        display.end()
    if display.broken_pipe is not None:
        raise display.broken_pipe
    return FAILED if display.refused else 0


async def _until_signalled(display: WebhookDisplay, work: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, display.ended.set)
    await work


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


async def _listen(
    display: WebhookDisplay,
    secrets: Sequence[Secret],
    *,
    host: str,
    port: int,
    forward: str | None,
    answer: int | None,
) -> None:
    async with AsyncExitStack() as stack:
        outbound = (
            None if forward is None else await stack.enter_async_context(Outbound(Options(policy=_LOCAL)))
        )
        status = HTTPStatus.OK.value if answer is None else answer
        listener = Listener(
            secrets=secrets, answer=status, report=display.show, forward=forward, outbound=outbound
        )
        try:
            base = await stack.enter_async_context(receiving(listener, host=host, port=port))
        except (OSError, UnicodeError) as error:
            raise cannot_listen(error, host, port) from None
        if forward is not None:
            note(f"forwarding to {sanitize(forward)}")
        if not secrets:
            note("Nothing is verified: give the signing secret with --secret, or a partner with --partner.")
        display.begin(f"listening on {base}, Ctrl-C ends it")
        await display.ended.wait()


async def _poll(
    display: WebhookDisplay,
    given: Sequence[str],
    api: str,
    key: str,
    *,
    cursor: Path | None,
    oldest: bool,
    forward: str | None,
) -> None:

    # Imported here: without --poll it starts without the client.
    from mercato_client import AsyncClient
    from mercato_tools.cli.poll import Poller, session_secret, surface_of

    surface, secret = surface_of(key), session_secret(given, forwards=forward is not None)
    try:
        client = AsyncClient(api, key, timeout=POLL_SECONDS)
    except ValueError as error:
        raise UnusableError(f"--api: {error}") from None
    async with client, Outbound(Options(policy=_LOCAL)) as outbound:
        poller = Poller(client, surface, secret, display.show, cursor, forward, outbound, display.limit)
        display.begin(f"reading {surface} events of {sanitize(api)}, Ctrl-C ends it")
        reading = asyncio.create_task(poller.run(from_oldest=oldest))
        ending = asyncio.create_task(display.ended.wait())
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not display.is_full:  # else it stores the cursor, and returns
            reading.cancel()
        await asyncio.wait({reading, ending})
        if not reading.cancelled():
            await reading
