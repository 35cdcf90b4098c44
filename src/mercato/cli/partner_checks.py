"""What `mercato doctor` says of partners: orders without an answer, stores that are cut off, deliveries that fail."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

from mercato import clock
from mercato.cli.checks import Check, State
from mercato.db.engine import Read
from mercato.orders.queries import find_unanswered
from mercato.plurals import count_of
from mercato.webhooks import health

LONG: Final = timedelta(seconds=60)
"""An order that waits so long for its store's answer is worth a look: it is cancelled after 10 minutes."""

WINDOW: Final = timedelta(minutes=10)
FAILING: Final = timedelta(hours=1)
SHOWN: Final = 3
"""Stores that are named."""


async def partner_checks(tx: Read) -> AsyncIterator[Check]:
    """Yield what partners should be told. None of it is the service's fault, so none is worse than a note."""
    yield await _orders(tx)
    yield await _stores(tx)
    yield await _deliveries(tx)


async def _orders(tx: Read) -> Check:
    count, oldest = await find_unanswered(tx)
    if not count or oldest is None:
        return Check(name="orders", state=State.OK, said="none waits for its store's answer")
    age = clock.now() - oldest
    said = f"{count_of(count, 'order')} without an answer of the store, the oldest for {age.total_seconds():.0f} s"
    if age <= LONG:
        return Check(name="orders", state=State.OK, said=said)
    advice = (
        "The stores don't answer; such an order is cancelled after MERCATO_PLACE_RESEND_SECONDS. See why: "
        "mercato webhooks list --type order.place"
    )
    return Check(name="orders", state=State.NOTE, said=said, advice=advice)


async def _stores(tx: Read) -> Check:
    found = await health.list_unreached(tx, since=clock.now() - WINDOW)
    if not found:
        return Check(name="stores", state=State.OK, said="none is cut off")
    named = ", ".join(f"{one.store_id} ({one.failed} of {one.calls} calls)" for one in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    said = f"Cut off after failed order calls in the last 10 minutes: {named}{more}."
    advice = "Tell the merchants. One call is tried every 10 seconds, and the first success ends it."
    return Check(name="stores", state=State.NOTE, said=said, advice=advice)


async def _deliveries(tx: Read) -> Check:
    addresses, partners = await health.count_failing(tx, since=clock.now() - FAILING)
    if not addresses:
        return Check(name="deliveries", state=State.OK, said="none fails for an hour")
    what = f"{count_of(addresses, 'address', 'addresses')} of {count_of(partners, 'partner')}"
    said = f"Failing for an hour or longer: {what}."
    advice = "See them with mercato webhooks list, and tell their partners: after 5 days they are disabled."
    return Check(name="deliveries", state=State.NOTE, said=said, advice=advice)
