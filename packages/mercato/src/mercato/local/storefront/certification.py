"""The certification of a storefront: its options, its checks, and one run of them.

Here are the checks of order events: it acknowledges each, in any order, and shows the newest state.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import msgspec

from mercato.local.storefront.context import STATUSES, Storefront, StorefrontContext
from mercato.local.storefront.drivers import Driver
from mercato.local.storefront.failures import CANCEL, REFUSAL, RETRY
from mercato.local.storefront.purchases import CART, ORDER, REQUEST, is_amount
from mercato.local.storefront.scenarios import ScenarioRunner
from mercato.local.storefront.service import offer
from mercato_contract.certification import CheckOutcome
from mercato_contract.clock import new_id
from mercato_contract.events import EventType
from mercato_contract.orders import OrderStatus
from mercato_tools.certify.receiver import (
    SIGNATURE,
    TRANSPORT,
    Message,
    Receiver,
    acknowledged,
    check_reachable,
    open_session,
)
from mercato_tools.certify.sample_store import with_unknown_members
from mercato_tools.certify.suite import (
    Check,
    Failed,
    Redactor,
    Report,
    Run,
    Runner,
    Skipped,
    Suite,
    without_credentials,
)

TIMES: Final = 5
"""How often one event is sent at the same time."""


def acknowledges(*sequences: int, shown: int | None = None, **options: Any) -> Run[StorefrontContext]:
    """Return a check that the events of an order are acknowledged; a number that comes again is a redelivery.

    With `shown` the storefront must then show the order as of that event.
    """

    async def run(context: StorefrontContext) -> str:
        order_id, events, result = new_id(), dict[int, Message](), ""
        for index, number in enumerate(sequences):
            if number not in events:
                events[number] = context.event(order_id, number, **options)
            age = len(sequences) - 1 - index
            result = acknowledged(await context.send(events[number].but(age=age)))
        return result if shown is None else _shown(await _read(context, order_id), STATUSES[shown])

    return run


async def _at_once(context: StorefrontContext) -> str:
    event = context.sample()
    for reply in await asyncio.gather(*(context.send(event) for _ in range(TIMES))):
        acknowledged(reply)
    return f"acknowledged {TIMES} times"


def adjusted(*, shown: bool = False) -> Run[StorefrontContext]:
    """Return a check that a refund of all is acknowledged; with `shown` the storefront must then show it."""

    async def run(context: StorefrontContext) -> str:
        order_id = new_id()
        acknowledged(await context.send(context.event(order_id, 1).but(age=1)))
        result = acknowledged(await context.send(context.event(order_id, 2, kind=EventType.ORDER_ADJUSTED)))
        return _refund_shown(await _read(context, order_id)) if shown else result

    return run


def _refund_shown(order: Any) -> str:
    """Return that the order costs nothing any more. Raises Failed, or Skipped where no amounts are shown."""
    if not isinstance(amounts := order.get("amounts"), dict):
        raise Skipped("The order that --order-url shows has no `amounts`.")
    after = amounts.get("totalAfterAdjustments")
    if not is_amount(after, "0"):
        raise Failed(f"All was refunded. It shows {after!r} as `amounts.totalAfterAdjustments`.")
    return f"shown as {after}"


def _shown(order: Any, status: OrderStatus) -> str:
    """Return that the order is shown with its status. Raises Failed when it has another one."""
    if str(found := order["status"]).lower() != status.value.lower():
        raise Failed(f"It shows the status {found!r}, not {status.value!r}.")
    return f"shown as {status.value}"


async def _read(context: StorefrontContext, order_id: UUID) -> Any:
    """Return an order as the storefront shows it, with its `status`. Raises Failed, or Skipped without a URL."""
    template = context.storefront.order_url
    if template is None:
        raise Skipped("Say where an order can be seen as JSON: --order-url 'http://…/orders/{orderId}'.")
    url = template.replace("{orderId}", str(order_id))
    reply = await context.request("GET", url)
    order: Any = None
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        order = msgspec.json.decode(reply.body)
    if not isinstance(order, dict) or "status" not in order:
        where = without_credentials(url)
        raise Failed(f"{where} answered {reply.status}, without JSON that has a `status`.")
    return order


EVENTS: Final[Mapping[str, Run[StorefrontContext]]] = {
    "created": acknowledges(1),
    "updated": acknowledges(1, 2),
    "adjusted": adjusted(),
    "unknown-order": acknowledges(4),
    "repeat": acknowledges(1, 1),
    "at-once": _at_once,
    "late": acknowledges(1, 3, 2),
    "unknown-type": acknowledges(1, kind="order.rated"),
    "unknown-members": acknowledges(1, change=with_unknown_members),
    "state": acknowledges(1, 2, shown=2),
    "late-changes-nothing": acknowledges(1, 3, 2, shown=3),
    "repeat-changes-nothing": acknowledges(1, 2, 3, 1, shown=3),
    "refund-shown": adjusted(shown=True),
}
"""Which events are sent, and what must come back."""


SECONDS: Final = 180.0
"""The time limit of all checks together; with a command they take half a minute."""

CONCURRENCY: Final = 12
"""Checks at a time: most of them wait for the same few scenarios."""

SLOW_SECONDS: Final = 12.0
"""How long placing takes once; it may take 15 s."""

STOREFRONT: Final = Suite[StorefrontContext](
    "storefront",
    {
        "order": ORDER,
        "request": REQUEST,
        "cart": CART,
        "retry": RETRY,
        "refusal": REFUSAL,
        "cancel": CANCEL,
        "signature": SIGNATURE,
        "events": EVENTS,
        "transport": TRANSPORT,
    },
    package="mercato.local.storefront",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorefrontOptions:
    """What is known of the storefront. Without a driver nothing is bought, without an event URL no event is sent."""

    key: str = field(repr=False)
    driver: Driver | None = None
    event_url: str | None = None
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    order_url: str | None = None
    slow_seconds: float = SLOW_SECONDS
    event_seconds: float = 15.0
    seconds: float = SECONDS


async def certify_storefront(
    options: StorefrontOptions, checks: Sequence[Check[StorefrontContext]], report: Report
) -> tuple[CheckOutcome, ...]:
    """Run the checks; each outcome is reported as soon as it is known. Raises UnusableTargetError."""
    if options.event_url is not None:
        await check_reachable(options.event_url)
    redactor = Redactor(tuple(secret for secret in (options.key, options.secret, options.token) if secret))
    async with (
        open_session() as session,
        ScenarioRunner(options.driver, key=options.key, slow_seconds=options.slow_seconds) as scenarios,
    ):
        receiver = Receiver(
            url=(options.event_url if options.secret else None) or "",
            secret=options.secret or "",
            token=options.token,
            session=session,
            redactor=redactor,
            seconds=options.event_seconds,
        )
        storefront = Storefront(
            scenarios=scenarios, receiver=receiver, sample=offer().sample(), order_url=options.order_url
        )
        runner = Runner(
            checks,
            context=lambda: StorefrontContext(storefront),
            seconds=options.seconds,
            concurrency=CONCURRENCY,
        )
        return await runner.run(report)
