"""The merchant's half of the story: three stores go live, their catalogs change, and their events are genuine."""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from mercato.devtools.sandbox.scene import ONBOARDING, STORES, Scene
from mercato.testing import shops
from mercato.testing.server import Received
from mercato.testing.shops import SHOPS

DELIVERIES: Final = "/v1/commerce/webhook-deliveries"

BROKEN_PLACE: Final = "/sections/milk/itemIds/2"
"""Where the broken grocery names an article that is not there."""

OLD_PRICE: Final = "9.50"
NEW_PRICE: Final = "10.50"

PAUSE: Final = timedelta(seconds=1.5)
"""How long the pause is: long enough to be seen, short enough to be waited for."""

LATE: Final = timedelta(seconds=1)
"""How long after its end a pause may still be seen."""

RUNS: Final = 3
"""Catalog runs that the story asks for, each of which ends in one event."""

# --- stores go live -----------------------------------------------------------------------------------


async def register(scene: Scene) -> None:
    """Host three catalogs, one with an error, and register a store for each."""
    began = monotonic()
    for shop, store in SHOPS.items():
        document = shops.grocery(broken=True) if shop == "grocery" else store.document
        scene.urls[shop] = scene.merchant.host(f"/{shop}.json", document)
        body = store.registration(catalog_url=scene.urls[shop], webhook_url=scene.merchant.webhook_url)
        reply = await scene.partner.post(ONBOARDING, body)
        scene.onboardings[shop] = scene.expect(reply, 201, "A store is registered")["onboardingId"]
    ended = await scene.pulled(*SHOPS)
    ready = sum(status["status"] == "ready_to_activate" for status in ended)
    scene.prove(
        "Catalogs are pulled and checked",
        f"{ready} ready, {len(ended) - ready} refused, {monotonic() - began:.2f} s",
        ready == len(SHOPS) - 1 and scene.merchant.fetched == len(SHOPS),
    )


async def fix(scene: Scene) -> None:
    """Show what is wrong with the third catalog, fix it, retry."""
    onboarding = f"{ONBOARDING}/{scene.onboardings['grocery']}"
    faults = (await scene.partner.get(onboarding)).json()["errors"]
    paths = _paths(scene, faults)
    scene.prove("A broken one is refused with a pointer", ", ".join(paths), paths == [BROKEN_PLACE])
    early = await scene.partner.post(f"{onboarding}/activate")
    scene.refused("No store goes live before its catalog", [early], 409, "ONBOARDING_NOT_READY")
    scene.merchant.host("/grocery.json", shops.grocery())
    scene.expect(await scene.partner.post(f"{onboarding}/retry"), 200, "A failed onboarding is retried")
    [fixed] = await scene.pulled("grocery")
    status = fixed["status"]
    scene.prove("Mended and retried, it is taken", status, status == "ready_to_activate")


async def activate(scene: Scene) -> None:
    """Make all three stores live."""
    for shop, onboarding in scene.onboardings.items():
        reply = await scene.partner.post(f"{ONBOARDING}/{onboarding}/activate")
        store = scene.expect(reply, 200, "A ready store is activated")
        scene.stores[shop] = store["storeId"]
        scene.say(f"{store['name']} is {store['status']}: {store['storeId']}")
    listed = (await scene.partner.get(STORES)).json()["stores"]
    online = sum(store["status"] == "online" for store in listed)
    sets = {store["catalogSetId"] for store in listed}
    seen = f"{online} online, {len(sets)} CatalogSets"
    scene.prove("Three stores are live", seen, online == len(sets) == len(SHOPS))


# --- a day of live stores -----------------------------------------------------------------------------


async def reprice(scene: Scene) -> None:
    """Change a price: look at what would change, then let the service pull."""
    before = await scene.set_id("pizzeria")
    url = scene.merchant.host("/pizzeria.json", shops.pizzeria(margherita=NEW_PRICE))
    changes = (await _dry_run(scene, url))["items"]["repriced"]["entries"]
    for change in changes:
        scene.say(f"dry run: {change['name']} {change['before']} -> {change['after']} EUR")
    same = await scene.set_id("pizzeria") == before
    prices = [(one["before"], one["after"]) for one in changes]
    scene.prove(
        "A dry run shows changes and makes none",
        f"{len(changes)} new price; {_set_words(same=same)}",
        prices == [(OLD_PRICE, NEW_PRICE)] and same,
    )
    began = monotonic()
    ended = await scene.run("pizzeria", url)
    took = monotonic() - began
    same = await scene.set_id("pizzeria") == before
    identical = (await _dry_run(scene, url))["identical"]
    scene.prove(
        "A notification switches the catalog",
        f"{took:.2f} s; {_set_words(same=same)}",
        ended["status"] == "succeeded" and not same and identical,
    )


async def stumble(scene: Scene) -> None:
    """Publish a broken catalog over a good one."""
    before = await scene.set_id("grocery")
    ended = await scene.run("grocery", scene.merchant.host("/grocery.json", shops.grocery(broken=True)))
    paths = _paths(scene, ended["errors"])
    same = await scene.set_id("grocery") == before
    scene.prove(
        "A broken update changes nothing",
        f"{ended['status']}; {_set_words(same=same)}",
        ended["status"] == "failed" and paths == [BROKEN_PLACE] and same,
    )


async def repeat(scene: Scene) -> None:
    """Notify of a catalog that has not changed."""
    before, unchanged = await scene.set_id("pizzeria"), scene.merchant.unchanged
    ended = await scene.run("pizzeria", scene.urls["pizzeria"])
    same = await scene.set_id("pizzeria") == before
    spared = scene.merchant.unchanged - unchanged
    scene.prove(
        "An unchanged one is not downloaded",
        f"{spared} answer 304; {_set_words(same=same)}",
        ended["status"] == "succeeded" and spared == 1 and same,
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
    scene.say(f"{paused['status']}: {paused['pauseReason']}, until {paused['resumeAt']}")

    async def look() -> tuple[str, datetime]:
        status: str = (await scene.partner.get(path)).json()["status"]
        return status, datetime.now(UTC)

    claim = "A pause ends by the clock alone"
    seen = await scene.proofs.until(claim, look, lambda now: now[0] == "online", poll=0.02)
    late = seen[1] - resume_at
    scene.prove(
        claim,
        f"online {late / timedelta(milliseconds=1):.0f} ms after resumeAt",
        paused["status"] == "paused" and timedelta(0) <= late < LATE,
    )


async def sell_out(scene: Scene) -> None:
    """Sell an article out under the merchant's own number; no catalog is touched."""
    before = await scene.set_id("grocery")
    body = {"items": [{"itemId": shops.SOLD_OUT_ARTICLE, "available": False}]}
    reply = await scene.partner.post(scene.store("grocery") + "/item-availability", body)
    gone = scene.expect(reply, 200, "An item is marked as sold out")["unavailableItemIds"]
    scene.say(f"{shops.SOLD_OUT_ARTICLE} is sold out; storefronts know it as {', '.join(gone)}")
    shown = (await scene.partner.get(scene.store("grocery"))).json()["unavailableItemIds"]
    same = await scene.set_id("grocery") == before
    seen = f"{len(shown)} unavailable; {_set_words(same=same)}"
    scene.prove("An item sells out, no new catalog", seen, len(gone) == 1 and shown == gone and same)


async def _dry_run(scene: Scene, url: str) -> Any:
    path = f"/v1/commerce/catalogset-validation?storeId={scene.stores['pizzeria']}"
    reply = await scene.partner.post(path, {"callbackUrl": url})
    return scene.expect(reply, 200, "A catalog is checked without being taken")["diff"]


def _paths(scene: Scene, faults: list[Any]) -> list[str]:
    """Show a catalog's faults and return where they are."""
    for fault in faults:
        scene.say(f"{fault['path']}: {fault['message']}")
    return [fault["path"] for fault in faults]


def _set_words(*, same: bool) -> str:
    return "same catalogSetId" if same else "new catalogSetId"


# --- what arrived is genuine, and nobody else gets in -------------------------------------------------


async def verify(scene: Scene) -> None:
    """Check the events that arrived, and that a tampered one would not pass."""
    events = list(scene.events.values())
    good = [event for event in events if event.fault is None and _ids_agree(event)]
    scene.prove(
        "standardwebhooks verifies every event",
        f"{len(good)} of {len(events)}, and their ids agree",
        len(good) == len(events) == RUNS,
    )
    event = next(event for event in events if b'"succeeded"' in event.body)
    tampered = event.body.replace(b'"succeeded"', b'"failed"')
    fault = scene.merchant.fault_of(event.headers, tampered)
    scene.prove("A tampered body does not verify", fault or "it verified", fault is not None)


async def redeliver(scene: Scene) -> None:
    """Ask for an event again, as a merchant does whose receiver was down."""
    webhook_id, first = next(iter(scene.events.items()))
    deliveries = (await scene.partner.get(DELIVERIES)).json()["deliveries"]
    delivery = next(one for one in deliveries if one["webhookId"] == webhook_id)
    reply = await scene.partner.post(f"{DELIVERIES}/{delivery['id']}/redeliver")
    scene.expect(reply, 200, "An event is redelivered")
    again = await scene.event(webhook_id)
    scene.say(f"{delivery['type']} {webhook_id} came again")
    scene.prove(
        "A redelivery has the same id and bytes",
        f"{len(again.body)} bytes, {'the same' if again.body == first.body else 'not the same'}",
        again.fault is None and again.body == first.body,
    )


async def keep_out(scene: Scene) -> None:
    """Try with a wrong key, and as a partner whose stores these are not."""
    store = scene.store("pizzeria")
    wrong = scene.partner.with_key(f"{scene.partner.key}"[:-4] + "0000")
    scene.refused("A wrong key opens nothing", [await wrong.get(store)], 401, "UNAUTHENTICATED")
    notify = f"/v1/commerce/catalogset-notification?storeId={scene.stores['pizzeria']}"
    tried = [
        await scene.stranger.get(store),
        await scene.stranger.post(f"{store}/status", {"status": "paused"}),
        await scene.stranger.post(notify, {"callbackUrl": scene.urls["pizzeria"]}),
    ]
    scene.refused("Another partner does not see the store", tried, 404, "STORE_NOT_FOUND")


def _ids_agree(event: Received) -> bool:
    run: str = event.json()["data"]["catalogIngestId"]
    return event.webhook_id == event.headers.get("idempotency-key") == run
