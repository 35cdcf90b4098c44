"""Last part of the storefront's story: what was written down, whether it is genuine, and who may not see it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from mercato.plurals import count_of
from mercato.sandbox.ordering import ORDERS, WAY, basket_order, order_of, placed, validated
from mercato.sandbox.scene import Scene

TOLD: Final = len(WAY) + 1
"""Events of the order whose store was down: created while it waited, accepted, and every step."""


async def timeline(scene: Scene) -> None:
    """Print who did what to the order whose store was down."""
    path = f"{ORDERS}/{scene.basket.joined}/timeline"

    async def look() -> Any:
        return (await scene.front.get(path)).json()["entries"]

    claim = "The timeline has every step and call"
    entries = await scene.proofs.until(claim, look, lambda now: len(_told(now, "storefront")) == TOLD)
    began = _at(entries[0])
    for entry in entries:
        scene.stage.say(
            f"{(_at(entry) - began).total_seconds():6.2f} s  {entry['actor']:<10}  {_words(entry)}"
        )
    steps = [entry["type"] for entry in entries if entry["type"] != "webhook.attempt"]
    attempts = _told(entries, "store")
    scene.proofs.add(
        claim,
        f"{count_of(len(entries), 'entry', 'entries')}; the store: {count_of(len(attempts), 'call')}",
        holds=steps == ["placed", "unanswered", "accepted", *["updated"] * 3, "completed"]
        and attempts == [False] * scene.merchant.failed + [True]
        and all(_told(entries, "storefront")),
    )


async def verify(scene: Scene) -> None:
    """Count what arrived and was believed; hold the events' numbers against gaps; tamper with one."""
    till, front = scene.merchant.inbox, scene.storefront
    scene.proofs.add(
        "standardwebhooks verifies every call",
        f"{till.believed} of {till.came}",
        holds=0 < till.believed == till.came,
    )
    scene.proofs.add(
        "standardwebhooks verifies order events",
        f"{front.inbox.believed} of {front.inbox.came}",
        holds=0 < front.inbox.believed == front.inbox.came,
    )

    async def look() -> list[str]:
        return [front.newest(order)["state"] for order in front.events]

    claim = "Events count from 1, without a gap"
    states = await scene.proofs.until(claim, look, lambda now: set(now) == {"completed"})
    count = sum(len(events) for events in front.events.values())
    scene.proofs.add(
        claim,
        f"{count_of(count, 'event')} of {count_of(len(states), 'order')}",
        holds=all(map(front.complete, front.events)) and set(front.events) == set(scene.merchant.taken),
    )
    event = front.events[basket_order(scene)["orderId"]][1]
    forged = event.body.replace(b'"pending"', b'"ready"')
    fault = front.inbox.fault_of(event.headers, forged)
    scene.proofs.add(
        "A forged order event does not verify",
        fault or "it verified",
        holds=forged != event.body and fault is not None,
    )


async def keep_out(scene: Scene) -> None:
    """Look at the order as another storefront, use its token, and come with a key of the other surface."""
    path = f"{ORDERS}/{scene.basket.joined}"
    looked = [await scene.other_front.get(path), await scene.other_front.get(f"{path}/timeline")]
    scene.refused("Another storefront does not see it", looked, 404, "ORDER_NOT_FOUND")
    order = order_of(scene.basket.cart)
    token = (await validated(scene, order))["validatedOrderToken"]
    stolen = order | {"validatedOrderToken": token}
    reply = await placed(scene.other_front, stolen, key=str(uuid4()))
    scene.refused("Nor can it use another's token", [reply], 400, "ORDER_TOKEN_INVALID")
    crossed = [await scene.partner.get(path), await scene.front.get("/v1/commerce/orders")]
    scene.refused("A key opens its own surface only", crossed, 403, "FORBIDDEN")


def _told(entries: Sequence[Any], to: str) -> list[bool]:
    """Return of every webhook attempt to that side whether it succeeded."""
    details = (entry["detail"] for entry in entries if entry["type"] == "webhook.attempt")
    return [detail["succeeded"] for detail in details if detail["to"] == to]


def _at(entry: Any) -> datetime:
    return datetime.fromisoformat(entry["at"])


def _words(entry: Any) -> str:
    detail = entry["detail"]
    if entry["type"] != "webhook.attempt":
        return " ".join(dict.fromkeys([entry["type"], *map(str, detail.values())]))
    return f"{detail['event']} to the {detail['to']}: {detail['status']} in {detail['ms']} ms"
