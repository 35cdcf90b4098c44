"""One delivery as operators see it: the request without secrets, and the result of each attempt."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from sqlalchemy import Row

from mercato.cli.output import format_instant, note, sanitize, say, view, wrap
from mercato.features.partners.model import Surface
from mercato.features.webhooks import queries
from mercato.features.webhooks.masking import HIDDEN, is_about_order, mask_body, mask_reply
from mercato.features.webhooks.model import DELIVERY_WORDS
from mercato.platform.texts import count_of
from mercato_contract import USER_AGENT
from mercato_contract.events import STORE_CALLS
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import Instant, Wire, redacted


class DeliverySummary(Wire):
    """A delivery in a list. Its URL's query is masked: it may grant access."""

    id: UUID
    partner_id: UUID
    partner: str | None
    surface: str
    type: str
    webhook_id: UUID
    url: str
    store_id: UUID | None
    order_id: UUID | None
    status: DeliveryStatus
    attempts: int
    next_attempt_at: Instant | None
    error: str | None
    endpoint_disabled: str | None
    created_at: Instant | None
    updated_at: Instant | None


class Attempt(Wire):
    """One attempt and its result."""

    number: int
    at: Instant | None
    status: int | None
    ms: int
    error: str | None
    reply: str | None


@redacted("headers", "body")
class Detail(DeliverySummary):
    """A delivery with its body and attempts, without what operators don't see. `headers` have no secrets."""

    headers: dict[str, str]
    attempt_log: list[Attempt]
    body: msgspec.Raw


def summary_of(row: Row[Any]) -> DeliverySummary:
    """Return the row for a list."""
    return view(DeliverySummary, row, **_members(row))


def detail_of(row: Row[Any], attempts: Sequence[Row[Any]], *, has_token: bool) -> Detail:
    """Return a row with its body and attempts; `has_token` if the partner has a token for its origin."""
    last = int(attempts[-1].at.timestamp()) if attempts else None
    return view(
        Detail,
        row,
        **_members(row),
        headers=_headers(row, last, has_token=has_token),
        attempt_log=[
            view(Attempt, attempt, reply=mask_reply(row.type, attempt.reply)) for attempt in attempts
        ],
        body=msgspec.Raw(mask_body(row.type, queries.body_of(row))),
    )


def _members(row: Row[Any]) -> dict[str, Any]:
    """Return the members that differ from the row's columns."""
    return {
        "url": _without_query(row.url),
        "status": DeliveryStatus(row.status),
        "endpoint_disabled": row.disabled_reason,
    }


def _headers(row: Row[Any], last: int | None, *, has_token: bool) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "webhook-id": str(row.webhook_id),
        "webhook-timestamp": "made at each attempt" if last is None else str(last),
        "webhook-signature": f"v1,{HIDDEN}",
        "Idempotency-Key": str(row.webhook_id),
    }
    # An event URL never gets the token.
    if has_token and row.surface == Surface.COMMERCE:
        headers["Authorization"] = f"Bearer {HIDDEN}"
    if row.traceparent:
        headers["traceparent"] = row.traceparent
    return headers


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(query=HIDDEN if parts.query else "", fragment="").geturl()


def print_rows(rows: Sequence[Row[Any]]) -> None:
    """Print deliveries, a few lines each; ids and URLs are never cut."""
    if not rows:
        note("There are none.")
    for row in rows:
        _print_summary(summary_of(row))


def _print_summary(delivery: DeliverySummary) -> None:
    status = DELIVERY_WORDS[delivery.status]
    attempts = count_of(delivery.attempts, "attempt")
    say(f"{format_instant(delivery.created_at)}  {status:<7}  {sanitize(delivery.type)}, {attempts}")
    say(
        f"  {delivery.id}  {sanitize(delivery.partner or str(delivery.partner_id))}",
        f"  to {sanitize(delivery.url)}",
    )
    say(*_state(delivery), "")


def _state(delivery: DeliverySummary) -> Iterator[str]:
    if delivery.error:
        yield from wrap(delivery.error, indent="  ")
    if delivery.endpoint_disabled and not (delivery.error or "").startswith("endpoint disabled"):
        yield from wrap(f"Its endpoint is disabled: {delivery.endpoint_disabled}", indent="  ")
    if delivery.next_attempt_at and delivery.status is DeliveryStatus.PENDING:
        yield f"  next attempt {format_instant(delivery.next_attempt_at)}"


def print_detail(delivery: Detail) -> None:
    """Print a delivery."""
    _print_summary(delivery)
    say("Headers (signature and timestamp are made for each attempt):")
    say(*(f"  {name}: {sanitize(value)}" for name, value in delivery.headers.items()), "")
    say(f"Attempts: {len(delivery.attempt_log)}")
    for attempt in delivery.attempt_log:
        answer = "no answer" if attempt.status is None else str(attempt.status)
        say(f"  {attempt.number:>3}  {format_instant(attempt.at)}  {answer}, {attempt.ms:,} ms")
        if attempt.error:
            say(*wrap(attempt.error, indent="       "))
        if attempt.reply:
            say(*wrap(attempt.reply, indent="       ", first="       answer: "))
    masked = (
        "what concerns the customer is masked"
        if is_about_order(delivery.type)
        else "--body prints it byte for byte"
    )
    say("", f"Body ({masked}):")
    text = msgspec.json.format(bytes(delivery.body), indent=2).decode()
    say(*(f"  {sanitize(line)}" for line in text.split("\n")))
    say("", *wrap(_advice(delivery)))


def _advice(delivery: Detail) -> str:
    if delivery.type in STORE_CALLS:
        return STORE_CALLS[delivery.type]
    if delivery.status is DeliveryStatus.SUCCEEDED:
        return f"It was sent. To send it again: mercato webhooks replay {delivery.id} --yes"
    return f"To send it now: mercato webhooks replay {delivery.id} --yes"
