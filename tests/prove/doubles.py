"""The partners' servers: the doubles of `mercato_client.testing`, with random faults; they record all that they get."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web
from tests.prove.documents import document
from tests.prove.records import (
    Event,
    MerchantCancellation,
    MerchantOrder,
    MerchantRecords,
    Shop,
    StorefrontRecords,
    WebhookLog,
    digest,
)

from mercato_client.testing import Double, Entry, MerchantDouble, Received, Reply, StorefrontDouble
from mercato_client.testing.acts import DROP, HONEST, STATUS, Act

FAILS_ONCE: Final = "tok_fails_once"
"""A card token that is declined the first time."""

SILENT: Final = 0.06
"""The share of orders that a store never answers, although it may have recorded them."""

REFUSES: Final = 0.3
"""The share of cancellations that a store refuses, beside those of orders that it has closed."""

FAILURES: Final = ("500 2%", "503 1%", "429 1%", "404 1%", "drop 5%")
DENIED: Final = ("duplicate 4%", "duplicate:number 2%")
"""Of `place`: the order is recorded, its answer is lost, and a repeat is refused or names the recorded order."""

SLOW: Final = ("slow:0.3 3%", "slow:1.1 3%")
"""The random faults of an operation."""

_LATE: Final = 0.06
"""The share of webhooks that are handled after a delay."""


class FaultyDouble(Double):
    """Fails at random until `heal`. What wasn't acknowledged doesn't count: it must be repeated."""

    webhooks: WebhookLog
    rng: random.Random
    _failed: set[str]
    _healed = False

    def prepare(self, webhooks: WebhookLog, rng: random.Random) -> None:
        """Set the members that every receiver has."""
        self.webhooks, self.rng, self._failed = webhooks, rng, set()

    def heal(self) -> None:
        """Stop failing."""
        self._healed = True
        for operation in self.operations:
            self.behaviour.clear(operation)

    async def take(self, request: web.Request) -> web.StreamResponse:
        await request.read()  # at once: the caller may be killed meanwhile
        if not self._healed:
            is_late = self.rng.random() < _LATE
            await asyncio.sleep(self.rng.uniform(0.1, 1.2) if is_late else self.rng.uniform(0, 0.05))
        return await super().take(request)

    def refuse(self, webhook: Received) -> Reply:
        self.webhooks.forged.append(f"{webhook.path} {webhook.webhook_id}: {webhook.fault}")
        return super().refuse(webhook)

    def draw(self, operation: str, webhook: Received) -> Act:
        """Fail only on an event's first attempt: a second retry would take half a minute."""
        self.webhooks.note(webhook.webhook_id, webhook.body)
        if webhook.webhook_id in self._failed:
            return HONEST
        self._failed.add(webhook.webhook_id)
        return super().draw(operation, webhook)

    def failure(self, act: Act) -> Reply | None:
        return Reply(503) if act.name == DROP else super().failure(act)


class FaultyStorefront(FaultyDouble, StorefrontDouble):
    """Records every event that it acknowledges."""

    def __init__(self, records: StorefrontRecords, rng: random.Random) -> None:
        super().__init__(behaviour=[f"event {one}" for one in FAILURES], seed=rng.getrandbits(32))
        self.prepare(records.webhooks, rng)
        self.records = records

    def keep(self, webhook: Received) -> None:
        super().keep(webhook)
        data = webhook.json()["data"]
        order = data["order"]
        event = Event(webhook.webhook_id, digest(webhook.body), order["state"], order["status"])
        self.records.events[data["orderId"]][data["sequence"]].add(event)


class FaultyMerchant(FaultyDouble, MerchantDouble):
    """Accepts orders for its stores. `on_taken` is called with each recorded order."""

    def __init__(self, records: MerchantRecords, rng: random.Random, on_taken: Callable[[str], None]) -> None:
        lines = [f"{name} {one}" for name in ("catalog-sync", "order-cancelled") for one in FAILURES]
        lines += [
            f"{name} {one}"
            for name in ("validate", "place", "cancel", "catalog")
            for one in (*FAILURES, *SLOW)
        ]
        lines += [f"place {one}" for one in DENIED]
        super().__init__(behaviour=lines, seed=rng.getrandbits(32))
        self.prepare(records.webhooks, rng)
        self.records = records
        self._on_taken = on_taken
        self._unpaid: set[str] = set()

    def publish(self, shop: Shop) -> None:
        """Host the shop's newest catalog, at its own address and at the address of the current one."""
        body = document(shop.name, shop.version, broken=shop.version in shop.broken)
        for is_fixed in (True, False):
            self.host(self.catalog_path(shop, is_fixed=is_fixed), body)

    def catalog_path(self, shop: Shop, *, is_fixed: bool) -> str:
        """Return the address of the newest catalog."""
        return f"/catalogs/{shop.name}/{shop.version if is_fixed else 'current'}"

    def draw(self, operation: str, webhook: Received) -> Act:
        if operation == "cancel":
            return self._draw_cancel(webhook)
        if operation not in {"validate", "place"}:
            return super().draw(operation, webhook)
        act = self.behaviour.next(operation)
        if operation == "place":
            self.webhooks.note(webhook.webhook_id, webhook.body)
            if act.name in {STATUS, DROP} and self._heads():
                self.answer_place(webhook, act)  # recorded, although the service gets no answer
            known = self.records.orders.get(webhook.webhook_id)
            if known is not None and known.silent and self._heads():
                return Act(DROP)
        return act

    def _draw_cancel(self, webhook: Received) -> Act:
        """Fail on any attempt but the third and later ones, so that the service hears the decision in its time."""
        self.webhooks.note(webhook.webhook_id, webhook.body)
        act = self.behaviour.next("cancel")
        if self.webhooks.arrivals[webhook.webhook_id] > 2:
            return HONEST
        if act.name in {STATUS, DROP} and self._heads():
            self.answer_cancel(webhook, act)  # decided, although the service gets no answer
        return act

    def answer_cancel(self, webhook: Received, act: Act) -> Reply:
        """Answer, or never: a store that is silent about a cancellation doesn't decide, and the order goes on."""
        known = self.records.cancellations.get(webhook.webhook_id)
        if known is None and self.rng.random() < SILENT:
            data = webhook.json()["data"]
            known = MerchantCancellation(data["orderId"], data["reason"], None)
            self.records.cancellations[webhook.webhook_id] = known
        if known is not None and known.accepted is None:
            return Reply(503)
        return super().answer_cancel(webhook, act)

    def consent(self, webhook: Received, act: Act) -> Mapping[str, Any]:
        data = webhook.json()["data"]
        order = self.records.orders[data["orderId"]]
        accepted = order.state == "open" and self.rng.random() > REFUSES
        order.consented |= accepted
        self.records.cancellations[webhook.webhook_id] = MerchantCancellation(
            data["orderId"], data["reason"], accepted
        )
        return {"accepted": accepted} | ({} if accepted else {"reason": "Too late."})

    def answer_place(self, webhook: Received, act: Act) -> Reply:
        reply = super().answer_place(webhook, act)
        return Reply(503) if self.records.orders[webhook.webhook_id].silent else reply

    def keep(self, webhook: Received, entry: Entry, act: Act) -> None:
        super().keep(webhook, entry, act)
        taken = self.records.orders[webhook.webhook_id] = MerchantOrder(
            store=entry.data["partnerStoreId"],
            accepted=entry.taken,
            answer=(entry.status, entry.answer),
            number=entry.answer.get("partnerOrderId"),
            silent=entry.taken and entry.again is None and self.rng.random() < SILENT,
            denied=entry.again is not None,
        )
        # An update of a denied order would tell the service that it is accepted.
        if taken.accepted and not taken.silent and not taken.denied:
            self._on_taken(webhook.webhook_id)

    def denial(self, answer: Mapping[str, Any], act: Act) -> Reply | None:
        """Refuse repeats in every way in which a merchant can."""
        said = super().denial(answer, act)
        if said is None or "partnerOrderId" in said.value or self._heads():
            return said
        errors = {"errors": [{"code": "OTHER", "message": said.value["message"]}]}
        return Reply(422, errors) if self._heads() else Reply(200, {"accepted": False} | errors)

    def next_number(self) -> str:
        return f"N-{len(self.records.orders) + 1}"

    def sub_total_of(self, order: Mapping[str, Any]) -> None:
        """Accept any price: the catalog may have changed."""

    def payment_faults(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        card = (data.get("payment") or {}).get("cardToken")
        key = data["order"]["customer"]["partnerUserId"]
        if card == FAILS_ONCE and key not in self._unpaid:
            self._unpaid.add(key)
            return [{"code": "PAYMENT_FAILED", "message": "Again."}]
        return super().payment_faults(data)

    def take_event(self, event: Any) -> None:
        data = event["data"]
        if event["type"] == "order.cancelled":
            self.records.cancelled.add(data["orderId"])
        else:
            self.records.synced[data["catalogIngestId"]] = data["status"]

    def _heads(self) -> bool:
        return self.rng.random() < 1 / 2
