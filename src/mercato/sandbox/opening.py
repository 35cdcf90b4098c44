"""First part of the Commerce story: three stores register, one catalog is mended, all go live."""

from time import monotonic
from typing import Final

from mercato.sandbox.scene import ONBOARDING, PULL_STEPS, STORES, Scene
from mercato.testing import menus

BROKEN_PLACE: Final = "/sections/milk/itemIds/2"
"""Where the broken grocery names an article that is not there."""

PLACES: Final = {"pizzeria": (47.3221, 5.0412), "ramen": (38.2566, 140.8542), "grocery": (43.0731, -89.4012)}
"""Where the shops are, in degrees."""

_FRANCE: Final = {"street": "12 Rue des Forges", "city": "Dijon", "country": "FR"}
_JAPAN: Final = {"street": "青葉坂 3-8", "city": "仙台市", "country": "JP"}
_USA: Final = {"street": "801 Prairie Street", "city": "Madison", "state": "WI", "country": "US"}

_SHOPS: Final = (
    ("pizzeria", menus.PIZZERIA, _FRANCE, "Europe/Paris"),
    ("ramen", menus.RAMEN_HOUSE, _JAPAN, "Asia/Tokyo"),
    ("grocery", menus.GROCERY, _USA, "America/Chicago"),
)


async def register(scene: Scene) -> None:
    """Host three catalogs, one with an error, and register a store for each."""
    documents = (menus.pizzeria(), menus.ramen_house(), menus.grocery(broken=True))
    began = monotonic()
    for (shop, name, address, zone), document in zip(_SHOPS, documents, strict=True):
        scene.urls[shop] = scene.merchant.host(f"/{shop}.json", document)
        body = {
            "partnerStoreId": f"{shop}-1",
            "name": name,
            "address": address | {"coordinates": dict(zip(("lat", "lng"), PLACES[shop], strict=True))},
            "timezone": zone,
            "catalogCallbackUrl": scene.urls[shop],
            "webhookUrl": scene.merchant.webhook_url,
        }
        reply = await scene.partner.post(ONBOARDING, body)
        scene.onboardings[shop] = scene.expect(reply, 201, "A store is registered")["onboardingId"]
    with scene.stage.watching([name for _, name, _, _ in _SHOPS], PULL_STEPS) as watch:
        ended = [await scene.pulled(shop, name, watch) for shop, name, _, _ in _SHOPS]
    ready = sum(status["status"] == "ready_to_activate" for status in ended)
    scene.proofs.add(
        "Catalogs are pulled and checked",
        f"{ready} ready, {len(ended) - ready} refused, {monotonic() - began:.2f} s",
        holds=ready == len(_SHOPS) - 1 and scene.merchant.fetched == len(_SHOPS),
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
        holds=online == len(sets) == len(_SHOPS),
    )
