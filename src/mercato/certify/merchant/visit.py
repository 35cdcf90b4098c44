"""One certification of a merchant, from its addresses to what came of every check."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mercato import clock
from mercato.catalog.ids import NOWHERE
from mercato.certify.merchant.bench import CARD, Bench, Merchant
from mercato.certify.model import Check, Outcome, UnusableTargetError
from mercato.certify.reaching import open_session, reach
from mercato.certify.runner import Runner, Told
from mercato.certify.sending import Receiver
from mercato.certify.shop import EXAMPLE, Shop, shop_of
from mercato.certify.shown import Shower, hidden_of
from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.client import Outbound
from mercato.outbound.results import NotModified, PullLimits, RequestFailed

SECONDS: Final = 55.0
"""Seconds that all checks of a merchant have."""

CONNECT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MerchantOptions:
    """What is known of the merchant. `document` is its catalog, when that is at hand and not at a URL."""

    webhook_url: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    catalog_url: str | None = None
    document: bytes | None = None
    partner_store_id: str = "certify-1"
    store_id: UUID = field(default_factory=clock.new_id)
    onboarding_id: UUID = NOWHERE
    timezone: str = "UTC"
    sold_out: tuple[UUID, ...] = ()
    declined_card: str | None = field(default=None, repr=False)
    validate_seconds: float = 5.0
    place_seconds: float = 15.0
    seconds: float = SECONDS


async def certify_merchant(
    options: MerchantOptions, checks: Sequence[Check[Bench]], told: Told
) -> tuple[Outcome, ...]:
    """Return what came of the checks; each is told as soon as it is known. Raises UnusableTargetError."""
    shop = await _shop(options)
    await reach(options.webhook_url)
    async with open_session() as session:
        merchant = Merchant(
            receiver=Receiver(
                url=options.webhook_url,
                secret=options.secret,
                token=options.token,
                session=session,
                shower=Shower(hidden_of(options.secret, options.token, options.declined_card, CARD)),
                seconds=options.place_seconds,
            ),
            shop=shop,
            catalog_url=options.catalog_url,
            declined_card=options.declined_card,
            validate_seconds=options.validate_seconds,
        )
        return await Runner(checks, bench=lambda: Bench(merchant), seconds=options.seconds).run(told)


async def _shop(options: MerchantOptions) -> Shop:
    """Return what is ordered: what the merchant's own catalog sells, if it is known and valid."""
    document = options.document or await _pulled(options.catalog_url)
    for body, is_theirs in ((document, True), (EXAMPLE, False)):
        if body is None:
            continue
        shop = shop_of(
            body,
            store_id=options.store_id,
            partner_store_id=options.partner_store_id,
            timezone=options.timezone,
            onboarding_id=options.onboarding_id,
            is_theirs=is_theirs,
            sold_out=options.sold_out,
        )
        if shop is not None:
            return _selling(shop, options)
        if options.document is not None:
            raise UnusableTargetError("The catalog is not valid. See why: mercato catalog lint FILE")
    raise AssertionError("the example is valid")


def _selling(shop: Shop, options: MerchantOptions) -> Shop:
    try:
        shop.plain  # noqa: B018  # it is asked whether there is one
    except LookupError:
        raise UnusableTargetError(
            f"Nothing of the catalog can be bought now (in {options.timezone}): items need a basePrice, a section and "
            "an open hour. Name the store's time zone with --timezone, or give another catalog."
        ) from None
    return shop


async def _pulled(url: str | None) -> bytes | None:
    """Return the catalog, None when it can't be pulled: a check tells why."""
    if url is None:
        return None
    try:
        async with Outbound(AddressPolicy(allow_private=True)) as outbound:
            pulled = await outbound.pull(url, limits=PullLimits(waits=()), etag=None)
    except RequestFailed:
        return None
    assert not isinstance(pulled, NotModified)
    return pulled.body
