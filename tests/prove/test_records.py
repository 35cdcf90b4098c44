"""A proof that can't fail proves nothing: every way in which the records can disagree is found and named."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.prove.compare import CHECKS, compare
from tests.prove.model import KINDS, Counts, Violation
from tests.prove.records import (
    CancelHistory,
    Event,
    KeyHistory,
    MerchantCancellation,
    MerchantOrder,
    MerchantRecords,
    PulledOrder,
    Records,
    ServiceCancellation,
    ServiceOrder,
    ServiceRecords,
    ServiceRun,
    Shop,
    Spending,
    StorefrontRecords,
)


def order(name: str, **values: Any) -> ServiceOrder:
    facts: dict[str, Any] = {"answer": "accepted", "state": "completed", "status": "ready", "sequence": 2}
    return ServiceOrder(**({"id": name, "key": f"key-{name}", "number": f"n-{name}"} | facts | values))


def reply(status: int, **said: Any) -> tuple[int, bytes]:
    return status, json.dumps(said).encode()


def records() -> Records:
    """Return records without violations, in which everything happened once."""
    service = ServiceRecords(
        orders={
            "taken": order("taken", sequence=3, adjustments=1),
            "silent": order("silent", answer="given_up", state="cancelled", status="pending", number=None),
            "refused": order("refused", answer="refused", state="cancelled", number=None, sequence=0),
            "ended": order("ended", state="cancelled", cancel_reason="R-1", cancellation="accepted"),
            "denied": order("denied", answer="refused", state="cancelled", number=None, sequence=0),
            "by hand": order("by hand", is_pulled=True),
            "turned down": order("turned down", is_pulled=True, answer="refused", state="cancelled"),
        },
        runs={
            "r1": ServiceRun(id="r1", store_id="s", status="succeeded", set_id="set1"),
            "r2": ServiceRun(id="r2", store_id="s", status="succeeded", set_id="set2"),
            "r3": ServiceRun(id="r3", store_id="s", status="failed", set_id=None),
        },
        serves={"s": ("set2", 2)},
        stores={"s": "a-1"},
        paused={"s": False},
        cancellations={
            "c1": ServiceCancellation("ended", "succeeded"),
            "c2": ServiceCancellation("taken", "succeeded"),
        },
    )
    service.found.update(["s"])
    service.spending["agent 1"] = Spending(500, 500, 1_000)
    shop = Shop("a-1", 0, store_id="s", version=3, broken={3}, runs={"r1": 1, "r2": 2, "r3": 3}, paused=False)
    merchants = MerchantRecords(
        shops={"a-1": shop},
        orders={
            "taken": MerchantOrder("a-1", True, (200, {}), "n-taken", status="ready", state="completed"),
            "refused": MerchantOrder("a-1", False, (402, {}), None),
            "ended": MerchantOrder("a-1", True, (200, {}), "n-ended", status="ready", consented=True),
            "denied": MerchantOrder("a-1", True, (200, {}), "n-denied", denied=True),
        },
        cancellations={
            "c1": MerchantCancellation("ended", "R-1", True),
            "c2": MerchantCancellation("taken", "R-2", False),
        },
        cancelled={"silent", "denied", "ended"},
        pulled={
            "by hand": PulledOrder(
                ["order.created", "order.updated"], ("completed", "ready"), accepting=True, accepted=True
            ),
            "turned down": PulledOrder(
                ["order.created", "order.cancelled"], ("cancelled", "ready"), refusing=True, refused=True
            ),
        },
        synced={"r1": "succeeded", "r2": "succeeded", "r3": "failed"},
    )
    merchants.orders["taken"].refunds += [reply(201, orderId="taken")] * 2
    merchants.webhooks.note("w1", b"sync")
    front = StorefrontRecords(
        keys={
            "key-taken": KeyHistory(
                {},
                "token",
                # A refusal before there is an order leaves the key free.
                [reply(400, errorCode="ORDER_TOTAL_DIFFERENT"), *[reply(201, orderId="taken")] * 2],
                {"taken"},
            ),
            "key-again": KeyHistory({}, "token", [reply(409, errorCode="ORDER_ALREADY_PLACED")]),
            "key-silent": KeyHistory(
                {}, None, [reply(409, errorCode="ORDER_CLOSED", orderId="silent")], {"silent"}
            ),
            "key-refused": KeyHistory({}, None, [reply(400, errorCode="PAYMENT_DECLINED")], {"refused"}),
            "key-denied": KeyHistory({}, None, [reply(400, errorCode="OTHER")], {"denied"}),
            "key-ended": KeyHistory({}, None, [reply(201, orderId="ended")], {"ended"}),
        },
        cancellations={
            "cancel-ended": CancelHistory("ended", "R-1", [reply(200, orderId="ended")] * 2),
            # Without an orderId: the order was closed before, and the key stays free.
            "cancel-again": CancelHistory("ended", "R-3", [reply(409, errorCode="ORDER_CLOSED")]),
            "cancel-taken": CancelHistory(
                "taken", "R-2", [reply(409, errorCode="CANCELLATION_REFUSED", orderId="taken")]
            ),
        },
    )
    ends = {
        "by hand": ("completed", "ready"),
        "turned down": ("cancelled", "ready"),
        "taken": ("completed", "ready"),
        "silent": ("cancelled", "pending"),
        "ended": ("cancelled", "ready"),
    }
    for name, (state, status) in ends.items():
        front.events[name][1] = {Event(f"{name}-1", "d1", "open", "pending")}
        front.events[name][2] = {Event(f"{name}-2", "d2", state, status)}
    return Records(service=service, merchants=merchants, storefront=front)


def moved(records: Records, name: str, **values: Any) -> None:
    records.service.orders[name] = replace(records.service.orders[name], **values)


def goes_on(records: Records, name: str) -> None:
    moved(records, name, state="open")
    records.merchants.pulled[name].newest = "open", "ready"


def second_order(records: Records, **values: Any) -> None:
    """Add another correct order to all records."""
    records.service.orders["second"] = order("second", **values)
    records.merchants.orders["second"] = replace(records.merchants.orders["taken"], number="n-second")
    records.storefront.events["second"] = records.storefront.events["taken"]


def cancels(records: Records) -> dict[str, CancelHistory]:
    return records.storefront.cancellations


def heard(records: Records, name: str, order_id: str, reason: str, *, accepted: bool | None) -> None:
    """Let the merchant have heard of a cancellation, and the service know of it."""
    records.merchants.cancellations[name] = MerchantCancellation(order_id, reason, accepted)
    records.service.cancellations[name] = ServiceCancellation(order_id, "succeeded")


def keys(records: Records) -> dict[str, KeyHistory]:
    return records.storefront.keys


WRONG: dict[str, tuple[str, Callable[[Records], Any]]] = {
    "a job is left": ("stuck", lambda b: b.service.unfinished.append("job 1")),
    "an order is read otherwise": ("differs", lambda b: b.service.misread.append("taken")),
    "an order waits": ("stuck", lambda b: moved(b, "taken", answer="waiting")),
    "a key has no answer": ("stuck", lambda b: keys(b)["key-again"].finals.clear()),
    "a store is not live": ("stuck", lambda b: setattr(b.merchants.shops["a-1"], "store_id", None)),
    "a key has two answers": (
        "doubled",
        lambda b: keys(b)["key-taken"].finals.append(reply(201, orderId="taken", more=1)),
    ),
    "a key has two orders": ("doubled", lambda b: second_order(b, key="key-taken")),
    "a token has two orders": ("doubled", lambda b: second_order(b, key="key-again")),
    "a refused key has an order": ("doubled", lambda b: second_order(b, key="key-refused")),
    "only the merchant has it": (
        "doubled",
        lambda b: b.merchants.orders.setdefault("ghost", MerchantOrder("a-1", True, (200, {}), "n")),
    ),
    "two bodies under one id": ("doubled", lambda b: b.merchants.webhooks.note("w1", b"another")),
    "two bodies for one number": (
        "doubled",
        lambda b: b.storefront.events["taken"][1].add(Event("taken-1", "d9", "open", "pending")),
    ),
    "a store is there twice": ("doubled", lambda b: b.service.stores.setdefault("s2", "a-1")),
    "the reply names another": (
        "lost",
        lambda b: setattr(keys(b)["key-taken"], "finals", [reply(201, orderId="other")]),
    ),
    "an order is gone": ("lost", lambda b: b.service.orders.pop("taken")),
    "an order told of is gone": ("lost", lambda b: keys(b)["key-again"].order_ids.add("gone")),
    "an order of an event is gone": ("lost", lambda b: b.storefront.events["gone"]),
    "the merchant has it not": ("lost", lambda b: b.merchants.orders.pop("taken")),
    "the merchant does not know of the end": ("lost", lambda b: b.merchants.cancelled.remove("silent")),
    "a merchant that refused a repeat does not know of the end": (
        "lost",
        lambda b: b.merchants.cancelled.remove("denied"),
    ),
    "refused for no reason": (
        "differs",
        lambda b: setattr(keys(b)["key-refused"], "finals", [reply(400, errorCode="OTHER")]),
    ),
    "a cancellation has no answer": ("stuck", lambda b: cancels(b)["cancel-ended"].finals.clear()),
    "a cancellation has two answers": (
        "doubled",
        lambda b: cancels(b)["cancel-ended"].finals.append(reply(200, orderId="ended", more=1)),
    ),
    "a cancellation is lost": ("lost", lambda b: moved(b, "ended", state="open")),
    "only the merchant has cancelled": (
        "lost",
        lambda b: setattr(b.merchants.orders["ended"], "consented", False),
    ),
    "a refused cancellation took effect": ("doubled", lambda b: moved(b, "taken", cancel_reason="R-2")),
    "an odd refusal of a cancellation": (
        "differs",
        lambda b: setattr(cancels(b)["cancel-again"], "finals", [reply(404, errorCode="ORDER_NOT_FOUND")]),
    ),
    "a cancellation came under two ids": ("doubled", lambda b: heard(b, "c9", "ended", "R-1", accepted=True)),
    "a cancellation that nobody requested": (
        "differs",
        lambda b: heard(b, "c9", "taken", "R-9", accepted=False),
    ),
    "a cancellation of no row": ("doubled", lambda b: b.service.cancellations.pop("c1")),
    "a silent store's answer": ("differs", lambda b: heard(b, "c2", "taken", "R-2", accepted=None)),
    "a cancellation waits": ("stuck", lambda b: moved(b, "taken", cancellation="requested")),
    "a refund is lost": ("lost", lambda b: moved(b, "taken", adjustments=0)),
    "a refund is made twice": ("doubled", lambda b: moved(b, "taken", adjustments=2)),
    "a refund that nobody made": ("doubled", lambda b: moved(b, "ended", adjustments=1)),
    "a refund has two answers": (
        "doubled",
        lambda b: b.merchants.orders["taken"].refunds.append(reply(201, orderId="taken", more=1)),
    ),
    "a refused refund": (
        "differs",
        lambda b: setattr(b.merchants.orders["taken"], "refunds", [reply(409, errorCode="CONFLICT")]),
    ),
    "an agent's orders are not counted": (
        "differs",
        lambda b: b.service.spending.update({"agent 1": Spending(400, 500, 1_000)}),
    ),
    "an agent spends more than its limit": (
        "doubled",
        lambda b: b.service.spending.update({"agent 1": Spending(1_500, 1_500, 1_000)}),
    ),
    "an agent's order is not its own": ("lost", lambda b: setattr(keys(b)["key-taken"], "by_agent", True)),
    "amounts do not add up": ("differs", lambda b: moved(b, "taken", adds_up=False)),
    "a status is lost": ("lost", lambda b: setattr(b.merchants.orders["taken"], "status", "inTransit")),
    "an event is lost": ("lost", lambda b: b.storefront.events["taken"].pop(1)),
    "the last event is lost": ("lost", lambda b: b.storefront.events["taken"].pop(2)),
    "the newest event is old": (
        "lost",
        lambda b: b.storefront.events["taken"].update({2: {Event("taken-2", "d2", "open", "ready")}}),
    ),
    "a run is lost": ("lost", lambda b: b.service.runs.pop("r1")),
    "a run has no webhook": ("lost", lambda b: b.merchants.synced.pop("r1")),
    "the switch is lost": ("lost", lambda b: b.service.serves.update({"s": ("set1", 2)})),
    "the content is old": ("lost", lambda b: b.service.serves.update({"s": ("set2", 1)})),
    "the content is broken": ("lost", lambda b: b.service.serves.update({"s": ("set2", 3)})),
    "a store is lost": ("lost", lambda b: b.service.stores.clear()),
    "a pause is lost": ("lost", lambda b: setattr(b.merchants.shops["a-1"], "paused", True)),
    "an odd refusal": (
        "differs",
        lambda b: setattr(keys(b)["key-again"], "finals", [reply(404, errorCode="STORE_NOT_FOUND")]),
    ),
    "refused here, taken there": ("differs", lambda b: moved(b, "taken", answer="refused")),
    "a cancel that was none": ("differs", lambda b: b.merchants.cancelled.add("taken")),
    "another number": ("differs", lambda b: moved(b, "taken", number="n-9")),
    "a forged webhook": ("differs", lambda b: b.merchants.webhooks.forged.append("w9")),
    "the webhook says otherwise": ("differs", lambda b: b.merchants.synced.update({"r3": "succeeded"})),
    "a store is not found": ("differs", lambda b: b.service.found.clear()),
    "a pulled order was never read": ("lost", lambda b: b.merchants.pulled.pop("by hand")),
    "only the merchant has read it": ("doubled", lambda b: b.service.orders.pop("by hand")),
    "an event was read twice": (
        "doubled",
        lambda b: b.merchants.pulled["by hand"].types.append("order.created"),
    ),
    "what became of it was never read": (
        "lost",
        lambda b: setattr(b.merchants.pulled["by hand"], "newest", ("open", "ready")),
    ),
    "its end was never read": ("lost", lambda b: b.merchants.pulled["turned down"].types.pop()),
    "an order waits for a person": ("stuck", lambda b: moved(b, "by hand", answer="pending")),
    "an acceptance is lost": ("lost", lambda b: moved(b, "by hand", answer="given_up")),
    "a refusal is lost": (
        "lost",
        lambda b: goes_on(b, "turned down"),
    ),
    "nobody accepted it": (
        "differs",
        lambda b: setattr(b.merchants.pulled["by hand"], "accepting", False),
    ),
    "something noticed": ("differs", lambda b: b.noticed.append(Violation("differs", "seen", "x"))),
}


def test_a_run_without_faults_has_no_violations():
    assert compare(records()) == []


@pytest.mark.parametrize("wrong", WRONG)
def test_every_violation_is_found(wrong: str):
    kind, breaks = WRONG[wrong]
    day = records()
    breaks(day)
    assert kind in {violation.kind for violation in compare(day)}


def test_every_kind_of_violation_is_covered():
    assert {kind for kind, _ in WRONG.values()} == set(KINDS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_check_finds_something(check: Callable[[Records], Any]):
    days = []
    for _, breaks in WRONG.values():
        day = records()
        breaks(day)
        days.append(day)
    assert any(list(check(day)) for day in days)


def test_counts_add_up():
    assert Counts(rounds=1, kills=2, seconds=0.5).plus(Counts(kills=3, orders=4)) == Counts(
        rounds=1, kills=5, orders=4, seconds=0.5
    )
