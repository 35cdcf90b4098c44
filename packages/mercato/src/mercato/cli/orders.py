"""`mercato order` and `mercato customer`: the orders of all partners, and the erasure of a person from them."""

from collections.abc import Iterator
from typing import Annotated, Any
from uuid import UUID

from cyclopts import Parameter

from mercato.cli.options import PAGE, Limit, OnlyPartner, OrderName, Since
from mercato.cli.output import Column, format_instant, members_of, print_facts, print_table, print_table_page
from mercato.cli.session import find_partner_id, opened
from mercato.features.orders import operators
from mercato.features.orders.lifecycle import CANCELLED_BY_OPERATOR
from mercato.features.orders.operators import OrderDetail, OrderFilter, OrderSummary
from mercato.features.orders.privacy import LOG_SECONDS, erase_all, find_all
from mercato.features.orders.search import contact_keys_of
from mercato.features.orders.service import ATTEMPT, describe
from mercato.features.orders.tables import orders as orders_table
from mercato.features.quotes.privacy import erase_quotes
from mercato.features.stores.operators import get_store_id
from mercato.platform.db.search import shorten
from mercato_contract.events import EventType
from mercato_contract.orders import OrderState
from mercato_contract.placements import CommerceLine
from mercato_contract.texts import count_of
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json, sanitize, say, wrap

order = group("order", "Orders: list, show, cancel.")


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
    async with opened(data_dir) as core, core.db.read() as tx:
        wanted = OrderFilter(
            partner_id=await find_partner_id(tx, partner),
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
    print_table_page(
        "orders",
        found,
        columns,
        limit=limit,
        as_json=json,
        entry=_members,
        empty="No matching orders.",
        cut=("Store", "By"),
    )


@order.command
async def show(name: OrderName, /, *, json: Json = False, data_dir: DataDir = None) -> None:
    """Show an order: who placed it where, its lines, and everything that happened to it. The customer isn't shown."""
    async with opened(data_dir) as core, core.db.read() as tx:
        found = await operators.get_order(tx, await operators.get_order_id(tx, name))
    if json:
        print_json(_members(found))
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
    async with opened(data_dir) as core:
        async with core.db.read() as tx:
            order_id = await operators.get_order_id(tx, name)
        if yes:
            # A worker logs and counts it: nothing reads the activity of this process.
            await core.orders.cancel(order_id, reason=reason)
        async with core.db.read() as tx:
            [summary] = await operators.list_orders_of(tx, [order_id])
            row, _ = await operators.get_row(tx, order_id)
            notice = await operators.describe_notice(tx, row, EventType.ORDER_UPDATED, is_store_told=True)
    if json:
        print_json(_members(summary))
    else:
        print_facts(*_facts(summary))
    if yes:
        note(f"The order is cancelled. {notice}")
    elif summary.state is OrderState.OPEN:
        note("Nothing was changed. Cancel it with --yes")
    else:
        note(f"The order is {summary.state.value} already: it can't be cancelled.")


def _members(order: OrderSummary) -> dict[str, Any]:
    return members_of(order, without=("id",), order_id=order.id)


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
    print_facts(*_facts(found), ("Ready", found.estimated_ready_at))
    say("", "Lines:", *_lines(found.lines, "  "))
    if found.adjustments:
        say("", "Adjusted:")
        for adjustment in found.adjustments:
            reason = "" if adjustment.reason is None else f": {adjustment.reason}"
            amount = f"{adjustment.type.value} of {adjustment.amount} {found.currency}"
            say(
                *wrap(f"{format_instant(adjustment.created_at)}  {amount}{reason}", first="  ", indent="    ")
            )
        say(f"  Total after adjustments: {found.total_after_adjustments} {found.currency}")
    if found.errors:
        say("", "Refused because:")
        for error in found.errors:
            say(*wrap(f"{error.code}: {error.message}", first="  ", indent="    "))
    say("", "Timeline:")
    for entry in found.timeline:
        label = "call" if entry.type == ATTEMPT else entry.type
        say(f"  {format_instant(entry.at)}  {entry.actor:<10}  {label}")
        if words := describe(entry):
            say(*wrap(words, first="    ", indent="    "))
        if "deliveryId" in entry.detail:
            say(f"    delivery {entry.detail['deliveryId']}")


def _lines(lines: tuple[CommerceLine, ...], indent: str) -> Iterator[str]:
    for line in lines:
        yield f"{indent}{line.quantity} x {sanitize(line.name or str(line.partner_item_id))}"
        for chosen in line.modifier_groups:
            yield from _lines(chosen.line_items, indent + "  ")


customer = group("customer", "Customers: erase.")


@customer.command
async def erase(name: str, /, *, dry_run: bool = False, json: Json = False, data_dir: DataDir = None) -> int:
    """Erase a customer from every order: name, addresses and everything sent about them.

    The orders stay, with what was ordered and paid. In an embedded database, free space and log are overwritten,
    too: neither its files nor a backup made afterwards holds the customer.

    Args:
        name: The customer's e-mail address, phone number with its country code, or partnerUserId as it was sent.
        dry_run: List the customer's orders, and change nothing.

    """
    if not name.strip():
        raise UnusableError(
            "Name the customer: an e-mail address, a phone number with its country code, or a partnerUserId."
        )
    if json and not dry_run:
        raise UnusableError("--json goes with --dry-run: it lists the orders.")
    async with opened(data_dir) as core:
        async with core.db.read() as tx:
            vault = await core.open_vault(tx)
        contacts = contact_keys_of(vault)
        if dry_run:
            would = await find_all(core.db, name, contacts)
            _print_affected(would.orders, would.validations, json=json)
            return 0
        await erase_quotes(core.db, vault, name)
        found, emptied = await erase_all(core.db, name, contacts)
    note(f"Erased from {count_of(found, 'order')}." if found else "No order belongs to this customer.")
    if emptied:
        return 0
    note(
        "The database's log (mercato.db-wal) may still hold what was erased: a long-running reader, "
        f"such as a backup, kept it in use for {LOG_SECONDS:g} s. Run the command again once it has ended."
    )
    return FAILED


def _print_affected(orders: list[UUID], validations: int, *, json: bool) -> None:
    if json:
        print_json({"orderIds": orders, "validations": validations})
        return
    print_table(("Order",), [(order_id,) for order_id in orders], empty="No order belongs to this customer.")
    note(
        f"The customer would be erased from {count_of(len(orders), 'order')}, and "
        f"{count_of(validations, 'recorded validation')} would be deleted. Nothing was changed: "
        "leave out --dry-run to do it."
    )
