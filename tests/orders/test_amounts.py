"""The amounts of an order, and those that its store may set."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from mercato_contract.amounts import (
    MAX_DESCRIPTION_BYTES,
    AmountEntry,
    Extras,
    InvalidAmountsError,
    PriceChangedError,
    StoreAmounts,
    Sums,
    apply_store_amounts,
    explain_ignored_amounts,
    wire,
)
from mercato_contract.money import MAX_MINOR, decimal_to_minor, minor_to_decimal

EIGHT = Sums("USD", 2, 800, tip=100)


def sent(body: Any) -> StoreAmounts:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return msgspec.json.decode(raw, type=StoreAmounts)


def apply(body: Any, sums: Sums = EIGHT) -> Sums:
    return apply_store_amounts(sums, sent(body))


def fault(body: Any, sums: Sums = EIGHT) -> str:
    with pytest.raises(InvalidAmountsError) as caught:
        apply(body, sums)
    return str(caught.value)


def extras(body: Any, sums: Sums = EIGHT) -> Extras:
    result = apply(body, sums)
    assert (result.sub_total, result.tip, result.currency) == (sums.sub_total, sums.tip, sums.currency)
    return result.extras


def test_the_total_is_the_sum_of_the_amounts_less_promotions():
    sums = Sums(
        "USD",
        2,
        1000,
        Extras(
            fees=(AmountEntry(100, "Bag"), AmountEntry(50, "Service")),
            taxes=(AmountEntry(80, "VAT"),),
            promotions=(AmountEntry(200, "Lunch"),),
            adjustments=(AmountEntry(-30, "Rounding"),),
        ),
        tip=150,
    )
    assert msgspec.to_builtins(wire(sums)) == {
        "currency": "USD",
        "subTotal": "10.00",
        "adjustments": "-0.30",
        "adjustmentsDescription": ({"amount": "-0.30", "description": "Rounding"},),
        "fees": "1.50",
        "feesDescription": (
            {"amount": "1.00", "description": "Bag"},
            {"amount": "0.50", "description": "Service"},
        ),
        "promotions": "2.00",
        "promotionsDescription": ({"amount": "2.00", "description": "Lunch"},),
        "taxes": "0.80",
        "taxesDescription": ({"amount": "0.80", "description": "VAT"},),
        "tip": "1.50",
        "tipDescription": ({"amount": "1.50", "description": "Tip"},),
        "total": "11.50",
    }


@pytest.mark.parametrize(("scale", "zero"), [(0, "0"), (2, "0.00"), (3, "0.000")])
def test_unset_amounts_are_zero_at_scale_with_empty_lists(scale: int, zero: str):
    told = wire(Sums("XXX", scale, 0))
    assert {told.fees, told.taxes, told.promotions, told.adjustments, told.tip, told.total} == {zero}
    assert told.tip_description == told.fees_description == ()


def test_a_store_that_sends_no_amounts_changes_none():
    assert (
        apply_store_amounts(EIGHT, None)
        == apply({})
        == apply({"fees": None, "feesDescription": None})
        == EIGHT
    )


def test_a_store_may_set_fees_taxes_promotions_and_adjustments():
    got = extras({"fees": "1.00", "taxes": 0.8, "promotions": "2", "adjustments": "-0.50", "tip": "99.00"})
    assert got == Extras(
        fees=(AmountEntry(100, "Fees"),),
        taxes=(AmountEntry(80, "Taxes"),),
        promotions=(AmountEntry(200, "Promotions"),),
        adjustments=(AmountEntry(-50, "Adjustments"),),
    )


def test_a_list_without_an_amount_determines_it():
    listed = [{"amount": "1.00", "description": "Bag"}, {"amount": 0.25}]
    assert extras({"feesDescription": listed}).fees == (AmountEntry(100, "Bag"), AmountEntry(25, "Fees"))
    assert extras({"feesDescription": listed, "fees": "1.250"}).fees == (
        AmountEntry(100, "Bag"),
        AmountEntry(25, "Fees"),
    )


def test_an_amount_with_an_empty_list_gets_one_entry():
    assert extras({"fees": "1.00", "feesDescription": []}).fees == (AmountEntry(100, "Fees"),)
    assert extras({"fees": "0.00", "feesDescription": []}).fees == ()


def test_amounts_that_a_store_does_not_return_stay():
    before = Sums("USD", 2, 800, Extras(fees=(AmountEntry(10, "Bag"),), taxes=(AmountEntry(20, "VAT"),)))
    assert extras({"taxes": "0.00"}, before) == Extras(fees=(AmountEntry(10, "Bag"),))


def test_a_total_is_accepted_with_the_tip_or_without_it():
    for total in ("10.00", "9.00", 10, 9.0):
        assert extras({"fees": "1.00", "total": total}).fees == (AmountEntry(100, "Fees"),)
    assert fault({"fees": "1.00", "total": "10.01"}) == (
        "amounts.total is 10.01, but the amounts add up to 10.00 with the tip and 9.00 without."
    )


def test_another_subtotal_is_a_changed_price():
    with pytest.raises(PriceChangedError) as caught:
        apply({"subTotal": "8.10", "total": "8.10", "fees": "1.00"})
    assert (caught.value.error.code, caught.value.error.pointer) == ("ITEM_PRICE_CHANGED", "/cart/lineItems")
    assert "8.10 USD" in caught.value.error.message
    assert extras({"subTotal": "8.000"}) == Extras()


FAULTY = {
    "a list that does not sum": {"fees": "1.00", "feesDescription": [{"amount": "0.99", "description": "x"}]},
    "a negative total": {"promotions": "9.01"},
    "too many digits": {"fees": "1.001"},
    "too many digits in a number": b'{"fees": 1.001}',
    "too many digits in a list": {"feesDescription": [{"amount": "1.001", "description": "x"}]},
    "out of int64": {"fees": "92233720368547758.08"},
    "a huge number": b'{"fees": 1e400}',
    "a total out of int64": {"fees": "92233720368547758.07"},
    "sums out of int64": {"feesDescription": [{"amount": "92233720368547758.07"}] * 2},
    "another currency": {"currency": "EUR"},
    "a currency that isn't a string": {"currency": 840},
    "no number": {"fees": "1,00"},
    "an empty text": {"fees": ""},
    "a truth": {"fees": True},
    "an object": {"fees": {"amount": "1.00"}},
    "no UTF-8": b'{"fees": "\xff"}',
    "a list that isn't UTF-8": b'{"feesDescription": [{"amount": "1", "description": "\xff"}]}',
    "a value that isn't a list": {"feesDescription": "Bag"},
    "an entry that isn't an object": {"feesDescription": ["Bag"]},
    "an entry without an amount": {"feesDescription": [{"description": "Bag"}]},
    "a description that isn't a text": {"feesDescription": [{"amount": "1", "description": 1}]},
    "a list without end": {"feesDescription": [{"amount": "0"}] * 101},
    "descriptions without end": {
        f"{name}Description": [{"amount": "0", "description": "x" * 255}] * 100 for name in ("fees", "taxes")
    },
}


@pytest.mark.parametrize("body", FAULTY.values(), ids=FAULTY)
def test_amounts_that_cannot_be_applied_are_invalid(body: Any):
    assert fault(body)


def test_the_currency_may_have_any_letter_case():
    assert extras({"currency": "usd"}) == Extras()


def test_a_description_is_cut_and_loses_its_control_characters():
    told = extras(
        {"feesDescription": [{"amount": "1", "description": "\n A\u0000\tb\u202e " + "c" * 300}]}
    ).fees
    assert told[0].description == "A b " + "c" * 251


def test_numbers_are_read_from_their_text():
    # As floats these are 0.1 + 0.2 and more digits than a float has.
    listed = b'{"feesDescription": [{"amount": 0.1}, {"amount": 0.2}], "fees": 0.30}'
    assert extras(listed).fees == (AmountEntry(10, "Fees"), AmountEntry(20, "Fees"))
    assert extras(b'{"fees": 90071992547409.93}').fees == (AmountEntry(9007199254740993, "Fees"),)
    assert extras(b'{"fees": 1.5e1, "taxes": 10E-1}') == Extras(
        (AmountEntry(1500, "Fees"),), (AmountEntry(100, "Taxes"),)
    )


def test_amounts_that_come_too_late_are_explained_when_they_change_the_total():
    assert explain_ignored_amounts(EIGHT, None) is None
    assert explain_ignored_amounts(EIGHT, sent({"total": "9.00"})) is None
    assert explain_ignored_amounts(EIGHT, sent({"fees": "1.00"})) == (
        "The store's amounts come to 10.00 USD; the order was placed for 9.00."
    )
    assert "subTotal" in str(explain_ignored_amounts(EIGHT, sent({"subTotal": "7.00"})))
    unreadable = str(explain_ignored_amounts(EIGHT, sent({"fees": "tok_1", "currency": "tok_2"})))
    assert "can't be read" in unreadable
    assert "tok" not in unreadable


SCALES = st.sampled_from([("JPY", 0), ("USD", 2), ("KWD", 3), ("BHD", 3)])
MINOR = st.integers(-(10**12), 10**12)
DETAILS = st.lists(st.tuples(MINOR, st.text(min_size=1, max_size=5)), max_size=4)


@given(SCALES, MINOR, st.integers(0, 10**9), DETAILS, DETAILS, DETAILS, DETAILS, st.booleans())
def test_the_amounts_that_a_store_lists_add_up_to_the_total(
    money: tuple[str, int],
    sub_total: int,
    tip: int,
    fees: Any,
    taxes: Any,
    promotions: Any,
    adjustments: Any,
    tipped: bool,
) -> None:
    currency, scale = money
    lists = {"fees": fees, "taxes": taxes, "promotions": promotions, "adjustments": adjustments}
    body: dict[str, Any] = {"currency": currency, "subTotal": minor_to_decimal(sub_total, scale)}
    for name, listed in lists.items():
        body[name] = minor_to_decimal(sum(amount for amount, _ in listed), scale)
        body[f"{name}Description"] = [
            {"amount": minor_to_decimal(a, scale), "description": d} for a, d in listed
        ]
    sign = {"promotions": -1}
    total = sub_total + sum(sign.get(name, 1) * sum(a for a, _ in listed) for name, listed in lists.items())
    body["total"] = minor_to_decimal(total + (tip if tipped else 0), scale)
    sums = Sums(currency, scale, sub_total, tip=tip)
    if total + tip < 0:
        assert fault(body, sums)
        return
    result = apply(body, sums)
    assert result.total == total + tip
    told = msgspec.to_builtins(wire(result))
    assert decimal_to_minor(told["total"], scale) == total + tip
    for name in (*lists, "tip"):
        listed = [decimal_to_minor(one["amount"], scale) for one in told[f"{name}Description"]]
        assert sum(listed) == decimal_to_minor(told[name], scale)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["amount", "description"]), inner, max_size=2)
    ),
    max_leaves=5,
)
MEMBERS = st.sampled_from(
    [name for field in msgspec.structs.fields(StoreAmounts) for name in [field.encode_name]]
)


@given(st.dictionaries(MEMBERS, JUNK, max_size=6))
def test_applied_amounts_are_in_range(body: Any) -> None:
    with suppress(InvalidAmountsError, PriceChangedError):
        result = apply(body)
        assert 0 <= result.total <= MAX_MINOR
        details = [one for listed in astuple(result.extras) for one in listed]
        assert all(len(one.description) in range(1, 256) for one in details)
        assert sum(len(one.description.encode()) for one in details) <= MAX_DESCRIPTION_BYTES
