"""Every type of webhook has one payload, and the OpenAPI document describes each."""

from typing import get_args, get_type_hints

from mercato.http.openapi.document import envelope
from mercato_contract.events import EVENTS, PAYLOADS, EventType, MerchantOrderData, find_payload


def test_every_type_of_webhook_has_a_payload():
    assert set(PAYLOADS) == set(EventType)


def test_the_openapi_document_describes_every_type_of_webhook_with_its_payload():
    described: dict[str, type] = {}
    of_merchants: dict[str, type] = {}
    for event in EVENTS:
        members = get_type_hints(envelope(event))
        found = of_merchants if members["data"] is MerchantOrderData else described
        found |= dict.fromkeys(get_args(members["type"]), members["data"])
    assert described == PAYLOADS
    for type_, data in of_merchants.items():
        assert find_payload(type_, b'{"orderHandling": "manual"}') is data
        assert find_payload(type_, b"{}") is PAYLOADS[type_]
