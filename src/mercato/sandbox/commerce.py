"""The story of a merchant's system, told over HTTP as any partner would: its chapters, in their order."""

from collections.abc import Awaitable, Callable
from typing import Final

from mercato.sandbox import day, opening, trust
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
