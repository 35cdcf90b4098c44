"""`mercato demo`: a whole network in one process, with temporary data."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from mercato.features.partners.model import PartnerKind
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.local.demo.board import leave_orders
from mercato.local.demo.context import DemoContext, ProofFailed
from mercato.local.demo.merchant import run_demo
from mercato_client.testing.caller import Caller, open_session
from mercato_client.testing.merchant import MerchantDouble
from mercato_client.testing.order_simulator import OrderSimulator
from mercato_client.testing.shops import GROCERY
from mercato_client.testing.storefront import StorefrontDouble
from mercato_tools.cli import FAILED, INTERRUPTED

if TYPE_CHECKING:
    from mercato.local.demo.context import Watch
    from mercato.local.service import LocalService

POS: Final = "Sandbox POS"
SHOP: Final = "Sandbox Storefront"

PLACE_SECONDS: Final = 2.0
"""A store's time to answer an order; with the default of 15 s the demo would only wait."""


class DemoDisplay:
    """Live progress: chapters, progress bars, a table of proofs. In a pipe it is plain text."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)

    def chapter(self, title: str) -> None:
        """Begin a part."""
        self._print(title, style="bold", before="\n")

    def say(self, line: str) -> None:
        """Tell what happened."""
        from rich.padding import Padding
        from rich.text import Text

        self._console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))

    def note(self, line: str) -> None:
        """Print a line."""
        self._print(line)

    @contextmanager
    def watching(self, names: Sequence[str], steps: Mapping[str, int]) -> Iterator["Watch"]:
        """Show a progress bar for each name while the block runs; a pipe gets only their last state."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("  {task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[status]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            first, last = next(iter(steps)), max(steps.values())
            bars = {name: progress.add_task(name, total=last, status=first) for name in names}

            def watch(name: str, status: str) -> None:
                progress.update(bars[name], completed=steps[status], status=status)

            yield watch

    def table(self, proofs: Iterable[tuple[bool, str, str]]) -> None:
        """Print each proof: whether it holds, the claim, the measurement."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table("", "What was claimed", "What was measured", box=box.SIMPLE_HEAD, pad_edge=False)
        for holds, claim, seen in proofs:
            verdict = Text("ok", style="green") if holds else Text("FAIL", style="bold red")
            table.add_row(verdict, Text(claim), Text(seen, overflow="fold"))
        self._console.print()
        self._console.print(table)

    def explore(self, lines: Iterable[str]) -> None:
        """Print commands for another terminal, never wrapped, so that they can be copied."""
        self._print("Still running. Ctrl-C ends it. In another terminal:", style="bold", before="\n")
        for line in lines:
            self._print(line, soft_wrap=True)

    def _print(self, line: str, *, style: str = "", before: str = "", soft_wrap: bool = False) -> None:
        from rich.text import Text

        self._console.print(Text(before + line, style=style), soft_wrap=soft_wrap)


def demo(*, keep: bool = False) -> int:
    """Run a whole network in one process and prove every claim; end with 0 if all of them hold.

    First the merchant's half, then the storefront's. It needs no setup and leaves nothing behind: the database is
    in a temporary directory, and the ports are free ones.

    Args:
        keep: Keep the server running at the end, to explore it, with two orders on the board.

    """
    import uvloop

    return uvloop.run(_until_interrupted(DemoDisplay(), keep=keep))


async def _until_interrupted(display: DemoDisplay, *, keep: bool) -> int:
    telling = asyncio.create_task(_tell(display, keep=keep))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _interrupt, telling)
    try:
        return await telling
    except asyncio.CancelledError:
        display.note("Interrupted. Its temporary directory was deleted.")
        return INTERRUPTED


def _interrupt(telling: asyncio.Task[int]) -> None:
    if telling.cancelling():
        # The second signal: don't wait for what is still closing.
        os._exit(INTERRUPTED)
    telling.cancel()


async def _tell(display: DemoDisplay, *, keep: bool) -> int:
    began = monotonic()
    async with _context(display) as (context, service):
        display.chapter(f"The service runs on {context.partner.base}")
        display.say(
            "Its database is in a temporary directory; the web servers of a merchant and of a storefront run "
            f"beside it. One setting is not the default: MERCATO_PLACE_SECONDS is {PLACE_SECONDS:g}, not 15, "
            "so that an outage does not take long to show."
        )
        failure = None
        try:
            await run_demo(context)
        except ProofFailed as failed:
            failure = failed
        display.table((proof.holds, proof.claim, proof.seen) for proof in context.proofs)
        if failure is not None:
            display.note(f"Not proved: {failure}")
            return FAILED
        display.note(f"All {len(context.proofs)} claims hold. Done in {monotonic() - began:.1f} s.")
        if keep:
            store_id = await leave_orders(context)
            display.explore([*_commands(context), *await _console_links(context, service, store_id)])
            # Stopping it isn't a failure: all steps have run, so the exit code is 0.
            with suppress(asyncio.CancelledError):
                await context.order_simulator.run()
    if keep:
        display.note("Ended. Its temporary directory was deleted.")
    return 0


@asynccontextmanager
async def _context(display: DemoDisplay) -> "AsyncIterator[tuple[DemoContext, LocalService]]":
    """Run everything on free loopback ports until the block ends; the environment isn't read."""
    from mercato.local.service import temporary_service
    from mercato.platform.telemetry import configure_logs

    configure_logs(level="error", form="console")
    async with (
        MerchantDouble() as merchant,
        StorefrontDouble() as storefront,
        temporary_service("demo", place_seconds=PLACE_SECONDS) as service,
        open_session() as session,
    ):
        commerce, marketfront = PartnerKind.COMMERCE, PartnerKind.MARKETFRONT
        pos = await service.create_partner(POS, commerce)
        shop = await service.create_partner(SHOP, marketfront, event_url=storefront.event_url)
        others = [
            await service.create_partner("Other POS", commerce),
            await service.create_partner("Other Storefront", marketfront),
        ]
        merchant.trust(pos.signing_secret)
        storefront.trust(shop.signing_secret)
        storefront.connect(service.base, shop.key)
        partner, front, stranger, other_front = (
            Caller(service.base, made.key, session) for made in (pos, shop, *others)
        )
        context = DemoContext(
            partner=partner,
            stranger=stranger,
            front=front,
            other_front=other_front,
            signing_secret=pos.signing_secret,
            merchant=merchant,
            order_simulator=OrderSimulator(merchant, partner),
            storefront=storefront,
            data_dir=service.app.settings.data_dir,
            display=display,
        )
        yield context, service


async def _console_links(context: DemoContext, service: "LocalService", store_id: str) -> list[str]:
    """Return a link into the console for each side, whose lists hold all that has happened, and that of the board."""
    merchant, storefront = [
        (await caller.post("/v1/console/links", {})).json()["url"]
        for caller in (context.partner, context.front)
    ]
    async with service.app.db.write() as tx:
        made = await sessions.create_link(
            tx, Grant(partner_id=None, created_by="demo"), now=service.app.clock()
        )
    return [
        "",
        f"Two orders wait for a person at {GROCERY}. Sign in as the merchant, below, then open the board:",
        f"  {service.base}/console/board?storeId={store_id}",
        "",
        "The console in a browser. Each link signs in once, within 15 minutes:",
        f"  the merchant    {merchant}",
        f"  the storefront  {storefront}",
        f"  the operator    {service.base}/console/links/{made.token}",
    ]


def _commands(context: DemoContext) -> list[str]:
    """Return commands for another terminal."""
    pos, shop = (f'-H "Authorization: Bearer ${name}"' for name in ("KEY", "SHOP_KEY"))
    sends = "-H 'Content-Type: application/json' -d"
    document = f"{context.merchant.url}/ramen.json"
    return [
        f"export URL={context.partner.base}",
        f"export KEY={context.partner.key}",
        f"export SHOP_KEY={context.front.key}",
        f"export SIGNING_SECRET={context.signing_secret}",
        "",
        f'curl -s "$URL/v1/commerce/stores" {pos}',
        f'curl -s "$URL/v1/commerce/orders" {pos}',
        f'curl -s "$URL/v1/commerce/webhook-deliveries" {pos}',
        f'curl -s "$URL/v1/commerce/catalogset-validation" {pos} \\',
        f"""  {sends} '{{"callbackUrl": "{document}"}}'""",
        f'curl -s "$URL/v1/marketfront/stores/discover" {shop} \\',
        f"""  {sends} '{{"query": "pizza"}}'""",
        f'curl -s "$URL/v1/marketfront/orders/{context.joined}/timeline" {shop}',
        "",
        f"The merchant works: every order that you place is completed, but for those at {GROCERY}.",
        f"API reference: {context.partner.base}/docs",
    ]
