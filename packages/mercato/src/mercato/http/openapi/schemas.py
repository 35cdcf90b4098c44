"""The types of the wire as JSON Schema: msgspec's output, adapted for client generators."""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Any, Final

import msgspec
from msgspec import inspect as info

from mercato_contract.problems import ORDER_ERROR_CODES

STORE: Final = "01963f5e-7e3b-7ccc-8000-0000000000a1"
SET: Final = "01963f5e-7e3b-7ccc-8000-0000000000b1"
SOUP: Final = "01963f5e-7e3b-7ccc-8000-0000000000c1"
BREAD: Final = "01963f5e-7e3b-7ccc-8000-0000000000c2"
SIDES: Final = "01963f5e-7e3b-7ccc-8000-0000000000d1"
LINE: Final = "01963f5e-7e3b-7ccc-8000-0000000000e1"

_LINE: Final[dict[str, Any]] = {
    "itemId": SOUP,
    "quantity": 2,
    "modifierGroups": [
        {"modifierGroupId": SIDES, "lineItems": [{"itemId": BREAD, "quantity": 1, "modifierGroups": []}]}
    ],
}
_CART: Final[dict[str, Any]] = {
    "storeId": STORE,
    "catalogSetId": SET,
    "lineItems": [_LINE | {"lineItemId": LINE}],
}
_ORDER: Final[dict[str, Any]] = {
    "cart": _CART,
    "clientContext": {"ip": "203.0.113.7", "userAgent": "Mozilla/5.0"},
    "fulfillment": {
        "mode": "DELIVERY_BY_MERCHANT",
        "scheduleType": "ASAP",
        "deliveryType": "LEAVE_AT_DOOR",
        "address": {"address1": "350 5th Ave", "city": "New York", "state": "NY", "postalCode": "10118"},
        "instructions": "Ring twice.",
    },
    "amounts": {"tip": "2.00"},
    "customer": {
        "email": "ada@example.com",
        "firstName": "Ada",
        "lastName": "Lovelace",
        "phone": "+12125550100",
    },
}

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "ConsoleLinkRequest": {"readOnly": True},
    "WebhookEndpointRequest": {
        "url": "https://partner.example.com/mercato/events",
        "description": "Orders to the warehouse",
        "headers": {"X-Tenant": "warehouse"},
        "enabled": True,
    },
    "NewAgentRequest": {
        "name": "Lunch assistant",
        "currency": "USD",
        "maximumOrder": "30.00",
        "maximumDay": "60.00",
        "approval": "above:20.00",
        "timezone": "America/New_York",
    },
    "RedeliverRequest": {"since": "2026-03-01T00:00:00Z", "status": "failed"},
    "RotateEndpointSecretRequest": {"overlapHours": 24},
    "OnboardingRequest": {
        "partnerStoreId": "downtown-1",
        "name": "Soup & Co, Downtown",
        "address": {
            "street": "350 5th Ave",
            "city": "New York",
            "state": "NY",
            "postalCode": "10118",
            "country": "US",
        },
        "catalogCallbackUrl": "https://partner.example.com/stores/downtown-1/catalog.json",
        "webhookUrl": "https://partner.example.com/mercato",
    },
    "CatalogSetNotification": {"callbackUrl": "https://partner.example.com/stores/downtown-1/catalog.json"},
    "StoreStatusUpdate": {
        "status": "paused",
        "pauseReason": "Kitchen is full",
        "resumeAt": "2099-01-31T18:30:00Z",
    },
    "ItemAvailabilityRequest": {"items": [{"itemId": SOUP, "available": False}]},
    "OrderStatusUpdate": {"status": "confirmed", "estimatedReadyAt": "2099-01-31T18:30:00Z"},
    "OrderStatusBatch": {"updates": [{"orderId": SOUP, "status": "ready"}]},
    "StoreStatusBatch": {"updates": [{"storeId": SOUP, "status": "paused", "pauseReason": "Storm"}]},
    "CancelOrderRequest": {"reason": "CHANGED_MIND", "message": "The customer ordered twice"},
    "AdjustOrderRequest": {"type": "refund", "amount": "1.50", "reason": "The soup was cold"},
    "DiscoverRequest": {
        "location": {"latitude": 40.7484, "longitude": -73.9857},
        "radius": 5000,
        "fulfillmentType": "PICKUP",
        "query": "soup",
    },
    "ExplainSignatureRequest": {
        "headers": {
            "webhook-id": STORE,
            "webhook-timestamp": "1772366400",
            "webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        },
        "body": '{"type":"order.created","timestamp":"2026-03-01T12:00:00.000Z","data":{}}',
        "secrets": ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],
    },
    "McpMessage": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "example", "version": "1.0"},
        },
    },
    "AddCartItemRequest": {"item": _LINE, "storeId": STORE, "catalogSetId": SET},
    "RemoveCartItemRequest": {"cart": _CART, "lineItemId": LINE},
    "UpdateCartItemRequest": {"cart": _CART, "lineItemId": LINE, "quantity": 3},
    "OrderCore": _ORDER,
    "PlaceOrderRequest": _ORDER | {"validatedOrderToken": None, "payment": {"type": "external"}},
}

REF: Final = "#/components/schemas/{name}"

UNIONS: Final = {("DELIVERY_BY_MERCHANT", "PICKUP"): ("Fulfillment", "How an order reaches its customer.")}
"""Names for the unions of the wire, by the values of their discriminators."""

IGNORED: Final = {"ValidateAmounts": "Amounts", "PlaceAmounts": "Amounts"}
"""Request types, and the answers that may be sent in their place. Their other members are ignored."""


def components(*, sent: Iterable[Any], answered: Iterable[Any]) -> dict[str, Any]:
    """Return the schema of every type by its name. Types that are only answered have all members."""
    sent, answered = [*filter(is_named, sent)], [*filter(is_named, answered)]
    _, schemas = msgspec.json.schema_components([*dict.fromkeys([*answered, *sent])], ref_template=REF)
    both = _structs(sent)
    for name, kind in _structs(answered).items():
        if name not in both:
            schemas[name]["required"] = [f.encode_name for f in kind.fields if not _may_be_absent(f)]
            if kind.tag_field is not None:
                schemas[name]["required"].insert(0, kind.tag_field)
    tidy: dict[str, Any] = {}
    for name, schema in schemas.items():
        tidy[name] = _tidied(schema, tidy)
        if name in EXAMPLES:
            tidy[name]["examples"] = [EXAMPLES[name]]
    for name, whole in IGNORED.items():
        _allow_ignored(tidy[name], tidy[whole])
    tidy["OrderError"]["properties"]["code"]["examples"] = sorted(ORDER_ERROR_CODES)
    return tidy


def schema_of(kind: Any) -> dict[str, Any]:
    """Return a type's schema: a reference if it is a named type."""
    if is_named(kind):
        return {"$ref": REF.format(name=kind.__name__)}
    if kind is str:
        return {"type": "string"}
    return {"type": "object", "additionalProperties": True}


def is_named(kind: Any) -> bool:
    """Return whether a type has a separate schema."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _structs(types: Iterable[type]) -> dict[str, info.StructType]:
    """Return every struct that these types contain, by its name."""
    found: dict[str, info.StructType] = {}
    waiting: list[info.Type] = list(info.multi_type_info([*types]))
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, info.StructType):
            if kind.cls.__name__ in found:
                continue
            found[kind.cls.__name__] = kind
        waiting += _children(kind)
    return found


def _children(kind: info.Type) -> Iterator[info.Type]:
    match kind:
        case info.StructType(fields=fields):
            yield from (field.type for field in fields)
        case info.Metadata(type=inner):
            yield inner
        case info.UnionType(types=types):
            yield from types
        case info.ListType(item_type=item) | info.VarTupleType(item_type=item):
            yield item
        case info.DictType(value_type=item):
            yield item
        case _:
            pass


def _may_be_absent(field: info.Field) -> bool:
    """Return whether the member is omitted if it has no value. msgspec doesn't count UNSET as a default."""
    defaults = (field.default, field.default_factory)
    return not field.required and defaults == (msgspec.NODEFAULT, msgspec.NODEFAULT)


def _tidied(schema: Any, named: dict[str, Any]) -> Any:
    """Return the schema without redundant keywords; adds its unions to `named`."""
    if isinstance(schema, list):
        return [_tidied(item, named) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: _tidied(value, named) for name, value in schema.items()}
    if isinstance(out.get("description"), str):
        out["description"] = cleandoc(out["description"])
    if "default" in out and out["default"] in (None, [], ()):
        # Absent and null mean the same, and generators treat members with a default as required.
        del out["default"]
    if "enum" in out:
        out.setdefault("type", "string")
    if out.get("type") == "array":
        out.setdefault("items", {})
    if _is_open(out):
        out.setdefault("additionalProperties", True)
    if out.get("required") == []:
        del out["required"]
    if isinstance(out.get("discriminator"), dict):
        return _union(out, named)
    return out


def _is_open(schema: dict[str, Any]) -> bool:
    """Return whether this is an object of any members. Generators treat one without keywords as empty."""
    kinds = schema.get("type")
    return "object" in (kinds if isinstance(kinds, list) else [kinds]) and "properties" not in schema


def _union(schema: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    name, words = UNIONS[tuple(sorted(schema["discriminator"]["mapping"]))]
    named[name] = {
        "title": name,
        "description": words,
        "oneOf": schema["anyOf"],
        "discriminator": schema["discriminator"],
    }
    return {"$ref": REF.format(name=name)}


def _allow_ignored(schema: dict[str, Any], whole: dict[str, Any]) -> None:
    """Allow the members of an answer in a request's type, and describe them as ignored."""
    for name, member in whole["properties"].items():
        if name not in schema["properties"]:
            words = "Ignored. Present so that an answered order can be sent back as it is."
            schema["properties"][name] = _plain(member) | {"description": words}


def _plain(member: dict[str, Any]) -> dict[str, Any]:
    """Return the type of an ignored member, without constraints."""
    if member.get("type") == "array":
        return {"type": ["array", "null"], "items": member["items"]}
    return {"type": [member["type"], "null"]}
