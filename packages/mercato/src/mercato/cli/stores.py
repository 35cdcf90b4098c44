"""`mercato store`: the stores of all partners."""

from datetime import datetime
from typing import Any
from uuid import UUID

from mercato.cli.options import PAGE, Limit, OnlyPartner, Since, StoreName, Until
from mercato.cli.output import Column, format_instant, members_of, print_facts, print_table_page
from mercato.cli.session import find_partner_id, opened
from mercato.features.stores import operators
from mercato.features.stores.operators import CallFailures, StoreDetail, StoreFilter, StoreSummary
from mercato.features.stores.tables import stores as stores_table
from mercato.features.stores.views import ORDERS_UNSEEN, ORDERS_UNSEEN_MESSAGE
from mercato.platform.db.search import shorten
from mercato_contract import clock
from mercato_contract.stores import StoreStatusUpdate, StoreStatusValue
from mercato_contract.wire import instant
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json

store = group("store", "Stores: list, show, pause, resume.")


@store.command(name="list")
async def list_(
    *,
    status: StoreStatusValue | None = None,
    partner: OnlyPartner = None,
    since: Since | None = None,
    before: UUID | None = None,
    in_trouble: bool = False,
    limit: Limit = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the stores of all partners, newest first.

    Args:
        status: Only stores with this status.
        since: Only stores created in the last 2h, 3d, …, or since an instant.
        before: Only stores created before this one.
        in_trouble: Only stores whose last calls failed.
        limit: How many stores to list (50; at most 1000).

    """
    async with opened(data_dir) as core, core.db.read() as tx:
        owner = await find_partner_id(tx, partner)
        wanted = StoreFilter(partner_id=owner, status=status, since=since, before=before, failing=in_trouble)
        found = await operators.list_stores(tx, wanted, limit=limit + 1, now=clock.now())
        names = (
            {} if json else await shorten(tx, stores_table.c.id, (summary.id for summary in found[:limit]))
        )
    columns: dict[str, Column] = {
        "Id": lambda summary: names[summary.id],
        "Name": "name",
        "Merchant's id": "partner_store_id",
        "Status": lambda summary: (
            _status(summary) + ("; orders unseen: nobody is called" if summary.is_unseen else "")
        ),
        "Partner": lambda summary: summary.partner or summary.partner_id,
    }
    print_table_page(
        "stores",
        found,
        columns,
        limit=limit,
        as_json=json,
        entry=_members,
        empty="No matching stores.",
        cut=tuple(columns)[1:],
    )


@store.command
async def show(name: StoreName, /, *, json: Json = False, data_dir: DataDir = None) -> None:
    """Show a store and what decides whether it takes orders."""
    async with opened(data_dir) as core, core.db.read() as tx:
        found = await operators.get_store(tx, await operators.get_store_id(tx, name), now=clock.now())
    if json:
        print_json(_members(found))
    else:
        _print(found)


@store.command
async def pause(
    name: StoreName,
    /,
    *,
    until: Until | None = None,
    reason: str | None = None,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Pause a store: it takes no orders until it is resumed. Its merchant can resume it, too.

    Args:
        until: How long (2h, 3d, …), or until which instant; without it, until further notice.
        reason: The reason, which its merchant and storefronts can read.

    """
    await _change(name, StoreStatusValue.PAUSED, until, reason, json=json, data_dir=data_dir)


@store.command
async def resume(name: StoreName, /, *, json: Json = False, data_dir: DataDir = None) -> None:
    """Let a paused store take orders again."""
    await _change(name, StoreStatusValue.ONLINE, None, None, json=json, data_dir=data_dir)


async def _change(
    name: str,
    status: StoreStatusValue,
    until: datetime | None,
    reason: str | None,
    *,
    json: bool,
    data_dir: DataDir,
) -> None:
    request = StoreStatusUpdate(status=status, pause_reason=reason, resume_at=instant(until))
    async with opened(data_dir) as core:
        async with core.db.write() as tx:
            store_id = await operators.get_store_id(tx, name)
            await operators.change_status(tx, store_id, request, now=clock.now())
        async with core.db.read() as tx:
            [summary] = await operators.list_stores_of(tx, [store_id], now=clock.now())
    if json:
        print_json(_members(summary))
    else:
        note(f"{summary.name} is {_status(summary)}.")


def _members(store: StoreSummary) -> dict[str, Any]:
    """Return the members for programs: of the warnings that its merchant reads, `warnings` has the code of this one."""
    warnings = (ORDERS_UNSEEN,) if store.is_unseen else ()
    failing = None if store.failing is None else members_of(store.failing)
    return members_of(
        store, without=("id", "is_unseen"), store_id=store.id, failing=failing, warnings=warnings
    )


def _status(summary: StoreSummary) -> str:
    if summary.suspended:
        return "hidden: its partner is suspended"
    if summary.status is StoreStatusValue.ONLINE:
        return "online" if summary.failing is None else _failing(summary.failing)
    until = "" if summary.resume_at is None else f" until {format_instant(summary.resume_at)}"
    return f"paused{until}" + (f": {summary.pause_reason}" if summary.pause_reason else "")


def _failing(failing: CallFailures) -> str:
    return f"unreachable: its last {failing.calls} calls failed, since {format_instant(failing.since)}"


def _print(found: StoreDetail) -> None:
    modes = {"pickup": found.pickup_allowed, "delivery": found.delivery_allowed}
    print_facts(
        ("Store", found.id),
        ("Name", found.name),
        ("Merchant's id", found.partner_store_id),
        ("Partner", f"{found.partner or 'deleted'} ({found.partner_id})"),
        ("Status", _status(found)),
        ("Takes orders for", ", ".join(name for name, allowed in modes.items() if allowed) or "nothing"),
        ("Sold out", f"{found.sold_out:,}"),
        ("Catalog set", found.catalog_set_id),
        ("Time zone", found.timezone),
        ("Webhooks go to", found.webhook_origin or f"nowhere. {ORDERS_UNSEEN_MESSAGE}"),
        ("Last error", None if found.failing is None else found.failing.error),
        ("Onboarding", found.onboarding_id),
        ("Created", found.created_at),
        ("Changed", found.updated_at),
    )
