"""Taxes and fees of a store: computed once on the sum, half up, so that all amounts add up to the last digit."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercato_catalog.charges import apply_charges
from mercato_contract.amounts import Sums, wire
from mercato_contract.money import get_scale
from mercato_contract.stores import Charge, ChargeBase, ChargeKind, FulfillmentMode

CURRENCIES = ("USD", "EUR", "JPY", "KWD", "CLP", "TND", "CHF", "INR")
PICKUP, DELIVERY = FulfillmentMode.PICKUP, FulfillmentMode.DELIVERY_BY_MERCHANT


def sums(sub_total: int, currency: str = "USD", tip: int = 0) -> Sums:
    return Sums(currency=currency, scale=get_scale(currency), sub_total=sub_total, tip=tip)


def tax(rate: str, **more: object) -> Charge:
    return Charge(kind=ChargeKind.TAX, name="Tax", rate=rate, **more)  # type: ignore[arg-type]


def fee(**more: object) -> Charge:
    return Charge(kind=ChargeKind.FEE, name="Fee", **more)  # type: ignore[arg-type]


def test_a_tax_is_computed_once_on_the_sum_and_rounded_half_up():
    assert wire(apply_charges(sums(1000), [tax("8.875")], mode=PICKUP)).taxes == "0.89"
    assert wire(apply_charges(sums(100), [tax("0.5")], mode=PICKUP)).taxes == "0.01"
    assert wire(apply_charges(sums(99), [tax("0.5")], mode=PICKUP)).taxes == "0.00"


def test_a_tax_that_the_prices_contain_is_shown_and_not_added():
    charged = wire(apply_charges(sums(2000, "EUR"), [tax("7", included=True)], mode=PICKUP))
    assert (charged.taxes, charged.total) == ("0.00", "20.00")
    assert charged.taxes_description[0].description == "Tax: 1.31 EUR included"


def test_taxes_that_one_sum_contains_are_taken_from_it_together():
    both = [tax("10", included=True), tax("15", included=True)]
    charged = apply_charges(sums(12500), both, mode=PICKUP)
    texts = [entry.description for entry in charged.extras.taxes]
    assert texts == ["Tax: 10.00 USD included", "Tax: 15.00 USD included"]


def test_a_charge_on_all_is_on_the_fees_too():
    charges = [fee(amount="2.50"), tax("10", applies_to=ChargeBase.ALL), tax("10")]
    assert wire(apply_charges(sums(1000), charges, mode=PICKUP)).taxes_description[0].amount == "1.25"
    assert wire(apply_charges(sums(1000), charges, mode=PICKUP)).taxes_description[1].amount == "1.00"


def test_a_fee_on_all_is_on_the_fees_before_it():
    charges = [fee(amount="2.00"), fee(rate="10", applies_to=ChargeBase.ALL), fee(rate="10")]
    fees = apply_charges(sums(1000), charges, mode=PICKUP).extras.fees
    assert [entry.amount for entry in fees] == [200, 120, 100]


def test_a_charge_with_a_mode_is_for_orders_that_are_handed_over_so():
    charges = [fee(amount="3.00", mode=DELIVERY)]
    assert wire(apply_charges(sums(1000), charges, mode=PICKUP)).fees == "0.00"
    assert wire(apply_charges(sums(1000), charges, mode=DELIVERY)).fees == "3.00"


def test_a_tip_is_never_charged():
    charged = apply_charges(sums(1000, tip=500), [tax("10", applies_to=ChargeBase.ALL)], mode=PICKUP)
    assert charged.total == 1000 + 500 + 100


RATES = st.decimals("0.0001", 100, places=4).map(str) | st.sampled_from(["8.875", "7", "19", "0.125"])


@st.composite
def charges_of(draw: st.DrawFn, currency: str) -> list[Charge]:
    scale = get_scale(currency)
    charges = []
    for _ in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(ChargeKind))
        by_rate = draw(st.booleans())
        amount = Decimal(draw(st.integers(0, 10**6))).scaleb(-scale)
        charges.append(
            Charge(
                kind=kind,
                name="C",
                rate=draw(RATES) if by_rate else None,
                amount=None if by_rate else f"{amount:f}",
                included=kind is ChargeKind.TAX and draw(st.booleans()),
                applies_to=draw(st.sampled_from(ChargeBase)),
                mode=draw(st.sampled_from([None, *FulfillmentMode])),
            )
        )
    return charges


@pytest.mark.parametrize("currency", CURRENCIES)
@given(data=st.data())
def test_the_entries_add_up_to_the_amounts_and_the_amounts_to_the_total(currency: str, data: st.DataObject):
    sub_total = data.draw(st.integers(0, 10**9))
    mode = data.draw(st.sampled_from(FulfillmentMode))
    charges = data.draw(charges_of(currency))
    charged = wire(apply_charges(sums(sub_total, currency, 7), charges, mode=mode))
    for name in ("fees", "taxes"):
        entries = getattr(charged, f"{name}_description")
        assert sum(Decimal(entry.amount) for entry in entries) == Decimal(getattr(charged, name))
    parts = (charged.sub_total, charged.fees, charged.taxes, charged.tip)
    assert sum(map(Decimal, parts)) == Decimal(charged.total)


@pytest.mark.parametrize("currency", CURRENCIES)
@given(sub_total=st.integers(0, 10**12), rate=RATES)
def test_an_added_and_an_included_tax_are_what_exact_decimals_give(currency: str, sub_total: int, rate: str):
    unit = Decimal(1).scaleb(-get_scale(currency))
    base, percent = Decimal(sub_total) * unit, Decimal(rate)
    added = wire(apply_charges(sums(sub_total, currency), [tax(rate)], mode=PICKUP))
    assert Decimal(added.taxes) == (base * percent / 100).quantize(unit, ROUND_HALF_UP)
    included = wire(apply_charges(sums(sub_total, currency), [tax(rate, included=True)], mode=PICKUP))
    exact = (base * percent / (100 + percent)).quantize(unit, ROUND_HALF_UP)
    assert included.taxes_description[0].description == f"Tax: {exact:f} {currency} included"
    assert included.total == included.sub_total
