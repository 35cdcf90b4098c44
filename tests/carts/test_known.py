"""Decisions §7: a cart is answered by what it says and what the store sells, whether or not it was sent before."""

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields
from tests.carts.chance import Chance
from tests.catalog.documents import compiled

from mercato.carts.changes import Menu, add_item, named, remove_item, update_item
from mercato.carts.known import LONGEST, Lines, reader
from mercato.carts.model import AddCartItemRequest, LineItem, RemoveCartItemRequest, UpdateCartItemRequest
from mercato.errors import Problem
from mercato.orders.request import OrderCore, PickupFulfillment, PlaceOrderRequest, ScheduleType
from mercato.orders.tokens import digest
from mercato.wire import Decoder, as_json

STORE, SET = uuid4(), uuid4()
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
LONG = settings(QUICK, max_examples=10_000)
seeds = st.integers(0, 2**48)

CHANGES: list[tuple[type[Any], Callable[..., Any]]] = [
    (AddCartItemRequest, add_item),
    (RemoveCartItemRequest, remove_item),
    (UpdateCartItemRequest, update_item),
]
KINDS = [kind for kind, _ in CHANGES] + [OrderCore, PlaceOrderRequest]
READ = {kind: Decoder(kind, reader(kind)) for kind in KINDS}
PLAIN = {kind: Decoder(kind) for kind in KINDS}


def answered(request: Any, change: Callable[..., Any], menu: Menu) -> Any:
    """Return the answer, or the refusal. New ids are numbers, so that the same is given to both."""
    numbers = itertools.count(1 << 64)
    try:
        named(request)
        return as_json(change(request, menu, lambda: UUID(int=next(numbers))))
    except Problem as refused:
        return type(refused), refused.detail, refused.errors


def with_ids(world: Chance, lines: list[Any], share: float) -> None:
    """Give so many of the lines ids, a few of them twice."""
    for line in lines:
        if world.often(share):
            line["lineItemId"] = str(UUID(int=1)) if world.often(0.02) else world.id()
        for group in line["modifierGroups"]:
            with_ids(world, group["lineItems"], share)


def check_carts(seed: int, careless: float) -> int:
    """Send carts twice, then by another catalog and with other items sold out; tell how many were answered."""
    world = Chance(seed, careless=careless)
    lines = world.lines()
    if world.often(0.1):
        lines.append(copy.deepcopy(lines[0]))
    with_ids(world, lines, world.random.choice([1.0, 1.0, 0.7]))
    lines[-1].setdefault("lineItemId", world.id())
    body = {
        "cart": {"storeId": str(STORE), "catalogSetId": str(SET), "lineItems": lines},
        "item": world.lines()[0],
        "lineItemId": lines[-1]["lineItemId"],
        "quantity": world.random.randint(0, 3),
    }
    sent = json.dumps(body).encode()
    later = copy.deepcopy(world.document)
    for item in later["items"].values():
        if "basePrice" in item and world.often(0.5):
            item["basePrice"] = world.price()
    first = Menu(STORE, SET, compiled(world.document), frozenset())
    out = frozenset({UUID(lines[0]["itemId"])})
    good = 0
    for menu in (
        first,
        first,
        msgspec.structs.replace(first, sold_out=out),
        msgspec.structs.replace(first, catalog=compiled(later)),
        first,
    ):
        for kind, change in CHANGES:
            answer = answered(READ[kind](sent), change, menu)
            assert answer == answered(PLAIN[kind](sent), change, menu)
            good += isinstance(answer, bytes)
    pickup = PickupFulfillment(schedule_type=ScheduleType.ASAP)
    for _ in range(2):
        known, plain = (
            digest(STORE, STORE, currency="USD", lines=read[kind](sent).cart.line_items, fulfillment=pickup)
            for read in (READ, PLAIN)
        )
        assert known == plain
    return good


def test_chance_makes_carts_that_are_answered_and_carts_that_are_refused():
    good = sum(check_carts(seed, 0.3) for seed in range(60))
    assert 200 < good < 60 * 15 - 100


@QUICK
@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
def test_a_cart_that_was_sent_before_is_answered_as_if_it_had_not_been(seed: int, careless: float):
    check_carts(seed, careless)


@pytest.mark.long
@LONG
@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
def test_ten_thousand_carts_that_were_sent_before_are_answered_as_if_they_had_not_been(
    seed: int, careless: float
):
    check_carts(seed, careless)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_is_read_into_the_members_that_its_kind_has_in_their_order(kind: type[Any]):
    fulfillment = {"mode": "PICKUP", "scheduleType": "ASAP"}
    body = {
        "cart": {"storeId": str(STORE), "catalogSetId": str(SET), "lineItems": [line(uuid4())]},
        "item": line(uuid4()),
        "lineItemId": str(uuid4()),
        "quantity": 2,
        "fulfillment": fulfillment,
        "clientContext": {"ip": "203.0.113.7", "userAgent": "shop/1.0"},
        "amounts": {"tip": "1.00"},
        "validatedOrderToken": "vo_1",
        "payment": {"a": 1},
    }
    sent = json.dumps(body).encode()
    read, plain = READ[kind](sent), PLAIN[kind](sent)
    assert isinstance(read, kind)
    assert [member.name for member in fields(read)] == [member.name for member in fields(plain)]
    assert as_json(read) == as_json(plain)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "lines",
    [
        b'[{"itemId":"x"}]',
        b"[1]",
        b"[null]",
        b'{"a":1}',
        b"null",
        b"[{]",
        b'[{"itemId":"\xff"}]',
        b'[{"itemId":"\\u0000"}]',
        b'[{"modifierGroups":' * 100_000,
        b"[" * 200,
        b'[{"itemId":"\xff"},{]',
        b'[{"quantity":1e400},{]',
        b'[{"itemId":1},' + b'{"modifierGroups":[{"lineItems":[' * 1000,
        b'[{"itemId":1},' + b'{"modifierGroups":[{"lineItems":[' * 1000 + b"]}]}" * 1000 + b"]",
    ],
)
def test_a_line_that_cannot_be_read_is_refused_alike(kind: type[Any], lines: bytes):
    sent = b'{"lineItemId":"%s","quantity":-1,"cart":{"storeId":"%s","lineItems":%s}}' % (
        str(SET).encode(),
        str(STORE).encode(),
        lines,
    )
    refusals = []
    for read in (READ[kind], PLAIN[kind]):
        with pytest.raises(Problem) as refused:
            read(sent)
        refusals.append((type(refused.value), refused.value.detail, refused.value.errors))
    assert refusals[0] == refusals[1]


def test_what_is_remembered_is_bounded_by_its_bytes():
    texts = [json.dumps(line(uuid4())).encode() for _ in range(50)]
    lines = Lines(most_bytes=10 * len(texts[0]))
    read = [lines.read(msgspec.Raw(text)) for text in texts]
    assert [one for one in read if lines.find(one)] == read[-10:]
    assert all(lines.read(msgspec.Raw(text)) == one for text, one in zip(texts, read, strict=True))


def test_the_line_that_was_sent_least_recently_is_forgotten_first():
    texts = [json.dumps(line(uuid4())).encode() for _ in range(11)]
    lines = Lines(most_bytes=10 * len(texts[0]))
    read = [lines.read(msgspec.Raw(text)) for text in texts[:10]]
    assert lines.read(msgspec.Raw(texts[0])) is read[0]
    lines.read(msgspec.Raw(texts[10]))
    assert [one for one in read if lines.find(one) is None] == [read[1]]


def test_a_long_line_is_read_and_not_remembered():
    text = json.dumps(line(uuid4()) | {"note": "x" * LONGEST}).encode()
    lines = Lines()
    assert lines.find(lines.read(msgspec.Raw(text))) is None


def test_a_known_line_with_another_quantity_is_another_line():
    lines = Lines()
    read = lines.read(msgspec.Raw(json.dumps(line(uuid4())).encode()))
    assert lines.find(read) is not None
    assert lines.find(msgspec.structs.replace(read, quantity=2)) is None
    assert lines.find(msgspec.convert(msgspec.to_builtins(read), LineItem)) is None


def line(item_id: UUID) -> dict[str, Any]:
    return {"itemId": str(item_id), "quantity": 1, "modifierGroups": [], "lineItemId": str(uuid4())}
