"""Last part of the Commerce story: what arrived is genuine, and nobody else gets in."""

from typing import Final

from mercato.sandbox.scene import Scene
from mercato.testing.inbox import Received

DELIVERIES: Final = "/v1/commerce/webhook-deliveries"

RUNS: Final = 3
"""Catalog runs that the story asks for, each of which ends in one event."""


async def verify(scene: Scene) -> None:
    """Check the events that arrived, and that a tampered one would not pass."""
    events = list(scene.events.values())
    good = [event for event in events if event.fault is None and _ids_agree(event)]
    scene.proofs.add(
        "standardwebhooks verifies every event",
        f"{len(good)} of {len(events)}, and their ids agree",
        holds=len(good) == len(events) == RUNS,
    )
    event = next(event for event in events if b'"succeeded"' in event.body)
    tampered = event.body.replace(b'"succeeded"', b'"failed"')
    fault = scene.merchant.fault_of(event.headers, tampered)
    scene.proofs.add("A tampered body does not verify", fault or "it verified", holds=fault is not None)


async def redeliver(scene: Scene) -> None:
    """Ask for an event again, as a merchant does whose receiver was down."""
    webhook_id, first = next(iter(scene.events.items()))
    deliveries = (await scene.partner.get(DELIVERIES)).json()["deliveries"]
    delivery = next(one for one in deliveries if one["webhookId"] == webhook_id)
    reply = await scene.partner.post(f"{DELIVERIES}/{delivery['id']}/redeliver")
    scene.expect(reply, 200, "An event is redelivered")
    again = await scene.event(webhook_id)
    scene.stage.say(f"{delivery['type']} {webhook_id} came again")
    scene.proofs.add(
        "A redelivery has the same id and bytes",
        f"{len(again.body)} bytes, {'the same' if again.body == first.body else 'not the same'}",
        holds=again.fault is None and again.body == first.body,
    )


async def keep_out(scene: Scene) -> None:
    """Try with a wrong key, and as a partner whose stores these are not."""
    store = scene.store("pizzeria")
    wrong = scene.partner.with_key(scene.partner.key[:-4] + "0000")
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
