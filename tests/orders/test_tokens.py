"""A validatedOrderToken is for one caller, one order, fifteen minutes, and these amounts."""

import copy
import os
import random
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.carts.random_store import RandomStore
from tests.orders.samples import (
    CAKE,
    HOME,
    LEMON,
    MILK,
    NOW,
    STORE,
    STOREFRONT,
    TEA,
    Json,
    checked,
    delivery,
    line,
    order,
)

from mercato.features.orders.errors import OrderTokenInvalid
from mercato.features.orders.validation import (
    MAX_TOKEN,
    PURPOSE,
    Digest,
    OrderTokens,
    digest,
    digest_of,
)
from mercato.features.partners.vault import Vault
from mercato_catalog.carts.lines import choice_of
from mercato_contract.amounts import (
    MAX_DESCRIPTION_BYTES,
    MAX_DETAILS,
    AmountEntry,
    Extras,
    Sums,
)
from mercato_contract.carts import LineItem
from mercato_contract.clock import new_id
from mercato_contract.placements import PickupFulfillment, ScheduleType
from mercato_contract.replies import Quote

SUMS = Sums(
    "USD", 2, 920, Extras(fees=(AmountEntry(100, "Bag"),), adjustments=(AmountEntry(-5, "Ründung"),)), tip=50
)
READY = NOW + timedelta(minutes=20)


def seal(*letters: bytes) -> OrderTokens:
    return OrderTokens(Vault([letter * 32 for letter in letters or (b"a",)]).derive(PURPOSE), new_id)


SEAL = seal()
PICKUP = PickupFulfillment(schedule_type=ScheduleType.ASAP)


def lines_of(*lines: Json) -> list[LineItem]:
    return msgspec.convert(list(lines), list[LineItem])


def of(*lines: Json, **other: Any) -> Digest:
    said: dict[str, Any] = {"currency": "USD", "fulfillment": PICKUP} | other
    return digest(said.pop("caller", STOREFRONT), said.pop("store", STORE), lines=lines_of(*lines), **said)


DIGEST = of(line(TEA))
AGREED = Quote(SUMS, READY)
TOKEN = SEAL.issue(DIGEST, AGREED, now=NOW)


def refused(
    token: str, expected: Digest = DIGEST, *, by: OrderTokens = SEAL, after: timedelta = timedelta()
) -> str:
    with pytest.raises(OrderTokenInvalid) as caught:
        by.verify(token, digest=expected, now=NOW + after)
    assert [one.pointer for one in caught.value.errors] == ["/validatedOrderToken"]
    return caught.value.detail


# --- what it says ---------------------------------------------------------------------------------


def test_a_token_has_the_quote():
    said = SEAL.verify(TOKEN, digest=DIGEST, now=NOW)
    assert (said.sums, said.estimated_ready_at) == (SUMS, READY)
    assert said.expires_at == NOW + timedelta(minutes=15)
    bare = SEAL.issue(DIGEST, Quote(Sums("JPY", 0, 5), None), now=NOW)
    assert SEAL.verify(bare, digest=DIGEST, now=NOW).sums == Sums("JPY", 0, 5)


def test_every_token_has_an_id_of_its_own():
    again = SEAL.issue(DIGEST, AGREED, now=NOW)
    ids = {SEAL.verify(token, digest=DIGEST, now=NOW).token_id for token in (TOKEN, again)}
    assert len(ids) == 2


def test_a_token_is_valid_for_fifteen_minutes():
    SEAL.verify(TOKEN, digest=DIGEST, now=NOW + timedelta(minutes=15, milliseconds=-1))
    assert refused(TOKEN, after=timedelta(minutes=15)) == (
        "The token expired at 2026-03-04T12:15:00.000Z. Validate the order again."
    )


def test_a_token_is_for_its_caller_its_store_its_cart_and_its_fulfilment():
    assert "account" in refused(TOKEN, of(line(TEA), caller=UUID(int=1)))
    assert "another store" in refused(TOKEN, of(line(TEA), store=UUID(int=1)))
    assert "another cart" in refused(TOKEN, of(line(CAKE)))
    assert "another cart" in refused(TOKEN, of(line(TEA), currency="EUR"))
    scheduled = PickupFulfillment(schedule_type=ScheduleType.SCHEDULED)
    assert "another fulfillment" in refused(TOKEN, of(line(TEA), fulfillment=scheduled))


def test_a_text_that_is_not_a_token_is_refused():
    cut = [TOKEN[3:], TOKEN[:-1], TOKEN + "A", TOKEN + "=", " " + TOKEN, TOKEN + "\n"]
    for token in ["", "vo_", "vo_AAAA", "x", "ä", *cut]:
        assert "can't be read" in refused(token)


def test_no_other_encoding_of_a_token_is_valid():
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place in range(len(TOKEN)):
        for step in (1, 2, 16, 32):
            char = alphabet[(alphabet.find(TOKEN[place]) + step) % 64]
            refused(TOKEN[:place] + char + TOKEN[place + 1 :])


@given(st.text(max_size=200))
def test_garbage_is_not_read(text: str) -> None:
    refused(text)
    refused("vo_" + text)


def test_a_token_outlives_the_rotation_of_the_encryption_key_until_the_old_one_is_gone():
    assert seal(b"b", b"a").verify(TOKEN, digest=DIGEST, now=NOW).sums == SUMS
    assert "can't be read" in refused(TOKEN, by=seal(b"b"))


def test_text_signed_for_another_purpose_is_not_a_token():
    vault = Vault([b"a" * 32])
    other = OrderTokens(vault.derive("mercato access token"), new_id)
    assert "can't be read" in refused(other.issue(DIGEST, AGREED, now=NOW))


def test_the_largest_amounts_fit_in_a_token():
    each = MAX_DESCRIPTION_BYTES // (4 * MAX_DETAILS)
    details = tuple(AmountEntry(-(2**63), "x" * each) for _ in range(MAX_DETAILS))
    token = SEAL.issue(
        DIGEST, Quote(Sums("USD", 2, 0, Extras(details, details, details, details)), None), now=NOW
    )
    assert len(token) <= MAX_TOKEN
    assert SEAL.verify(token, digest=DIGEST, now=NOW).sums.extras.fees == details


# --- what it is bound to --------------------------------------------------------------------------


def test_names_line_ids_and_the_order_of_lines_make_no_difference():
    first = checked(order(line(TEA, 2, line(LEMON), line(MILK)), line(CAKE)))
    second = checked(
        order(line(CAKE, lineItemId=str(new_id())), line(TEA, 2, line(MILK), line(LEMON, name="x")))
    )
    assert digest_of(STOREFRONT, first) == digest_of(STOREFRONT, second)


def test_a_line_split_in_two_equals_one_line_of_their_sum():
    assert of(line(TEA), line(CAKE), line(TEA, 2)) == of(line(TEA, 3), line(CAKE))
    assert of(line(TEA, 1, line(MILK), line(MILK))) == of(line(TEA, 1, line(MILK, 2)))
    assert of(line(TEA, 1, line(MILK)), line(TEA)) != of(line(TEA, 2, line(MILK)))


def test_notes_count_and_an_order_without_notes_has_the_digest_that_it_had_before_there_were_notes():
    bare = of(line(TEA, 1, line(LEMON)))
    assert bare == of(line(TEA, 1, line(LEMON, note=""), note=None), note=None)
    assert (bare.cart.hex()[:12], bare.fulfillment.hex()[:12]) == ("1ba6105c09ff", "5bab2097a25a")
    others = [
        of(line(TEA, 1, line(LEMON), note="Hot")),
        of(line(TEA, 1, line(LEMON), note="Cold")),
        of(line(TEA, 1, line(LEMON, note="Hot"))),
        of(line(TEA, 1, line(LEMON)), note="Hot"),
        of(line(TEA, 1, line(LEMON)), note="Cold"),
    ]
    assert len({bare, *others}) == 6
    token = SEAL.issue(bare, AGREED, now=NOW)
    assert "another cart" in refused(token, others[0])
    assert "another fulfillment or note" in refused(token, others[3])
    assert digest_of(STOREFRONT, checked(order(note="Hot"))) != digest_of(STOREFRONT, checked(order()))


def test_street_and_address1_are_one_and_instants_are_compared_in_utc():
    def digest_with(**more: Any) -> Digest:
        later = {"scheduleType": "SCHEDULED"}
        return digest_of(STOREFRONT, checked(order(fulfillment=delivery(**later | more))))

    other = HOME | {"address1": None, "street": HOME["address1"]}
    assert digest_with(address=HOME, scheduledTime="2026-03-04T13:00:00Z") == digest_with(
        address=other, scheduledTime="2026-03-04T15:00:00.000+02:00"
    )


def test_every_part_of_a_fulfilment_counts():
    address: Json = HOME | {"address2": "b", "state": "IL", "coordinates": {"lat": 1.5, "lng": 2.5}}
    time = "2026-03-04T13:00:00Z"
    same = delivery(address, instructions="Ring", scheduleType="SCHEDULED", scheduledTime=time)
    others: list[Json] = [
        {"deliveryType": "LEAVE_AT_DOOR"},
        {"instructions": None},
        {"scheduledTime": "2026-03-04T13:00:01Z"},
    ]
    others += [{"scheduleType": "ASAP"}, {"mode": "PICKUP"}]
    others += [
        {"address": address | {member: f"not {value}"}}
        for member, value in address.items()
        if member != "coordinates"
    ]
    others += [{"address": address | {"coordinates": place}} for place in (None, {"lat": 2.5, "lng": 1.5})]
    digest_with = [
        digest_of(STOREFRONT, checked(order(fulfillment=same | change))) for change in [{}, *others]
    ]
    assert len(set(digest_with)) == len(digest_with) == 13


def test_digests_are_the_same_in_every_process():
    code = (
        "from tests.orders.test_tokens import *\n"
        "print(msgspec.json.encode(of(line(TEA, 1, line(MILK), line(LEMON)), line(CAKE))).decode())"
    )
    ours = msgspec.json.encode(of(line(TEA, 1, line(MILK), line(LEMON)), line(CAKE))).decode()
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    theirs = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert theirs.stdout.strip() == ours


def shuffled(chance: random.Random, lines: list[Json]) -> list[Json]:
    """Return the same choices in another order, with split lines and groups."""
    out = []
    for one in copy.deepcopy(lines):
        for group in one["modifierGroups"]:
            group["lineItems"] = shuffled(chance, group["lineItems"])
        parts = one["modifierGroups"]
        if parts and chance.random() < 0.5:
            cut = chance.randint(0, len(parts[0]["lineItems"]))
            parts.append(parts[0] | {"lineItems": parts[0]["lineItems"][cut:]})
            parts[0]["lineItems"] = parts[0]["lineItems"][:cut]
        chance.shuffle(parts)
        if one["quantity"] > 1 and chance.random() < 0.5:
            out.append(one | {"quantity": 1, "lineItemId": str(new_id())})
            one["quantity"] -= 1
        out.append(one)
    chance.shuffle(out)
    return out


def changed(chance: random.Random, lines: list[Json]) -> list[Json]:
    """Return the lines with one change at any depth."""
    lines = copy.deepcopy(lines)
    one = chance.choice(lines)
    below = [group for group in one["modifierGroups"] if group["lineItems"]]
    what = chance.randint(-1, 4 if below else 2)
    if what < 0:
        one["note"] = one.get("note", "") + "!"
    elif what == 0:
        one["quantity"] += 1
    elif what == 1:
        one["itemId"] = str(new_id())
    elif what == 2:
        one["modifierGroups"].append({"modifierGroupId": str(new_id()), "lineItems": [line(MILK)]})
    elif what == 3:
        group = chance.choice(below)
        group["lineItems"] = changed(chance, group["lineItems"])
    else:
        chance.choice(below)["modifierGroupId"] = str(new_id())
    return lines


@given(st.integers(0, 2**32))
def test_a_cart_is_the_same_in_any_order_and_another_after_any_change(seed: int) -> None:
    world = RandomStore(seed, careless=0.1)
    lines = world.lines()
    assert of(*lines) == of(*shuffled(world.random, lines))
    assert of(*lines) != of(*changed(world.random, shuffled(world.random, lines)))


@given(st.integers(0, 2**32))
def test_two_lines_have_the_same_digest_exactly_if_their_choices_are_equal(seed: int) -> None:
    world = RandomStore(seed, careless=0.1)
    lines = [*world.lines(), *world.lines()]
    lines = [one | {"quantity": 1} for one in (*lines, *shuffled(world.random, lines))]
    world.random.shuffle(lines)
    for a, b in pairwise(lines):
        first, second = lines_of(a, b)
        assert (of(a) == of(b)) is (choice_of(first) == choice_of(second))


def test_the_digest_does_not_depend_on_the_amounts():
    other = SEAL.issue(DIGEST, replace(AGREED, sums=replace(SUMS, tip=0)), now=NOW)
    assert SEAL.verify(other, digest=DIGEST, now=NOW).sums != SUMS
