"""The invariants, each a comparison of records. Nothing here knows how the records were made."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from tests.prove.model import Violation
from tests.prove.records import KeyHistory, Records, ServiceOrder, Shop

EXPECTED: Final = frozenset(
    {
        "ORDER_TOTAL_DIFFERENT",
        "STORE_CLOSED",
        "PAYMENT_DECLINED",
        "ORDER_ALREADY_PLACED",
        "ORDER_CLOSED",
        "SPEND_LIMIT_EXCEEDED",
    }
)
"""Refusals that this workload may get; any other is a bug in the service."""

EXPECTED_OF_CANCELLATION: Final = frozenset({"CANCELLATION_REFUSED", "ORDER_CLOSED"})

CREATED: Final = 201
OK: Final = 200

Found = Iterator[Violation]


def compare(records: Records) -> list[Violation]:
    """Return every violation, each once."""
    found = {violation for check in CHECKS for violation in check(records)}
    return sorted(found | set(records.noticed))


def nothing_is_left(records: Records) -> Found:
    """No job, run, delivery, submission or claimed key is unfinished."""
    for what in records.service.unfinished:
        yield Violation("stuck", "is unfinished", what)


def both_sides_read_the_same(records: Records) -> Found:
    """Merchant and storefront read an order as it is stored."""
    for order_id in records.service.misread:
        yield Violation("differs", "an order is read differently from how it is stored", order_id)


def each_key_has_one_answer(records: Records) -> Found:
    """Every key has a final reply. One about an order always has the same bytes."""
    for key, history in records.storefront.keys.items():
        answers = set(history.pinned)
        if not history.finals:
            yield Violation("stuck", "a key has no final reply", key)
        elif len(answers) > 1:
            statuses = sorted(status for status, _ in answers)
            yield Violation("doubled", "a key has different replies", f"{key} {statuses}")


def each_key_has_one_order(records: Records) -> Found:
    """A key created at most one order that was not refused, and its reply names it; a refusal created none."""
    for key, history in records.storefront.keys.items():
        made = _live(records, key)
        if len(made) > 1:
            yield Violation("doubled", "a key has several orders", f"{key} {[order.id for order in made]}")
        if not history.finals:
            continue
        status, code, order_id = _last_reply(history)
        if status == CREATED:
            if [order.id for order in made] != [order_id]:
                yield Violation(
                    "lost", "the reply names another order than the key created", f"{key} {order_id}"
                )
        elif code not in EXPECTED and not (
            (code == "OTHER" and _is_denied(records, key))
            # An agent quotes again; its quote has ended.
            or (code == "PAYMENT_FAILED" and history.quote is not None)
        ):
            yield Violation("differs", f"an order was refused with {status} {code}", key)
        elif any(order.answer != "given_up" for order in made):
            yield Violation(
                "doubled", f"a key was refused with {code} and has an order", f"{key} {made[0].id}"
            )


def each_token_has_one_order(records: Records) -> Found:
    """A validation token was used for at most one order that was not refused."""
    keys: dict[str, list[str]] = defaultdict(list)
    for key, history in records.storefront.keys.items():
        if history.token is not None:
            keys[history.token].append(key)
    for using in keys.values():
        made = [order.id for key in using for order in _live(records, key)]
        if len(made) > 1:
            yield Violation("doubled", "a token has several orders", f"{using} {made}")


def no_order_is_lost(records: Records) -> Found:
    """Each order in the storefront's answers is in the service."""
    for key, history in records.storefront.keys.items():
        for order_id in history.order_ids - records.service.orders.keys():
            yield Violation("lost", "the service lacks an order that it returned", f"{key} {order_id}")
    for order_id in records.storefront.events.keys() - records.service.orders.keys():
        yield Violation("lost", "the service lacks the order of an event", order_id)


def both_sides_have_it(records: Records) -> Found:
    """An order is in the service and at its merchant, or cancelled on both sides with the merchant notified."""
    merchants = records.merchants
    for order in records.service.orders.values():
        if order.is_pulled:
            continue
        taken = merchants.orders.get(order.id)
        match order.answer:
            case "accepted" if taken is None or not taken.accepted:
                yield Violation("lost", "the merchant lacks an order that the service has", order.id)
            case "refused" if taken is None or (taken.accepted and not taken.denied):
                yield Violation(
                    "differs", "the service refused an order that its merchant accepted", order.id
                )
            case "refused" if taken is not None and taken.accepted and order.id not in merchants.cancelled:
                yield Violation("lost", "a merchant makes an order whose end it wasn't told of", order.id)
            case "given_up" if order.id not in merchants.cancelled:
                yield Violation("lost", "the merchant was not notified of a cancelled order", order.id)
            case "waiting":
                yield Violation("stuck", "an order waits for its store", order.id)
    for order_id in merchants.orders.keys() - records.service.orders.keys():
        yield Violation("doubled", "the merchant has an order that the service lacks", order_id)
    for order_id in merchants.cancelled:
        kept = records.service.orders.get(order_id)
        # A store that is called about a cancellation is told if another system of its merchant cancels the order.
        asked = kept is not None and kept.state == "cancelled" and kept.cancellation is not None
        if kept is None or not (asked or kept.answer in {"given_up", "refused"}):
            yield Violation(
                "differs", "the merchant was notified of a cancellation that never happened", order_id
            )


def people_and_service_agree(records: Records) -> Found:
    """A merchant that isn't called has read each order once, all that became of it, and what it did has happened."""
    for order in records.service.orders.values():
        if not order.is_pulled:
            continue
        seen = records.merchants.pulled.get(order.id)
        if seen is None:
            yield Violation("lost", "a merchant never read an order in its feed", order.id)
            continue
        if seen.types[:1] != ["order.created"] or seen.newest != (order.state, order.status):
            yield Violation("lost", "a merchant's feed lacks what became of an order", order.id)
        if seen.types.count("order.created") > 1 or seen.types.count("order.cancelled") > 1:
            yield Violation("doubled", "a merchant read an event twice", order.id)
        if (order.state == "cancelled") is not ("order.cancelled" in seen.types):
            yield Violation("lost", "a merchant wasn't told whether an order is cancelled", order.id)
        if order.answer == "pending":
            yield Violation("stuck", "an order waits for a person", order.id)
        if seen.accepted and order.answer != "accepted":
            yield Violation("lost", "an order that was accepted isn't", order.id)
        if seen.refused and order.state != "cancelled":
            yield Violation("lost", "an order that was refused goes on", order.id)
        by = {"accepted": seen.accepting, "refused": seen.refusing}
        if not by.get(order.answer, True):
            yield Violation("differs", f"nobody has {order.answer} an order", order.id)
    for order_id in records.merchants.pulled.keys() - records.service.orders.keys():
        yield Violation("doubled", "a merchant read an order that the service lacks", order_id)


def each_cancellation_has_one_answer(records: Records) -> Found:
    """Every key of a cancellation has one reply, which agrees with the order."""
    for key, history in records.storefront.cancellations.items():
        if not history.finals:
            yield Violation("stuck", "a cancellation has no final reply", key)
            continue
        if len(set(history.pinned)) > 1:
            yield Violation("doubled", "a cancellation has different replies", key)
        order = records.service.orders.get(history.order_id)
        if order is None:
            continue  # no_order_is_lost reports it
        status, body = (history.pinned or history.finals[-1:])[0]
        code = msgspec.json.decode(body).get("errorCode")
        if status == OK and order.state != "cancelled":
            yield Violation("lost", f"a cancelled order is {order.state}", f"{key} {order.id}")
        elif status != OK and code not in EXPECTED_OF_CANCELLATION:
            yield Violation("differs", f"a cancellation was refused with {status} {code}", key)
        elif status != OK and order.cancel_reason == history.reason:
            yield Violation("doubled", f"a cancellation refused with {code} took effect", f"{key} {order.id}")


def stores_hear_each_cancellation_once(records: Records) -> Found:
    """A store hears of each cancellation under one id, of one that a storefront requested; its answer decides."""
    reasons = {(one.order_id, one.reason) for one in records.storefront.cancellations.values()}
    heard: Counter[tuple[str, str]] = Counter()
    for cancellation_id, one in records.merchants.cancellations.items():
        heard[one.order_id, one.reason] += 1
        stored = records.service.cancellations.get(cancellation_id)
        if stored is None or stored.order_id != one.order_id:
            yield Violation(
                "doubled", "a store heard of a cancellation that the service lacks", cancellation_id
            )
        elif (one.order_id, one.reason) not in reasons:
            yield Violation(
                "differs", "a store heard of a cancellation that nobody requested", cancellation_id
            )
        elif stored.status == "succeeded" and one.accepted is None:
            yield Violation("differs", "the answer of a silent store was recorded", cancellation_id)
    for (order_id, reason), times in heard.items():
        if times > 1:
            yield Violation(
                "doubled", "a store heard of a cancellation under several ids", f"{order_id} {reason}"
            )
    for order in records.service.orders.values():
        if order.cancellation == "requested":
            yield Violation("stuck", "a cancellation waits for its store", order.id)


def states_agree(records: Records) -> Found:
    """Service, merchant and the storefront's newest event agree on an order."""
    for order in records.service.orders.values():
        taken = records.merchants.orders.get(order.id)
        if taken is not None and order.answer == "accepted":
            if (taken.final_state, taken.status) != (order.state, order.status):
                yield Violation(
                    "lost",
                    f"the merchant's {taken.final_state}/{taken.status} is {order.state}/{order.status} here",
                    order.id,
                )
            if order.number not in {None, taken.number}:
                yield Violation("differs", f"{order.number} is not the merchant's {taken.number}", order.id)
        events = records.storefront.events.get(order.id)
        if events:
            newest = events[max(events)]
            if any((event.state, event.status) != (order.state, order.status) for event in newest):
                yield Violation("lost", "the newest event differs", order.id)


def each_refund_is_made_once(records: Records) -> Found:
    """A merchant's refund has one reply and is made once, and what an order costs is the sum of what is listed."""
    for order in records.service.orders.values():
        taken = records.merchants.orders.get(order.id)
        replies = set() if taken is None else set(taken.refunds)
        if len(replies) > 1:
            yield Violation("doubled", "a refund has different replies", order.id)
        if any(status != CREATED for status, _ in replies):
            yield Violation("differs", f"a refund was refused with {min(replies)[0]}", order.id)
        elif order.adjustments < bool(replies):
            yield Violation("lost", "the service lacks a refund that it acknowledged", order.id)
        elif order.adjustments > bool(replies):
            yield Violation("doubled", f"a refund was made {order.adjustments} times", order.id)
        if not order.adds_up:
            yield Violation("differs", "the amounts of an order don't add up", order.id)


def agents_stay_within_their_limits(records: Records) -> Found:
    """What is counted for an agent's day is what its orders cost that aren't cancelled, and within its limit."""
    for day, spending in records.service.spending.items():
        if spending.counted != spending.cost:
            yield Violation("differs", f"{spending.counted} is counted of {spending.cost}", day)
        if spending.cost > spending.limit:
            yield Violation("doubled", f"an agent spent {spending.cost} of {spending.limit}", day)
    for key, history in records.storefront.keys.items():
        if any(order.by_agent is not history.by_agent for order in _live(records, key)):
            yield Violation("lost", "an order isn't stored as that of its agent", key)


def events_are_complete(records: Records) -> Found:
    """The events of an order count 1 to n without a gap, and no number has two bodies.

    The storefront receives them at its event URL, which isn't told of adjustments: so many numbers are missing.
    """
    for order in records.service.orders.values():
        events = records.storefront.events.get(order.id, {})
        missing = set(range(1, order.sequence + 1)).difference(events)
        if len(missing) != order.adjustments or max(events, default=0) > order.sequence:
            yield Violation("lost", f"of {order.sequence} events came {sorted(events)}", order.id)
        for number, copies in events.items():
            if len(copies) > 1:
                yield Violation("doubled", f"event {number} has different bodies", order.id)


def webhooks_are_genuine(records: Records) -> Found:
    """Every webhook was signed, and no id has two bodies."""
    for webhooks in (records.merchants.webhooks, records.storefront.webhooks):
        for webhook_id in webhooks.forged:
            yield Violation("differs", "a webhook's signature is invalid", webhook_id)
        for webhook_id, bodies in webhooks.bodies.items():
            if len(bodies) > 1:
                yield Violation("doubled", "a webhook has different bodies", webhook_id)


def runs_end_with_a_webhook(records: Records) -> Found:
    """Every accepted run has ended, and its merchant was notified of the result."""
    for shop in records.merchants.shops.values():
        for run_id in shop.runs.keys() - records.service.runs.keys():
            yield Violation("lost", "the service lacks a run that it accepted", run_id)
    for run in records.service.runs.values():
        said = records.merchants.synced.get(run.id)
        if said is None:
            yield Violation("lost", f"no webhook reported that a run {run.status}", run.id)
        elif said != run.status:
            yield Violation("differs", f"a webhook said {said} of a run that {run.status}", run.id)


def stores_serve_the_newest(records: Records) -> Found:
    """A store serves the set of its newest successful run, which is not older than the announced one."""
    newest: dict[str, tuple[str, str | None]] = {}
    for run in records.service.runs.values():
        if run.status == "succeeded":
            newest[run.store_id] = (run.id, run.set_id)
    for shop in records.merchants.shops.values():
        if shop.store_id is None or shop.store_id not in records.service.serves:
            continue
        set_id, version = records.service.serves[shop.store_id]
        run_id, switched_to = newest.get(shop.store_id, ("", set_id))
        if switched_to != set_id:
            yield Violation(
                "lost", "a store does not serve the set of its newest run", f"{shop.store_id} {run_id}"
            )
        if version in shop.broken or not _announced(shop, run_id) <= version <= shop.version:
            yield Violation("lost", f"a store serves version {version} of {shop.version}", shop.store_id)


def stores_are_there_once(records: Records) -> Found:
    """Each activated store exists once, is found once, and has its last acknowledged status."""
    names = Counter(records.service.stores.values())
    for shop in records.merchants.shops.values():
        if names[shop.name] > 1:
            yield Violation("doubled", "a store was created more than once", shop.name)
        if shop.store_id is None:
            yield Violation("stuck", "a store never went live", shop.name)
            continue
        if records.service.stores.get(shop.store_id) != shop.name:
            yield Violation("lost", "the service lacks a store that it activated", shop.store_id)
        if records.service.found[shop.store_id] != 1:
            times = records.service.found[shop.store_id]
            yield Violation("differs", f"discovery shows a store {times} times", shop.store_id)
        if shop.paused is not None and records.service.paused.get(shop.store_id) != shop.paused:
            yield Violation("lost", "a store's pause is not what was acknowledged", shop.store_id)


CHECKS: Final[tuple[Callable[[Records], Found], ...]] = (
    nothing_is_left,
    both_sides_read_the_same,
    each_key_has_one_answer,
    each_key_has_one_order,
    each_token_has_one_order,
    no_order_is_lost,
    both_sides_have_it,
    people_and_service_agree,
    each_cancellation_has_one_answer,
    stores_hear_each_cancellation_once,
    states_agree,
    each_refund_is_made_once,
    agents_stay_within_their_limits,
    events_are_complete,
    webhooks_are_genuine,
    runs_end_with_a_webhook,
    stores_serve_the_newest,
    stores_are_there_once,
)


def _live(records: Records, key: str) -> list[ServiceOrder]:
    return [
        order
        for order in records.service.orders.values()
        if order.key == key and (order.answer != "refused" or order.is_pulled)
    ]


def _is_denied(records: Records, key: str) -> bool:
    """Return whether a merchant has an order of the key, and refused its repeat."""
    taken = records.merchants.orders
    return any(
        order.key == key and order.id in taken and taken[order.id].denied
        for order in records.service.orders.values()
    )


def _last_reply(history: KeyHistory) -> tuple[int, str | None, str | None]:
    """Return status, errorCode and orderId of a key's reply, or of its last refusal if it has none."""
    status, body = (history.pinned or history.finals[-1:])[0]
    said = msgspec.json.decode(body)
    return status, said.get("errorCode"), said.get("orderId")


def _announced(shop: Shop, run_id: str) -> int:
    """Return the newest version when this run was requested; 1 for one whose answer was lost."""
    return shop.runs.get(run_id, 1)
