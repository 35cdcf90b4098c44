"""Second part of the Commerce story: a day of live stores. Prices change, a store pauses, an item sells out."""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from mercato.sandbox.opening import BROKEN_PLACE
from mercato.sandbox.scene import Scene
from mercato.testing import menus

OLD_PRICE: Final = "9.50"
NEW_PRICE: Final = "10.50"

PAUSE: Final = timedelta(seconds=1.5)
"""How long the pause is: long enough to be seen, short enough to be waited for."""

LATE: Final = timedelta(seconds=1)
"""How long after its end a pause may still be seen."""


async def reprice(scene: Scene) -> None:
    """Change a price: look at what would change, then let the service pull."""
    before = await scene.set_id("pizzeria")
    url = scene.merchant.host("/pizzeria.json", menus.pizzeria(margherita=NEW_PRICE))
    changes = (await _dry_run(scene, "pizzeria", url))["items"]["repriced"]["entries"]
    for change in changes:
        scene.stage.say(f"dry run: {change['name']} {change['before']} -> {change['after']} EUR")
    same = await scene.set_id("pizzeria") == before
    scene.proofs.add(
        "A dry run shows changes and makes none",
        f"{len(changes)} new price; {_set_words(same=same)}",
        holds=[(one["before"], one["after"]) for one in changes] == [(OLD_PRICE, NEW_PRICE)] and same,
    )
    began = monotonic()
    ended = await scene.run("pizzeria", url)
    took = monotonic() - began
    same = await scene.set_id("pizzeria") == before
    identical = (await _dry_run(scene, "pizzeria", url))["identical"]
    scene.proofs.add(
        "A notification switches the catalog",
        f"{took:.2f} s; {_set_words(same=same)}",
        holds=ended["status"] == "succeeded" and not same and identical,
    )


async def stumble(scene: Scene) -> None:
    """Publish a broken catalog over a good one."""
    before = await scene.set_id("grocery")
    url = scene.merchant.host("/grocery.json", menus.grocery(broken=True))
    ended = await scene.run("grocery", url)
    for fault in ended["errors"]:
        scene.stage.say(f"{fault['path']}: {fault['message']}")
    same = await scene.set_id("grocery") == before
    pointed = [fault["path"] for fault in ended["errors"]] == [BROKEN_PLACE]
    scene.proofs.add(
        "A broken update changes nothing",
        f"{ended['status']}; {_set_words(same=same)}",
        holds=ended["status"] == "failed" and pointed and same,
    )


async def repeat(scene: Scene) -> None:
    """Notify of a catalog that has not changed."""
    before, unchanged = await scene.set_id("pizzeria"), scene.merchant.unchanged
    ended = await scene.run("pizzeria", scene.urls["pizzeria"])
    same = await scene.set_id("pizzeria") == before
    spared = scene.merchant.unchanged - unchanged
    scene.proofs.add(
        "An unchanged one is not downloaded",
        f"{spared} answer 304; {_set_words(same=same)}",
        holds=ended["status"] == "succeeded" and spared == 1 and same,
    )


def end_of_pause(now: datetime) -> datetime:
    """Return when a pause ends that begins now, in whole milliseconds: what the service keeps of an instant."""
    end = now + PAUSE
    return end.replace(microsecond=end.microsecond // 1000 * 1000)


async def pause(scene: Scene) -> None:
    """Pause a store for a moment; nobody resumes it."""
    path = scene.store("ramen") + "/status"
    resume_at = end_of_pause(datetime.now(UTC))
    body = {"status": "paused", "pauseReason": "Out of broth", "resumeAt": resume_at.isoformat()}
    paused = scene.expect(await scene.partner.post(path, body), 200, "A store is paused")
    scene.stage.say(f"{paused['status']}: {paused['pauseReason']}, until {paused['resumeAt']}")

    async def look() -> tuple[str, datetime]:
        status: str = (await scene.partner.get(path)).json()["status"]
        return status, datetime.now(UTC)

    claim = "A pause ends by the clock alone"
    seen = await scene.proofs.until(claim, look, lambda now: now[0] == "online", poll=0.02)
    late = seen[1] - resume_at
    scene.proofs.add(
        claim,
        f"online {late / timedelta(milliseconds=1):.0f} ms after resumeAt",
        holds=paused["status"] == "paused" and timedelta(0) <= late < LATE,
    )


async def sell_out(scene: Scene) -> None:
    """Sell an article out under the merchant's own number; no catalog is touched."""
    before = await scene.set_id("grocery")
    body = {"items": [{"itemId": menus.SOLD_OUT_ARTICLE, "available": False}]}
    reply = await scene.partner.post(scene.store("grocery") + "/item-availability", body)
    gone = scene.expect(reply, 200, "An item is marked as sold out")["unavailableItemIds"]
    scene.stage.say(f"{menus.SOLD_OUT_ARTICLE} is sold out; storefronts know it as {', '.join(gone)}")
    shown = (await scene.partner.get(scene.store("grocery"))).json()["unavailableItemIds"]
    same = await scene.set_id("grocery") == before
    scene.proofs.add(
        "An item sells out, no new catalog",
        f"{len(shown)} unavailable; {_set_words(same=same)}",
        holds=len(gone) == 1 and shown == gone and same,
    )


async def _dry_run(scene: Scene, shop: str, url: str) -> Any:
    path = f"/v1/commerce/catalogset-validation?storeId={scene.stores[shop]}"
    reply = await scene.partner.post(path, {"callbackUrl": url})
    return scene.expect(reply, 200, "A catalog is checked without being taken")["diff"]


def _set_words(*, same: bool) -> str:
    return "same catalogSetId" if same else "new catalogSetId"
