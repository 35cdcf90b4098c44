"""First part of the Commerce story: three stores register, one catalog is mended, all go live."""

from time import monotonic
from typing import Final

from mercato.sandbox.scene import ONBOARDING, PULL_STEPS, STORES, Scene
from mercato.testing import menus
from mercato.testing.shops import SHOPS

BROKEN_PLACE: Final = "/sections/milk/itemIds/2"
"""Where the broken grocery names an article that is not there."""


async def register(scene: Scene) -> None:
    """Host three catalogs, one with an error, and register a store for each."""
    broken = {"grocery": menus.grocery(broken=True)}
    began = monotonic()
    for shop, store in SHOPS.items():
        scene.urls[shop] = scene.merchant.host(f"/{shop}.json", broken.get(shop, store.document))
        body = store.registration(catalog_url=scene.urls[shop], webhook_url=scene.merchant.webhook_url)
        reply = await scene.partner.post(ONBOARDING, body)
        scene.onboardings[shop] = scene.expect(reply, 201, "A store is registered")["onboardingId"]
    with scene.stage.watching([store.name for store in SHOPS.values()], PULL_STEPS) as watch:
        ended = [await scene.pulled(shop, store.name, watch) for shop, store in SHOPS.items()]
    ready = sum(status["status"] == "ready_to_activate" for status in ended)
    scene.proofs.add(
        "Catalogs are pulled and checked",
        f"{ready} ready, {len(ended) - ready} refused, {monotonic() - began:.2f} s",
        holds=ready == len(SHOPS) - 1 and scene.merchant.fetched == len(SHOPS),
    )


async def mend(scene: Scene) -> None:
    """Show what is wrong with the third catalog, mend it, retry."""
    onboarding = f"{ONBOARDING}/{scene.onboardings['grocery']}"
    status = (await scene.partner.get(onboarding)).json()
    for fault in status["errors"]:
        scene.stage.say(f"{fault['path']}: {fault['message']}")
    paths = [fault["path"] for fault in status["errors"]]
    scene.proofs.add(
        "A broken one is refused with a pointer",
        ", ".join(paths),
        holds=paths == [BROKEN_PLACE],
    )
    early = await scene.partner.post(f"{onboarding}/activate")
    scene.refused("No store goes live before its catalog", [early], 409, "ONBOARDING_NOT_READY")
    scene.merchant.host("/grocery.json", menus.grocery())
    scene.expect(await scene.partner.post(f"{onboarding}/retry"), 200, "A failed onboarding is retried")
    with scene.stage.watching([menus.GROCERY], PULL_STEPS) as watch:
        mended = await scene.pulled("grocery", menus.GROCERY, watch)
    scene.proofs.add(
        "Mended and retried, it is taken",
        mended["status"],
        holds=mended["status"] == "ready_to_activate",
    )


async def activate(scene: Scene) -> None:
    """Make all three stores live."""
    for shop, onboarding in scene.onboardings.items():
        reply = await scene.partner.post(f"{ONBOARDING}/{onboarding}/activate")
        store = scene.expect(reply, 200, "A ready store is activated")
        scene.stores[shop] = store["storeId"]
        scene.stage.say(f"{store['name']} is {store['status']}: {store['storeId']}")
    listed = (await scene.partner.get(STORES)).json()["stores"]
    online = sum(store["status"] == "online" for store in listed)
    sets = {store["catalogSetId"] for store in listed}
    scene.proofs.add(
        "Three stores are live",
        f"{online} online, {len(sets)} CatalogSets",
        holds=online == len(sets) == len(SHOPS),
    )
