"""The language of acts: one line each, done in their order, drawn by the seed, refused with what would be right."""

import pytest

from mercato_client.testing import ActError, Script
from mercato_client.testing.acts import MERCHANT, STOREFRONT


def done(script: Script, operation: str, times: int) -> list[str]:
    return [str(script.next(operation)) for _ in range(times)]


def test_acts_of_an_operation_are_done_in_order_then_the_permanent_one() -> None:
    script = Script(MERCHANT)
    script.on("place", "decline:ITEM_UNAVAILABLE").on("place", "slow:0.5 always").on("place", "500 x2")
    assert done(script, "place", 5) == ["decline:ITEM_UNAVAILABLE", *["status:500"] * 2, *["slow:0.5"] * 2]
    assert done(script, "validate", 1) == ["accept"]
    script.clear("place")
    assert done(script, "place", 1) == ["accept"]


def test_a_file_has_lines_comments_and_empty_lines() -> None:
    lines = ["# a bad day", "", "place drop:10  # in the middle", "cook cancel:Out of dough"]
    script = Script(MERCHANT).read(lines)
    assert (done(script, "place", 2), done(script, "cook", 1)) == (
        ["drop:10", "accept"],
        ["cancel:Out of dough"],
    )


def test_the_same_seed_draws_the_same_acts_whatever_other_operations_are_called() -> None:
    one, other, third = (Script(MERCHANT, seed).on("place", "drop 40%") for seed in (7, 7, 8))
    first = done(one, "place", 50)
    again = []
    for _ in range(50):
        other.next("validate")
        again.append(str(other.next("place")))
    assert first == again != done(third, "place", 50)
    assert 5 < first.count("drop") < 35


def test_the_percentages_of_an_operation_share_one_draw() -> None:
    script = Script(MERCHANT, 1).on("place", "drop 50%").on("place", "500 50%")
    assert set(done(script, "place", 50)) == {"drop", "status:500"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plaice 500", "no operation 'plaice'. Write one of: validate, place"),
        ("place", "isn't an act"),
        ("place declin:X", "cannot be 'declin'"),
        ("place decline", "decline:ITEM_UNAVAILABLE"),
        ("place decline:item", "decline:ITEM_UNAVAILABLE"),
        ("place slow:soon", "slow:2.5"),
        ("place slow:601", "600 at most"),
        ("place 200", "from 400 to 599"),
        ("place drop:half", "drop:3"),
        ("place wrong:tip", "total, subTotal, taxes"),
        ("place duplicate:422", "duplicate:number"),
        ("place accept:now", "takes no argument"),
        ("cook cancel", "cancel:Out of dough"),
        ("cook refund:-1", "refund:1.50"),
        ("validate late", "cannot be 'late'"),
        ("catalog decline:X", "cannot be 'decline'"),
        ("place 500 twice", "isn't an act"),
    ],
)
def test_a_line_that_is_not_an_act_is_refused_with_the_acts(line: str, words: str) -> None:
    with pytest.raises(ActError) as refusal:
        Script(MERCHANT).read([line])
    assert words in str(refusal.value)


def test_every_act_that_an_operation_knows_can_be_written() -> None:
    forms = {"decline": "decline:STORE_CLOSED", "slow": "slow:1", "status": "503", "cancel": "cancel:x"}
    forms |= {"refund": "refund:0.50"}
    for operations in (MERCHANT, STOREFRONT):
        for operation, names in operations.items():
            for name in names:
                act = Script(operations).on(operation, forms.get(name, name)).next(operation)
                assert act.name == name
