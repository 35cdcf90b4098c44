"""How a storefront receives order events: it acknowledges each, in any order, and shows the newest state."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec

from mercato.platform.clock import new_id
from mercato.tools.certify.mutations import with_unknown_members
from mercato.tools.certify.receiver import Message, acknowledged
from mercato.tools.certify.redaction import without_credentials
from mercato.tools.certify.storefront.context import STATUSES, StorefrontContext
from mercato.tools.certify.suite import Failed, Run, Skipped
from mercato_contract.orders import OrderStatus

TIMES: Final = 5
"""How often one event is sent at the same time."""

Context = StorefrontContext


def acknowledges(*sequences: int, shown: int | None = None, **options: Any) -> Run[Context]:
    """Return a check that the events of an order are acknowledged; a number that comes again is a redelivery.

    With `shown` the storefront must then show the order as of that event.
    """

    async def run(context: Context) -> str:
        order_id, events, result = new_id(), dict[int, Message](), ""
        for index, number in enumerate(sequences):
            if number not in events:
                events[number] = context.event(order_id, number, **options)
            age = len(sequences) - 1 - index
            result = acknowledged(await context.send(events[number].but(age=age)))
        return result if shown is None else await _shown(context, order_id, STATUSES[shown])

    return run


async def _at_once(context: Context) -> str:
    event = context.sample()
    for reply in await asyncio.gather(*(context.send(event) for _ in range(TIMES))):
        acknowledged(reply)
    return f"acknowledged {TIMES} times"


async def _shown(context: Context, order_id: UUID, status: OrderStatus) -> str:
    """Read the order where the storefront shows it. Raises Failed when it has another status."""
    template = context.storefront.order_url
    if template is None:
        raise Skipped("Say where an order can be seen as JSON: --order-url 'http://…/orders/{orderId}'.")
    url = template.replace("{orderId}", str(order_id))
    reply = await context.request("GET", url)
    try:
        found: Any = msgspec.json.decode(reply.body)["status"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        shown = without_credentials(url)
        raise Failed(f"{shown} answered {reply.status}, without JSON that has a `status`.") from None
    if str(found).lower() != status.value.lower():
        raise Failed(f"It shows the status {found!r}, not {status.value!r}.")
    return f"shown as {status.value}"


EVENTS: Final[Mapping[str, Run[Context]]] = {
    "created": acknowledges(1),
    "updated": acknowledges(1, 2),
    "unknown-order": acknowledges(4),
    "repeat": acknowledges(1, 1),
    "at-once": _at_once,
    "late": acknowledges(1, 3, 2),
    "unknown-type": acknowledges(1, kind="order.rated"),
    "unknown-members": acknowledges(1, change=with_unknown_members),
    "state": acknowledges(1, 2, shown=2),
    "late-changes-nothing": acknowledges(1, 3, 2, shown=3),
    "repeat-changes-nothing": acknowledges(1, 2, 3, 1, shown=3),
}
"""The sequences of the events that are sent, and what must come back."""
