"""One certification of a merchant, from its addresses to what came of every check."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp

from mercato import clock
from mercato.catalog.lint import NOWHERE
from mercato.certify.merchant.bench import CARD, Bench, Merchant
from mercato.certify.model import Check, Outcome, UnusableTargetError
from mercato.certify.runner import Runner, Told
from mercato.certify.shop import EXAMPLE, Shop, shop_of
from mercato.certify.shown import Shower, address, hidden_of
from mercato.outbound.addresses import AddressPolicy
from mercato.outbound.agent import USER_AGENT
from mercato.outbound.client import NotModified, Outbound, PullFailed, PullLimits

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
    await _reach(options.webhook_url)
    async with _session() as session:
        merchant = Merchant(
            webhook_url=options.webhook_url,
            secret=options.secret,
            token=options.token,
            shop=shop,
            session=session,
            shower=Shower(hidden_of(options.secret, options.token, options.declined_card, CARD)),
            catalog_url=options.catalog_url,
            declined_card=options.declined_card,
            validate_seconds=options.validate_seconds,
            place_seconds=options.place_seconds,
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
    except PullFailed:
        return None
    assert not isinstance(pulled, NotModified)
    return pulled.body


async def _reach(url: str) -> None:
    """Connect once. Raises UnusableTargetError when nobody is there."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError):
        raise UnusableTargetError(
            f"Nothing answers at {address(url)}. Is it running, and is that the address it listens on?"
        ) from None
    writer.close()


@asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    # A connection for each call: one that the other side has closed in the meantime would look like a fault.
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=64),
        headers={aiohttp.hdrs.USER_AGENT: USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as session:
        yield session
