"""An order's history in words, for people: every entry that the lifecycle writes has a title of its own."""

from collections.abc import Iterator
from typing import Any

import pytest

from mercato.features.orders import lifecycle
from mercato.features.orders.history import note_of, title_of
from mercato.features.orders.sentences import readable
from mercato_contract.orders import OrderStatus, TimelineEntry

DETAIL = {"status": "ready", "adjustment": "refund", "amount": "1.50 USD"}


def kinds(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from kinds(one)


def entry(type_: str, actor: str = "store", **detail: Any) -> TimelineEntry:
    return TimelineEntry(at="2026-01-31T18:30:00Z", type=type_, actor=actor, detail=detail)


def test_every_entry_of_the_lifecycle_has_a_title_in_words():
    types = {one.entry for one in kinds(lifecycle.OrderChange) if "entry" in vars(one)}
    assert len(types) > 8
    titles = {type_: title_of(entry(type_, **DETAIL)) for type_ in types}
    for type_, title in titles.items():
        assert title[0].isupper(), type_
        assert not {".", "_", ":"} & set(title), title
    # Those that nobody gave words would have that of their type.
    assert titles["cancellation.refused"] == "The store refused to cancel it"
    assert len(set(titles.values())) == len(titles)


@pytest.mark.parametrize("status", [one for one in OrderStatus if one is not OrderStatus.PENDING])
def test_every_status_that_a_merchant_sets_has_a_title(status: OrderStatus):
    assert title_of(entry("updated", "merchant", status=status.value)) != status.value


@pytest.mark.parametrize(
    ("happened", "note"),
    [
        (entry("placed", total="5.80", currency="USD"), "5.80 USD"),
        (entry("cancelled", "storefront", cancelReason="CHANGED_MIND"), "Reason: changed mind."),
        (entry("cancelled", "merchant", cancelReason="Oven broken."), "Reason: Oven broken."),
        (entry("cancelled", "merchant", cancelReason="CANCELLED_BY_STORE"), ""),
        (entry("cancelled", "service", cancelReason="STORE_UNREACHABLE"), "The store never answered."),
        (
            entry("cancellation.refused", reason="CHANGED_MIND", refusal="It is in the oven"),
            "Reason: changed mind. The store says: It is in the oven.",
        ),
        (entry("updated", status="confirmed", partnerOrderId="T-65"), "Its number is T-65."),
        (entry("updated", estimatedReadyAt="2026-01-31T19:00:00Z"), "Ready at <2026-01-31T19:00:00Z>."),
        (entry("refused", errors=[{"code": "OTHER", "message": "Closed."}]), "Closed."),
        (entry("adjusted", adjustment="refund", amount="1.50 USD"), "1.50 USD."),
        (entry("updated", status="ready"), ""),
    ],
)
def test_a_note_says_what_is_worth_knowing_in_sentences(happened: TimelineEntry, note: str):
    assert note_of(happened, show_instant=lambda at: f"<{at}>") == note


@pytest.mark.parametrize(
    ("reason", "words"),
    [("CHANGED_MIND", "changed mind"), ("FRAUD", "FRAUD"), ("Oven broken", "Oven broken"), ("***", "***")],
)
def test_a_code_is_read_as_words_and_other_texts_as_they_are(reason: str, words: str):
    assert readable(reason) == words
