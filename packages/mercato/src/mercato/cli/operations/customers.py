"""`mercato customer`: requests of people about their personal data."""

from uuid import UUID

from mercato.cli import FAILED, UnusableError
from mercato.cli.options import DataDir, Json, group
from mercato.cli.output import note, print_json, print_table
from mercato.cli.session import opened
from mercato.features.orders.privacy import LOG_SECONDS, erase_all, find_all
from mercato.platform.texts import count_of

customer = group("customer", "Customers: erase.")


@customer.command
async def erase(name: str, /, *, dry_run: bool = False, json: Json = False, data_dir: DataDir = None) -> int:
    """Erase a customer from every order: name, addresses and everything sent about them.

    The orders stay, with what was ordered and paid. In an embedded database, free space and log are overwritten,
    too: neither its files nor a backup made afterwards holds the customer.

    Args:
        name: The customer's e-mail address, phone number, or partnerUserId, as it was sent.
        dry_run: List the customer's orders, and change nothing.

    """
    if not name.strip():
        raise UnusableError(
            "Name the customer: an e-mail address, a phone number or a partnerUserId, as it was sent."
        )
    if json and not dry_run:
        raise UnusableError("--json goes with --dry-run: it lists the orders.")
    async with opened(data_dir) as session:
        if dry_run:
            would = await find_all(session.db, name)
            _print(would.orders, would.validations, json=json)
            return 0
        found, emptied = await erase_all(session.db, name)
    note(f"Erased from {count_of(found, 'order')}." if found else "No order belongs to this customer.")
    if emptied:
        return 0
    note(
        "The database's log (mercato.db-wal) may still hold what was erased: a long-running reader, "
        f"such as a backup, kept it in use for {LOG_SECONDS:g} s. Run the command again once it has ended."
    )
    return FAILED


def _print(orders: list[UUID], validations: int, *, json: bool) -> None:
    if json:
        print_json({"orderIds": orders, "validations": validations})
        return
    print_table(("Order",), [(order_id,) for order_id in orders], empty="No order belongs to this customer.")
    note(
        f"The customer would be erased from {count_of(len(orders), 'order')}, and "
        f"{count_of(validations, 'recorded validation')} would be deleted. Nothing was changed: "
        "leave out --dry-run to do it."
    )
