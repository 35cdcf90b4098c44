"""One webhook delivery as operators see it: what is sent, with secrets blotted out, and what came of each attempt."""

from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import msgspec
from sqlalchemy import Row

from mercato.cli.plain import folded, harmless, say
from mercato.outbound import USER_AGENT
from mercato.partners.model import Surface
from mercato.plurals import count_of
from mercato.webhooks import queries
from mercato.webhooks.event_types import QUESTIONS
from mercato.webhooks.model import DeliveryStatus
from mercato.wire import Instant, Wire, instant, redacted

HIDDEN: Final = "***"


class Listed(Wire):
    """A delivery in a list. The query of its address, which may be what grants access, is left out."""

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


class Try(Wire):
    """One attempt and what came of it."""

    number: int
    at: Instant | None
    status: int | None
    ms: int
    error: str | None
    reply: str | None


@redacted("headers", "body")
class Detail(Listed):
    """A delivery with all that is kept of it. `headers` are those of an attempt, secrets blotted out."""

    headers: dict[str, str]
    attempt_log: list[Try]
    body: msgspec.Raw


def listed_of(row: Row[Any]) -> Listed:
    """Return the row for a list."""
    return Listed(**_members(row))


def detail_of(row: Row[Any], attempts: Sequence[Row[Any]], *, has_token: bool) -> Detail:
    """Return the row, which has its body, with its attempts; `has_token` if the partner gave one for its origin."""
    log = [
        Try(
            number=one.number,
            at=instant(one.at),
            status=one.status,
            ms=one.ms,
            error=one.error,
            reply=one.reply,
        )
        for one in attempts
    ]
    last = int(attempts[-1].at.timestamp()) if attempts else None
    return Detail(
        **_members(row),
        headers=_headers(row, last, has_token=has_token),
        attempt_log=log,
        body=msgspec.Raw(queries.body_of(row)),
    )


def _members(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "partner_id": row.partner_id,
        "partner": row.partner,
        "surface": row.surface,
        "type": row.type,
        "webhook_id": row.webhook_id,
        "url": without_query(row.url),
        "store_id": row.store_id,
        "order_id": row.order_id,
        "status": DeliveryStatus(row.status),
        "attempts": row.attempts,
        "next_attempt_at": instant(row.next_attempt_at),
        "error": row.error,
        "endpoint_disabled": row.disabled_reason,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
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


def without_query(url: str) -> str:
    """Return the address with its query, if it has one, blotted out."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, HIDDEN if parts.query else "", ""))


def print_listed(rows: Sequence[Listed]) -> None:
    """Print deliveries for people: a few lines each, in which ids and addresses stand whole."""
    for one in rows:
        tries = count_of(one.attempts, "attempt")
        say(f"{short(one.created_at)}  {one.status.value:<9}  {harmless(one.type)}, {tries}")
        say(f"  {one.id}  {harmless(one.partner or str(one.partner_id))}", f"  to {harmless(one.url)}")
        say(*_state(one), "")


def _state(one: Listed) -> Iterator[str]:
    if one.error:
        yield from folded(one.error, indent="  ")
    if one.endpoint_disabled and not (one.error or "").startswith("endpoint disabled"):
        yield from folded(f"Its address is called no more: {one.endpoint_disabled}", indent="  ")
    if one.next_attempt_at and one.status is DeliveryStatus.PENDING:
        yield f"  next attempt {short(one.next_attempt_at)}"


def print_detail(one: Detail) -> None:
    """Print all of a delivery for people."""
    print_listed([one])
    say("Headers (signature and timestamp are made anew at each attempt):")
    say(*(f"  {name}: {harmless(value)}" for name, value in one.headers.items()), "")
    say(f"Attempts: {len(one.attempt_log)}")
    for attempt in one.attempt_log:
        came = "no answer" if attempt.status is None else str(attempt.status)
        say(f"  {attempt.number:>3}  {short(attempt.at)}  {came}, {attempt.ms:,} ms")
        say(*(folded(attempt.error, indent="       ") if attempt.error else ()))
        if attempt.reply:
            say(*folded(attempt.reply, indent="       ", first="       answer: "))
    say("", "Body (--body prints it byte for byte):")
    text = msgspec.json.format(bytes(one.body), indent=2).decode()
    say(*(f"  {harmless(line)}" for line in text.split("\n")))
    say("", *folded(_advice(one)))


def _advice(one: Detail) -> str:
    if one.type in QUESTIONS:
        return QUESTIONS[one.type]
    if one.status is DeliveryStatus.SUCCEEDED:
        return f"It has arrived. Once more: mercato webhooks replay {one.id} --yes"
    return f"Have it sent at once: mercato webhooks replay {one.id} --yes"


def short(at: str | None) -> str:
    """Return an instant of the wire to the second, in UTC."""
    return "" if at is None else at[:19].replace("T", " ")
