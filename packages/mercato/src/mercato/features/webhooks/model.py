"""Deliveries, calls to stores, their results, the retry schedule, and what a webhook endpoint may be. No I/O."""

import re
import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from http import HTTPStatus
from typing import Final
from uuid import UUID

from msgspec import Struct, field

from mercato.features.partners.model import Caller, Limits, Surface
from mercato.platform.errors import NotFound
from mercato_contract import problems
from mercato_contract.decoding.checks import refuse, uri_fault
from mercato_contract.events import EVENTS, NOT_IN_FEEDS, EventType
from mercato_contract.refusals import Problem
from mercato_contract.replies import advice_on
from mercato_contract.texts import shown
from mercato_contract.webhooks import HIDDEN_VALUE, DeliveryStatus, WebhookEndpointRequest
from mercato_contract.wire import Wire, redacted, rfc3339, truncated
from mercato_outbound.guard import AddressPolicy, call_fault

KIND: Final = "webhook.deliver"
"""The kind of the jobs that send deliveries."""

RETRY_DELAYS: Final = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(hours=24),
    timedelta(hours=24),
)
"""Delays after the first failed attempt, the second, …: two and a half days in all."""

MAX_ATTEMPTS: Final = len(RETRY_DELAYS) + 1

JITTER: Final = 0.1
"""The fraction of a delay that is randomly added or taken off, so that retries spread."""

DISABLE_AFTER: Final = timedelta(days=5)
"""An endpoint whose attempts have all failed for so long is disabled."""

DISABLE_FROM: Final = 7
"""The attempt of a delivery from which on it may disable its endpoint: it has failed for seven hours by itself.

Of an endpoint that gets few events, the last failure may be weeks ago. Then one failure more says little, and the
delivery gets its retries.
"""


PARTITIONS: Final = 4
"""Concurrent attempts to one endpoint: a slow receiver holds no more slots of a worker."""

MAX_FAULTS: Final = 10
"""Internal faults in a row after which a delivery is given up."""


DELIVERY_WORDS: Final = {
    DeliveryStatus.PENDING: "pending",
    DeliveryStatus.SUCCEEDED: "sent",
    DeliveryStatus.FAILED: "failed",
}
"""The words for people, who would read `succeeded` as the result of what the webhook is about."""


@redacted("body", "hidden")
class StoreCall(Struct, frozen=True, kw_only=True):
    """A call to a store that a request waits for. `hidden` are strings that messages about the reply must not repeat.

    The log has no excerpt of the reply if the call `carries_payment`: no mask finds every form of a card.
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
    """The result of one call.

    `status` is None if no reply arrived. `error` tells the partner what is wrong; None for success: a 2xx status, of a
    call to a store a usable answer. `reply` is an excerpt of the body for the log, None if the call carried a payment.
    `retry_after` is in seconds. `was_sent` is False if a store wasn't called: its breaker is open or its queue is full.
    `may_have_arrived` is False if the receiver can't have got the request: it wasn't sent, or no connection was made.
    `repeated`: the request had been sent before, on a kept connection that was closed without an answer. `warning`
    tells the partner what is odd about a usable answer.
    """

    at: datetime
    ms: int
    status: int | None = None
    error: str | None = None
    reply: str | None = None
    body: bytes = field(default=b"")
    retry_after: float | None = None
    was_sent: bool = True
    may_have_arrived: bool = True
    repeated: bool = False
    warning: str | None = None


class Succeeded(Struct, frozen=True):
    """The receiver has accepted the delivery."""


class Retry(Struct, frozen=True):
    """Send the delivery again at this instant."""

    at: datetime


class GiveUp(Struct, frozen=True):
    """Stop retrying. `disable` says that the endpoint gets no other deliveries either."""

    reason: str
    disable: bool


Decision = Succeeded | Retry | GiveUp


class Moved(Struct, frozen=True):
    """The webhook endpoint has another URL now: no attempt was made. Send it there at once."""

    url: str


class InternalFault(Struct, frozen=True):
    """A fault of this service: no attempt was made or recorded. Retry soon, but not for ever."""


def decide(
    result: CallResult, *, number: int, failing_since: datetime | None, now: datetime, random: float
) -> Decision:
    """Return what follows from attempt `number`, from 1; a redelivery starts again at 1.

    `failing_since` is since when the endpoint fails, None if its last attempt succeeded. `random` is in [0, 1).
    """
    if result.error is None:
        return Succeeded()
    if result.status == HTTPStatus.GONE:
        return GiveUp("The receiver answered 410 Gone: the endpoint is disabled.", disable=True)
    if failing_since is not None and number >= DISABLE_FROM and now - failing_since >= DISABLE_AFTER:
        return GiveUp(
            f"Every attempt since {rfc3339(failing_since)} failed, {DISABLE_AFTER.days} days and more: "
            f"the endpoint is disabled. The last error: {result.error}",
            disable=True,
        )
    if number >= MAX_ATTEMPTS:
        return GiveUp(f"All {number} attempts failed. The last error: {result.error}", disable=False)
    return Retry(truncated(now + retry_delay(number, retry_after=result.retry_after, random=random)))


def retry_delay(number: int, *, retry_after: float | None, random: float) -> timedelta:
    """Return the delay after failed attempt `number`. The receiver may ask for at most twice the scheduled one."""
    scheduled = RETRY_DELAYS[number - 1]
    delay = scheduled * (1 - JITTER + 2 * JITTER * random)
    return delay if retry_after is None else max(delay, min(timedelta(seconds=retry_after), scheduled * 2))


def error_of(status: int) -> str | None:
    """Return the error of a status, None for 2xx."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"The receiver answered {status}: redirects are not followed."
    return f"The receiver answered {status}.{advice_on(status)}"


@redacted("body", "base", "endpoint_credentials")
class Delivery(Struct, frozen=True, kw_only=True):
    """A delivery that is due, with the state of its endpoint.

    `body` is compressed, with `base` if it is about an order. Large bodies are None, and read when they are sent.
    The members from `endpoint_id` on are those of a webhook endpoint that the partner registered: as it is now, all but
    the id None if it was deleted. `endpoint_credentials` are sealed.
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
    endpoint_id: UUID | None = None
    endpoint_url: str | None = None
    endpoint_enabled: bool | None = None
    endpoint_credentials: bytes | None = None

    @property
    def refusal(self) -> str | None:
        """Return why nothing is sent to the endpoint, None if it is."""
        if self.disabled_reason is not None:
            return f"endpoint disabled: {self.disabled_reason}"
        if self.endpoint_id is None or self.endpoint_enabled:
            return None
        if self.endpoint_url is None:
            return "The webhook endpoint was deleted."
        return "endpoint disabled: you disabled it. Enable it, and redeliver this."

    @property
    def number(self) -> int:
        """Return the number of the coming attempt in its round, from 1."""
        return self.attempts - self.attempts_before_round + 1


class DeliverJob(Wire, frozen=True):
    """The payload of a job that sends the due deliveries of an endpoint (a partner's URL) in one partition."""

    partner_id: UUID
    url: str
    partition: int

    @property
    def ordering_key(self) -> str:
        endpoint = sha256(self.url.encode()).hexdigest()[:16]
        return f"webhook:{self.partner_id.hex}:{endpoint}:{self.partition}"


def partition_of(subject: UUID) -> int:
    """Return the partition of a subject's deliveries to an endpoint."""
    return zlib.crc32(subject.bytes) % PARTITIONS


# --- what a webhook endpoint may be ----------------------------------------------------------------------

TYPES: Final[Mapping[Surface, frozenset[str]]] = {
    surface: frozenset(
        type_
        for event in EVENTS
        for type_ in event.types
        if type_ not in NOT_IN_FEEDS and (event.to == surface.title() or type_ == EventType.ENDPOINT_CHANGED)
    )
    for surface in Surface
}
"""The types of events that each surface has. Calls to stores go to their webhook URL alone."""

OPERATORS: Final = UUID(int=0)
"""Whose endpoints get the operators' events: it stands where the others have their partner, and is nobody's id."""

AS_OPERATORS: Final = Caller(OPERATORS, OPERATORS, Surface.COMMERCE, Limits())

OPERATOR_TYPES: Final = frozenset(
    type_ for event in EVENTS if event.to == "Operator" for type_ in event.types
)


def types_of(caller: Caller) -> frozenset[str]:
    """Return the types of events that the caller's endpoints may ask for."""
    return OPERATOR_TYPES if caller.partner_id == OPERATORS else TYPES[caller.surface]


_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")

_OWN_HEADERS: Final = frozenset(
    {
        *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
        *("user-agent", "traceparent", "tracestate", "idempotency-key", "accept-encoding", "cookie", "date"),
        *("forwarded", "via"),
    }
)
_OWN_PREFIXES: Final = ("content-", "webhook-", "svix-", "proxy-", "x-forwarded-", ":")
"""Headers that the service or HTTP itself sets, and that a partner's may not replace."""


def check_endpoint(
    known: frozenset[str], request: WebhookEndpointRequest, *, kept: Mapping[str, str], policy: AddressPolicy
) -> None:
    """Raise ValidationFailed with every fault.

    `known` are the types it may ask for; `kept` are the headers whose values need not be repeated; `policy` says which
    addresses may be called.
    """
    description = request.description
    faults: list[tuple[str, str | None]] = [
        ("/url", _url_fault(request.url, policy)),
        (
            "/description",
            "description must be printable text."
            if description is not None and not description.isprintable()
            else None,
        ),
    ]
    faults += [
        (
            f"/types/{place}",
            None
            if type_ in known
            else f"{shown(type_)} is no event of this surface. It has {', '.join(sorted(known))}.",
        )
        for place, type_ in enumerate(request.types or ())
    ]
    seen: set[str] = set()
    for name, value in (request.headers or {}).items():
        at = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        faults.append((at, _header_fault(name, value, seen, kept)))
        seen.add(name.lower())
    refuse(faults)


def _url_fault(url: str, policy: AddressPolicy) -> str | None:
    fault = uri_fault(url, "url")
    if fault is None and "#" in url:
        # Two endpoints that differ in it alone would be one address, called twice.
        fault = "url has a fragment (from # on), which is never sent. Leave it out."
    return fault or call_fault(url, "url", policy)


def _header_fault(name: str, value: str, seen: set[str], kept: Mapping[str, str]) -> str | None:
    lower = name.lower()
    if not _TOKEN.fullmatch(name):
        return f"{shown(name)} isn't the name of a header."
    if lower in _OWN_HEADERS or lower.startswith(_OWN_PREFIXES):
        return f"{name} is set by the service or by HTTP itself. Use another header."
    if lower in seen:
        return f"{name} is there twice."
    if value == HIDDEN_VALUE:
        return None if name in kept else f"{name} has no stored value to keep. Send the value."
    if not _VALUE.fullmatch(value):
        return f"The value of {name} must be printable ASCII, without spaces at its ends."
    return None


# --- refusals ------------------------------------------------------------------------------------------


class DeliveryNotFound(Problem):
    kind = problems.DELIVERY_NOT_FOUND

    def __init__(self, delivery_id: object) -> None:
        super().__init__(f"This account has no webhook delivery {shown(delivery_id)}, or it has expired.")


class EndpointNotFound(NotFound):
    def __init__(self, endpoint_id: object) -> None:
        super().__init__(f"This account has no webhook endpoint {shown(endpoint_id)} on this surface.")


class UnknownStore(NotFound):
    kind = problems.STORE_NOT_FOUND

    def __init__(self, store_id: object) -> None:
        super().__init__(f"This account sees no store {shown(store_id)}. Check the id, or leave it out.")
