"""The whole story, told over HTTP as any partner would: the merchant's half, then the storefront's."""

from collections.abc import Awaitable, Callable
from typing import Final

from mercato.devtools.sandbox import merchant, storefront, troubles
from mercato.devtools.sandbox.proofs import ProofFailed
from mercato.devtools.sandbox.scene import Scene

CHAPTERS: Final[tuple[tuple[str, Callable[[Scene], Awaitable[None]]], ...]] = (
    ("Three stores register; their catalogs are pulled and checked", merchant.register),
    ("The broken catalog is fixed and pulled again", merchant.fix),
    ("The stores go live", merchant.activate),
    ("A price changes", merchant.reprice),
    ("A broken catalog is published over a good one", merchant.stumble),
    ("A notification without a change", merchant.repeat),
    ("A store pauses, and the clock resumes it", merchant.pause),
    ("An item sells out", merchant.sell_out),
    ("The signed events are verified", merchant.verify),
    ("An event is asked for again", merchant.redeliver),
    ("Wrong keys and other partners", merchant.keep_out),
    ("A storefront looks for stores", storefront.discover),
    ("It reads a store's catalog", storefront.read_catalog),
    ("It fills a cart", storefront.fill_cart),
    ("The order is validated", storefront.validate),
    ("The order is placed", storefront.place),
    ("The merchant works on the order, and the storefront follows", storefront.follow),
    ("The answer was lost: the same request once more", storefront.repeat),
    ("A price changes between validate and place", troubles.change_price),
    ("A card is declined", troubles.decline),
    ("The store's system goes down, and comes back", troubles.go_down),
    ("What happened to that order", troubles.timeline),
    ("Every order webhook and event is verified", troubles.verify),
    ("Other storefronts and other keys", troubles.keep_out),
)


async def tell(scene: Scene) -> None:
    """Tell the whole story. Raises ProofFailed at the first claim that does not hold."""
    for title, chapter in CHAPTERS:
        scene.display.chapter(title)
        try:
            await chapter(scene)
        except ProofFailed:
            raise
        except Exception as error:  # noqa: BLE001  # whatever breaks a chapter leaves it unproved
            scene.prove(title, f"broke off: {type(error).__name__}: {error}", holds=False)
