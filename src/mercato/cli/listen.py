"""`mercato listen`: receives webhooks, says of each what it is and whether its signature is right."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from mercato import clock
from mercato.cli import FAILED
from mercato.cli.console import note
from mercato.cli.failures import UnusableError, cannot_listen
from mercato.cli.options import DataDir, Json, check_port
from mercato.cli.pasted import read_secrets
from mercato.cli.plain import cut, folded, harmless, say, width
from mercato.cli.session import opened
from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.client import Outbound
from mercato.outbound.signing import signing_key
from mercato.outbound.urls import UrlRefused, check_url
from mercato.partners import accounts
from mercato.webhooks.clinic import own_secrets
from mercato.webhooks.explain import Secret, Whose
from mercato.webhooks.findings import ERROR
from mercato.webhooks.wire import MOST_SECRETS
from mercato.wire import Instant, Wire, instant, redacted

if TYPE_CHECKING:
    from mercato.cli.listener import Came

PORT: Final = 9100
_LOCAL: Final = AddressPolicy(allow_private=True)
"""What may be forwarded to: also this machine and its network, but no metadata service."""

_MARKS: Final = {True: "ok", False: "NO", None: "--"}


@redacted("body")
class Line(Wire):
    """One webhook as `--json` tells of it. `valid` is null when there was no secret to verify it with."""

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
    host: Annotated[str, Parameter(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port to listen on; 0 takes a free one.")] = PORT,
    secret: Annotated[
        list[str] | None,
        Parameter(
            help="A signing secret, @FILE, or @- for the first line of standard input; newest first.",
            negative=(),
        ),
    ] = None,
    partner: Annotated[str | None, Parameter(help="Verify with this partner's own secrets.")] = None,
    forward: Annotated[
        str | None,
        Parameter(help="Pass all on to this URL, the path that came appended, and answer what it answers."),
    ] = None,
    answer: Annotated[int | None, Parameter(help="Status to answer good webhooks with (200).")] = None,
    body: Annotated[bool, Parameter(negative=(), help="Show bodies, too.")] = False,
    count: Annotated[int | None, Parameter(help="End after so many webhooks.")] = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Receive webhooks, verify them, and say of each what is wrong with it, until Ctrl-C.

    Exit code 0: all that came were valid; 1: some were not; 2: it cannot listen.
    """
    _check(answer=answer, forward=forward, count=count, port=port)
    given = [Secret(text, Whose.GIVEN, index) for index, text in enumerate(read_secrets(secret or ()))]
    if len(given) > MOST_SECRETS:
        raise UnusableError(f"At most {MOST_SECRETS} secrets are tried.")
    try:
        for one in given:
            signing_key(one.text)
    except ValueError as fault:
        raise UnusableError(f"--secret: {fault}") from None
    if given and partner is not None:
        raise UnusableError("Give --secret or --partner, not both.")
    secrets = given if partner is None else asyncio.run(_own(partner, data_dir))
    screen = Screen(as_json=json, bodies=body, most=count)
    asyncio.run(_listen(screen, secrets, host=host, port=port, forward=forward, answer=answer))
    screen.sum_up()
    if screen.gone is not None:
        raise screen.gone
    return FAILED if screen.refused else 0


def _check(*, answer: int | None, forward: str | None, count: int | None, port: int) -> None:
    if answer is not None and forward is not None:
        raise UnusableError("With --forward the answer is that of your program: leave --answer out.")
    if answer is not None and not HTTPStatus.OK <= answer <= 599:  # noqa: PLR2004  # HTTP's last status
        raise UnusableError("--answer is an HTTP status from 200 to 599.")
    if count is not None and count < 1:
        raise UnusableError("--count is at least 1.")
    check_port(port)
    if forward is not None:
        try:
            check_url(forward, _LOCAL, https_only=False)
        except UrlRefused as refused:
            raise UnusableError(f"--forward cannot be used: {refused}") from None


async def _own(partner: str, data_dir: Path | None) -> list[Secret]:
    async with opened(data_dir) as session, session.db.read() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        return await own_secrets(tx, await session.vault(tx), owner.id, now=clock.now)


async def _listen(
    screen: "Screen",
    secrets: Sequence[Secret],
    *,
    host: str,
    port: int,
    forward: str | None,
    answer: int | None,
) -> None:
    from mercato.cli.listener import Listener, receiving

    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, screen.ended.set)
    async with AsyncExitStack() as held:
        outbound = None if forward is None else await held.enter_async_context(Outbound(_LOCAL))
        status = HTTPStatus.OK.value if answer is None else answer
        listener = Listener(
            secrets=secrets, answer=status, tell=screen.tell, forward=forward, outbound=outbound
        )
        try:
            base = await held.enter_async_context(receiving(listener, host=host, port=port))
        except (OSError, UnicodeError) as error:
            raise cannot_listen(error, host, port) from None
        if forward is not None:
            note(f"forwarding to {harmless(forward)}")
        if not secrets:
            note("Nothing is verified: give the signing secret with --secret, or a partner with --partner.")
        note(f"listening on {base}, Ctrl-C ends it")
        await screen.ended.wait()


@dataclass
class Screen:
    """Tells of webhooks as they come, and of all of them at the end."""

    as_json: bool
    bodies: bool
    most: int | None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    gone: BrokenPipeError | None = None
    _came: int = 0
    _again: int = 0
    _verdicts: Counter[bool | None] = field(default_factory=Counter)
    _codes: Counter[str] = field(default_factory=Counter)
    _statuses: Counter[int] = field(default_factory=Counter)

    @property
    def refused(self) -> int:
        """Return how many were not valid."""
        return self._verdicts[False]

    def tell(self, came: "Came") -> None:
        """Tell of one, at once, whoever reads it: a person or a program behind a pipe."""
        self._count(came)
        try:
            if self.as_json:
                print(msgspec.json.encode(_line(came)).decode(), flush=True)
            else:
                say(*told_of(came), *(shown(came.body) if self.bodies else ()))
                sys.stdout.flush()
        except BrokenPipeError as error:
            self.gone = error
            self.ended.set()
        if self.most is not None and self._came >= self.most:
            self.ended.set()

    def _count(self, came: "Came") -> None:
        self._came += 1
        self._again += came.times > 1
        self._statuses[came.status] += 1
        self._verdicts[None if came.told is None else came.told.valid] += 1
        if came.told is not None and not came.told.valid:
            self._codes[came.told.code] += 1

    def sum_up(self) -> None:
        """Say what came, apart from what is printed for use."""
        verdicts = {True: "valid", False: "not valid", None: "not verified"}
        parts = [f"{count} {verdicts[one]}" for one, count in self._verdicts.items()]
        codes = ", ".join(f"{code} {count}" for code, count in self._codes.most_common())
        if self._again:
            parts.append(f"{self._again} again")
        answered = ", ".join(f"{status} {count}" for status, count in sorted(self._statuses.items()))
        text = f"{self._came} received" + (f": {', '.join(parts)}; answered {answered}" if parts else "")
        note("\n".join(folded(f"{text}{f'; why not: {codes}' if codes else ''}.")))


def told_of(came: "Came") -> list[str]:
    """Return one line about a webhook, and below it what is wrong with it."""
    mark = _MARKS[None if came.told is None else came.told.valid]
    start = f"{came.at.astimezone():%H:%M:%S} {came.status} {mark}"
    named = harmless(came.type or came.path)
    room = width() - len(start) - 2 - (len(came.webhook_id) + 1 if came.webhook_id else 0)
    lines = [f"{start} {cut(named, max(room, 12))} {harmless(came.webhook_id)}".rstrip()]
    if came.too_large:
        lines += folded("The body is longer than any webhook; it was not read.", indent="         ")
    if came.times > 1:
        lines += folded(f"Again: this webhook-id has come {came.times} times.", indent="         ")
    for one in came.told.findings if came.told is not None and not came.told.valid else ():
        if one.level == ERROR:
            lines += folded(one.message, first=f"         [{one.code}] ", indent="         ")
            lines += folded(one.advice, first="         -> ", indent="            ") if one.advice else ()
    if came.forwarded is not None and came.forwarded.error:
        lines += folded(came.forwarded.error, indent="         ")
    return lines


def shown(body: bytes) -> list[str]:
    """Return a body in lines: JSON indented, anything else as it came."""
    try:
        text = msgspec.json.format(body, indent=2).decode() if body else ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
    return [f"  {harmless(line)}" for line in text.split("\n")] if text else []


def _line(came: "Came") -> Line:
    told, passed = came.told, came.forwarded
    first = None if told is None or told.valid else next(iter(told.findings), None)
    return Line(
        at=instant(came.at),
        path=came.path,
        type=came.type,
        webhook_id=came.webhook_id,
        times=came.times,
        status=came.status,
        valid=None if told is None else told.valid,
        code=None if told is None else told.code,
        message=None if told is None else told.message,
        advice=None if first is None else first.advice,
        forward_error=None if passed is None else passed.error,
        ms=None if passed is None else passed.ms,
        body=came.body.decode("utf-8", "replace"),
    )
