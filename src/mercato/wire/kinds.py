"""What the types of wire structs say: which values fit them, how they are called, and what they are annotated with."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Raw
from msgspec import inspect as info

from mercato.wire.checks import Rule


def alternatives(kind: info.Type) -> Iterator[info.Type]:
    """Yield the types of which a value may be one."""
    if isinstance(kind, info.Metadata):
        yield from alternatives(kind.type)
    elif isinstance(kind, info.UnionType):
        for part in kind.types:
            yield from alternatives(part)
    else:
        yield kind


def format_of(kind: info.Type) -> str | None:
    """Return the format that a type is documented with."""
    match kind:
        case info.Metadata(type=inner, extra_json_schema=extra):
            form = (extra or {}).get("format")
            return form if isinstance(form, str) else format_of(inner)
        case info.UnionType(types=types):
            return next((form for form in map(format_of, types) if form is not None), None)
        case _:
            return None


def rule_of(kind: info.Type) -> Rule | None:
    """Return the rule that a type is annotated with."""
    match kind:
        case info.Metadata(type=inner, extra=extra):
            rule: Rule | None = (extra or {}).get("rule")
            return rule or rule_of(inner)
        case info.UnionType(types=types):
            return next((rule for rule in map(rule_of, types) if rule is not None), None)
        case _:
            return None


def fits(value: Any, kind: info.Type) -> bool:
    """Tell whether the JSON type is the right one; what the value may be comes after."""
    match kind:
        case info.BoolType():
            return isinstance(value, bool)
        case info.IntType():
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, float) and value.is_integer()
            )
        case info.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case info.StrType() | info.UUIDType() | info.DateTimeType() | info.EnumType():
            return isinstance(value, str)
        case info.LiteralType(values=values):
            return isinstance(value, type(values[0]))
        case info.ListType():
            return isinstance(value, list)
        case info.StructType() | info.DictType():
            return isinstance(value, dict)
        case _:
            return False


_WORDS: Final = {
    info.BoolType: "true or false",
    info.IntType: "an integer",
    info.FloatType: "a number",
    info.StrType: "a string",
    info.UUIDType: "a string",
    info.DateTimeType: "a string",
    info.EnumType: "a string",
    info.LiteralType: "a string",
    info.ListType: "a list",
    info.StructType: "an object",
    info.DictType: "an object",
}


def words(kinds: Iterable[info.Type]) -> str:
    """Return what a value must be, as refusals say it."""
    found = [_WORDS[type(kind)] for kind in kinds if type(kind) in _WORDS]
    return " or ".join(dict.fromkeys(found)) or "another type"


_TYPES: Final = {
    int: "a number",
    float: "a number",
    Raw: "a number",  # decoded with its text kept
    str: "a string",
    list: "a list",
    dict: "an object",
}


def json_type(value: Any) -> str:
    """Return what a value is, as refusals say it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _TYPES.get(type(value), "another type")


def has_float(kind: info.Type) -> bool:
    """Tell whether values of this type may hold a float anywhere."""
    seen: set[type] = set()
    waiting = [kind]
    while waiting:
        for option in alternatives(waiting.pop()):
            match option:
                case info.FloatType():
                    return True
                case info.StructType(cls=cls, fields=fields) if cls not in seen:
                    seen.add(cls)
                    waiting += [field.type for field in fields]
                case info.ListType(item_type=below) | info.DictType(value_type=below):
                    waiting.append(below)
                case _:
                    pass
    return False


def follows(kind: info.Type, steps: Iterable[str | int]) -> bool:
    """Tell whether the way down leads through members and entries that the type has."""
    kinds = [kind]
    for step in steps:
        options = [option for kind in kinds for option in alternatives(kind)]
        kinds = [below for option in options for below in _below(option, step)]
    return bool(kinds)


def _below(kind: info.Type, step: str | int) -> list[info.Type]:
    """Return the types of what stands there in values of this type."""
    match kind:
        case info.StructType(fields=fields):
            return [field.type for field in fields if field.encode_name == step]
        case info.ListType(item_type=item) if isinstance(step, int):
            return [item]
        case info.DictType(value_type=item) if isinstance(step, str):
            return [item]
        case _:
            return []
