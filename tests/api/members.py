"""Values for the members of a request, and whether an answer has them, both derived from the contract's structs.

A member that is added to the contract is then sent, and looked for, by tests that nobody has to change.
"""

from collections.abc import Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import NAMESPACE_URL, UUID, uuid5

from msgspec import UNSET, Meta, Struct, UnsetType, structs

ZONES = ("Asia/Tokyo", "Africa/Nairobi", "America/Lima")


def members_of(shape: type[Struct]) -> dict[str, Any]:
    """Return the types of a struct's members, by their names on the wire."""
    hints = get_type_hints(shape, include_extras=True)
    return {field.encode_name: hints[field.name] for field in structs.fields(shape)}


def sample(shape: type[Struct], turn: int, base: str) -> dict[str, Any]:
    """Return a request with every member: no value is that of another member, or of another turn.

    Only two booleans may be the same, and neighbours aren't. URLs are below `base`.
    """
    return {
        name: _value(hint, name, number + turn, turn, base)
        for number, (name, hint) in enumerate(members_of(shape).items())
    }


def differences(
    sent: dict[str, Any], shown: dict[str, Any], shape: type[Struct], at: str = ""
) -> Iterator[str]:
    """Yield where an answer of this shape doesn't have what was sent, as far as it declares it."""
    for name, hint in members_of(shape).items():
        if name not in sent:
            continue
        inner, value = _inner(hint)[0], sent[name]
        if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, Struct):
            yield from differences(value, shown.get(name) or {}, inner, f"{at}/{name}")
        elif shown.get(name, UNSET) != value:
            yield f"{at}/{name} was sent as {value!r} and is {shown.get(name, UNSET)!r}"


def _inner(hint: Any) -> tuple[Any, list[Meta]]:
    """Return the type without null, absence and metadata, and the metadata."""
    metas: list[Meta] = []
    while True:
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            metas += more
        elif get_origin(hint) in {Union, UnionType}:
            hint = next(one for one in get_args(hint) if one not in {NoneType, UnsetType})
        else:
            return hint, metas


def _value(hint: Any, name: str, number: int, turn: int, base: str) -> Any:
    kind, metas = _inner(hint)
    if get_origin(kind) in {list, tuple}:
        return [_value(get_args(kind)[0], name, number, turn, base)]
    if issubclass(kind, Struct):
        return sample(kind, turn, base)
    if issubclass(kind, Enum):
        return list(kind)[turn % len(kind)].value
    if kind is bool:
        return number % 2 == 0
    if kind in {int, float}:
        return kind(sum(map(ord, name)) % 64 + turn)
    if kind is UUID:
        return str(uuid5(NAMESPACE_URL, f"{name} {turn}"))
    assert kind is str, f"This test has no value for {name}, a {kind}: add one here."
    return _text(name, metas, turn, base)


def _text(name: str, metas: list[Meta], turn: int, base: str) -> str:
    """Return the first text that the member's own rules allow."""
    if any((meta.extra_json_schema or {}).get("format") == "uri" for meta in metas):
        return f"{base}/{name}/{turn}"
    rules = [meta.extra["rule"] for meta in metas if meta.extra]
    if any((meta.extra_json_schema or {}).get("format") == "date-time" for meta in metas):
        return f"209{turn}-01-01T12:00:00.000Z"
    candidates = (f"{name} {turn}", f"{name}-{turn}", f"{turn}.50", ZONES[turn % len(ZONES)])
    allowed = [text for text in candidates if all(rule(text) is None for rule in rules)]
    assert allowed, f"This test has no text that {name} allows: add one here."
    return allowed[0]
