"""Every type of webhook has one payload, and the OpenAPI document describes each."""

from typing import get_args, get_type_hints

from mercato.http.openapi.document import envelope
from mercato_contract.events import EVENTS, PAYLOADS, EventType


def test_every_type_of_webhook_has_a_payload():
    assert set(PAYLOADS) == set(EventType)


def test_the_openapi_document_describes_every_type_of_webhook_with_its_payload():
    described: dict[str, type] = {}
    for event in EVENTS:
        members = get_type_hints(envelope(event))
        described |= dict.fromkeys(get_args(members["type"]), members["data"])
    assert described == PAYLOADS
