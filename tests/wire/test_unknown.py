"""Unknown members of a body are found along its type, whatever the body holds, and their hints say what is meant."""

from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.calibration import cpu_within

from mercato_contract.decoding.unknown import (
    MAX_BYTES,
    MAX_HEADER,
    MAX_LISTED,
    find_unknown,
    refuses_unknown,
    unknown_header,
)
from mercato_contract.json_values import escape
from mercato_contract.member_hints import _OTHERS, _WORDS, member_hint
from mercato_contract.orders import OrderStatusBatch, OrderStatusUpdate
from mercato_contract.placements import OrderCore
from mercato_contract.stores import (
    ItemAvailabilityRequest,
    OnboardingRequest,
    StoreStatusBatch,
    StoreStatusUpdate,
    StoreUpdate,
)
from mercato_contract.webhooks import WebhookEndpointRequest
from mercato_contract.wire import Wire

REGISTRATION: dict[str, Any] = {
    "partnerStoreId": "s",
    "name": "n",
    "address": {"street": "1 Main St", "coordinates": {"lat": 1, "lng": 2}},
    "catalogCallbackUrl": "http://example.com",
}


def unknown(body: bytes, kind: type[Struct] = OnboardingRequest) -> tuple[str, ...]:
    return find_unknown(body, msgspec.inspect.type_info(kind))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.from_regex(r"[a-z~/]{9,12}", fullmatch=True), values, max_size=5),
    st.dictionaries(st.from_regex(r"[a-z~/]{12,14}", fullmatch=True), values, max_size=5),
)
def test_the_members_that_were_added_are_found_and_no_others(top: dict[str, Any], inner: dict[str, Any]):
    address = REGISTRATION["address"]
    added = {
        name: value for name, value in top.items() if name not in OnboardingRequest.__struct_encode_fields__
    }
    body = REGISTRATION | {"address": inner | address | inner} | added
    found = unknown(msgspec.json.encode(body))
    steps = [f"/address/{escape(name)}" for name in inner] + [f"/{escape(name)}" for name in added]
    assert sorted(found) == sorted(steps)


@given(st.binary(max_size=60) | values.map(msgspec.json.encode))
def test_nothing_is_raised_for_any_bytes(body: bytes):
    assert len(unknown(body)) <= MAX_LISTED


@given(
    st.lists(
        st.text(alphabet="a\u00e9\U0001f355,~/", min_size=1, max_size=300),
        min_size=1,
        max_size=30,
        unique=True,
    )
)
def test_the_header_is_bounded_and_names_the_first_members_whole(names: list[str]):
    pointers = unknown(msgspec.json.encode(dict.fromkeys((f"z{name}" for name in names), 0)))
    ((_, value),) = unknown_header(200, pointers)
    assert len(value) <= MAX_HEADER
    named = [unquote(pointer) for pointer in value.decode().split(", ")]
    assert named == list(pointers[: len(named)])
    rest = unknown_header(200, pointers[: len(named) + 1])[0][1]
    assert rest == value, "no pointer that fits is left out"


def test_a_variant_has_the_members_of_all_variants_and_its_tag():
    body = {"fulfillment": {"mode": "PICKUP", "scheduleType": "ASAP", "address": {"zip": 1}, "note": 1}}
    assert unknown(msgspec.json.encode(body), OrderCore) == ("/fulfillment/address/zip", "/fulfillment/note")


def test_a_mark_blanks_and_repeated_members_change_nothing():
    assert unknown(b'\xef\xbb\xbf \n{"foo": 1, "foo": 2, "name": "x"} ') == ("/foo",)


def test_a_large_body_costs_little():
    body = msgspec.json.encode({"items": [{"itemId": "x", "available": True, "sku": 1}] * 1000})
    many = msgspec.json.encode({f"m{number}": 0 for number in range(20_000)})
    assert max(len(body), len(many)) < MAX_BYTES
    with cpu_within(10):
        assert len(unknown(body, ItemAvailabilityRequest)) == MAX_LISTED
        assert len(unknown(many)) == MAX_LISTED


@pytest.mark.parametrize(
    ("request_type", "pointer", "end"),
    [
        (OnboardingRequest, "/webhookURL", "; did you mean `webhookUrl`?"),
        (OnboardingRequest, "/webhook_url", "; did you mean `webhookUrl`?"),
        (OnboardingRequest, "/webhookUrls", "; did you mean `webhookUrl`?"),
        (OnboardingRequest, "/nmae", "; did you mean `name`?"),
        (WebhookEndpointRequest, "/ulr", "; did you mean `url`?"),
        (OnboardingRequest, "/street", "; did you mean `address.street`?"),
        (OnboardingRequest, "/lattitude", "; did you mean `address.coordinates`?"),
        (OnboardingRequest, "/address/lattitude", "; did you mean `coordinates`?"),
        (OnboardingRequest, "/address/coordinates/lattitude", "; did you mean `lat`?"),
        (OnboardingRequest, "/zip", "; did you mean `address.postalCode`?"),
        (OnboardingRequest, "/address/zip", "; did you mean `postalCode`?"),
        (OnboardingRequest, "/address/coordinates/longitude", "; did you mean `lng`?"),
        (OnboardingRequest, "/phone", " of this request; send `phone` with Update Store."),
        (OnboardingRequest, "/phoneNumber", " of this request; send `phone` with Update Store."),
        (OnboardingRequest, "/activateAt", " of this request; send `activateAt` with Notify Catalog Update."),
        (OnboardingRequest, "/foo", "; it was ignored."),
        (StoreUpdate, "/partnerStoreId", "; the id of a store is given at its registration and stays."),
        (StoreStatusUpdate, "/reason", "; did you mean `pauseReason`?"),
        (StoreStatusBatch, "/updates/7/until", "; did you mean `resumeAt`?"),
        (ItemAvailabilityRequest, "/items/0/sku", "; did you mean `partnerItemId`?"),
        (OrderStatusUpdate, "/posOrderId", "; did you mean `partnerOrderId`?"),
        (OrderStatusBatch, "/updates/0/eta", "; did you mean `estimatedReadyAt`?"),
        (OrderStatusUpdate, "/courier/trackingurl", "; did you mean `trackingUrl`?"),
        (WebhookEndpointRequest, "/events", "; did you mean `types`?"),
        (WebhookEndpointRequest, "/a~1b~0", "`a/b~` is not a member; it was ignored."),
    ],
)
def test_the_hint_names_what_is_meant(request_type: type[Struct], pointer: str, end: str):
    assert member_hint(request_type, pointer).endswith(end)


@pytest.mark.parametrize(
    "name",
    sorted(set(StoreUpdate.__struct_encode_fields__) - set(OnboardingRequest.__struct_encode_fields__)),
)
def test_a_member_of_update_store_that_registration_has_not_is_sent_with_update_store(name: str):
    said = member_hint(OnboardingRequest, f"/{name}")
    assert said == f"`{name}` is not a member of this request; send `{name}` with Update Store."


def test_no_word_of_another_vendor_is_a_member_or_means_two_things():
    for kind, meanings in _WORDS.items():
        words = [word for text in meanings.values() for word in text.split(" ")]
        assert len(words) == len(set(words)), kind
        assert not set(words) & {name.lower() for name in kind.__struct_encode_fields__}, kind
        for meant in meanings:
            if " " not in meant:
                assert meant.split(".")[0] in kind.__struct_encode_fields__, (kind, meant)
    for operation, kind in _OTHERS.items():
        assert kind.__struct_encode_fields__, operation


class Inner(Wire, forbid_unknown_fields=True):
    name: str
    below: "list[Inner] | None" = None


class Lax(Wire):
    name: str


class Strict(Wire, forbid_unknown_fields=True):
    entries: list[Inner]


class Mixed(Wire, forbid_unknown_fields=True):
    entries: list[Lax] | None = None


def test_a_type_refuses_unknown_members_if_all_types_below_it_do():
    assert refuses_unknown(Strict)
    assert not refuses_unknown(Mixed)
    assert not refuses_unknown(Lax)
