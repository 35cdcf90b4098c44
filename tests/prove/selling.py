"""The merchants' work: register, publish catalogs, pause, update orders, redeliver webhooks."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.prove.calls import Partner
from tests.prove.doubles import FaultyMerchant
from tests.prove.pulling import SHORTEST
from tests.prove.records import MerchantOrder, MerchantRecords, Shop

ONBOARDING: Final = "/v1/commerce/onboarding/stores"
STORES: Final = "/v1/commerce/stores"
ORDERS: Final = "/v1/commerce/orders"
DELIVERIES: Final = "/v1/commerce/webhook-deliveries"

STEPS: Final = ("confirmed", "preparing", "ready", "inTransit")

REFUND: Final = {"type": "refund", "amount": "0.01", "reason": "MISSING_ITEM"}
REFUNDED: Final = 0.5
"""The share of completed orders of which a cent is refunded."""

_OK: Final = 200
_ACCEPTED: Final = 202


@dataclass(slots=True)
class Selling:
    """The merchants' side of the workload, until `closing` is set."""

    records: MerchantRecords
    doubles: list[FaultyMerchant]
    partners: list[Partner]
    closing: asyncio.Event
    odd: list[str] = field(default_factory=list)
    """Answers that a merchant must never get."""
    _cooking: set[asyncio.Task[None]] = field(default_factory=set)

    # --- stores -----------------------------------------------------------------------------------

    async def run(self, shop: Shop) -> None:
        """Bring a store live and keep it busy."""
        me = self.partners[shop.merchant]
        await asyncio.sleep(me.rng.uniform(0, 1))
        await self._open(me, shop)
        await self._publish(me, shop)
        while not self.closing.is_set():
            await self._something(me, shop)
            await asyncio.sleep(me.rng.uniform(0.1, 0.8))
        await self._pause(me, shop, paused=False)

    async def _open(self, me: Partner, shop: Shop) -> None:
        double = self.doubles[shop.merchant]
        double.publish(shop)
        body: dict[str, Any] = {
            "partnerStoreId": shop.name,
            "name": f"Store {shop.name}",
            "address": {"street": "1 Main St", "city": "Springfield", "postalCode": "62701", "country": "US"},
            "catalogCallbackUrl": double.url + double.catalog_path(shop, is_fixed=False),
            "webhookUrl": double.webhook_url,
        }
        if shop.by_hand:
            body |= {"orderHandling": "manual", "acceptWithin": SHORTEST}
        answer = await me.until_final("POST", ONBOARDING, body)
        # The answer to an earlier try may have been lost: then the name is taken, and the refusal has the id.
        shop.onboarding_id = answer.json()["onboardingId"]
        path = f"{ONBOARDING}/{shop.onboarding_id}"
        while True:
            said = await me.get(path)
            match said["status"]:
                case "active":
                    shop.store_id, shop.paused = said["storeId"], False
                    return
                case "ready_to_activate":
                    await me.until_final("POST", f"{path}/activate")
                case "catalog_failed":
                    await me.until_final("POST", f"{path}/retry")
                case _:
                    await asyncio.sleep(0.1)

    async def _something(self, me: Partner, shop: Shop) -> None:
        draw = me.rng.random()
        if draw < 0.55:  # a share of the day
            await self._publish(me, shop)
        elif draw < 0.65:
            await self._notify(me, shop)
        elif draw < 0.8:
            await self._pause(me, shop, paused=True)
            await asyncio.sleep(me.rng.uniform(0, 0.5))
            await self._pause(me, shop, paused=False)
        else:
            await redeliver(me, DELIVERIES)

    async def _publish(self, me: Partner, shop: Shop) -> None:
        if me.rng.random() < 1 / 8:
            shop.broken.add(shop.version + 1)
        shop.version += 1
        self.doubles[shop.merchant].publish(shop)
        await self._notify(me, shop)

    async def _notify(self, me: Partner, shop: Shop) -> None:
        double = self.doubles[shop.merchant]
        url = double.url + double.catalog_path(shop, is_fixed=me.rng.random() < 1 / 2)
        path = f"/v1/commerce/catalogset-notification?storeId={shop.store_id}"
        answer = await me.until_final("POST", path, {"callbackUrl": url})
        if answer.status == _ACCEPTED:
            shop.runs[answer.json()["catalogIngestId"]] = shop.version
        else:
            self.odd.append(f"notify {shop.name}: {answer.status} {answer.code}")

    async def _pause(self, me: Partner, shop: Shop, *, paused: bool) -> None:
        body = {"status": "paused" if paused else "online"}
        answer = await me.until_final("POST", f"{STORES}/{shop.store_id}/status", body)
        if answer.status == _OK:
            shop.paused = answer.json()["status"] == "paused"
        else:
            self.odd.append(f"pause {shop.name}: {answer.status} {answer.code}")

    # --- orders -----------------------------------------------------------------------------------

    def taken(self, order_id: str) -> None:
        """Start work on an order."""
        task = asyncio.create_task(self._cook(order_id))
        self._cooking.add(task)
        task.add_done_callback(self._cooked)

    @property
    def cooking(self) -> bool:
        """Tell whether an order is in progress."""
        return bool(self._cooking)

    def _cooked(self, task: asyncio.Task[None]) -> None:
        self._cooking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.odd.append(f"work on an order broke: {error!r}")

    async def _cook(self, order_id: str) -> None:
        taken = self.records.orders[order_id]
        me = self.partners[self.records.shops[taken.store].merchant]
        for change in plan(me.rng):
            await asyncio.sleep(me.rng.uniform(0, 0.7))
            if taken.consented:
                return
            answer = await me.until_final("POST", f"{ORDERS}/{order_id}/status", change)
            if answer.status == _OK:
                said = answer.json()
                taken.state, taken.status = said["state"], said["status"]
                if taken.state == "completed" and me.rng.random() < REFUNDED:
                    await self._refund(me, order_id, taken)
            elif answer.code == "ORDER_CLOSED":
                taken.closed_by_service = True
                # An update whose answer was lost may have come before the end.
                taken.status = (await me.get(f"{ORDERS}/{order_id}"))["status"]
                return
            else:
                self.odd.append(f"update {order_id} {change}: {answer.status} {answer.code}")
                return

    async def _refund(self, me: Partner, order_id: str, taken: MerchantOrder) -> None:
        """Refund a cent of the order by several requests with one key at the same time."""
        path, key = f"{ORDERS}/{order_id}/adjustments", f"refund {order_id}"
        answers = await asyncio.gather(
            *(me.until_final("POST", path, REFUND, Idempotency_Key=key) for _ in range(2))
        )
        taken.refunds += [(answer.status, answer.body) for answer in answers]


def plan(rng: random.Random) -> list[dict[str, Any]]:
    """Return the updates that an order gets: forward, with skipped steps, and usually to a closed state."""
    changes: list[dict[str, Any]] = [{"status": step} for step in STEPS if rng.random() < 1 / 2]
    draw = rng.random()
    if draw < 0.7:  # most are completed
        changes.append({"state": "completed"})
    elif draw < 0.85:  # some are cancelled, the others stay open
        changes.append({"state": "cancelled", "cancelReason": "SOLD_OUT"})
    return changes


async def redeliver(me: Partner, deliveries: str) -> None:
    """Redeliver any recent webhook; calls to stores are refused."""
    page = await me.get(f"{deliveries}?limit=20")
    if page["deliveries"]:
        chosen = me.rng.choice(page["deliveries"])
        await me.until_final("POST", f"{deliveries}/{chosen['id']}/redeliver")
