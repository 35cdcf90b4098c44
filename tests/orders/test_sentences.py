"""The sentence about an order: a pure function, which tells every state in words."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from mercato.features.orders.record import StoreAnswer, StoredCancellation
from mercato.features.orders.sentences import OrderFacts, ago, sentence_of, span
from mercato_contract import clock
from mercato_contract.orders import Actor, CancellationStatus, OrderState, OrderStatus
from mercato_contract.problems import OrderError

NOW = datetime(2026, 1, 31, 18, 20, tzinfo=UTC)
OPEN, CANCELLED, COMPLETED = OrderState.OPEN, OrderState.CANCELLED, OrderState.COMPLETED
ACCEPTED = StoreAnswer.ACCEPTED


def minutes(number: float) -> datetime:
    return NOW - timedelta(minutes=number)


def order_facts(**members: Any) -> OrderFacts:
    values: dict[str, Any] = {
        "state": OPEN,
        "status": OrderStatus.PENDING,
        "answer": ACCEPTED,
        "store": "Forno Lucia",
        "now": NOW,
        "placed_at": minutes(12),
        "accepted_at": minutes(9),
        "status_at": minutes(4),
        "promised_for": datetime(2026, 1, 31, 18, 40, tzinfo=UTC),
        "timezone": "Europe/Rome",
    }
    return OrderFacts(**values | members)


def cancellation(status: CancellationStatus, refusal: str | None = None) -> StoredCancellation:
    return StoredCancellation(
        id=clock.new_id(),
        status=status,
        reason="CHANGED_MIND",
        message=None,
        partner_order_id=None,
        requested_at=minutes(2),
        at=minutes(1),
        give_up_at=NOW,
        refusal=refusal,
    )


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({}, "Accepted 9 minutes ago by Forno Lucia, promised for 19:40; not started yet."),
        ({"promised_for": None}, "Accepted 9 minutes ago by Forno Lucia; not started yet."),
        (
            {"answer": StoreAnswer.WAITING, "accepted_at": None, "status_at": None},
            "Placed 12 minutes ago; Forno Lucia hasn't answered yet, and the service keeps trying.",
        ),
        (
            {"status": OrderStatus.CONFIRMED},
            "Confirmed 4 minutes ago by Forno Lucia, promised for 19:40; not started yet.",
        ),
        (
            {"status": OrderStatus.PREPARING},
            "In preparation at Forno Lucia, begun 4 minutes ago, promised for 19:40.",
        ),
        (
            {"status": OrderStatus.PREPARING, "promised_for": minutes(7)},
            "In preparation at Forno Lucia, begun 4 minutes ago, promised for 19:13 and 7 minutes late.",
        ),
        (
            {"status": OrderStatus.PREPARING, "promised_for": NOW + timedelta(days=2)},
            "In preparation at Forno Lucia, begun 4 minutes ago, promised for 19:20 on 2 February.",
        ),
        ({"status": OrderStatus.READY}, "Ready 4 minutes ago; waiting to be picked up at Forno Lucia."),
        (
            {"status": OrderStatus.READY, "is_pickup": False},
            "Ready 4 minutes ago at Forno Lucia; not on its way yet.",
        ),
        (
            {"status": OrderStatus.IN_TRANSIT},
            "Left Forno Lucia 4 minutes ago and is on its way, promised for 19:40.",
        ),
        (
            {"state": COMPLETED, "closed_by": Actor.MERCHANT},
            "Completed 4 minutes ago by Forno Lucia, 8 minutes after it was placed.",
        ),
        (
            {"state": COMPLETED, "closed_by": Actor.MERCHANT, "placed_at": minutes(4.5)},
            "Completed 4 minutes ago by Forno Lucia, less than a minute after it was placed.",
        ),
        (
            {
                "state": CANCELLED,
                "answer": StoreAnswer.REFUSED,
                "closed_by": Actor.STORE,
                "errors": (OrderError(code="ITEM_UNAVAILABLE", message="No tea today.", pointer=None),),
            },
            "Refused 4 minutes ago by Forno Lucia: No tea today.",
        ),
        (
            {
                "state": CANCELLED,
                "answer": StoreAnswer.GIVEN_UP,
                "closed_by": Actor.SERVICE,
                "cancel_reason": "STORE_UNREACHABLE",
            },
            "Cancelled 4 minutes ago because Forno Lucia never answered.",
        ),
        (
            {"state": CANCELLED, "closed_by": Actor.MERCHANT, "cancel_reason": "Oven broken"},
            "Cancelled 4 minutes ago by Forno Lucia: Oven broken.",
        ),
        (
            {"state": CANCELLED, "closed_by": Actor.STOREFRONT, "cancel_reason": "CHANGED_MIND"},
            "Cancelled 4 minutes ago by the storefront: changed mind.",
        ),
        (
            {"state": CANCELLED, "closed_by": Actor.SERVICE, "cancel_reason": "CANCELLED_BY_OPERATOR"},
            "Cancelled 4 minutes ago by an operator.",
        ),
        (
            {"cancellation": cancellation(CancellationStatus.REQUESTED)},
            (
                "Accepted 9 minutes ago by Forno Lucia, promised for 19:40; not started yet. "
                "The storefront asked to cancel it 2 minutes ago; the store hasn't answered yet."
            ),
        ),
        (
            {"cancellation": cancellation(CancellationStatus.REFUSED, "In the oven")},
            (
                "Accepted 9 minutes ago by Forno Lucia, promised for 19:40; not started yet. "
                "The store refused to cancel it 1 minute ago: In the oven."
            ),
        ),
        (
            {"accepted_by": Actor.SERVICE},
            (
                "Accepted 9 minutes ago by the service, promised for 19:40; not started yet. "
                "Nobody is called about orders of Forno Lucia."
            ),
        ),
        (
            {
                "accepted_by": Actor.SERVICE,
                "status": OrderStatus.PREPARING,
                "cancellation": cancellation(CancellationStatus.REFUSED, "Nobody was asked"),
            },
            (
                "In preparation at Forno Lucia, begun 4 minutes ago, promised for 19:40. "
                "Its cancellation was refused 1 minute ago: Nobody was asked."
            ),
        ),
        (
            {"cancellation": cancellation(CancellationStatus.UNANSWERED)},
            (
                "Accepted 9 minutes ago by Forno Lucia, promised for 19:40; not started yet. "
                "The storefront asked to cancel it, but the store never answered: it goes on."
            ),
        ),
    ],
)
def test_the_sentence_says_what_happens_now_and_since_when(members: dict[str, Any], sentence: str):
    assert sentence_of(order_facts(**members)) == sentence


def test_every_state_has_a_sentence():
    told = set()
    cancellations = [None, *map(cancellation, CancellationStatus)]
    for state, status, answer, by, wish, promised, at, pickup in product(
        OrderState,
        OrderStatus,
        StoreAnswer,
        [None, *Actor],
        cancellations,
        (None, NOW),
        (None, minutes(3)),
        (True, False),
    ):
        order = order_facts(
            state=state,
            status=status,
            answer=answer,
            closed_by=by,
            cancellation=wish,
            promised_for=promised,
            accepted_at=at,
            status_at=at,
            is_pickup=pickup,
        )
        sentence = sentence_of(order)
        assert sentence[0].isupper(), sentence
        assert sentence.endswith("."), sentence
        assert "None" not in sentence, sentence
        assert ".." not in sentence, sentence
        assert "  " not in sentence, sentence
        told.add(sentence)
    assert len(told) > 50


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=44), "just now"),
        (timedelta(seconds=-90), "just now"),
        (timedelta(seconds=46), "1 minute ago"),
        (timedelta(minutes=90), "90 minutes ago"),
        (timedelta(minutes=91), "2 hours ago"),
        (timedelta(hours=36), "36 hours ago"),
        (timedelta(days=9), "9 days ago"),
    ],
)
def test_an_instant_is_told_as_people_say_it(length: timedelta, words: str):
    assert ago(NOW - length, NOW) == words
    assert span(timedelta(seconds=1)) == "1 minute"
