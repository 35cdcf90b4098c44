"""Which values fit the types of wire structs, their names in messages, and checks that types can't express."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from msgspec import inspect as info

from mercato_contract.problems import Reason
from mercato_contract.refusals import ValidationFailed
from mercato_contract.wire import Rule

_HTTP_URI: Final = re.compile(r"https?://[^\s/?#\\]+[^\s\\]*", re.IGNORECASE)
_HOST_PORT: Final = re.compile(r"(?:\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")

_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


def uri_fault(text: str, name: str) -> str | None:
    """Return what is wrong with the text of an absolute http(s) URI, or None."""
    if _CONTROL.search(text) or not _HTTP_URI.fullmatch(text):
        return f"{name} must be an absolute http or https URI, like https://example.com/path."
    try:
        parts = urlsplit(text)
    except ValueError:
        return f"{name} is not a URI: its host cannot be read."
    if not parts.hostname:
        return f"{name} needs a host name."
    if not _HOST_PORT.fullmatch(parts.netloc.rpartition("@")[2]):
        return f"{name} is not a URI: what follows its host is not a port number."
    if not _has_usable_port(parts):
        return f"{name} has a port that does not exist. Use a port from 1 to 65535, or none."
    return None


def _has_usable_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:  # above 65535
        return False


def refuse(checks: Sequence[tuple[str, str | None]]) -> None:
    """Raise one ValidationFailed for every (pointer, fault) whose fault is not None."""
    code = ValidationFailed.code
    faults = [Reason(code=code, message=fault, pointer=at) for at, fault in checks if fault is not None]
    if faults:
        detail = (
            faults[0].message if len(faults) == 1 else f"{len(faults)} values are not allowed: see errors."
        )
        raise ValidationFailed(detail, errors=faults)


def alternatives(kind: info.Type) -> Iterator[info.Type]:
    """Yield the types that a value may have."""
    if isinstance(kind, info.Metadata):
        yield from alternatives(kind.type)
    elif isinstance(kind, info.UnionType):
        for part in kind.types:
            yield from alternatives(part)
    else:
        yield kind


def format_of(kind: info.Type) -> str | None:
    """Return the JSON Schema format of a type."""
    found = _annotation(kind, lambda annotated: (annotated.extra_json_schema or {}).get("format"))
    return found if isinstance(found, str) else None


def rule_of(kind: info.Type) -> Rule | None:
    """Return the rule that a type is annotated with."""
    rule: Rule | None = _annotation(kind, lambda annotated: (annotated.extra or {}).get("rule"))
    return rule


def words_of(kind: info.Type) -> str | None:
    """Return in words what the pattern of a type says, if it is annotated with them."""
    words: str | None = _annotation(kind, lambda annotated: (annotated.extra or {}).get("form"))
    return words


def is_repeatable(kind: info.Type) -> bool:
    """Return whether a query parameter of this type may be sent several times."""
    return _annotation(kind, lambda annotated: (annotated.extra or {}).get("repeatable")) is True


def _annotation(kind: info.Type, read: Callable[[info.Metadata], Any]) -> Any:
    match kind:
        case info.Metadata(type=inner):
            return read(kind) or _annotation(inner, read)
        case info.UnionType(types=types):
            return next((found for part in types if (found := _annotation(part, read)) is not None), None)
        case _:
            return None


_STRINGS: Final = (info.StrType, info.UUIDType, info.DateTimeType, info.EnumType, info.LiteralType)
_VALUES: Final[Mapping[type[info.Type], tuple[str, tuple[type, ...]]]] = {
    info.BoolType: ("true or false", (bool,)),
    info.IntType: ("an integer", (int, float)),
    info.FloatType: ("a number", (int, float)),
    **dict.fromkeys(_STRINGS, ("a string", (str,))),
    info.ListType: ("a list", (list,)),
    **dict.fromkeys((info.StructType, info.DictType), ("an object", (dict,))),
}
"""The name of each type in messages, and the Python types of its values."""


def fits(value: Any, kind: info.Type) -> bool:
    """Return whether the value has the right JSON type. Its content is checked later."""
    _, types = _VALUES.get(type(kind), ("", ()))
    if isinstance(value, bool):
        return bool in types
    if isinstance(kind, info.IntType) and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, types)


def describe_types(kinds: Iterable[info.Type]) -> str:
    """Return what a value must be, for messages."""
    found = [_VALUES[type(kind)][0] for kind in kinds if type(kind) in _VALUES]
    return " or ".join(dict.fromkeys(found)) or "another type"


def has_float(kind: info.Type) -> bool:
    """Return whether values of this type may contain a float."""
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
    """Return whether the path leads through members and entries that the type has."""
    kinds = [kind]
    for step in steps:
        options = [option for kind in kinds for option in alternatives(kind)]
        kinds = [below for option in options for below in _below(option, step)]
    return bool(kinds)


def _below(kind: info.Type, step: str | int) -> list[info.Type]:
    """Return the types of the member or entry at this step."""
    match kind:
        case info.StructType(fields=fields):
            return [field.type for field in fields if field.encode_name == step]
        case info.ListType(item_type=item) if isinstance(step, int):
            return [item]
        case info.DictType(value_type=item) if isinstance(step, str):
            return [item]
        case _:
            return []
