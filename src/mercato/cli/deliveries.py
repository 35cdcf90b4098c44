"""`mercato webhooks list|show|replay`: what was sent to whom, what came of it, and once more."""

import sys
from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from cyclopts import Parameter

from mercato import clock, errors
from mercato.cli import FAILED
from mercato.cli.console import note, print_json, print_table
from mercato.cli.delivery import Detail, Listed, detail_of, listed_of, print_detail, print_listed
from mercato.cli.failures import UnusableError
from mercato.cli.options import DataDir, Json, Since, check_limit
from mercato.cli.session import Session, opened
from mercato.outbound.urls import origin_of
from mercato.partners import accounts
from mercato.partners.model import UnknownAccountError
from mercato.partners.webhook_tokens import list_token_origins
from mercato.webhooks import operators, queries
from mercato.webhooks.model import DeliveryStatus
from mercato.webhooks.operators import Tally, Wanted
from mercato.wire import Wire

PAGE: Final = 50
MOST: Final = 1000

OfPartner = Annotated[str | None, Parameter(help="Only this partner's: its id or name.")]
OfType = Annotated[
    str | None,
    Parameter(
        name="--type", help="Only of this event type, or of those below it: order, catalog.sync.failed."
    ),
]


class Page(Wire):
    """Deliveries, the newest first; `nextBefore` is where the next page begins."""

    deliveries: list[Listed]
    next_before: UUID | None


class Counted(Wire):
    """Deliveries of one kind."""

    partner: str | None
    type: str
    status: str
    count: int


class Replayed(Wire):
    """What a replay would send, or has sent."""

    done: bool
    count: int
    deliveries: list[Counted]


async def list_(
    *,
    partner: OfPartner = None,
    status: Annotated[DeliveryStatus | None, Parameter(help="Only those that stand so.")] = None,
    type_: OfType = None,
    since: Annotated[Since | None, Parameter(help="Only of the last 2h, 3d, …, or since an instant.")] = None,
    before: Annotated[UUID | None, Parameter(help="Only what was pushed before this delivery.")] = None,
    limit: Annotated[int, Parameter(help=f"Deliveries at most ({PAGE}; no more than {MOST}).")] = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List webhooks of every partner, the newest first."""
    check_limit(limit, MOST)
    async with opened(data_dir) as session, session.db.read() as tx:
        owner = None if partner is None else (await accounts.get_partner_named(tx, partner)).id
        wanted = Wanted(partner_id=owner, status=status, type_=type_, since=since, before=before)
        found = await operators.list_rows(tx, wanted, most=limit + 1)
    page, more = found[:limit], found[limit:]
    if json:
        following = page[-1].id if more else None
        print_json(Page(deliveries=[listed_of(row) for row in page], next_before=following))
        return
    if not page:
        note("There are none.")
    print_listed([listed_of(row) for row in page])
    if more:
        note(f"There is more: mercato webhooks list --before {page[-1].id}")


async def show(
    delivery: Annotated[UUID, Parameter(help="A delivery's id, or its webhook-id.")],
    /,
    *,
    body: Annotated[
        bool, Parameter(negative=(), help="The body alone, byte for byte as it is sent and signed.")
    ] = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Show one webhook: headers (no secrets), body, every attempt with its answer, and when it is tried next."""
    if body and json:
        raise UnusableError("Ask for --body or for --json, not for both.")
    async with opened(data_dir) as session, session.db.read() as tx:
        row = await operators.find_row(tx, delivery)
        if row is None:
            raise UnknownAccountError(
                f"There is no delivery {delivery}. They are kept for 30 days; list them: mercato webhooks list"
            )
        attempts = await queries.list_attempts(tx, row.id)
        has_token = origin_of(row.url) in await list_token_origins(tx, row.partner_id)
    if body:
        sys.stdout.buffer.write(queries.body_of(row))
        return
    detail: Detail = detail_of(row, attempts, has_token=has_token)
    if json:
        print_json(detail)
    else:
        print_detail(detail)


async def replay(
    *deliveries: Annotated[UUID, Parameter(help="Ids of deliveries, as lists show them.")],
    partner: OfPartner = None,
    type_: OfType = None,
    since: Annotated[
        Since | None, Parameter(help="All since then: 2h, 3d, …, or an instant as 2026-01-31T18:30:00Z.")
    ] = None,
    failed: Annotated[bool, Parameter(negative=(), help="Only those that failed for good.")] = False,
    yes: Annotated[
        bool, Parameter(negative=(), help="Do it. Without it, what would be sent is counted.")
    ] = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Send webhooks again with the same id and body, and call their addresses again that were disabled.

    Questions to stores (order.validate, order.place) are not sent again. Exit code 1: one of the ids is none.
    """
    if bool(deliveries) == (since is not None):
        raise UnusableError("Say which: mercato webhooks replay --since 2h, or the ids of deliveries.")
    if deliveries and (failed or partner or type_):
        raise UnusableError("Ids are enough; --failed, --partner and --type go with --since.")
    async with opened(data_dir) as session:
        if deliveries:
            return await _replay_named(session, deliveries, yes=yes)
        async with session.db.read() as tx:
            owner = None if partner is None else (await accounts.get_partner_named(tx, partner)).id
            wanted = Wanted(
                partner_id=owner,
                status=DeliveryStatus.FAILED if failed else None,
                type_=type_,
                since=since,
            )
            counted = await operators.count_again(tx, wanted)
        count = sum(one.count for one in counted)
        if yes:
            count = await _replay_all(session, wanted, count)
    _tell(counted, count, done=yes, as_json=json)
    return 0


async def _replay_named(session: Session, named: Sequence[UUID], *, yes: bool) -> int:
    code, would = 0, False
    for one in named:
        async with session.db.read() as tx:
            row = await operators.find_row(tx, one)
        if row is None:
            note(f"There is no delivery {one}. See: mercato webhooks list")
            code = FAILED
            continue
        if not yes:
            note(f"{row.type} to {row.partner or row.partner_id} would be sent again: {row.id}")
            would = True
            continue
        try:
            async with session.db.write() as tx:
                await operators.redeliver_any(tx, row.id, now=clock.now())
        except errors.Conflict as refused:
            note(f"{row.id}: {refused.detail}")
            code = FAILED
            continue
        note(f"{row.type} to {row.partner or row.partner_id} is sent again: {row.id}")
    if would:
        note("Nothing was sent. Do it with --yes")
    return code


async def _replay_all(session: Session, wanted: Wanted, expected: int) -> int:
    done = 0
    try:
        async for _ in operators.send_again(session.db, wanted, now=clock.now):
            done += 1
    finally:
        if done != expected:
            note(f"{done:,} of {expected:,} are sent again.")
    return done


def _tell(counted: Sequence[Tally], count: int, *, done: bool, as_json: bool) -> None:
    if as_json:
        kinds = [
            Counted(partner=one.partner, type=one.type, status=one.status, count=one.count) for one in counted
        ]
        print_json(Replayed(done=done, count=count, deliveries=kinds))
        return
    rows = [(one.partner, one.type, one.status, f"{one.count:,}") for one in counted]
    print_table(("Partner", "Type", "Stood", "Count"), rows, empty="There is nothing to send again.")
    if not count:
        return
    if done:
        note(f"{count:,} sent again: a worker calls them now. See: mercato webhooks list --since 1h")
    else:
        note(f"{count:,} would be sent again. Nothing was sent; do it with --yes")
