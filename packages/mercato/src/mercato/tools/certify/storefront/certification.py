"""The certification of a storefront: its options, its checks, and one run of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mercato.features.certification.report import Outcome
from mercato.tools.certify.receiver import SIGNATURE, TRANSPORT, Receiver, check_reachable, open_session
from mercato.tools.certify.redaction import Redactor
from mercato.tools.certify.storefront.carts import CART
from mercato.tools.certify.storefront.context import Storefront, StorefrontContext
from mercato.tools.certify.storefront.drivers import Driver
from mercato.tools.certify.storefront.events import EVENTS
from mercato.tools.certify.storefront.failures import REFUSAL, RETRY
from mercato.tools.certify.storefront.purchases import ORDER, REQUEST
from mercato.tools.certify.storefront.scenarios import ScenarioRunner
from mercato.tools.certify.storefront.stores import offer
from mercato.tools.certify.suite import Check, Report, Runner, Suite

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
        "signature": SIGNATURE,
        "events": EVENTS,
        "transport": TRANSPORT,
    },
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
) -> tuple[Outcome, ...]:
    """Run the checks; each outcome is reported as soon as it is known. Raises UnusableTargetError."""
    if options.event_url is not None:
        await check_reachable(options.event_url)
    redactor = Redactor(tuple(one for one in (options.key, options.secret, options.token) if one))
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
