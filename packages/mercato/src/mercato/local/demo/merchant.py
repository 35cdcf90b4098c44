"""The merchant's steps: three stores go live, their catalogs change, and their events are genuine. Then all steps."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

from mercato.local.demo import agents, failures, storefront
from mercato.local.demo.context import ONBOARDING, STORES, DemoContext, ProofFailed
from mercato_client.testing import shops
from mercato_client.testing.server import Received
from mercato_client.testing.shops import SHOPS

DELIVERIES: Final = "/v1/commerce/webhook-deliveries"

BROKEN_PLACE: Final = "/sections/milk/itemIds/2"
"""The pointer to the article that the broken grocery doesn't have."""

OLD_PRICE: Final = "9.50"
NEW_PRICE: Final = "10.50"

PAUSE: Final = timedelta(seconds=1.5)
"""How long the pause is: long enough to be seen on most machines, short enough to wait for."""

RUNS: Final = 5
"""Catalog runs that the demo requests, each of which ends in one event."""

# --- stores go live -----------------------------------------------------------------------------------


async def register(context: DemoContext) -> None:
    """Host three catalogs, one with an error, and register a store for each."""
    began = monotonic()
    for shop, store in SHOPS.items():
        document = shops.grocery(broken=True) if shop == "grocery" else store.document
        context.urls[shop] = context.merchant.host(f"/{shop}.json", document)
        body = store.registration(catalog_url=context.urls[shop], webhook_url=context.merchant.webhook_url)
        reply = await context.partner.post(ONBOARDING, body)
        context.onboardings[shop] = context.expect(reply, 201, "A store is registered")["onboardingId"]
    ended = await context.pulled(*SHOPS)
    ready = sum(status["status"] == "ready_to_activate" for status in ended)
    context.prove(
        "Catalogs are pulled and checked",
        f"{ready} ready, {len(ended) - ready} refused, {monotonic() - began:.2f} s",
        ready == len(SHOPS) - 1 and context.merchant.fetched == len(SHOPS),
    )


async def fix(context: DemoContext) -> None:
    """Show what is wrong with the third catalog, fix it, retry."""
    onboarding = f"{ONBOARDING}/{context.onboardings['grocery']}"
    faults = (await context.partner.get(onboarding)).json()["errors"]
    paths = _paths(context, faults)
    context.prove("A broken one is refused with a pointer", ", ".join(paths), paths == [BROKEN_PLACE])
    early = await context.partner.post(f"{onboarding}/activate")
    context.refused("No store goes live before its catalog", [early], 409, "ONBOARDING_NOT_READY")
    context.merchant.host("/grocery.json", shops.grocery())
    context.expect(await context.partner.post(f"{onboarding}/retry"), 200, "A failed onboarding is retried")
    [fixed] = await context.pulled("grocery")
    status = fixed["status"]
    context.prove("Fixed and retried, it is accepted", status, status == "ready_to_activate")


async def activate(context: DemoContext) -> None:
    """Make all three stores live."""
    for shop, onboarding in context.onboardings.items():
        reply = await context.partner.post(f"{ONBOARDING}/{onboarding}/activate")
        store = context.expect(reply, 200, "A ready store is activated")
        context.stores[shop] = store["storeId"]
        context.say(f"{store['name']} is {store['status']}: {store['storeId']}")
    listed = (await context.partner.get(STORES)).json()["stores"]
    online = sum(store["status"] == "online" for store in listed)
    sets = {store["catalogSetId"] for store in listed}
    seen = f"{online} online, {len(sets)} CatalogSets"
    context.prove("Three stores are live", seen, online == len(sets) == len(SHOPS))


# --- a day of live stores -----------------------------------------------------------------------------


async def reprice(context: DemoContext) -> None:
    """Change a price: check what would change, then let the service pull."""
    before = await context.set_id("pizzeria")
    url = context.merchant.host("/pizzeria.json", shops.pizzeria(margherita=NEW_PRICE))
    changes = (await _dry_run(context, url))["items"]["repriced"]["entries"]
    for change in changes:
        context.say(f"dry run: {change['name']} {change['before']} -> {change['after']} EUR")
    same = await context.set_id("pizzeria") == before
    prices = [(one["before"], one["after"]) for one in changes]
    context.prove(
        "A dry run shows changes and makes none",
        f"{len(changes)} new price; {_set_words(same=same)}",
        prices == [(OLD_PRICE, NEW_PRICE)] and same,
    )
    began = monotonic()
    ended = await context.run("pizzeria", url)
    took = monotonic() - began
    same = await context.set_id("pizzeria") == before
    identical = (await _dry_run(context, url))["identical"]
    context.prove(
        "A notification switches the catalog",
        f"{took:.2f} s; {_set_words(same=same)}",
        ended["status"] == "succeeded" and not same and identical,
    )


async def stumble(context: DemoContext) -> None:
    """Publish a broken catalog over a good one."""
    before = await context.set_id("grocery")
    ended = await context.run("grocery", context.merchant.host("/grocery.json", shops.grocery(broken=True)))
    paths = _paths(context, ended["errors"])
    same = await context.set_id("grocery") == before
    context.prove(
        "A broken update changes nothing",
        f"{ended['status']}; {_set_words(same=same)}",
        ended["status"] == "failed" and paths == [BROKEN_PLACE] and same,
    )


async def repeat(context: DemoContext) -> None:
    """Notify of an unchanged catalog."""
    before, unchanged = await context.set_id("pizzeria"), context.merchant.unchanged
    ended = await context.run("pizzeria", context.urls["pizzeria"])
    same = await context.set_id("pizzeria") == before
    spared = context.merchant.unchanged - unchanged
    context.prove(
        "An unchanged one is not downloaded",
        f"{spared} answer 304; {_set_words(same=same)}",
        ended["status"] == "succeeded" and spared == 1 and same,
    )


async def switch_back(context: DemoContext) -> None:
    """Send a catalog with a mistake, and serve the one before it again."""
    before, store = await context.set_id("ramen"), context.store("ramen")
    mistaken = {"currency": "JPY", "items": {"ramen": {"name": "Ramen", "basePrice": "9"}}}
    accepted = context.expect(
        await context.partner.put(f"{store}/catalog", mistaken), 202, "A catalog is sent"
    )
    await context.event(accepted["catalogIngestId"])
    sent = await context.set_id("ramen")
    reply = await context.partner.post(f"{store}/catalog-sets/{before}/activate")
    back = context.expect(reply, 200, "An earlier set is served again")
    listed = (await context.partner.get(f"{store}/catalog-sets")).json()["catalogSets"]
    event = await context.event(listed[0]["catalogIngestId"])
    context.say(f"event {event.json()['type']}, rolledBackFrom {event.json()['data']['rolledBackFrom']}")
    context.prove(
        "A mistake in a catalog is undone",
        f"same catalogSetId; {len(listed)} entries",
        back == {"catalogSetId": before, "rolledBackFrom": sent}
        and await context.set_id("ramen") == before != sent
        and [entry["catalogSetId"] for entry in listed] == [before, sent, before],
    )


def end_of_pause(now: datetime, lasts: timedelta = PAUSE) -> datetime:
    """Return the end of a pause that begins now, in whole milliseconds, as the service stores it."""
    end = now + lasts
    return end.replace(microsecond=end.microsecond // 1000 * 1000)


async def pause(context: DemoContext) -> None:
    """Pause a store for a moment, without resuming it."""
    path = context.store("ramen") + "/status"
    resume_at, paused = await _paused(context, path)
    context.say(f"{paused['status']}: {paused['pauseReason']}, until {paused['resumeAt']}")

    async def look() -> tuple[str, datetime, datetime]:
        began = datetime.now(UTC)
        status: str = (await context.partner.get(path)).json()["status"]
        return status, began, datetime.now(UTC)

    # Until the pause has ended, or a look that began after its end still finds it.
    claim = "A pause ends by the clock alone"
    status, _, ended = await context.proofs.until(
        claim, look, lambda seen: seen[0] == "online" or seen[1] >= resume_at, poll=0.02
    )
    after = ended - resume_at
    context.prove(
        claim,
        f"{status} {after / timedelta(milliseconds=1):.0f} ms after resumeAt",
        paused["status"] == "paused" and status == "online" and after >= timedelta(0),
    )


async def _paused(context: DemoContext, path: str) -> tuple[datetime, Any]:
    """Return the end of a pause and the store's status; a busy machine may read a request after its instant."""
    lasts = PAUSE
    while True:
        resume_at = end_of_pause(datetime.now(UTC), lasts)
        body = {"status": "paused", "pauseReason": "Out of broth", "resumeAt": resume_at.isoformat()}
        reply = await context.partner.post(path, body)
        if reply.status != HTTPStatus.UNPROCESSABLE_ENTITY or datetime.now(UTC) < resume_at:
            return resume_at, context.expect(reply, 200, "A store is paused")
        lasts *= 2


async def sell_out(context: DemoContext) -> None:
    """Mark an article as sold out by the merchant's own number, without a new catalog."""
    before = await context.set_id("grocery")
    body = {"items": [{"itemId": shops.SOLD_OUT_ARTICLE, "available": False}]}
    reply = await context.partner.post(context.store("grocery") + "/item-availability", body)
    gone = context.expect(reply, 200, "An item is marked as sold out")["unavailableItemIds"]
    context.say(f"{shops.SOLD_OUT_ARTICLE} is sold out; storefronts know it as {', '.join(gone)}")
    shown = (await context.partner.get(context.store("grocery"))).json()["unavailableItemIds"]
    same = await context.set_id("grocery") == before
    seen = f"{len(shown)} unavailable; {_set_words(same=same)}"
    context.prove("An item sells out, no new catalog", seen, len(gone) == 1 and shown == gone and same)


async def _dry_run(context: DemoContext, url: str) -> Any:
    path = f"/v1/commerce/catalogset-validation?storeId={context.stores['pizzeria']}"
    reply = await context.partner.post(path, {"callbackUrl": url})
    return context.expect(reply, 200, "A catalog is checked by a dry run")["diff"]


def _paths(context: DemoContext, faults: list[Any]) -> list[str]:
    """Show a catalog's faults and return where they are."""
    for fault in faults:
        context.say(f"{fault['path']}: {fault['message']}")
    return [fault["path"] for fault in faults]


def _set_words(*, same: bool) -> str:
    return "same catalogSetId" if same else "new catalogSetId"


# --- the events are genuine, and other partners have no access --------------------------------------------


async def verify(context: DemoContext) -> None:
    """Verify the events, and that a tampered one fails."""
    events = list(context.events.values())
    good = [event for event in events if event.fault is None and _ids_agree(event)]
    context.prove(
        "standardwebhooks verifies every event",
        f"{len(good)} of {len(events)}, and their ids agree",
        len(good) == len(events) == RUNS,
    )
    event = next(event for event in events if b'"succeeded"' in event.body)
    tampered = event.body.replace(b'"succeeded"', b'"failed"')
    fault = context.merchant.fault_of(event.headers, tampered)
    context.prove("A tampered body does not verify", fault or "it verified", fault is not None)


async def redeliver(context: DemoContext) -> None:
    """Redeliver an event, as a merchant does after its receiver was down."""
    webhook_id, first = next(iter(context.events.items()))
    deliveries = (await context.partner.get(DELIVERIES)).json()["deliveries"]
    delivery = next(one for one in deliveries if one["webhookId"] == webhook_id)
    reply = await context.partner.post(f"{DELIVERIES}/{delivery['id']}/redeliver")
    context.expect(reply, 200, "An event is redelivered")
    again = await context.event(webhook_id)
    context.say(f"{delivery['type']} {webhook_id} came again")
    context.prove(
        "A redelivery has the same id and bytes",
        f"{len(again.body)} bytes, {'the same' if again.body == first.body else 'not the same'}",
        again.fault is None and again.body == first.body,
    )


async def keep_out(context: DemoContext) -> None:
    """Try with a wrong key, and as another partner."""
    store = context.store("pizzeria")
    wrong = context.partner.with_key(f"{context.partner.key}"[:-4] + "0000")
    context.refused("A wrong key opens nothing", [await wrong.get(store)], 401, "UNAUTHENTICATED")
    notify = f"/v1/commerce/catalogset-notification?storeId={context.stores['pizzeria']}"
    tried = [
        await context.stranger.get(store),
        await context.stranger.post(f"{store}/status", {"status": "paused"}),
        await context.stranger.post(notify, {"callbackUrl": context.urls["pizzeria"]}),
    ]
    context.refused("Another partner does not see the store", tried, 404, "STORE_NOT_FOUND")


def _ids_agree(event: Received) -> bool:
    run: str = event.json()["data"]["catalogIngestId"]
    return event.webhook_id == event.headers.get("idempotency-key") == run


STEPS: Final[tuple[tuple[str, Callable[[DemoContext], Awaitable[None]]], ...]] = (
    ("Three stores register; their catalogs are pulled and checked", register),
    ("The broken catalog is fixed and pulled again", fix),
    ("The stores go live", activate),
    ("A price changes", reprice),
    ("A broken catalog is published over a good one", stumble),
    ("A notification without a change", repeat),
    ("A catalog is sent with a mistake, and the one before is served again", switch_back),
    ("A store pauses, and the clock resumes it", pause),
    ("An item sells out", sell_out),
    ("The signed events are verified", verify),
    ("An event is redelivered", redeliver),
    ("Wrong keys and other partners", keep_out),
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
    ("A customer cancels an order, and one that is begun", failures.cancel),
    ("A part of an order is refunded", failures.refund),
    ("Every order webhook and event is verified", failures.verify),
    ("The events are read again, from the feed", failures.read_feed),
    ("Other storefronts and other keys", failures.keep_out),
    ("An AI agent orders, within its limits", agents.order),
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
