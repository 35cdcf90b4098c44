"""Catalog documents for tests, and functions that check them."""

import copy
import json
from typing import Any
from uuid import UUID

from mercato_catalog.building.build import build
from mercato_catalog.building.packed import unpack
from mercato_catalog.model import BuildFailed, BuildRequest, Built, CompiledCatalog

ONBOARDING = UUID("0190f5fe-7e3b-7ccc-8000-000000000001")
SET = UUID("0190f5fe-7e3b-7ccc-8000-000000000002")
STORE = UUID("0190f5fe-7e3b-7ccc-8000-000000000003")

CATALOG = "11111111-1111-5111-8111-111111111111"
DRINKS = "22222222-2222-5222-8222-222222222222"
HOT = "33333333-3333-5333-8333-333333333333"
TEA = "44444444-4444-5444-8444-444444444444"
CAKE = "55555555-5555-5555-8555-555555555555"
MILK = "66666666-6666-5666-8666-666666666666"
LEMON = "77777777-7777-5777-8777-777777777777"
EXTRAS = "88888888-8888-5888-8888-888888888888"
NOWHERE = "99999999-9999-5999-8999-999999999999"

_CAFE: dict[str, Any] = {
    "currency": "USD",
    "catalogs": {CATALOG: {"catalogId": CATALOG, "name": "All day", "sectionIds": [DRINKS]}},
    "sections": {
        DRINKS: {"sectionId": DRINKS, "name": "Drinks", "sectionIds": [HOT], "itemIds": []},
        HOT: {"sectionId": HOT, "name": "Hot", "itemIds": [TEA, CAKE]},
    },
    "items": {
        TEA: {"itemId": TEA, "name": "Tea", "basePrice": "2.50", "modifierGroupIds": [EXTRAS]},
        CAKE: {"itemId": CAKE, "name": "Cake", "basePrice": "4.00", "maximumQuantity": 3},
        MILK: {"itemId": MILK, "name": "Milk", "basePrice": "0.30"},
        LEMON: {"itemId": LEMON, "name": "Lemon", "basePrice": "0.20"},
    },
    "modifierGroups": {
        EXTRAS: {
            "modifierGroupId": EXTRAS,
            "name": "Extras",
            "minimumAllowed": 0,
            "maximumAllowed": 2,
            "itemIds": [MILK, LEMON],
            "priceOverrides": {LEMON: "0.10"},
        }
    },
}


def cafe() -> dict[str, Any]:
    """Return a small valid document for tests to change."""
    return copy.deepcopy(_CAFE)


def json_with(item: str, member: str, raw: str) -> str:
    """Return the café with a member of an item as raw JSON."""
    document = cafe()
    document["items"][item][member] = "RAW"
    return json.dumps(document).replace('"RAW"', raw)


def built(document: Any) -> Built:
    """Return the result of building a valid document."""
    result = outcome(document)
    assert isinstance(result, Built), result
    return result


def faults(document: Any) -> dict[str, str]:
    """Return path → message of a document's faults; each path at most once. Empty when it is valid."""
    result = outcome(document)
    if not isinstance(result, BuildFailed):
        return {}
    found = {fault.path: fault.message for fault in result.faults}
    assert len(found) == len(result.faults), result.faults
    return found


def fault(document: Any) -> str:
    """Return the message of the one fault that concerns the document as a whole."""
    found = faults(document)
    assert list(found) == [""], found
    return found[""]


def warnings(document: Any) -> dict[str, str]:
    """Return path → message of a valid document's warnings."""
    return {warning.path: warning.message for warning in built(document).warnings}


def served(document: Any) -> dict[str, Any]:
    """Return the served copy of a valid document, parsed."""
    parsed = json.loads(built(document).body)
    assert isinstance(parsed, dict)
    return parsed


def compiled(document: Any) -> CompiledCatalog:
    """Return what pricing reads of a valid document."""
    return unpack(built(document).compiled)


def outcome(document: Any, *, previous_hash: str | None = None, default_currency: str = "USD") -> Any:
    """Return what `build` makes of a document: bytes as they are, a str as UTF-8, anything else as JSON."""
    if isinstance(document, str):
        document = document.encode()
    return build(
        document if isinstance(document, bytes) else json.dumps(document).encode(),
        BuildRequest(ONBOARDING, SET, STORE, default_currency, previous_hash),
    )
