"""A walk over an untyped document beside its type, to find *all* faults with RFC 6901 pointers.

msgspec stops at the first fault and does not say whether a type or a value was wrong. This walk runs only on
documents it has refused. It also mends the one thing msgspec is stricter in than JSON: `2.0` is an integer.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import inspect as info

from mercato.wire.base import parse_instant
from mercato.wire.checks import Objection, uri_fault
from mercato.wire.kinds import alternatives, fits, format_of, rule_of, words

MOST_COLLECTED: Final = 1000
"""Faults collected before the walk stops: a bound on work, far above what is shown."""


class Found(msgspec.Struct, frozen=True):
    """One fault. `form`: a member is missing or of the wrong JSON type; else the value is not allowed."""

    pointer: str | None
    message: str
    form: bool


def escape(part: str) -> str:
    """Return a member name as a step of an RFC 6901 pointer."""
    return part.replace("~", "~0").replace("/", "~1")


def check(document: Any, kind: info.Type) -> tuple[Any, list[Found]]:
    """Return the document, mended where that is exact, and every fault in it."""
    walk = _Walk()
    return walk.value(document, kind, ""), walk.found


def check_texts(texts: Mapping[str, str], kind: info.Type) -> tuple[Any, list[Found]]:
    """Return query parameters as the JSON values their types ask for, and every fault in them."""
    assert isinstance(kind, info.StructType)
    walk, out = _Walk(), {}
    for field in kind.fields:
        if field.encode_name in texts:
            value = _from_text(texts[field.encode_name], field.type)
            out[field.encode_name] = walk.value(
                value, field.type, "/" + field.encode_name, name=field.encode_name
            )
        elif field.required:
            walk.form("/" + field.encode_name, f"The query parameter {field.encode_name} is required.")
    return out, walk.found


def _is_uuid(text: str) -> bool:
    """Tell whether the typed decode reads it as a UUID: without its hyphens, too."""
    try:
        msgspec.convert(text, UUID)
    except msgspec.ValidationError:
        return False
    return True


def _from_text(text: str, kind: info.Type) -> Any:
    wanted = {type(part) for part in alternatives(kind)}
    if info.IntType in wanted and re.fullmatch(r"-?\d{1,999}(\.0{1,9})?", text, re.ASCII):
        return int(text.partition(".")[0])
    if info.BoolType in wanted and text.lower() in {"true", "false", "1", "0"}:
        return text.lower() in {"true", "1"}
    return text


class _Walk:
    def __init__(self) -> None:
        self.found: list[Found] = []

    def form(self, pointer: str, message: str) -> None:
        self._add(Found(pointer, message, form=True))

    def bad(self, pointer: str, message: str) -> None:
        self._add(Found(pointer, message, form=False))

    def _add(self, fault: Found) -> None:
        if len(self.found) < MOST_COLLECTED:
            self.found.append(fault)

    def value(self, value: Any, kind: info.Type, pointer: str, *, name: str | None = None) -> Any:
        """Return the value, mended, having noted its faults."""
        options = list(alternatives(kind))
        name = name or _name(pointer)
        if value is None:
            if not any(isinstance(option, info.NoneType | info.AnyType | info.RawType) for option in options):
                self.form(pointer, f"{name} must be {words(options)}, not null.")
            return msgspec.Raw(b"null") if any(isinstance(o, info.RawType) for o in options) else value
        for option in options:
            if isinstance(option, info.AnyType):
                return value
            if isinstance(option, info.RawType):
                self._ruled(value, kind, pointer)
                return msgspec.Raw(msgspec.json.encode(value))
        matching = [option for option in options if fits(value, option)]
        if not matching:
            self.form(pointer, f"{name} must be {words(options)}, not {_said(value)}.")
            return value
        before = len(self.found)
        structs = [option for option in matching if isinstance(option, info.StructType)]
        if len(structs) > 1:
            mended = self._tagged(value, structs, pointer, name)
        else:
            mended = self._one(value, matching[0], pointer, name, form=format_of(kind))
        if structs or len(self.found) == before:
            self._ruled(value, kind, pointer)
        return mended

    def _one(self, value: Any, kind: info.Type, pointer: str, name: str, *, form: str | None) -> Any:
        match kind:
            case info.StructType():
                return self._struct(value, kind, pointer)
            case info.ListType(item_type=item):
                self._length(len(value), kind, pointer, name, "entries")
                return [self.value(v, item, f"{pointer}/{i}") for i, v in enumerate(value)]
            case info.DictType(value_type=item):
                return {k: self.value(v, item, f"{pointer}/{escape(k)}") for k, v in value.items()}
            case info.StrType():
                self._text(value, kind, pointer, name)
                self._form(value, form, pointer, name)
            case info.IntType():
                value = int(value)
                self._range(value, kind, pointer, name)
            case info.FloatType():
                self._range(value, kind, pointer, name)
            case info.UUIDType() if not _is_uuid(value):
                self.bad(pointer, f"{name} must be a UUID like 0190f5fe-7e3b-7ccc-8000-abcdef012345.")
            case info.DateTimeType() if parse_instant(value) is None:
                self.bad(pointer, f"{name} must be an RFC 3339 instant with an offset.")
            case info.EnumType(cls=cls) if value not in (known := [member.value for member in cls]):
                self.bad(pointer, f"{name} must be one of {', '.join(map(str, known))}.")
            case info.LiteralType(values=values) if value not in values:
                self.bad(pointer, f"{name} must be one of {', '.join(map(str, values))}.")
            case _:
                pass
        return value

    def _struct(self, value: dict[str, Any], kind: info.StructType, pointer: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if kind.tag_field is not None:
            out[kind.tag_field] = value.get(kind.tag_field)
        for field in kind.fields:
            at = f"{pointer}/{escape(field.encode_name)}"
            if field.encode_name in value:
                out[field.encode_name] = self.value(value[field.encode_name], field.type, at)
            elif field.required:
                self.form(at, f"{field.encode_name} is required.")
        return out

    def _tagged(self, value: dict[str, Any], kinds: list[info.StructType], pointer: str, name: str) -> Any:
        tag_field = kinds[0].tag_field
        assert tag_field is not None
        at = f"{pointer}/{escape(tag_field)}"
        tags = {kind.tag: kind for kind in kinds}
        known = ", ".join(str(tag) for tag in tags)
        if value.get(tag_field) is None:
            self.form(at, f"{tag_field} is required in {name}: one of {known}.")
        elif not isinstance(value[tag_field], str):
            self.form(at, f"{tag_field} must be a string, not {_said(value[tag_field])}.")
        elif value[tag_field] not in tags:
            self.bad(at, f"{tag_field} must be one of {known}.")
        else:
            return self._struct(value, tags[value[tag_field]], pointer)
        return value

    def _text(self, value: str, kind: info.StrType, pointer: str, name: str) -> None:
        if "\x00" in value:
            self.bad(pointer, f"{name} must not contain the NUL character.")
        if kind.pattern is not None and re.search(kind.pattern, value) is None:
            self.bad(pointer, f"{name} does not have the form {kind.pattern}")
        self._length(len(value), kind, pointer, name, "characters")

    def _form(self, value: str, form: str | None, pointer: str, name: str) -> None:
        """Note a text that is not what its documented format says: who reads it later would not come to that."""
        if form == "uri" and value and (fault := uri_fault(value, name)) is not None:
            self.bad(pointer, fault)
        if form == "date-time" and parse_instant(value) is None:
            self.bad(
                pointer, f"{name} must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."
            )

    def _ruled(self, value: Any, kind: info.Type, pointer: str) -> None:
        """Note what the rule of the type says against the value."""
        rule = rule_of(kind)
        objection = None if rule is None else rule(value)
        if objection is not None:
            said = Objection(objection) if isinstance(objection, str) else objection
            self._add(Found(pointer + said.below, said.message, form=said.form))

    def _length(
        self, size: int, kind: info.StrType | info.ListType, pointer: str, name: str, of: str
    ) -> None:
        if kind.min_length is not None and size < kind.min_length:
            self.bad(pointer, f"{name} must have at least {kind.min_length} {of}.")
        if kind.max_length is not None and size > kind.max_length:
            self.bad(pointer, f"{name} may have at most {kind.max_length} {of}, not {size}.")

    def _range(self, value: float, kind: info.IntType | info.FloatType, pointer: str, name: str) -> None:
        if kind.ge is not None and value < kind.ge:
            self.bad(pointer, f"{name} must be at least {kind.ge}.")
        if kind.le is not None and value > kind.le:
            self.bad(pointer, f"{name} must be at most {kind.le}.")


def _said(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "another type")


def _name(pointer: str) -> str:
    return pointer.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~") if pointer else "The body"
