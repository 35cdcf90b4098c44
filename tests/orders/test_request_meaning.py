"""Requests of an idempotency key are the same if they mean the same, however each is written.

The requests are generated from the wire types: a member that is added to one is covered without a change here.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect as info

from mercato.features.orders.idempotency import meaning_of
from mercato.features.orders.placement import placement_meaning
from mercato.features.orders.store_messages import canonical_payment
from mercato_contract.carts import DECIMAL
from mercato_contract.decoding import Decoder
from mercato_contract.money import canonical_decimal
from mercato_contract.orders import AdjustOrderRequest, CancelOrderRequest
from mercato_contract.placements import PlaceOrderRequest
from mercato_contract.wire import Wire

DEPTH: Final = 3
"""Levels of lines below a cart's."""

AMOUNTS: Final = ("1", "1.50", "12.345", "0.10", "-3.20", "20.00")
INSTANTS: Final = {
    "2026-01-31T18:30:00Z": ("2026-01-31T18:30:00.000Z", "2026-01-31T20:30:00+02:00", "2026-01-31t18:30:00z"),
    "2026-02-01T00:00:00.250Z": ("2026-01-31T19:00:00.250-05:00", "2026-02-01T00:00:00.250000+00:00"),
}


class Request(NamedTuple):
    kind: type[Wire]
    meaning: Callable[[Any], bytes]

    def read(self, document: Any) -> bytes:
        """Return what the document means, decoded as the operation decodes its body."""
        return self.meaning(Decoder(self.kind)(json.dumps(document).encode()))


def meaning_of_placement(request: PlaceOrderRequest) -> bytes:
    plain = msgspec.structs.replace(request, payment=msgspec.UNSET)
    return placement_meaning(plain, canonical_payment(request.payment))


REQUESTS: Final = {
    "place": Request(PlaceOrderRequest, meaning_of_placement),
    "cancel": Request(CancelOrderRequest, meaning_of),
    "adjust": Request(AdjustOrderRequest, meaning_of),
}
every_request = pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)


class Member(NamedTuple):
    """A member of an object in a document, and whether it may be left out."""

    holder: dict[str, Any]
    name: str
    path: str
    kind: info.Type
    is_optional: bool


def plain(kind: info.Type) -> info.Type:
    """Return the type without its metadata, and without null and absent."""
    while isinstance(kind, info.Metadata):
        kind = kind.type
    if isinstance(kind, info.UnionType):
        left = [one for one in kind.types if not isinstance(one, info.NoneType)]
        left = [
            one for one in left if not (isinstance(one, info.CustomType) and one.cls is msgspec.UnsetType)
        ]
        return plain(left[0]) if len(left) == 1 else info.UnionType(tuple(left))
    return kind


def is_instant(kind: info.Type) -> bool:
    if isinstance(kind, info.UnionType):
        return any(map(is_instant, kind.types))
    schema = kind.extra_json_schema or {} if isinstance(kind, info.Metadata) else {}
    return schema.get("format") == "date-time"


def is_decimal(kind: info.Type) -> bool:
    text = plain(kind)
    return isinstance(text, info.StrType) and text.pattern == DECIMAL


def is_by_value(kind: info.Type) -> bool:
    return is_decimal(kind) or is_instant(kind)


def respelled(decimal: str, zeros: str) -> str:
    """Return the same decimal with more zeros at its end."""
    return decimal + ("" if "." in decimal else ".") + zeros


def values(kind: info.Type, depth: int = 0) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON values of the type, with every member of every object, and no empty text."""
    if is_instant(kind):
        return st.sampled_from(sorted(INSTANTS))
    match plain(kind):
        case info.UnionType(types=types):
            return st.one_of([values(one, depth) for one in types])
        case info.StructType() as struct:
            found = {field.encode_name: values(field.type, depth + 1) for field in struct.fields}
            tag = {} if struct.tag_field is None else {struct.tag_field: st.just(struct.tag)}
            return st.fixed_dictionaries(tag | found)
        case info.ListType(item_type=entry):
            if depth > 2 * DEPTH:
                return st.just([])
            return st.lists(values(entry, depth + 1), min_size=1, max_size=2)
        case scalar:
            return scalars(scalar)


@cache
def documents(kind: type[Wire]) -> st.SearchStrategy[Any]:
    """Return the strategy for requests of a type: to make it takes longer than to draw from it."""
    return values(info.type_info(kind))


def scalars(kind: info.Type) -> st.SearchStrategy[Any]:
    match kind:
        case info.StrType(pattern=pattern) if pattern == DECIMAL:
            return st.sampled_from(AMOUNTS)
        case info.StrType():
            return st.text("abc 1.0", min_size=1, max_size=6).filter(str.strip)
        case info.EnumType(cls=cls):
            return st.sampled_from([member.value for member in cls])
        case info.UUIDType():
            return st.integers(1, 2**100).map(lambda number: str(UUID(int=number)))
        case info.IntType():
            return st.integers(1, 9)
        case info.FloatType():
            return st.floats(-90, 90).map(lambda number: round(number, 3) + 0.0)
        case info.RawType():
            return st.fixed_dictionaries({"type": st.just("external"), "n": st.integers(0, 9)})
    raise AssertionError(kind)


def struct_of(kind: info.Type, value: Any) -> info.StructType:
    """Return the struct of an object; of a union, the one that its tag names."""
    structs = kind.types if isinstance(kind, info.UnionType) else (kind,)
    for struct in structs:
        assert isinstance(struct, info.StructType)
        if struct.tag_field is None or value[struct.tag_field] == struct.tag:
            return struct
    raise AssertionError(value)


def members(kind: info.Type, value: Any, path: str = "") -> Iterator[Member]:
    """Yield every member that the document has, at any depth, before those below it."""
    match plain(kind):
        case info.ListType(item_type=entry):
            for index, one in enumerate(value):
                yield from members(entry, one, f"{path}/{index}")
        case (info.StructType() | info.UnionType()) as found:
            for field in struct_of(found, value).fields:
                name = field.encode_name
                if name in value:
                    yield Member(value, name, f"{path}/{name}", field.type, not field.required)
                    if value[name] is not None:
                        yield from members(field.type, value[name], f"{path}/{name}")


def copy(document: Any) -> Any:
    return json.loads(json.dumps(document))


def names(document: Any, request: Request) -> list[str]:
    """Return the paths of all optional members."""
    return [one.path for one in members(info.type_info(request.kind), document) if one.is_optional]


def at(document: Any, request: Request, path: str) -> Member:
    return next(one for one in members(info.type_info(request.kind), document) if one.path == path)


@every_request
@given(data=st.data())
def test_an_absent_member_and_a_null_one_are_the_same_request(request_: Request, data: st.DataObject):
    document = data.draw(documents(request_.kind))
    absent, null = copy(document), copy(document)
    chosen = data.draw(st.sets(st.sampled_from(names(document, request_)), min_size=1))
    # Those below first: a member of what is left out can't be left out.
    for path in sorted(chosen, key=len, reverse=True):
        for spelling, is_null in ((absent, False), (null, True)):
            member = at(spelling, request_, path)
            del member.holder[member.name]
            if is_null:
                member.holder[member.name] = None
    assert request_.read(absent) == request_.read(null)


@every_request
@given(data=st.data())
def test_amounts_and_instants_are_compared_by_value(request_: Request, data: st.DataObject):
    document = data.draw(documents(request_.kind))
    other = copy(document)
    for member in members(info.type_info(request_.kind), other):
        value = member.holder[member.name]
        if is_instant(member.kind):
            member.holder[member.name] = data.draw(st.sampled_from(INSTANTS[value]))
        elif is_decimal(member.kind):
            member.holder[member.name] = respelled(value, "0" * data.draw(st.integers(1, 3)))
    assert request_.read(document) == request_.read(other)


@given(data=st.data())
def test_a_member_is_compared_by_value_also_if_it_is_the_only_optional_one(data: st.DataObject):
    """A placement is searched for such members if it has amounts or a time: a member elsewhere would be missed."""
    place, kind = REQUESTS["place"], info.type_info(PlaceOrderRequest)
    document = data.draw(documents(PlaceOrderRequest))
    by_value = [one.path for one in members(kind, document) if is_by_value(one.kind)]
    kept = data.draw(st.sampled_from(by_value))
    for member in [one for one in members(kind, document) if one.is_optional]:
        if not kept.startswith(member.path):
            member.holder.pop(member.name)
    other = copy(document)
    member = at(other, place, kept)
    value = member.holder[member.name]
    member.holder[member.name] = INSTANTS[value][0] if value in INSTANTS else respelled(value, "00")
    assert place.read(other) == place.read(document)


@every_request
@given(data=st.data())
def test_every_member_counts(request_: Request, data: st.DataObject):
    """Without one of its optional members a request is another one, as it is with another value of any member."""
    kind = info.type_info(request_.kind)
    document, other = data.draw(documents(request_.kind)), data.draw(documents(request_.kind))
    for one in (document, other):
        # A street is `address1` in other words: it counts only without that.
        for member in [found for found in members(kind, one) if found.name == "street"]:
            del member.holder["street"]
    without, changed = copy(document), copy(document)
    member = at(without, request_, data.draw(st.sampled_from(names(document, request_))))
    del member.holder[member.name]
    assert request_.read(without) != request_.read(document)
    member = data.draw(st.sampled_from(list(members(kind, changed))))
    found = next((one for one in members(kind, other) if one.path == member.path), None)
    if found is not None and found.holder[found.name] != member.holder[member.name]:
        member.holder[member.name] = found.holder[found.name]
        assert request_.read(changed) != request_.read(document)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"amounts": None}, {"amounts": {}}, id="no amounts"),
        pytest.param({}, {"amounts": {"tip": "0.00"}}, id="no tip"),
        pytest.param({}, {"amounts": {"tip": "-0"}}, id="minus no tip"),
        pytest.param({"note": ""}, {}, id="no note"),
        pytest.param({"validatedOrderToken": None}, {}, id="no token"),
        pytest.param({"payment": None}, {}, id="no payment"),
    ],
)
def test_what_means_nothing_is_the_same_as_nothing(one: Any, other: Any):
    place = REQUESTS["place"]
    document = {
        "cart": {"catalogSetId": str(UUID(int=1)), "storeId": str(UUID(int=2)), "lineItems": []},
        "clientContext": {"ip": "", "userAgent": ""},
        "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
    }
    assert place.read(document | one) == place.read(document | other)
    # The store gets a payment as it is: what it means is the store's to say.
    assert place.read(document | {"payment": {"a": None}}) != place.read(document | {"payment": {}})


@pytest.mark.parametrize(
    "text", ["{", "{,", ":{}", '"', '","a":null', '{"a":""', '\\"note":null', '"tip":"1.0"', "\n"]
)
def test_a_text_is_compared_letter_by_letter_whatever_it_looks_like(text: str):
    place = REQUESTS["place"]
    document = {
        "cart": {"catalogSetId": str(UUID(int=1)), "storeId": str(UUID(int=2)), "lineItems": []},
        "clientContext": {"ip": "", "userAgent": ""},
        "fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP"},
    }
    texts = ("", text, f"{text},", f"{text}{text}", f"{text}x", f"x{text}")
    meanings = {place.read(document | {"note": one}) for one in texts}
    assert len(meanings) == len(texts)


def test_a_key_of_the_previous_release_is_for_what_its_request_meant():
    """Its hash is that of these bytes."""
    document = {
        "amounts": {"tip": "1.50", "total": None},
        "cart": {
            "storeId": str(UUID(int=2)),
            "catalogSetId": str(UUID(int=1)),
            "lineItems": [{"itemId": str(UUID(int=3)), "quantity": 2, "modifierGroups": [], "note": "é{"}],
        },
        "clientContext": {"ip": "::1", "userAgent": ""},
        "fulfillment": {
            "mode": "DELIVERY_BY_MERCHANT", "scheduleType": "SCHEDULED", "deliveryType": "LEAVE_AT_DOOR",
            "scheduledTime": "2026-01-31T20:30:00+02:00", "address": {"address1": None}, "instructions": "",
        },
    }  # fmt: skip
    assert REQUESTS["place"].read(document).decode() == (
        '{"amounts":{"tip":"1.5"},"cart":{"catalogSetId":"00000000-0000-0000-0000-000000000001","lineItems":[{"itemId":'
        '"00000000-0000-0000-0000-000000000003","note":"é{","quantity":2}],"storeId":'
        '"00000000-0000-0000-0000-000000000002"},"clientContext":{"ip":"::1"},"fulfillment":{"deliveryType":'
        '"LEAVE_AT_DOOR","mode":"DELIVERY_BY_MERCHANT","scheduleType":"SCHEDULED","scheduledTime":'
        '"2026-01-31T18:30:00.000Z"}}null'
    )


def test_a_street_is_an_address1():
    place = REQUESTS["place"]
    home = {"mode": "DELIVERY_BY_MERCHANT", "scheduleType": "ASAP", "deliveryType": "LEAVE_AT_DOOR"}
    document = {
        "cart": {"catalogSetId": str(UUID(int=1)), "storeId": str(UUID(int=2)), "lineItems": []},
        "clientContext": {"ip": "", "userAgent": ""},
    }

    def read(address: Any) -> bytes:
        return place.read(document | {"fulfillment": home | {"address": address}})

    assert read({"street": "1 Main St"}) == read({"address1": "1 Main St", "street": None})
    assert read({"address1": "1 Main St", "street": "2 Main St"}) == read({"address1": "1 Main St"})
    assert read({"street": "1 Main St"}) != read({"street": "2 Main St"})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1", "1"), ("1.0", "1"), ("1.00", "1"), ("0.10", "0.1"), ("01.5", "1.5"), ("-0.00", "0"), ("000", "0"),
        ("-1.20", "-1.2"), ("9" * 40 + ".0", "9" * 40), ("100", "100"), ("1e3", "1e3"), ("", ""), (" 1", " 1"),
    ],
)  # fmt: skip
def test_a_decimal_has_one_canonical_form(text: str, canonical: str):
    assert canonical_decimal(text) == canonical
