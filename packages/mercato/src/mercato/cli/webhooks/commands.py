"""`mercato webhooks`: lists and shows deliveries, replays them, and enables endpoints."""

import sys
from collections.abc import Sequence
from urllib.parse import urlsplit
from uuid import UUID

from mercato.cli import FAILED, UnusableError
from mercato.cli.options import PAGE, DataDir, EventType, Json, Limit, OnlyPartner, PartnerName, Since, group
from mercato.cli.output import note, print_json, print_page, print_table, view
from mercato.cli.session import Session, opened
from mercato.cli.webhooks.delivery import detail_of, print_detail, print_rows, summary_of
from mercato.features.partners import accounts
from mercato.features.partners.model import UnknownAccountError
from mercato.features.partners.webhook_tokens import list_token_origins
from mercato.features.webhooks import endpoints, operators, queries
from mercato.features.webhooks.deliveries import enable_endpoints_below
from mercato.features.webhooks.masking import is_about_order
from mercato.features.webhooks.model import DELIVERY_WORDS
from mercato.features.webhooks.queries import DeliveryFilter
from mercato.platform import clock, errors
from mercato.platform.db.audit import audit
from mercato.platform.outbound.urls import origin_of
from mercato_contract.webhooks import DeliveryStatus
from mercato_contract.wire import Wire

webhooks = group("webhooks", "Webhooks: list, show, replay; explain a signature, enable an endpoint.")
webhooks.command("mercato.cli.webhooks.explain:explain", name="explain")


class DeliveryCount(Wire):
    """The number of deliveries of one partner, type and status."""

    partner: str | None
    type: str
    status: str
    count: int


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
    async with opened(data_dir) as session, session.db.read() as tx:
        owner = await session.find_partner_id(tx, partner)
        criteria = DeliveryFilter(partner_id=owner, status=status, types=type_, since=since, before=before)
        found = await operators.list_rows(tx, criteria, limit=limit + 1)
    print_page("deliveries", found, limit=limit, as_json=json, entry=summary_of, show=print_rows)


@webhooks.command
async def show(
    delivery: UUID, /, *, body: bool = False, json: Json = False, data_dir: DataDir = None
) -> None:
    """Show a webhook: headers without secrets, body, every attempt with its response, and the next attempt.

    Of an order's webhook the customer isn't shown, nor the responses, which may repeat it.

    Args:
        delivery: A delivery's id, or its webhook-id.
        body: Only the body, byte for byte as it is sent and signed; not of an order's webhook.

    """
    if body and json:
        raise UnusableError("Give --body or --json, not both.")
    async with opened(data_dir) as session, session.db.read() as tx:
        row = await operators.find_row(tx, delivery)
        if row is None:
            raise UnknownAccountError(
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
    async with opened(data_dir) as session:
        if deliveries:
            return await _replay_named(session, deliveries, yes=yes)
        async with session.db.read() as tx:
            owner = await session.find_partner_id(tx, partner)
            status = DeliveryStatus.FAILED if failed else None
            criteria = DeliveryFilter(partner_id=owner, status=status, types=type_, since=since)
            counted = await operators.count_redeliverable(tx, criteria)
        count = sum(tally.count for tally in counted)
        if yes:
            count = await _replay_all(session, criteria, count)
    if json:
        print_json(
            {"done": yes, "count": count, "deliveries": [view(DeliveryCount, tally) for tally in counted]}
        )
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


async def _replay_named(session: Session, named: Sequence[UUID], *, yes: bool) -> int:
    code, would = 0, False
    for name in named:
        async with session.db.read() as tx:
            row = await operators.find_row(tx, name)
        if row is None:
            note(f"There is no delivery {name}. See: mercato webhooks list")
            code = FAILED
            continue
        what = f"{row.type} to {row.partner or row.partner_id}"
        if not yes:
            note(f"{what} would be sent again: {row.id}")
            would = True
            continue
        try:
            async with session.db.write() as tx:
                await operators.redeliver_any(tx, row.id, now=clock.now())
        except errors.Conflict as refused:
            note(f"{row.id}: {refused.detail}")
            code = FAILED
        else:
            note(f"{what} is sent again: {row.id}")
    if would:
        note("Nothing was sent. Do it with --yes")
    return code


async def _replay_all(session: Session, criteria: DeliveryFilter, expected: int) -> int:
    done = 0
    try:
        async for _ in operators.redeliver_all(session.db, criteria, now=clock.now):
            done += 1
    finally:
        if done != expected:
            note(f"{done:,} of {expected:,} are sent again.")
    return done


@webhooks.command
async def enable(partner: PartnerName, url: str, /, *, data_dir: DataDir = None) -> None:
    """Enable an endpoint that was disabled after days of failures or a 410 response.

    Args:
        url: A webhookUrl, an event URL, or one address with its suffix.

    """
    async with opened(data_dir) as session, session.db.write() as tx:
        owner = await accounts.get_partner_named(tx, partner)
        enabled = [await endpoints.enable(tx, owner.id, url), await enable_endpoints_below(tx, owner.id, url)]
        if any(enabled):
            # Only the host: the rest of the URL may grant access.
            detail = {"enabled": True, "host": urlsplit(url).hostname}
            await audit(tx, "endpoint", partner_id=owner.id, detail=detail)
    note(f"{url} is enabled again." if any(enabled) else f"{url} was not disabled; nothing changed.")
