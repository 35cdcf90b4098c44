"""`mercato demo`: the whole story in one process, on a network that exists only as long as it is told."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
from mercato.sandbox.caller import Caller
from mercato.sandbox.commerce import tell
from mercato.sandbox.merchant import Merchant, merchant
from mercato.sandbox.proofs import ProofFailed, Proofs
from mercato.sandbox.scene import Scene
from mercato.settings import Settings

FAILED: Final = 1
INTERRUPTED: Final = 130
PARTNER: Final = "Sandbox POS"


def demo(
    *,
    keep: Annotated[
        bool, Parameter(negative=(), help="Leave the server running at the end, to be explored.")
    ] = False,
) -> int:
    """Tell the whole story in one process, prove every claim of it, and end with 0 if all of them hold.

    Nothing is needed and nothing is left: the database lives in a temporary directory, the ports are free ones.
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
        screen.say("Its database is in a temporary directory, the merchant's web server in the same process.")
        try:
            await tell(network.scene(screen, proofs))
        except ProofFailed as failed:
            screen.table(proofs)
            screen.note(f"Not proved: {failed}")
            return FAILED
        screen.table(proofs)
        screen.note(f"All {len(list(proofs))} claims hold. Told in {monotonic() - began:.1f} s.")
        if keep:
            screen.explore(_commands(network))
            await asyncio.Event().wait()
    return 0


@dataclass(frozen=True, slots=True)
class _Network:
    """A running service with two partners, the merchant's web server of the first, and a way to call it."""

    base: str
    partner: NewPartner
    stranger: NewPartner
    merchant: Merchant
    session: aiohttp.ClientSession

    def scene(self, screen: Screen, proofs: Proofs) -> Scene:
        caller = Caller(self.base, _key(self.partner), self.session)
        return Scene(
            partner=caller,
            stranger=caller.with_key(_key(self.stranger)),
            merchant=self.merchant,
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
        settings = Settings(data_dir=Path(directory), port=0, allow_private_networks=True)
        await migrate(database_url(settings))
        async with (
            merchant() as shop,
            running(settings) as app,
            serving(application(app), host=settings.host, port=settings.port) as base,
            aiohttp.ClientSession() as session,
        ):
            partner, stranger = await _partners(app)
            shop.trust(partner.signing_secret)
            yield _Network(base, partner, stranger, shop, session)


async def _partners(app: Runtime) -> tuple[NewPartner, NewPartner]:
    """Make the partner of the story and another one, as `mercato partner create` does."""
    async with app.db.write() as tx:
        partner = await accounts.create_partner(tx, app.vault, name=PARTNER, kind=PartnerKind.COMMERCE)
        stranger = await accounts.create_partner(tx, app.vault, name="Stranger", kind=PartnerKind.COMMERCE)
    return partner, stranger


def _key(partner: NewPartner) -> str:
    assert partner.commerce_key is not None
    return partner.commerce_key.text


def _commands(network: _Network) -> list[str]:
    """Return what to type in another terminal."""
    key = '-H "Authorization: Bearer $KEY"'
    return [
        f"export URL={network.base}",
        f"export KEY={_key(network.partner)}",
        f"export SIGNING_SECRET={network.partner.signing_secret}",
        "",
        f'curl -s "$URL/v1/commerce/stores" {key}',
        f'curl -s "$URL/v1/commerce/webhook-deliveries" {key}',
        f'curl -s "$URL/v1/commerce/catalogset-validation" {key} \\',
        f"""  -H 'Content-Type: application/json' -d '{{"callbackUrl": "{network.merchant.base}/ramen.json"}}'""",
        "",
        f"API reference: {network.base}/docs",
    ]
