"""The types of the wire as JSON Schema: what msgspec makes of them, in the form that generators read best."""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Any, Final

import msgspec
from msgspec import inspect as info

from mercato.domain.orders.reasons import ORDER_REASONS
from mercato.http.openapi.examples import EXAMPLES

REF: Final = "#/components/schemas/{name}"

UNIONS: Final = {("DELIVERY_BY_MERCHANT", "PICKUP"): ("Fulfillment", "How an order reaches its customer.")}
"""Names for the unions of the wire, by the values of their discriminators."""

IGNORED: Final = {"ValidateAmounts": "Amounts", "PlaceAmounts": "Amounts"}
"""What is sent, and the answer that may be sent back in its place: the members that are not read."""


def components(*, sent: Iterable[Any], answered: Iterable[Any]) -> dict[str, Any]:
    """Return the schema of every type by its name. What is only ever answered has all its members, always."""
    sent, answered = [*filter(is_named, sent)], [*filter(is_named, answered)]
    _, schemas = msgspec.json.schema_components([*dict.fromkeys([*answered, *sent])], ref_template=REF)
    both = _structs(sent)
    for name, kind in _structs(answered).items():
        if name not in both:
            schemas[name]["required"] = [f.encode_name for f in kind.fields if not _may_be_absent(f)]
            if kind.tag_field is not None:
                schemas[name]["required"].insert(0, kind.tag_field)
    made: dict[str, Any] = {}
    for name, schema in schemas.items():
        made[name] = _tidied(schema, made)
        if name in EXAMPLES:
            made[name]["examples"] = [EXAMPLES[name]]
    for name, whole in IGNORED.items():
        _allow_ignored(made[name], made[whole])
    made["OrderError"]["properties"]["code"]["examples"] = sorted(ORDER_REASONS)
    return made


def schema_of(kind: Any) -> dict[str, Any]:
    """Return a type's schema, by its name if it has one."""
    if is_named(kind):
        return {"$ref": REF.format(name=kind.__name__)}
    if kind is str:
        return {"type": "string"}
    return {"type": "object", "additionalProperties": True}


def is_named(kind: Any) -> bool:
    """Tell whether a type has a schema of its own."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _structs(types: Iterable[type]) -> dict[str, info.StructType]:
    """Return every struct that these types lead to, by its name."""
    found: dict[str, info.StructType] = {}
    waiting: list[info.Type] = list(info.multi_type_info([*types]))
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, info.StructType):
            if kind.cls.__name__ in found:
                continue
            found[kind.cls.__name__] = kind
        waiting += _below(kind)
    return found


def _below(kind: info.Type) -> Iterator[info.Type]:
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
    """Tell whether the member is left out when it has no value; its default, UNSET, is none to msgspec."""
    defaults = (field.default, field.default_factory)
    return not field.required and defaults == (msgspec.NODEFAULT, msgspec.NODEFAULT)


def _tidied(schema: Any, named: dict[str, Any]) -> Any:
    """Return the schema without what only looks like information, its unions under their names in `named`."""
    if isinstance(schema, list):
        return [_tidied(one, named) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: _tidied(value, named) for name, value in schema.items()}
    if isinstance(out.get("description"), str):
        out["description"] = cleandoc(out["description"])
    if "default" in out and out["default"] in (None, [], ()):
        # Absent and null mean the same; generators make members with a default required ones.
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
    """Tell whether this is an object of any members: generators take one that says nothing for an empty one."""
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
    """Say of a request's type that what was answered can be sent back, and what of it is not read."""
    for name, member in whole["properties"].items():
        if name not in schema["properties"]:
            words = "Not read: it is here so that an answered order can be sent back as it is."
            schema["properties"][name] = _plain(member) | {"description": words}


def _plain(member: dict[str, Any]) -> dict[str, Any]:
    """Return the bare type of a member: what is not read has no form that it must have."""
    if member.get("type") == "array":
        return {"type": ["array", "null"], "items": member["items"]}
    return {"type": [member["type"], "null"]}
