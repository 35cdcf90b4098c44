"""The whole story, told over HTTP as any partner would: the merchant's half, then the storefront's."""

from collections.abc import Awaitable, Callable
from typing import Final

from mercato.sandbox import browsing, day, opening, ordering, records, troubles, trust
from mercato.sandbox.proofs import ProofFailed
from mercato.sandbox.scene import Scene

CHAPTERS: Final[tuple[tuple[str, Callable[[Scene], Awaitable[None]]], ...]] = (
    ("Three stores register; their catalogs are pulled and checked", opening.register),
    ("The broken catalog is mended and pulled again", opening.mend),
    ("The stores go live", opening.activate),
    ("A price changes", day.reprice),
    ("A broken catalog is published over a good one", day.stumble),
    ("A notification without a change", day.repeat),
    ("A store pauses, and the clock resumes it", day.pause),
    ("An item sells out", day.sell_out),
    ("The signed events are verified", trust.verify),
    ("An event is asked for again", trust.redeliver),
    ("Wrong keys and other partners", trust.keep_out),
    ("A storefront looks for stores", browsing.discover),
    ("It reads a store's catalog", browsing.read_catalog),
    ("It fills a cart", browsing.fill_cart),
    ("The order is validated", ordering.validate),
    ("The order is placed", ordering.place),
    ("The kitchen works, and the storefront follows", ordering.follow),
    ("The answer was lost: the same request once more", ordering.repeat),
    ("A price changes between validate and place", troubles.change_price),
    ("A card is declined", troubles.decline),
    ("The store's system goes down, and comes back", troubles.go_down),
    ("What happened to that order", records.timeline),
    ("Every order webhook and event is verified", records.verify),
    ("Other storefronts and other keys", records.keep_out),
)


async def tell(scene: Scene) -> None:
    """Tell the whole story. Raises ProofFailed at the first claim that does not hold."""
    for title, chapter in CHAPTERS:
        scene.stage.chapter(title)
        try:
            await chapter(scene)
        except ProofFailed:
            raise
        except Exception as error:  # noqa: BLE001  # whatever breaks a chapter leaves it unproved
            scene.proofs.add(title, f"broke off: {type(error).__name__}: {error}", holds=False)
