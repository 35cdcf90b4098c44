"""One certification of a storefront, from its addresses to what came of every check."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mercato.certify.model import Check, Outcome
from mercato.certify.reaching import open_session, reach
from mercato.certify.runner import Runner, Told
from mercato.certify.sending import Receiver
from mercato.certify.shown import Shower, hidden_of
from mercato.certify.storefront.bench import Bench, Storefront
from mercato.certify.storefront.drivers import Driver
from mercato.certify.storefront.menus import shop
from mercato.certify.storefront.stage import Stage

SECONDS: Final = 180.0
"""Seconds after which no purchase by a command is waited for any more; all of them take half a minute."""

AT_ONCE: Final = 12
"""Checks at a time: most of them wait for the same few purchases."""

SLOW_SECONDS: Final = 12.0
"""How long placing takes once: it may take 15."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorefrontOptions:
    """What is known of the storefront. Without a driver nothing is bought, without an event URL no event sent."""

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
    options: StorefrontOptions, checks: Sequence[Check[Bench]], told: Told
) -> tuple[Outcome, ...]:
    """Return what came of the checks; each is told as soon as it is known. Raises UnusableTargetError."""
    if options.event_url is not None:
        await reach(options.event_url)
    shower = Shower(hidden_of(options.key, options.secret, options.token))
    stage = Stage(options.driver, key=options.key, slow_seconds=options.slow_seconds)
    async with open_session() as session:
        receiver = None
        if options.event_url is not None and options.secret is not None:
            receiver = Receiver(
                url=options.event_url,
                secret=options.secret,
                token=options.token,
                session=session,
                shower=shower,
                seconds=options.event_seconds,
            )
        storefront = Storefront(
            stage=stage,
            receiver=receiver,
            shower=shower,
            session=session,
            shop=shop(),
            order_url=options.order_url,
        )
        try:
            await stage.open()
            runner = Runner(checks, bench=lambda: Bench(storefront), seconds=options.seconds, at_once=AT_ONCE)
            return await runner.run(told)
        finally:
            await stage.close()
