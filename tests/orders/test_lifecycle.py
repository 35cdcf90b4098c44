"""What happens to an order: its entry in the history, its columns, and whether its storefront gets an event."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.orders.samples import NOW
from tests.orders.test_bodies import row

from mercato.features.orders.lifecycle import (
    CANCELLED,
    PROGRESS,
    REFUSED,
    UNANSWERED,
    OrderAccepted,
    OrderCancelledByOperator,
    OrderChange,
    OrderGivenUp,
    OrderRefused,
    OrderUnanswered,
)
from mercato.features.orders.record import StoreAnswer
from mercato.features.orders.rules import Progress, change_progress
from mercato_contract.orders import STATE_TRANSITIONS, Actor, OrderState, OrderStatus, OrderStatusUpdate
from mercato_contract.problems import OrderError

LATER = NOW + timedelta(minutes=20)
DECLINED = OrderError(code="PAYMENT_DECLINED", message="No.")


def updated(**update: Any) -> OrderChange:
    progress = change_progress(Progress(), OrderStatusUpdate(**update), NOW)
    assert progress is not None
    return PROGRESS[progress.after.state](at=NOW, progress=progress)


def cancelled_by_operator() -> OrderChange:
    update = OrderStatusUpdate(state="cancelled", cancel_reason="Fraud")
    progress = change_progress(Progress(), update, NOW)
    assert progress is not None
    return OrderCancelledByOperator(at=NOW, progress=progress)


CASES = [
    (
        OrderAccepted(at=NOW, partner_order_id="7", estimated_ready_at=LATER),
        ("accepted", None, {}),
        {"answer": StoreAnswer.ACCEPTED, "partner_order_id": "7", "estimated_ready_at": LATER},
    ),
    (
        OrderRefused(at=NOW, errors=(DECLINED,)),
        ("refused", REFUSED, {"errors": (msgspec.to_builtins(DECLINED),)}),
        {
            "answer": StoreAnswer.REFUSED,
            "state": OrderState.CANCELLED,
            "cancel_reason": "PAYMENT_DECLINED",
            "errors": (DECLINED,),
        },
    ),
    (OrderUnanswered(at=NOW), ("unanswered", UNANSWERED, {}), {}),
    (
        OrderGivenUp(at=NOW),
        ("cancelled", CANCELLED, {"cancelReason": "STORE_UNREACHABLE"}),
        {
            "answer": StoreAnswer.GIVEN_UP,
            "state": OrderState.CANCELLED,
            "cancel_reason": "STORE_UNREACHABLE",
        },
    ),
    (
        updated(status="ready"),
        ("updated", None, {"status": "ready"}),
        {"answer": StoreAnswer.ACCEPTED, "status": OrderStatus.READY},
    ),
    (
        updated(status="ready", state="completed"),
        ("completed", None, {"status": "ready", "state": "completed"}),
        {"answer": StoreAnswer.ACCEPTED, "status": OrderStatus.READY, "state": OrderState.COMPLETED},
    ),
    (
        updated(state="cancelled", cancel_reason="No tea"),
        ("cancelled", CANCELLED, {"state": "cancelled", "cancelReason": "No tea"}),
        {"answer": StoreAnswer.ACCEPTED, "state": OrderState.CANCELLED, "cancel_reason": "No tea"},
    ),
    (
        cancelled_by_operator(),
        ("cancelled", None, {"state": "cancelled", "cancelReason": "Fraud"}),
        {"answer": StoreAnswer.GIVEN_UP, "state": OrderState.CANCELLED, "cancel_reason": "Fraud"},
    ),
]


@pytest.mark.parametrize(
    ("happened", "entry", "columns"), CASES, ids=[type(case[0]).__name__ for case in CASES]
)
def test_everything_that_happens_has_its_entry_and_changes_its_columns_alone(
    happened: OrderChange, entry: tuple[str, str | None, Any], columns: dict[str, Any]
):
    order = row()
    assert (happened.entry, happened.milestone, msgspec.to_builtins(happened.detail())) == entry
    assert happened.apply_to(order) == replace(order, **columns)
    assert happened.notifies_storefront(order)


def test_a_refusal_frees_its_token_and_is_no_event_for_a_storefront_that_had_none():
    order = row(token_id=row().id, sequence=0)
    refused = OrderRefused(at=NOW, errors=(DECLINED,))
    assert refused.apply_to(order).token_id is None
    assert not refused.notifies_storefront(order)


def test_what_a_store_leaves_out_when_it_accepts_stays_as_it_was():
    order = row(partner_order_id="7", estimated_ready_at=LATER)
    after = OrderAccepted(at=NOW).apply_to(order)
    assert (after.partner_order_id, after.estimated_ready_at) == ("7", LATER)


def test_every_state_that_a_merchant_reaches_has_a_change():
    reached = {
        state for after in STATE_TRANSITIONS.values() for state, who in after.items() if Actor.MERCHANT in who
    }
    assert set(PROGRESS) == {OrderState.OPEN, *reached}
