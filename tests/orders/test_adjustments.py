"""Adjustments of random orders add up, to the last minor unit, in every currency."""

from decimal import Decimal
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.carts.random_store import SCALES, RandomStore
from tests.catalog.documents import compiled
from tests.generated import examples
from tests.orders.samples import NOW
from tests.orders.test_bodies import row

from mercato.features.orders.lifecycle import OrderAdjusted
from mercato.features.orders.record import OrderRow, StoreAnswer, StoredAdjustment, commerce_order_of
from mercato.features.orders.rules import check_adjustment
from mercato_catalog.carts.lines import order_lines
from mercato_catalog.carts.pricing import price
from mercato_catalog.model import CompiledCatalog
from mercato_contract.amounts import AmountEntry, Extras, Sums, wire
from mercato_contract.carts import LineItem
from mercato_contract.clock import new_id
from mercato_contract.decoding import Decoder
from mercato_contract.money import MAX_MINOR, minor_to_decimal
from mercato_contract.orders import AdjustmentType, AdjustOrderRequest
from mercato_contract.placements import CommerceCart
from mercato_contract.refusals import ValidationFailed
from mercato_contract.wire import as_json
from mercato_tools.price_proof import ProofOrder, verify_prices

RANDOM = settings(
    max_examples=examples(400), suppress_health_check=list(HealthCheck), database=None, deadline=None
)

proof_of = Decoder(ProofOrder)

amounts_in_minor = st.one_of(
    st.integers(-500, 3000), st.integers(-(10**12), 10**12), st.sampled_from([0, 1, -1, MAX_MINOR])
)
changes = st.lists(st.tuples(st.sampled_from(AdjustmentType), amounts_in_minor), max_size=12)


def placed(seed: int, *, fee: int, tip: int) -> tuple[OrderRow, CompiledCatalog]:
    """Return an accepted order of a random cart, and the catalog that it was priced from."""
    world = RandomStore(seed, careless=0)
    catalog = compiled(world.document)
    lines = msgspec.convert(world.lines(), list[LineItem])
    priced = price(lines, catalog=catalog, sold_out=(), new_id=new_id, itemized=True)
    assume(priced.total is not None and not priced.faults)
    assert priced.total is not None
    extras = Extras(fees=(AmountEntry(fee, "Delivery"),) if fee else ())
    sums = Sums(
        currency=catalog.currency, scale=catalog.scale, sub_total=priced.total, extras=extras, tip=tip
    )
    assume(sums.total >= 0)
    cart = CommerceCart(
        catalog_set_id=uuid4(),
        line_items=order_lines(priced.lines, catalog),
        store_id=uuid4(),
        amounts=priced.amounts,
    )
    order = row(
        answer=StoreAnswer.ACCEPTED,
        currency=catalog.currency,
        total=sums.total,
        amounts=wire(sums),
        cart=cart,
        notes=None,
    )
    return order, catalog


def adjust(order: OrderRow, kind: AdjustmentType, text: str, **more: Any) -> OrderRow:
    request = AdjustOrderRequest(type=kind, amount=text, reason="x", **more)
    minor = check_adjustment(order, request)
    one = StoredAdjustment(id=uuid4(), type=kind, amount=minor, reason="x", line_item_ids=(), at=NOW)
    return OrderAdjusted(at=NOW, adjustment=one, currency=order.currency).apply_to(order)


def allowed(kind: AdjustmentType, minor: int, left: int) -> bool:
    after = left - minor if kind is AdjustmentType.REFUND else left + minor
    return 0 <= after <= MAX_MINOR and (kind is AdjustmentType.SUBSTITUTION or minor > 0)


@RANDOM
@given(st.integers(0, 2**48), st.integers(0, 500), st.integers(0, 300), changes)
def test_what_an_order_costs_is_always_its_total_and_all_its_adjustments(
    seed: int, fee: int, tip: int, made: list[tuple[AdjustmentType, int]]
):
    order, catalog = placed(seed, fee=fee, tip=tip)
    scale, left = SCALES[order.currency], order.total
    for kind, minor in made:
        text = minor_to_decimal(minor, scale)
        if allowed(kind, minor, left):
            order = adjust(order, kind, text)
            left += -minor if kind is AdjustmentType.REFUND else minor
        else:
            with pytest.raises(ValidationFailed) as refused:
                adjust(order, kind, text)
            assert [one.pointer for one in refused.value.errors] == ["/amount"]
        assert order.total_after_adjustments == left >= 0
        check_shown(order)
    for shown in (order.storefront_order, commerce_order_of(order)):
        assert verify_prices(proof_of(as_json(shown)), catalog).equal


def check_shown(order: OrderRow) -> None:
    """Check that the decimals of both sides' order add up, each with the currency's own scale."""
    signs = {"refund": -1, "fee": 1, "substitution": 1}
    for one in (order.storefront_order, commerce_order_of(order)):
        shown = msgspec.json.decode(as_json(one))
        amounts = shown["amounts"]
        changed = sum(signs[one["type"]] * Decimal(one["amount"]) for one in shown["adjustments"])
        # Absent while there are none: what was placed, validated and sent to the store has the same amounts.
        assert ("totalAfterAdjustments" in amounts) == bool(shown["adjustments"])
        after = amounts.get("totalAfterAdjustments", amounts["total"])
        assert Decimal(amounts["total"]) + changed == Decimal(after)
        texts = [after, *(one["amount"] for one in shown["adjustments"])]
        assert {len(text.partition(".")[2]) for text in texts} == {SCALES[order.currency]}
