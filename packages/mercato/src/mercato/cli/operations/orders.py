"""`mercato order`: the orders of all partners."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter
from msgspec.structs import asdict

from mercato.cli import UnusableError
from mercato.cli.options import PAGE, DataDir, Json, Limit, OnlyPartner, OrderName, Since, group
from mercato.cli.output import (
    Column,
    format_instant,
    note,
    print_facts,
    print_json,
    print_objects,
    print_page,
    sanitize,
    say,
    view,
    wrap,
)
from mercato.cli.session import opened
from mercato.features.metrics import Activity
from mercato.features.orders import operators
from mercato.features.orders.lifecycle import CANCELLED_BY_OPERATOR, Lifecycle
from mercato.features.orders.operators import OrderDetail, OrderFilter, OrderSummary
from mercato.features.orders.record import StoreAnswer
from mercato.features.orders.service import ATTEMPT, Orders, describe
from mercato.features.orders.tables import orders as orders_table
from mercato.features.stores.operators import get_store_id
from mercato.platform import clock
from mercato.platform.db.prefixes import shorten
from mercato.platform.telemetry.logs import EventLog
from mercato_contract.orders import CommerceLine, OrderState, OrderStatus, TimelineEntry
from mercato_contract.problems import OrderError
from mercato_contract.wire import Instant, Wire

order = group("order", "Orders: list, show, cancel.")


class Entry(Wire):
    """An order in a list, without its customer."""

    order_id: UUID
    partner_id: UUID
    partner: str | None
    storefront_id: UUID
    storefront: str | None
    store_id: UUID
    partner_store_id: str
    store: str | None
    state: OrderState
    status: OrderStatus
    answer: StoreAnswer
    partner_order_id: str | None
    cancel_reason: str | None
    total: str
    currency: str
    created_at: Instant
    updated_at: Instant


class Detail(Entry):
    """An order with its lines, the store's reasons for a refusal, and its timeline."""

    estimated_ready_at: Instant | None
    lines: tuple[CommerceLine, ...]
    errors: tuple[OrderError, ...]
    timeline: list[TimelineEntry]


@order.command(name="list")
async def list_(
    *,
    state: OrderState | None = None,
    partner: OnlyPartner = None,
    store: str | None = None,
    since: Since | None = None,
    before: UUID | None = None,
    limit: Limit = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the orders of all partners, newest first.

    Args:
        state: Only orders in this state.
        partner: Only orders of this partner, as merchant or storefront: its id or name.
        store: Only orders of this store: its id, or the beginning of it.
        since: Only orders of the last 2h, 3d, …, or since an instant.
        before: Only orders placed before this one.
        limit: How many orders to list (50; at most 1000).

    """
    async with opened(data_dir) as session, session.db.read() as tx:
        wanted = OrderFilter(
            partner_id=await session.find_partner_id(tx, partner),
            store_id=None if store is None else await get_store_id(tx, store),
            state=state,
            since=since,
            before=before,
        )
        found = await operators.list_orders(tx, wanted, limit=limit + 1)
        names = (
            {} if json else await shorten(tx, orders_table.c.id, (summary.id for summary in found[:limit]))
        )
    columns: dict[str, Column] = {
        "Id": lambda summary: names[summary.id],
        # To the minute: in 80 columns there is room for the whole state.
        "Placed": lambda summary: format_instant(summary.created_at)[:16],
        "State": lambda summary: (
            summary.status.value if summary.state is OrderState.OPEN else summary.state.value
        ),
        "Total": lambda summary: f"{summary.total} {summary.currency}",
        "Store": lambda summary: summary.store or summary.partner_store_id,
        "By": lambda summary: summary.storefront or summary.storefront_id,
    }
    show = partial(print_objects, columns, empty="No matching orders.", cut=("Store", "By"))
    print_page("orders", found, limit=limit, as_json=json, entry=_entry, show=show)


@order.command
async def show(name: OrderName, /, *, json: Json = False, data_dir: DataDir = None) -> None:
    """Show an order: who placed it where, its lines, and everything that happened to it. The customer isn't shown."""
    async with opened(data_dir) as session, session.db.read() as tx:
        found = await operators.get_order(tx, await operators.get_order_id(tx, name))
    if json:
        print_json(view(Detail, found, **asdict(found.summary), order_id=found.summary.id))
    else:
        _print(found)


@order.command
async def cancel(
    name: OrderName,
    /,
    *,
    reason: Annotated[str, Parameter(show_default=True)] = CANCELLED_BY_OPERATOR,
    yes: bool = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Cancel an open order permanently. The store and the storefront are notified as of any other cancellation.

    Args:
        reason: Why, as both sides read it.
        yes: Cancel it. Without this, the order is only shown.

    """
    if not reason.strip():
        raise UnusableError("--reason is empty: say why, as both sides will read it.")
    async with opened(data_dir) as session:
        async with session.db.read() as tx:
            order_id = await operators.get_order_id(tx, name)
        if yes:
            # A worker logs and counts it: nothing reads the activity of this process.
            lifecycle = Lifecycle(clock.new_id, Activity(EventLog()))
            await Orders(session.db, clock.now, lifecycle).cancel(order_id, reason=reason)
        async with session.db.read() as tx:
            found = await operators.get_order(tx, order_id)
    summary = found.summary
    if json:
        print_json(_entry(summary))
    else:
        print_facts(*_facts(summary))
    if yes:
        note("The order is cancelled. Both sides are being notified.")
    elif summary.state is OrderState.OPEN:
        note("Nothing was changed. Cancel it with --yes")
    else:
        note(f"The order is {summary.state.value} already: it can't be cancelled.")


def _entry(summary: OrderSummary) -> Entry:
    return view(Entry, summary, order_id=summary.id)


def _state(summary: OrderSummary) -> str:
    details = {
        OrderState.OPEN: f", {summary.status.value}",
        OrderState.CANCELLED: f": {summary.cancel_reason}",
    }
    return summary.state.value + details.get(summary.state, "")


def _facts(summary: OrderSummary) -> list[tuple[str, object]]:
    return [
        ("Order", summary.id),
        ("Placed", summary.created_at),
        ("Changed", summary.updated_at),
        ("State", _state(summary)),
        ("Store's answer", summary.answer.value.replace("_", " ")),
        ("Total", f"{summary.total} {summary.currency}"),
        ("Store", f"{summary.store or 'deleted'} ({summary.partner_store_id}, {summary.store_id})"),
        ("Merchant", f"{summary.partner or 'deleted'} ({summary.partner_id})"),
        ("Storefront", f"{summary.storefront or 'deleted'} ({summary.storefront_id})"),
        ("Merchant's id", summary.partner_order_id),
    ]


def _print(found: OrderDetail) -> None:
    print_facts(*_facts(found.summary), ("Ready", found.estimated_ready_at))
    say("", "Lines:", *_lines(found.lines, "  "))
    if found.errors:
        say("", "Refused because:")
        for error in found.errors:
            say(*wrap(f"{error.code}: {error.message}", first="  ", indent="    "))
    say("", "Timeline:")
    for entry in found.timeline:
        what = "call" if entry.type == ATTEMPT else entry.type
        say(f"  {format_instant(entry.at)}  {entry.actor:<10}  {what}")
        if words := describe(entry):
            say(*wrap(words, first="    ", indent="    "))
        if "deliveryId" in entry.detail:
            say(f"    delivery {entry.detail['deliveryId']}")


def _lines(lines: tuple[CommerceLine, ...], indent: str) -> Iterator[str]:
    for line in lines:
        yield f"{indent}{line.quantity} x {sanitize(line.name or str(line.partner_item_id))}"
        for chosen in line.modifier_groups:
            yield from _lines(chosen.line_items, indent + "  ")
