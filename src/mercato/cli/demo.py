"""`mercato demo`: the whole story in one process, on a network that exists only as long as it is told."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Final

import aiohttp
from cyclopts import Parameter

from mercato.cli.screen import Screen
from mercato.partners import accounts
from mercato.partners.accounts import NewPartner
from mercato.partners.model import PartnerKind
from mercato.runtime import Runtime, running
from mercato.sandbox.proofs import ProofFailed, Proofs
from mercato.sandbox.scene import Scene
from mercato.sandbox.story import tell
from mercato.settings import Settings
from mercato.testing.caller import Caller
from mercato.testing.kitchen import Kitchen
from mercato.testing.merchant import MerchantDouble
from mercato.testing.storefront import StorefrontDouble

FAILED: Final = 1
INTERRUPTED: Final = 130
POS: Final = "Sandbox POS"
SHOP: Final = "Sandbox Storefront"

PLACE_SECONDS: Final = 2.0
"""What this service allows a store to answer an order: nobody wants to watch the usual 15 s pass."""


def demo(
    *,
    keep: Annotated[
        bool, Parameter(negative=(), help="Leave the server running at the end, to be explored.")
    ] = False,
) -> int:
    """Tell the whole story in one process, prove every claim of it, and end with 0 if all of them hold.

    A merchant's half comes first, then a storefront's. Nothing is needed and nothing is left: the database lives
    in a temporary directory, the ports are free ones.
    """
    import uvloop

    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that knows no Japanese shows question marks, and the story goes on.
        sys.stdout.reconfigure(errors="replace")
    return uvloop.run(_until_interrupted(Screen(), keep=keep))


async def _until_interrupted(screen: Screen, *, keep: bool) -> int:
    telling = asyncio.create_task(_tell(screen, keep=keep))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _interrupt, telling)
    try:
        return await telling
    except asyncio.CancelledError:
        screen.note("Interrupted. Everything was in a temporary directory, and is gone.")
        return INTERRUPTED


def _interrupt(telling: asyncio.Task[int]) -> None:
    if telling.cancelling():
        # Asked twice: whoever asks does not want to wait for what is still being closed.
        os._exit(INTERRUPTED)
    telling.cancel()


async def _tell(screen: Screen, *, keep: bool) -> int:
    began = monotonic()
    proofs = Proofs()
    async with _network() as network:
        screen.chapter(f"The service runs on {network.base}")
        screen.say(
            "Its database is in a temporary directory; the web servers of a merchant and of a storefront run "
            f"beside it. One setting is not the default: MERCATO_PLACE_SECONDS is {PLACE_SECONDS:g}, not 15, "
            "so that an outage does not take long to show."
        )
        scene = network.scene(screen, proofs)
        try:
            await tell(scene)
        except ProofFailed as failed:
            screen.table(proofs)
            screen.note(f"Not proved: {failed}")
            return FAILED
        screen.table(proofs)
        screen.note(f"All {len(list(proofs))} claims hold. Told in {monotonic() - began:.1f} s.")
        if keep:
            screen.explore(_commands(network, scene))
            # Told to stop it ends as it should: the story was told, and exit code 0 says so.
            with suppress(asyncio.CancelledError):
                await scene.kitchen.stay_open()
    if keep:
        screen.note("Ended. Everything was in a temporary directory, and is gone.")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partners:
    """Who takes part: a merchant and a storefront, and another of each who should see nothing of theirs."""

    pos: NewPartner
    stranger: NewPartner
    shop: NewPartner
    other_shop: NewPartner


@dataclass(frozen=True, slots=True, kw_only=True)
class _Network:
    """A running service with its partners, their web servers, and a way to call it."""

    base: str
    data_dir: Path
    partners: _Partners
    merchant: MerchantDouble
    storefront: StorefrontDouble
    session: aiohttp.ClientSession

    def caller(self, partner: NewPartner) -> Caller:
        return Caller(self.base, _key(partner), self.session)

    def scene(self, screen: Screen, proofs: Proofs) -> Scene:
        partners = self.partners
        pos = self.caller(partners.pos)
        return Scene(
            partner=pos,
            stranger=self.caller(partners.stranger),
            front=self.caller(partners.shop),
            other_front=self.caller(partners.other_shop),
            merchant=self.merchant,
            kitchen=Kitchen(self.merchant, pos),
            storefront=self.storefront,
            data_dir=self.data_dir,
            stage=screen,
            proofs=proofs,
        )


@asynccontextmanager
async def _network() -> AsyncIterator[_Network]:
    """Run everything on free ports of loopback until the block ends; nothing of the environment is read."""
    from mercato.db.migrate import migrate
    from mercato.db.url import database_url
    from mercato.telemetry import configure_logs
    from mercato.web.app import application
    from mercato.web.server import serving

    configure_logs(level="error", form="console")
    with tempfile.TemporaryDirectory(prefix="mercato-demo-") as directory:
        settings = Settings(
            data_dir=Path(directory), port=0, allow_private_networks=True, place_seconds=PLACE_SECONDS
        )
        await migrate(database_url(settings))
        async with (
            MerchantDouble() as pos,
            StorefrontDouble() as shop,
            running(settings) as app,
            serving(application(app), host=settings.host, port=settings.port) as base,
            aiohttp.ClientSession() as session,
        ):
            partners = await _partners(app, event_url=shop.event_url)
            pos.trust(partners.pos.signing_secret)
            shop.trust(partners.shop.signing_secret)
            yield _Network(
                base=base,
                data_dir=settings.data_dir,
                partners=partners,
                merchant=pos,
                storefront=shop,
                session=session,
            )


async def _partners(app: Runtime, *, event_url: str) -> _Partners:
    """Make the partners of the story, as `mercato partner create` does."""
    async with app.db.write() as tx:
        create = partial(accounts.create_partner, tx, app.vault)
        return _Partners(
            pos=await create(name=POS, kind=PartnerKind.COMMERCE),
            stranger=await create(name="Other POS", kind=PartnerKind.COMMERCE),
            shop=await create(name=SHOP, kind=PartnerKind.MARKETFRONT, event_url=event_url),
            other_shop=await create(name="Other Storefront", kind=PartnerKind.MARKETFRONT),
        )


def _key(partner: NewPartner) -> str:
    key = partner.commerce_key or partner.marketfront_key
    assert key is not None
    return key.text


def _commands(network: _Network, scene: Scene) -> list[str]:
    """Return what to type in another terminal."""
    pos, shop = (f'-H "Authorization: Bearer ${name}"' for name in ("KEY", "SHOP_KEY"))
    sends = "-H 'Content-Type: application/json' -d"
    document = f"{network.merchant.url}/ramen.json"
    return [
        f"export URL={network.base}",
        f"export KEY={scene.partner.key}",
        f"export SHOP_KEY={scene.front.key}",
        f"export SIGNING_SECRET={network.partners.pos.signing_secret}",
        "",
        f'curl -s "$URL/v1/commerce/stores" {pos}',
        f'curl -s "$URL/v1/commerce/orders" {pos}',
        f'curl -s "$URL/v1/commerce/webhook-deliveries" {pos}',
        f'curl -s "$URL/v1/commerce/catalogset-validation" {pos} \\',
        f"""  {sends} '{{"callbackUrl": "{document}"}}'""",
        f'curl -s "$URL/v1/marketfront/stores/discover" {shop} \\',
        f"""  {sends} '{{"query": "pizza"}}'""",
        f'curl -s "$URL/v1/marketfront/orders/{scene.basket.joined}/timeline" {shop}',
        "",
        "The kitchen is open: whatever order you place, it is brought to its end.",
        f"API reference: {network.base}/docs",
    ]
