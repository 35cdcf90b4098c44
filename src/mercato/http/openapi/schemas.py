"""The types of the wire as JSON Schema: msgspec's output, adapted for client generators."""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Any, Final

import msgspec
from msgspec import inspect as info

from mercato.domain.orders.validation.error_codes import ORDER_ERROR_CODES
from mercato.http.openapi.examples import EXAMPLES

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
    """Return whether a type has a schema of its own."""
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
