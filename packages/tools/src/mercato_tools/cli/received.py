"""A webhook that `mercato listen` has received or read: what it is, what it is forwarded to, and how it is printed."""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from mercato_contract.debugger.explain import SignatureExplanation
from mercato_contract.debugger.findings import ERROR
from mercato_contract.wire import Instant, Wire, as_json, redacted
from mercato_outbound.client import Outbound
from mercato_outbound.results import EndpointResponse, Fault, RequestFailed
from mercato_tools.cli.order_lines import sentences_of
from mercato_tools.cli.output import finding, note, sanitize, say, truncate, view, width, wrap

MAX_REPLY: Final = 1 << 20
FORWARD_SECONDS: Final = 30.0


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


# --- forwarding -----------------------------------------------------------------------------------


class Forwarded(Struct, frozen=True):
    """The result of forwarding: the program's response, or why there is none."""

    status: int
    ms: int
    error: str | None = None
    response: EndpointResponse | None = None


async def forward_webhook(
    outbound: Outbound, url: str, *, base: str, headers: Mapping[str, str], body: bytes
) -> Forwarded:
    """Send a webhook to a program. `base` is the address that messages name: the URL without what was appended."""
    try:
        response = await outbound.post(
            url, headers=headers, body=body, timeout=FORWARD_SECONDS, max_reply=MAX_REPLY
        )
    except RequestFailed as failed:
        return Forwarded(HTTPStatus.BAD_GATEWAY, failed.elapsed_ms, _describe(failed, base))
    return Forwarded(response.status, response.elapsed_ms, response=response)


def _describe(failed: RequestFailed, base: str) -> str:
    """Return why a webhook couldn't be forwarded, for whom it concerns."""
    match failed.fault:
        case Fault.CONNECT | Fault.DNS:
            return f"Nothing answers at {base}. Is your program running, and on that port?"
        case Fault.TIMEOUT:
            return f"Your program at {base} gave no full answer within {FORWARD_SECONDS:g} seconds."
        case _:
            return failed.message.replace("webhook URL", "address that it is forwarded to")


# --- printing -------------------------------------------------------------------------------------

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


@dataclass
class WebhookDisplay:
    """Prints webhooks as they arrive, and a summary at the end."""

    as_json: bool
    bodies: bool
    limit: int | None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    broken_pipe: BrokenPipeError | None = None
    _began: bool = False
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

    def show(self, received: ReceivedWebhook) -> None:
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

    def begin(self, text: str) -> None:
        """Print to standard error that webhooks are shown from now on."""
        self._began = True
        note(text)

    def end(self) -> None:
        """Print the summary to standard error, if there was anything to sum up."""
        if not self._began:
            return
        parts = [f"{count} {_VERDICTS[verdict]}" for verdict, count in self._verdicts.items()]
        codes = ", ".join(f"{code} {count}" for code, count in self._codes.most_common())
        if self._repeated:
            parts.append(f"{self._repeated} again")
        answered = ", ".join(f"{status} {count}" for status, count in sorted(self._statuses.items()))
        text = f"{self._count} received" + (f": {', '.join(parts)}; answered {answered}" if parts else "")
        note("\n".join(wrap(f"{text}{f'; why not: {codes}' if codes else ''}.")))


def lines_of(received: ReceivedWebhook) -> list[str]:
    """Return one line about a webhook, followed by the order that it is about, and by its faults."""
    start = f"{received.at.astimezone():%H:%M:%S} {received.status} {_MARKS[received.is_valid]}"
    name, webhook_id = sanitize(received.type or received.path), sanitize(received.webhook_id)
    room = width() - len(start) - 2 - (len(webhook_id) + 1 if webhook_id else 0)
    lines = [f"{start} {truncate(name, max(room, 12))} {webhook_id}".rstrip()]
    if received.too_large:
        lines += wrap("The body is longer than any webhook; it was not read.", indent=_INDENT)
    for sentence in sentences_of(received.type, received.body):
        lines += wrap(sentence, indent=_INDENT)
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


def _line(received: ReceivedWebhook) -> Line:
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
