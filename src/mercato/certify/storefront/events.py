"""How a storefront receives order events: each acknowledged, in whatever order they come, and however often."""

import asyncio
import json
from typing import Any, Final
from uuid import UUID

from mercato.certify.grown import grown
from mercato.certify.model import Failed, Skipped
from mercato.certify.sending import Message
from mercato.certify.shown import address
from mercato.certify.statuses import acknowledged
from mercato.certify.storefront.bench import Bench
from mercato.certify.suite import Group
from mercato.clock import new_id
from mercato.orders.model import OrderStatus
from mercato.wire import as_json

CREATED: Final = "storefront.events.created"

TIMES: Final = 5

group: Final = Group[Bench](
    "storefront.events",
    heading="Events: acknowledged, and put in their order",
    section="Decisions 9",
    needs=CREATED,
)

_ANY: Final = "Answer any 2xx as soon as the event is kept. What is answered otherwise comes again, for days."


@group.check(
    "created",
    "order.created is acknowledged",
    needs="storefront.signature.accepted",
    proves="orders can be followed without asking",
    advice=_ANY,
)
async def created(bench: Bench) -> str:
    """Send the first event of an order."""
    return acknowledged(await bench.send(bench.event(new_id(), 1)))


@group.check(
    "updated",
    "order.updated is acknowledged",
    proves="every step of an order is heard of",
    advice=_ANY,
)
async def updated(bench: Bench) -> str:
    """Send the first two events of an order."""
    order_id = new_id()
    acknowledged(await bench.send(bench.event(order_id, 1)))
    return acknowledged(await bench.send(bench.event(order_id, 2, status=OrderStatus.CONFIRMED)))


@group.check(
    "unknown-order",
    "An event of an unknown order is, too",
    proves="an event may be faster than the answer to Place order",
    advice="Keep events of orders that you do not know yet, and answer 2xx: the order's own answer is on its way.",
)
async def unknown_order(bench: Bench) -> str:
    """Send a later event of an order alone."""
    return acknowledged(await bench.send(bench.event(new_id(), 4, status=OrderStatus.READY)))


@group.check(
    "repeat",
    "An event that comes again is, too",
    section="Specification 6; decisions 9",
    proves="a redelivery is no error",
    advice="Answer 2xx to an event whose webhook-id came before, and do nothing else.",
)
async def repeat(bench: Bench) -> str:
    """Send an event twice."""
    event = bench.event(new_id(), 1)
    acknowledged(await bench.send(event.but(late=2)))
    return acknowledged(await bench.send(event))


@group.check(
    "at-once",
    f"One that comes {TIMES} times at once is, too",
    needs="storefront.events.repeat",
    proves="two processes that get the same event do not stand in each other's way",
    advice="Insert the webhook-id under a unique index; who finds it there already answers 2xx.",
)
async def at_once(bench: Bench) -> str:
    """Send an event several times at the same time."""
    event = bench.event(new_id(), 1)
    for reply in await asyncio.gather(*(bench.send(event) for _ in range(TIMES))):
        acknowledged(reply)
    return f"{TIMES} times acknowledged"


@group.check(
    "late",
    "One that comes late is, too",
    proves="events may overtake each other",
    advice="Answer 2xx to an event with a lower `data.sequence` than one that came before, and keep the newer state.",
)
async def late(bench: Bench) -> str:
    """Send the third event before the second."""
    order_id = new_id()
    events = _three(bench, order_id)
    for event in (events[0], events[2]):
        acknowledged(await bench.send(event))
    return acknowledged(await bench.send(events[1]))


@group.check(
    "unknown-type",
    "One of an unknown type is, too",
    section="Decisions 11",
    proves="new kinds of events can be added",
    advice="Answer 2xx to a `type` that you do not know, and do nothing else.",
)
async def unknown_type(bench: Bench) -> str:
    """Send an event of the future."""
    return acknowledged(await bench.send(bench.event(new_id(), 1, kind="order.rated")))


@group.check(
    "unknown-members",
    "Members that are new are passed over",
    section="Decisions 11",
    proves="the service can add to what it sends",
    advice="Read the members that you know and pass over all others.",
)
async def unknown_members(bench: Bench) -> str:
    """Put unknown members everywhere."""
    event = bench.event(new_id(), 1)
    return acknowledged(await bench.send(event.but(body=as_json(grown(json.loads(event.body))))))


@group.check(
    "state",
    "The order is shown as its events have it",
    needs="storefront.events.updated",
    proves="events reach the customer",
    advice="Show `status` and `state` of `data.order`. Give the address of an order as JSON with --order-url.",
)
async def state(bench: Bench) -> str:
    """Send two events and look at the order."""
    order_id = new_id()
    for event in _three(bench, order_id)[:2]:
        acknowledged(await bench.send(event))
    return await _shown(bench, order_id, OrderStatus.CONFIRMED)


@group.check(
    "late-changes-nothing",
    "One that comes late changes nothing",
    needs=("storefront.events.state", "storefront.events.late"),
    proves="an order does not go back on the customer's screen",
    advice="Keep the highest `data.sequence` of each order, and let no event with a lower one change it.",
)
async def late_changes_nothing(bench: Bench) -> str:
    """Send the third event before the second, and look at the order."""
    order_id = new_id()
    events = _three(bench, order_id)
    for event in (events[0], events[2], events[1]):
        acknowledged(await bench.send(event))
    return await _shown(bench, order_id, OrderStatus.PREPARING)


@group.check(
    "repeat-changes-nothing",
    "One that comes again changes nothing",
    needs=("storefront.events.state", "storefront.events.repeat"),
    proves="a redelivery hours later does no harm",
    advice="An event whose webhook-id came before is acknowledged, and changes nothing.",
)
async def repeat_changes_nothing(bench: Bench) -> str:
    """Send the first event again after the others, and look at the order."""
    order_id = new_id()
    events = _three(bench, order_id)
    for event in (*events, events[0]):
        acknowledged(await bench.send(event))
    return await _shown(bench, order_id, OrderStatus.PREPARING)


def _three(bench: Bench, order_id: UUID) -> tuple[Message, Message, Message]:
    return (
        bench.event(order_id, 1),
        bench.event(order_id, 2, status=OrderStatus.CONFIRMED),
        bench.event(order_id, 3, status=OrderStatus.PREPARING),
    )


async def _shown(bench: Bench, order_id: UUID, status: OrderStatus) -> str:
    """Look at the order where the storefront shows it. Raises Failed when its status is another."""
    template = bench.of.order_url
    if template is None:
        raise Skipped("Say where an order can be seen as JSON: --order-url 'http://…/orders/{orderId}'.")
    url = template.replace("{orderId}", str(order_id))
    reply = await bench.look(url)
    try:
        shown: Any = json.loads(reply.body)
        found = shown["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Failed(f"{address(url)} answered {reply.status}, and no JSON with `status`.") from None
    if str(found).lower() != status.value.lower():
        raise Failed(f"Its status is shown as {found!r}, where it is {status.value!r}.")
    return f"shown as {status.value}"
