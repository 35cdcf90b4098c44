"""`mercato webhooks`: lists and shows deliveries, replays them, and enables endpoints."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from mercato.cli.options import PAGE, EventType, Limit, OnlyPartner, PartnerName, Since
from mercato.cli.output import format_instant, members_of, print_page, print_table
from mercato.cli.session import find_partner_id, opened
from mercato.features.partners import accounts
from mercato.features.partners.model import Surface
from mercato.features.partners.webhook_tokens import list_token_origins
from mercato.features.webhooks import endpoint_health, operators, queries
from mercato.features.webhooks.deliveries import enable_endpoints_below
from mercato.features.webhooks.model import DELIVERY_WORDS
from mercato.features.webhooks.operators import HIDDEN, is_about_order, mask_body, mask_reply
from mercato.features.webhooks.queries import AttemptRow, DeliveryFilter, DeliveryRow
from mercato.platform import errors
from mercato.platform.db.audit import audit
from mercato.services import Core
from mercato_contract import USER_AGENT, clock
from mercato_contract.events import STORE_CALLS
from mercato_contract.texts import count_of
from mercato_contract.webhooks import DeliveryAttempt, DeliveryStatus
from mercato_contract.wire import Instant, Wire, redacted
from mercato_outbound.guard import origin_of
from mercato_tools.cli import FAILED, CommandFailedError, UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json, sanitize, say, view, wrap

webhooks = group("webhooks", "Webhooks: list, show, replay; explain a signature, enable an endpoint.")
webhooks.command(
    "mercato_tools.cli.signatures:explain", name="explain", help="Explain why a webhook's signature fails."
)


@webhooks.command(name="list")
async def list_(
    *,
    partner: OnlyPartner = None,
    status: DeliveryStatus | None = None,
    type_: EventType = None,
    since: Since | None = None,
    before: UUID | None = None,
    limit: Limit = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List webhooks of every partner, the newest first.

    Args:
        status: Only deliveries with this status.
        since: Only deliveries of the last 2h, 3d, …, or since an instant.
        before: Only deliveries created before this one.
        limit: How many deliveries to list (50; at most 1000).

    """
    async with opened(data_dir) as core, core.db.read() as tx:
        owner = await find_partner_id(tx, partner)
        criteria = DeliveryFilter(partner_id=owner, status=status, types=type_, since=since, before=before)
        found = await operators.list_rows(tx, criteria, limit=limit + 1)
    print_page("deliveries", found, limit=limit, as_json=json, entry=summary_of, show=print_rows)


@webhooks.command
async def show(
    delivery: UUID, /, *, body: bool = False, json: Json = False, data_dir: DataDir = None
) -> None:
    """Show a webhook: headers without secrets, body, every attempt with its response, and the next attempt.

    For an order's webhook, neither the customer is shown nor the responses, which may repeat their data.

    Args:
        delivery: A delivery's id, or its webhook-id.
        body: Only the body, byte for byte as it is sent and signed; not of an order's webhook.

    """
    if body and json:
        raise UnusableError("Give --body or --json, not both.")
    async with opened(data_dir) as core, core.db.read() as tx:
        row = await operators.find_row(tx, delivery)
        if row is None:
            raise CommandFailedError(
                f"There is no delivery {delivery}. They are kept for 30 days; list them: mercato webhooks list"
            )
        if body and is_about_order(row.type):
            raise UnusableError(
                f"The body of {row.type} names the customer, so it isn't printed. To compare it with what the partner "
                "received: mercato webhooks explain --partner"
            )
        attempts = await queries.list_attempts(tx, row.id)
        has_token = origin_of(row.url) in await list_token_origins(tx, row.partner_id)
    if body:
        sys.stdout.buffer.write(queries.body_of(row))
        return
    detail = detail_of(row, attempts, has_token=has_token)
    if json:
        print_json(detail)
    else:
        print_detail(detail)


@webhooks.command
async def replay(
    *deliveries: UUID,
    partner: OnlyPartner = None,
    type_: EventType = None,
    since: Since | None = None,
    failed: bool = False,
    yes: bool = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Send webhooks again with the same id and body; their disabled endpoints are enabled again.

    Calls to stores (order.validate, order.place) can't be sent again. Exit code 1: one of the ids is unknown.

    Args:
        deliveries: Ids of deliveries, as lists show them.
        since: All since then: 2h, 3d, …, or an instant as 2026-01-31T18:30:00Z.
        failed: Only deliveries that failed for good.
        yes: Send them. Without this, what would be sent is counted.

    """
    if bool(deliveries) == (since is not None):
        raise UnusableError("Give the ids of deliveries, or a time: mercato webhooks replay --since 2h")
    if deliveries and (failed or partner or type_):
        raise UnusableError("Ids are enough; --failed, --partner and --type go with --since.")
    async with opened(data_dir) as core:
        if deliveries:
            return await _replay_named(core, deliveries, yes=yes)
        async with core.db.read() as tx:
            owner = await find_partner_id(tx, partner)
            status = DeliveryStatus.FAILED if failed else None
            criteria = DeliveryFilter(partner_id=owner, status=status, types=type_, since=since)
            counted = await operators.count_redeliverable(tx, criteria)
        count = sum(tally.count for tally in counted)
        if yes:
            count = await _replay_all(core, criteria, count)
    if json:
        print_json({"done": yes, "count": count, "deliveries": [members_of(tally) for tally in counted]})
        return 0
    rows = [
        (tally.partner, tally.type, DELIVERY_WORDS[tally.status], f"{tally.count:,}") for tally in counted
    ]
    print_table(("Partner", "Type", "Status", "Count"), rows, empty="There is nothing to send again.")
    if count and yes:
        note(f"{count:,} sent again: a worker calls them now. See: mercato webhooks list --since 1h")
    elif count:
        note(f"{count:,} would be sent again. Nothing was sent; do it with --yes")
    return 0


async def _replay_named(core: Core, named: Sequence[UUID], *, yes: bool) -> int:
    code, would = 0, False
    for name in named:
        async with core.db.read() as tx:
            row = await operators.find_row(tx, name)
        if row is None:
            note(f"There is no delivery {name}. See: mercato webhooks list")
            code = FAILED
            continue
        description = f"{row.type} to {row.partner or row.partner_id}"
        if not yes:
            note(f"{description} would be sent again: {row.id}")
            would = True
            continue
        try:
            async with core.db.write() as tx:
                await operators.redeliver_any(tx, row.id, now=clock.now())
        except errors.Conflict as refused:
            note(f"{row.id}: {refused.detail}")
            code = FAILED
        else:
            note(f"{description} is sent again: {row.id}")
    if would:
        note("Nothing was sent. Do it with --yes")
    return code


async def _replay_all(core: Core, criteria: DeliveryFilter, expected: int) -> int:
    done = 0
    try:
        async for _ in operators.redeliver_all(core.db, criteria, now=clock.now):
            done += 1
    finally:
        if done != expected:
            note(f"{done:,} of {expected:,} are sent again.")
    return done


@webhooks.command
async def enable(partner: PartnerName, url: str, *, data_dir: DataDir = None) -> None:
    """Enable an endpoint that was disabled after days of failures or a 410 response.

    Args:
        url: A webhookUrl, an event URL, or one address with its suffix.

    """
    async with opened(data_dir) as core, core.db.write() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        enabled = [
            await endpoint_health.enable(tx, owner.id, url),
            await enable_endpoints_below(tx, owner.id, url),
        ]
        if any(enabled):
            # Only the host: the rest of the URL may grant access.
            detail = {"enabled": True, "host": urlsplit(url).hostname}
            await audit(tx, "endpoint", partner_id=owner.id, detail=detail)
    note(f"{url} is enabled again." if any(enabled) else f"{url} was not disabled; nothing changed.")


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


@redacted("headers", "body")
class Detail(DeliverySummary):
    """A delivery with its body and attempts, without what operators don't see. `headers` have no secrets."""

    headers: dict[str, str]
    attempt_log: list[DeliveryAttempt]
    body: msgspec.Raw


def summary_of(row: DeliveryRow) -> DeliverySummary:
    """Return the row for a list."""
    return view(DeliverySummary, row, **_members(row))


def detail_of(row: DeliveryRow, attempts: Sequence[AttemptRow], *, has_token: bool) -> Detail:
    """Return a row with its body and attempts; `has_token` if the partner has a token for its origin."""
    last = int(attempts[-1].at.timestamp()) if attempts else None
    return view(
        Detail,
        row,
        **_members(row),
        headers=_headers(row, last, has_token=has_token),
        attempt_log=[
            view(DeliveryAttempt, attempt, reply=mask_reply(row.type, attempt.reply)) for attempt in attempts
        ],
        body=msgspec.Raw(mask_body(row.type, queries.body_of(row))),
    )


def _members(row: DeliveryRow) -> dict[str, Any]:
    """Return the members that differ from the row's columns."""
    return {
        "url": _without_query(row.url),
        "status": DeliveryStatus(row.status),
        "endpoint_disabled": row.disabled_reason,
    }


def _headers(row: DeliveryRow, last: int | None, *, has_token: bool) -> dict[str, str]:
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


def print_rows(rows: Sequence[DeliveryRow]) -> None:
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
        if attempt.warning:
            say(*wrap(attempt.warning, indent="       ", first="       warning: "))
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
