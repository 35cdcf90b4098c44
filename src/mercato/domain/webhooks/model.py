"""What becomes of a delivery: the schedule, the verdict on an attempt, what is kept of a reply. No I/O."""

import json
import re
import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from http import HTTPStatus
from typing import Final
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import Struct, field

from mercato.domain.partners.model import Surface
from mercato.kernel import clock
from mercato.kernel.wire import Instant, Wire, as_json, redacted

KIND: Final = "webhook.deliver"
"""The kind of the jobs that send deliveries."""

WAITS: Final = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(hours=24),
    timedelta(hours=24),
)
"""How long to wait after the first failed attempt, the second, …: the whole takes two and a half days."""

MOST_ATTEMPTS: Final = len(WAITS) + 1

JITTER: Final = 0.1
"""The share of a wait that chance may add or take, so that not all come back at once."""

PATIENCE: Final = timedelta(days=5)
"""An endpoint that has answered nothing with 2xx for so long is disabled."""

REPLY_KEPT: Final = 1024
"""Bytes of a reply that the log keeps."""

PARTITIONS: Final = 4
"""Attempts that one endpoint gets at one time: a slow receiver holds up no more of the worker than these."""

MAX_FAULTS: Final = 10
"""Faults of ours in a row after which a delivery is given up."""

_LEAST_PART: Final = 4
"""A shorter beginning of a secret at the end of a reply says nothing about it."""


class DeliveryStatus(StrEnum):
    """`pending`: an attempt is due or under way; `succeeded` and `failed` stay so until a redelivery."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of one attempt. `status` is None when no reply arrived; `error` is None for 2xx alone."""

    ms: int
    status: int | None = None
    error: str | None = None
    reply: str | None = None
    retry_after: timedelta | None = None


@redacted("body", "hidden")
class StoreCall(Struct, frozen=True, kw_only=True):
    """A question to a store that somebody waits for. `hidden` holds what the reply's messages may not repeat.

    A call that `carries_payment` leaves no excerpt of its reply in the log: no mask finds every form of a card.
    """

    store_id: UUID
    partner_id: UUID
    url: str
    webhook_id: UUID
    body: bytes
    traceparent: str
    hidden: tuple[str, ...] = field(default=())
    carries_payment: bool = False


@redacted("body")
class CallResult(Struct, frozen=True, kw_only=True):
    """What came of a call to a store.

    `error` is None when the store answered sensibly, yes or no, and else says to the partner what is wrong.
    `reached` is False when nothing was sent: the store is cut off, or has too many calls waiting. `reply` is
    the first KiB of the body, for the log, or None for a call that carried a payment. `retry_after` is in seconds.
    """

    at: datetime
    ms: int
    status: int | None = None
    error: str | None = None
    reply: str | None = None
    body: bytes = field(default=b"")
    retry_after: float | None = None
    reached: bool = True


def reached(calls: Sequence[CallResult]) -> list[CallResult]:
    """Return the calls that were made, the attempts of a log."""
    return [called for called in calls if called.reached]


def error_after(calls: Sequence[CallResult], status: DeliveryStatus) -> str | None:
    """Return what is wrong with a question after these calls: also why the last of them was not made."""
    return calls[-1].error if calls and status is not DeliveryStatus.SUCCEEDED else None


class Succeeded(Struct, frozen=True):
    """The receiver has it."""


class Retry(Struct, frozen=True):
    """Try again at this instant."""

    at: datetime


class GiveUp(Struct, frozen=True):
    """Try no more by ourselves; `disable` cuts the endpoint off for every other delivery, too."""

    reason: str
    disable: bool


Verdict = Succeeded | Retry | GiveUp


class Fault(Struct, frozen=True):
    """No attempt was made, or recorded, for a fault of ours: try again soon, and not for ever."""


def decide(
    outcome: Outcome, *, number: int, failing_since: datetime | None, now: datetime, chance: float
) -> Verdict:
    """Return what follows from attempt `number` (from 1, counted anew by a redelivery).

    `failing_since` is when the endpoint's failures began, None if its last attempt succeeded.
    `chance` is in [0, 1).
    """
    if outcome.error is None:
        return Succeeded()
    if outcome.status == HTTPStatus.GONE:
        return GiveUp("The receiver answered 410 Gone: the endpoint is disabled.", disable=True)
    if failing_since is not None and now - failing_since >= PATIENCE:
        return GiveUp(
            f"Every attempt since {clock.rfc3339(failing_since)} failed, {PATIENCE.days} days and more: "
            f"the endpoint is disabled. The last error: {outcome.error}",
            disable=True,
        )
    if number >= MOST_ATTEMPTS:
        return GiveUp(f"All {number} attempts failed. The last error: {outcome.error}", disable=False)
    return Retry(clock.truncated(now + wait(number, retry_after=outcome.retry_after, chance=chance)))


def wait(number: int, *, retry_after: timedelta | None, chance: float) -> timedelta:
    """Return how long to wait after failed attempt `number`; the receiver may ask for twice the step."""
    step = WAITS[number - 1]
    ours = step * (1 - JITTER + 2 * JITTER * chance)
    return ours if retry_after is None else max(ours, min(retry_after, step * 2))


def error_of(status: int) -> str | None:
    """Return why a status is no success, None for 2xx."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"The receiver answered {status}: redirects are not followed."
    return f"The receiver answered {status}."


def excerpt(body: bytes, *, hidden: Sequence[str]) -> str:
    """Return the beginning of a reply as text that can be stored, with what it echoes of `hidden` blotted out."""
    if not body:
        return ""
    text = body.decode("utf-8", "replace").replace("\x00", "\ufffd")
    # The longest first: one may be a part of another.
    for secret in sorted(hidden, key=len, reverse=True):
        for form in _forms(secret):
            text = _without(text, form)
    return text.encode()[:REPLY_KEPT].decode("utf-8", "ignore")


def masked(text: str, *, hidden: Sequence[str]) -> str:
    """Return words about a reply with what they repeat of `hidden` blotted out."""
    for secret in sorted(hidden, key=len, reverse=True):
        for form in _forms(secret):
            text = text.replace(form, "***")
    return text


_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*")


def _forms(secret: str) -> Iterable[str]:
    """Return the text as it is, and as it stands in JSON documents and URLs that echo it; nothing for ''."""
    if _PLAIN.fullmatch(secret):
        return (secret,) if secret else ()
    # Some encoders escape what isn't ASCII, and PHP's the slash.
    in_json = as_json(secret)[1:-1].decode(), json.dumps(secret)[1:-1]
    forms = (secret, *in_json, *(form.replace("/", "\\/") for form in in_json), quote(secret, safe=""))
    return sorted(dict.fromkeys(forms), key=len, reverse=True)


def _without(text: str, secret: str) -> str:
    text = text.replace(secret, "***")
    if not text or text[-1] not in secret:
        return text
    # The reply was cut somewhere: what it ends with may be the beginning of the secret.
    for length in range(min(len(secret) - 1, len(text)), _LEAST_PART - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + "***"
    return text


@redacted("body", "base")
class Delivery(Struct, frozen=True, kw_only=True):
    """A delivery as an attempt needs it, with what is known of its endpoint.

    `body` is compressed, with `base` if it is about an order; None of a large one, which is read when it is sent.
    """

    id: UUID
    partner_id: UUID
    surface: Surface
    webhook_id: UUID
    url: str
    body: bytes | None
    base: bytes | None
    traceparent: str
    round: int
    attempts: int
    attempts_before_round: int
    faults: int
    failing_since: datetime | None
    disabled_reason: str | None

    @property
    def number(self) -> int:
        """Return the number of the coming attempt in its round, from 1."""
        return self.attempts - self.attempts_before_round + 1


class DeliverJob(Wire, frozen=True):
    """The deliveries that one job sends: those of an endpoint (a partner's URL) in one partition that are due."""

    partner_id: UUID
    url: str
    partition: int

    @property
    def ordering_key(self) -> str:
        endpoint = sha256(self.url.encode()).hexdigest()[:16]
        return f"webhook:{self.partner_id.hex}:{endpoint}:{self.partition}"


class Envelope(Wire, frozen=True):
    """The Standard Webhooks envelope: what happened, when, and to what."""

    type: str
    timestamp: Instant
    data: msgspec.Raw


def envelope(kind: str, *, occurred_at: datetime, data: object) -> bytes:
    """Return the body, made once: these bytes are stored, signed at every attempt, and sent."""
    return as_json(Envelope(type=kind, timestamp=clock.rfc3339(occurred_at), data=msgspec.Raw(as_json(data))))


def partition_of(subject: UUID) -> int:
    """Return the part of an endpoint's deliveries that one is in, always the same for one subject."""
    return zlib.crc32(subject.bytes) % PARTITIONS
