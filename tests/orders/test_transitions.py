"""An order's status only goes forward, and its state closes once."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato.features.orders.errors import InvalidStatusTransition, OrderClosed
from mercato.features.orders.rules import Progress, ProgressChange, change_progress
from mercato_contract.orders import (
    PICKUP_PATH,
    STATE_TRANSITIONS,
    STATUS_TRANSITIONS,
    Actor,
    OrderState,
    OrderStatus,
    OrderStatusUpdate,
)
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.wire import instant

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
SOON = NOW + timedelta(minutes=20)
STATUSES = ["pending", "confirmed", "preparing", "ready", "inTransit"]


def at(status: str = "pending", state: str = "open", **more: Any) -> Progress:
    return Progress(status=OrderStatus(status), state=OrderState(state), **more)


def moved(current: Progress, **update: Any) -> Progress | None:
    """Return the order's progress after the update; None if it changes nothing."""
    result = change_progress(current, OrderStatusUpdate(**update), NOW)
    if result is None:
        return None
    assert (result.before, result.at) == (current, NOW)
    return result.after


def faults(current: Progress, **update: Any) -> list[str | None]:
    with pytest.raises(ValidationFailed) as refused:
        moved(current, **update)
    return [one.pointer for one in refused.value.errors]


@pytest.mark.parametrize("before", STATUSES)
@pytest.mark.parametrize("after", STATUSES[1:])
def test_a_status_goes_forward_by_any_step_and_never_back(before: str, after: str):
    if STATUSES.index(after) > STATUSES.index(before):
        assert moved(at(before), status=after) == at(after)
    elif after == before:
        assert moved(at(before), status=after) is None
    else:
        with pytest.raises(InvalidStatusTransition):
            moved(at(before), status=after)


@pytest.mark.parametrize("status", STATUSES)
def test_any_status_can_be_completed_or_cancelled(status: str):
    assert moved(at(status), state="completed") == at(status, "completed")
    cancelled = at(status, "cancelled", cancel_reason="No bread")
    assert moved(at(status), state="cancelled", cancel_reason=" No bread ") == cancelled


def test_status_comes_first_then_state():
    assert moved(at(), status="ready", state="completed") == at("ready", "completed")
    with pytest.raises(InvalidStatusTransition):
        moved(at("ready"), status="confirmed", state="cancelled", cancel_reason="x")


def test_the_same_closing_again_changes_nothing():
    done = at("ready", "completed", estimated_ready_at=SOON)
    for update in (
        {"state": "completed"},
        {"state": "completed", "status": "ready"},
        {"state": "completed", "estimated_ready_at": instant(SOON)},
    ):
        assert moved(done, **update) is None
    gone = at("pending", "cancelled", cancel_reason="No bread")
    assert moved(gone, state="cancelled", cancel_reason="Another reason") is None


@pytest.mark.parametrize(
    "update",
    [
        {"status": "ready"},
        {"status": "inTransit"},
        {"state": "open"},
        {"state": "cancelled", "cancel_reason": "x"},
        {"state": "completed", "status": "inTransit"},
        {"state": "completed", "status": "confirmed"},
        {"state": "completed", "estimated_ready_at": instant(SOON)},
        {"estimated_ready_at": instant(SOON)},
    ],
    ids=lambda update: "+".join(f"{k}={v}" for k, v in update.items()),
)
def test_after_closing_nothing_else_changes(update: Any):
    with pytest.raises(OrderClosed):
        moved(at("ready", "completed"), **update)


def test_estimated_ready_at_is_a_change_of_its_own():
    assert moved(at(), estimated_ready_at="2026-03-04T13:20:00+01:00") == at(estimated_ready_at=SOON)
    assert moved(at(estimated_ready_at=SOON), estimated_ready_at=instant(SOON)) is None
    later = at("preparing", estimated_ready_at=SOON)
    assert moved(at(), status="preparing", estimated_ready_at=instant(SOON)) == later


def test_open_changes_nothing_for_an_open_order():
    assert moved(at("ready"), state="open") is None
    assert moved(at(), state="open", status="ready") == at("ready")


def test_a_reason_is_ignored_except_with_cancelled():
    assert moved(at(), status="ready", cancel_reason="x") == at("ready")
    assert moved(at(), state="completed", cancel_reason="x") == at(state="completed")


def test_values_are_read_in_any_letter_case():
    assert moved(at(), status="INTRANSIT", state="Completed") == at("inTransit", "completed")


def test_pending_and_an_empty_body_are_not_updates():
    assert faults(at(), status="pending") == ["/status"]
    assert faults(at()) == [""]
    assert faults(at(), cancel_reason="x") == [""]
    assert faults(at("ready", "completed")) == [""]


def test_all_faults_are_reported_at_once():
    assert faults(at(), status="late", state="gone", estimated_ready_at="soon") == [
        "/status",
        "/state",
        "/estimatedReadyAt",
    ]
    assert faults(at(), status="pending", state="cancelled") == ["/status", "/cancelReason"]
    assert faults(at(), state="cancelled", cancel_reason="  ") == ["/cancelReason"]
    assert faults(at(), estimated_ready_at="2026-03-04T12:20:00") == ["/estimatedReadyAt"]


def test_the_tables_know_every_status_and_state_and_who_may_close_an_order():
    assert set(STATUS_TRANSITIONS) == set(OrderStatus)
    assert STATE_TRANSITIONS[OrderState.OPEN] == {
        OrderState.COMPLETED: {Actor.MERCHANT},
        OrderState.CANCELLED: {Actor.MERCHANT, Actor.STORE, Actor.SERVICE, Actor.STOREFRONT},
    }
    assert STATE_TRANSITIONS[OrderState.COMPLETED] == STATE_TRANSITIONS[OrderState.CANCELLED] == {}


def test_the_statuses_of_a_pickup_follow_each_other_in_the_table():
    for before, after in pairwise((OrderStatus.PENDING, *PICKUP_PATH)):
        assert after in STATUS_TRANSITIONS[before]


def reference(current: dict[str, Any], update: dict[str, Any]) -> dict[str, Any] | str:
    """Return the progress after an update or the code of its refusal: the contract, word by word."""
    status, state = update.get("status"), update.get("state")
    if not update or set(update) == {"cancel_reason"} or status == "pending":
        return "VALIDATION_FAILED"
    if state == "cancelled" and not update.get("cancel_reason"):
        return "VALIDATION_FAILED"
    if current["state"] != "open":
        told = {"state": state, "status": status or current["status"]}
        same = told == {name: current[name] for name in told}
        return current if same and "estimated_ready_at" not in update else "ORDER_CLOSED"
    after = dict(current)
    if status is not None:
        if STATUSES.index(status) < STATUSES.index(current["status"]):
            return "INVALID_STATUS_TRANSITION"
        after["status"] = status
    if "estimated_ready_at" in update:
        after["ready"] = True
    if state is not None:
        after["state"] = state
    return after


@given(st.integers(0, 2**32))
def test_any_sequence_of_updates_follows_the_contract(seed: int) -> None:
    chance = random.Random(seed)
    expected: dict[str, Any] = {"state": "open", "status": "pending", "ready": False}
    current = at()
    for step in range(12):
        update: dict[str, Any] = {}
        if chance.random() < 0.6:
            update["status"] = chance.choice(STATUSES)
        if chance.random() < 0.25:
            update["state"] = chance.choice(["open", "completed", "cancelled"])
        if chance.random() < 0.3:
            update["cancel_reason"] = "x"
        if chance.random() < 0.2:
            update["estimated_ready_at"] = instant(NOW + timedelta(minutes=step))
        wanted = reference(expected, update)
        if isinstance(wanted, str):
            with pytest.raises(Problem) as refused:
                change_progress(current, OrderStatusUpdate(**update), NOW)
            assert refused.value.code == wanted
            continue
        result = change_progress(current, OrderStatusUpdate(**update), NOW)
        if isinstance(result, ProgressChange):
            current = result.after
        else:
            assert wanted == expected
        expected = wanted
        assert (current.state, current.status) == (expected["state"], expected["status"])
        assert (current.estimated_ready_at is not None) is expected["ready"]
        assert (current.cancel_reason is not None) is (expected["state"] == "cancelled")
