"""`mercato partner rename`, `suspend`, `resume` and `delete`."""

from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from mercato import clock, offboarding
from mercato.cli.console import note, print_facts, print_json
from mercato.cli.options import DataDir, Json, PartnerName
from mercato.cli.session import opened
from mercato.offboarding import Holdings
from mercato.partners import accounts
from mercato.wire import Wire


class Deletion(Wire):
    """What a deletion takes, and how many orders stay."""

    done: bool
    partner_id: UUID
    name: str
    keys: int
    stores: int
    onboardings: int
    deliveries: int
    pending_deliveries: int
    orders_kept: int
    open_orders: int


async def rename(
    name: PartnerName,
    new_name: Annotated[str, Parameter(help="What to call it from now on.")],
    /,
    *,
    data_dir: DataDir = None,
) -> None:
    """Give a partner another name. Its keys, stores and orders stay as they are."""
    async with opened(data_dir) as session, session.db.write() as tx:
        old = await accounts.get_partner_named(tx, name)
        await accounts.rename_partner(tx, old.id, new_name)
    note(f"{old.name} is now called {new_name.strip()}.")


async def suspend(name: PartnerName, /, *, data_dir: DataDir = None) -> None:
    """Refuse a partner's keys and hide its stores, within 2 seconds on every server, until it is resumed.

    Its open orders and the deliveries to it go on.
    """
    async with opened(data_dir) as session:
        async with session.db.read() as tx:
            found = await accounts.get_partner_named(tx, name)
        await offboarding.suspend(session.db, found.id, now=clock.now)
    note(f"{found.name} is suspended. Undo it with: mercato partner resume {found.id}")


async def resume(name: PartnerName, /, *, data_dir: DataDir = None) -> None:
    """Let a suspended partner's keys work again, and show its stores."""
    async with opened(data_dir) as session:
        async with session.db.read() as tx:
            found = await accounts.get_partner_named(tx, name)
        await offboarding.resume(session.db, found.id)
    note(f"{found.name} is not suspended any more.")


async def delete(
    name: PartnerName,
    /,
    *,
    yes: Annotated[bool, Parameter(negative=(), help="Do it. Without it, what would go is counted.")] = False,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Delete a partner with its keys, secrets, stores, catalogs and deliveries, for good. Orders stay.

    Refused while an order of it is open. It is suspended first; an interrupted deletion is resumed by the same command.
    """
    async with opened(data_dir) as session:
        async with session.db.read() as tx:
            found = await accounts.get_partner_named(tx, name)
            held = await offboarding.count_holdings(tx, found.id)
        if not json:
            _print(found.name, held)
        if yes:
            await offboarding.delete(session.db, found.id, now=clock.now)
    if json:
        print_json(_deletion(found.id, found.name, held, done=yes))
    elif yes:
        note(f"{found.name} is deleted.")
    else:
        note("Nothing was deleted. Do it with --yes")


def _print(name: str, held: Holdings) -> None:
    print_facts(
        ("Partner", name),
        ("Keys", f"{held.keys:,}"),
        ("Stores", f"{held.stores:,}"),
        ("Onboardings", f"{held.onboardings:,}"),
        ("Deliveries", f"{held.deliveries:,}, of which {held.pending_deliveries:,} pending"),
        ("Orders that stay", f"{held.orders:,}, of which {held.open_orders:,} open"),
    )


def _deletion(partner_id: UUID, name: str, held: Holdings, *, done: bool) -> Deletion:
    return Deletion(
        done=done,
        partner_id=partner_id,
        name=name,
        keys=held.keys,
        stores=held.stores,
        onboardings=held.onboardings,
        deliveries=held.deliveries,
        pending_deliveries=held.pending_deliveries,
        orders_kept=held.orders,
        open_orders=held.open_orders,
    )
