"""The demo's steps in order, performed over HTTP as partners do: first the merchant's, then the storefront's."""

from collections.abc import Awaitable, Callable
from typing import Final

from mercato.tools.sandbox import failures, merchant, storefront
from mercato.tools.sandbox.context import DemoContext, ProofFailed

STEPS: Final[tuple[tuple[str, Callable[[DemoContext], Awaitable[None]]], ...]] = (
    ("Three stores register; their catalogs are pulled and checked", merchant.register),
    ("The broken catalog is fixed and pulled again", merchant.fix),
    ("The stores go live", merchant.activate),
    ("A price changes", merchant.reprice),
    ("A broken catalog is published over a good one", merchant.stumble),
    ("A notification without a change", merchant.repeat),
    ("A store pauses, and the clock resumes it", merchant.pause),
    ("An item sells out", merchant.sell_out),
    ("The signed events are verified", merchant.verify),
    ("An event is redelivered", merchant.redeliver),
    ("Wrong keys and other partners", merchant.keep_out),
    ("A storefront looks for stores", storefront.discover),
    ("It reads a store's catalog", storefront.read_catalog),
    ("It fills a cart", storefront.fill_cart),
    ("The order is validated", storefront.validate),
    ("The order is placed", storefront.place),
    ("The merchant works on the order, and the storefront follows", storefront.follow),
    ("The answer was lost: the same request once more", storefront.repeat),
    ("A price changes between validate and place", failures.change_price),
    ("A card is declined", failures.decline),
    ("The store's system goes down, and comes back", failures.go_down),
    ("What happened to that order", failures.timeline),
    ("Every order webhook and event is verified", failures.verify),
    ("Other storefronts and other keys", failures.keep_out),
)


async def run_demo(context: DemoContext) -> None:
    """Perform all steps. Raises ProofFailed at the first claim that fails."""
    for title, chapter in STEPS:
        context.display.chapter(title)
        try:
            await chapter(context)
        except ProofFailed:
            raise
        except Exception as error:  # noqa: BLE001  # any error leaves the step unproved
            context.prove(title, f"broke off: {type(error).__name__}: {error}", holds=False)
