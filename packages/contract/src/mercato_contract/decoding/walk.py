"""Walks over a refused document along its type to find *all* faults, with RFC 6901 pointers.

msgspec stops at the first fault and does not say whether a type or a value was wrong. The walk runs only on documents
that msgspec has refused. Unlike msgspec, it accepts `2.0` as an integer.

The work is bounded for any document: the walk reads level by level, skips unknown members, doesn't
enter a list that is too long, and ends at the first of its `Bounds`.

One level of a JSON text is read at a time; the values below it stay bytes. Reading all of a hostile text is
expensive: msgspec takes 9 µs for the float 1e300, and 1 MiB of `[[]]` becomes half a million lists. The walk reads
only members that the type of the request has.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec import inspect as info

from mercato_contract.decoding.checks import (
    alternatives,
    describe_types,
    fits,
    format_of,
    rule_of,
    uri_fault,
    words_of,
)
from mercato_contract.json_texts import NOT_A_NUMBER
from mercato_contract.json_values import escape, json_type
from mercato_contract.wire import Objection, Rule, as_json, instant_fault, parse_instant

_BEGINS_NUMBER: Final = frozenset(b"%c" % byte for byte in b"-0123456789")
"""The value of a number takes time: 60 µs if it has 4,000 digits."""

_INFINITE: Final = float("inf")
NOT_FINITE: Final = (_INFINITE, -_INFINITE)


def _finite(text: str) -> float:
    # For numbers near the ends of the range Python's float() takes a twentieth of msgspec's time.
    number = float(text)
    if number in NOT_FINITE:
        raise ValueError("out of range")
    return number


read_json: Final = msgspec.json.Decoder(float_hook=_finite).decode
"""Decodes a text without a type. Raises msgspec's errors."""
_read_raw: Final = msgspec.json.Decoder(Raw).decode
_read_list: Final = msgspec.json.Decoder(list[Raw]).decode
_read_dict: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def read_shallow(text: bytes, *, numbers: bool = True) -> Any:
    """Return a scalar; for an object or a list, an empty one. Without `numbers`, a number stays a Raw text.

    A number that is out of range is infinite. Raises msgspec's errors for a text that is not UTF-8.
    """
    first = text[:1]
    if first == b"{":
        return {}
    if first == b"[":
        return []
    if first not in _BEGINS_NUMBER:
        return read_json(text)
    if not numbers:
        return _read_raw(text)
    try:
        return read_json(text)
    except msgspec.ValidationError:
        return _INFINITE


def read_entries(text: bytes, limit: int | None) -> list[bytes] | None:
    """Return the entries of a list; None if there are more than `limit`, whose rest isn't read."""
    if limit is not None and text.count(b",") >= limit:
        try:
            _bounded(limit)(text)
        except msgspec.ValidationError:
            return None
    return [bytes(entry) for entry in _read_list(text)]


def read_dict(text: bytes, limit: int | None) -> dict[str, bytes] | None:
    """Return all members of an object, the last of each name; None if there are more than `limit`."""
    members = _read_dict(text)
    if limit is not None and len(members) > limit:
        return None
    return {name: bytes(value) for name, value in members.items()}


def read_members(text: bytes, kind: info.StructType) -> dict[str, bytes]:
    """Return the members of an object that its type has, by their names on the wire."""
    members = _members(kind.cls)(text)
    return {
        name: bytes(value)
        for name, value in zip(
            members.__struct_encode_fields__, msgspec.structs.astuple(members), strict=True
        )
        if value is not UNSET
    }


@cache
def _members(cls: type[Struct]) -> Any:
    names = list(cls.__struct_encode_fields__)
    tag = cls.__struct_config__.tag_field
    if tag is not None:
        names.append(tag)
    fields = [(f"member{number}", Raw | UnsetType, UNSET) for number in range(len(names))]
    renamed = dict(zip((field[0] for field in fields), names, strict=True))
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=renamed)).decode


@cache
def _bounded(limit: int) -> Any:
    """Return a decoder that refuses a list at the first entry beyond the limit."""
    fields = [(f"entry{number}", Raw | UnsetType, UNSET) for number in range(limit)]
    entries = msgspec.defstruct("Entries", fields, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(entries).decode


class Bounds(NamedTuple):
    """Where a walk ends before the end of the document. `read` is in bytes, each counted once per level."""

    faults: int
    values: int
    read: int


REQUEST: Final = Bounds(faults=1000, values=5000, read=8 * 1024 * 1024)
"""For request bodies: more faults than are listed, and more values than a valid request has."""

FILE: Final = Bounds(faults=1000, values=10_000_000, read=10 * 1024**3)
"""For documents that people check on their own machine."""


class FieldFault(msgspec.Struct, frozen=True):
    """One fault. `form`: a member is missing or of the wrong JSON type; else the value is not allowed."""

    pointer: str | None
    message: str
    form: bool


class CheckResult(NamedTuple):
    """The document, with integers for floats like `2.0`, and its faults. `values` is the number examined."""

    document: Any
    faults: list[FieldFault]
    values: int
    is_complete: bool


MAX_LEVELS: Final = 100
"""Levels of a type that are examined: each takes some of the interpreter's stack. Only modifiers nest, 8 deep."""


class TooDeepError(Exception):
    """A recursive type is followed deeper than MAX_LEVELS."""


class _BoundReached(Exception):  # noqa: N818  # not an error: it ends the walk
    """The walk has reached one of its bounds."""


def check(body: bytes, kind: info.Type, bounds: Bounds = REQUEST) -> CheckResult:
    """Return the document and its faults. Raises msgspec's errors for malformed JSON, and TooDeepError."""
    walk = _Walk(bounds)
    try:
        document = walk.value(body.strip(), kind, "", "The body")
    except _BoundReached:
        return CheckResult(None, walk.faults, walk.values, is_complete=False)
    return CheckResult(document, walk.faults, walk.values, is_complete=True)


def check_texts(texts: Mapping[str, str], kind: info.Type, called: str) -> tuple[Any, list[FieldFault]]:
    """Return texts as JSON values of their types, and every fault, in which the texts are `called` so."""
    assert isinstance(kind, info.StructType)
    walk, out = _Walk(FILE), {}
    for field in kind.fields:
        if field.encode_name in texts:
            text = _from_text(texts[field.encode_name], field.type)
            out[field.encode_name] = walk.value(text, field.type, "/" + field.encode_name, field.encode_name)
        elif field.required:
            walk.form("/" + field.encode_name, f"The {called} {field.encode_name} is required.")
    return out, walk.faults


def _is_uuid(text: str) -> bool:
    """Return whether the typed decode accepts it as a UUID; it also accepts one without hyphens."""
    try:
        msgspec.convert(text, UUID)
    except msgspec.ValidationError:
        return False
    return True


def _from_text(text: str, kind: info.Type) -> bytes:
    """Return a query parameter as JSON of its type."""
    wanted = {type(part) for part in alternatives(kind)}
    if info.IntType in wanted and re.fullmatch(r"-?\d{1,999}(\.0{1,9})?", text, re.ASCII):
        return str(int(text.partition(".")[0])).encode()
    if info.BoolType in wanted and text.lower() in {"true", "false", "1", "0"}:
        return b"true" if text.lower() in {"true", "1"} else b"false"
    return as_json(text)


class _Known(NamedTuple):
    """What the walk needs to know about a type, computed once: there may be thousands of values."""

    kind: info.Type
    options: list[info.Type]
    nullable: bool
    numeric: bool
    form: str | None
    rule: Rule | None
    words: str | None


def _known(kind: info.Type) -> _Known:
    options = list(alternatives(kind))
    found = {type(option) for option in options}
    return _Known(
        kind,
        options,
        nullable=info.NoneType in found,
        numeric=not found.isdisjoint(_NUMERIC),
        form=format_of(kind),
        rule=rule_of(kind),
        words=words_of(kind),
    )


_NUMERIC: Final = (info.IntType, info.FloatType, info.RawType, info.AnyType)


_ONE: Final = {"characters": "character", "entries": "entry", "members": "member"}


def _counted(number: int | None, of: str) -> str:
    return f"{number} {_ONE[of] if number == 1 else of}"


class _Walk:
    def __init__(self, bounds: Bounds) -> None:
        self.faults: list[FieldFault] = []
        self.values = 0
        self._read = 0
        self._depth = 0
        self._bounds = bounds
        self._types: dict[int, _Known] = {}
        """By the type's identity, since types have no hash; each entry keeps its type."""

    def _type(self, kind: info.Type) -> _Known:
        known = self._types.get(id(kind))
        if known is None:
            known = self._types[id(kind)] = _known(kind)
        return known

    def form(self, pointer: str, message: str) -> None:
        self._add(FieldFault(pointer, message, form=True))

    def bad(self, pointer: str, message: str) -> None:
        self._add(FieldFault(pointer, message, form=False))

    def _add(self, fault: FieldFault) -> None:
        if len(self.faults) >= self._bounds.faults:
            raise _BoundReached
        self.faults.append(fault)

    def _count(self, size: int) -> None:
        self.values += 1
        self._read += size
        if self.values > self._bounds.values or self._read > self._bounds.read:
            raise _BoundReached

    def value(self, text: bytes, kind: info.Type, pointer: str, name: str) -> Any:
        """Return the value of the JSON text, and add its faults. Raises TooDeepError."""
        if self._depth > MAX_LEVELS:
            raise TooDeepError
        self._depth += 1
        try:
            return self._value(text, kind, pointer, name)
        finally:
            self._depth -= 1

    def _value(self, text: bytes, kind: info.Type, pointer: str, name: str) -> Any:
        self._count(len(text))
        known = self._type(kind)
        value = read_shallow(text, numbers=known.numeric)
        for option in known.options:
            if isinstance(option, info.RawType):
                if value is not None:
                    self._apply_rule(value, known.rule, pointer)
                return msgspec.Raw(text)
            if isinstance(option, info.AnyType):
                # An empty object or list: nothing of a request is read without a type.
                return value
        if value is None or value is _INFINITE:
            self._absent(text, known, pointer, name)
            return value
        matching = [option for option in known.options if fits(value, option)]
        if not matching:
            self.form(pointer, f"{name} must be {describe_types(known.options)}, not {json_type(value)}.")
            return value
        before = len(self.faults)
        structs = [option for option in matching if isinstance(option, info.StructType)]
        read: Any
        if structs:
            read = self._object(text, structs, pointer, name)
        elif isinstance(matching[0], info.ListType):
            read = self._list(text, matching[0], pointer, name)
        elif isinstance(matching[0], info.DictType):
            read = self._dict(text, matching[0], pointer, name)
        else:
            read = self._scalar(value, matching[0], pointer, name, known)
        if structs or len(self.faults) == before:
            self._apply_rule(read, known.rule, pointer)
        return read

    def _absent(self, text: bytes, known: _Known, pointer: str, name: str) -> None:
        """Add the fault of a null, or of a number that no type holds."""
        if text == b"null":
            if not known.nullable:
                self.form(pointer, f"{name} must be {describe_types(known.options)}, not null.")
        elif text == NOT_A_NUMBER:
            self.form(pointer, f"{name} must be {describe_types(known.options)}, not NaN or Infinity.")
        else:
            self.bad(pointer, f"{name} is out of range.")

    def _list(self, text: bytes, kind: info.ListType, pointer: str, name: str) -> list[Any]:
        entries = read_entries(text, kind.max_length)
        if entries is None:
            self.bad(pointer, f"{name} may have at most {_counted(kind.max_length, 'entries')}.")
            return []
        self._length(len(entries), kind, pointer, name, "entries")
        return [
            self.value(entry, kind.item_type, f"{pointer}/{i}", f"{name}[{i}]")
            for i, entry in enumerate(entries)
        ]

    def _dict(self, text: bytes, kind: info.DictType, pointer: str, name: str) -> dict[str, Any]:
        members = read_dict(text, kind.max_length)
        if members is None:
            self.bad(pointer, f"{name} may have at most {_counted(kind.max_length, 'members')}.")
            return {}
        self._length(len(members), kind, pointer, name, "members")
        names = kind.key_type if isinstance(kind.key_type, info.StrType) else info.StrType()
        out: dict[str, Any] = {}
        for key, value in members.items():
            if len(key) < (names.min_length or 0):
                self.bad(
                    pointer,
                    f"The names in {name} must have at least {_counted(names.min_length, 'characters')}.",
                )
                continue
            if names.max_length is not None and len(key) > names.max_length:
                # A pointer would repeat the long name.
                self.bad(pointer, f"The names in {name} may have at most {names.max_length} characters.")
                continue
            out[key] = self.value(value, kind.value_type, f"{pointer}/{escape(key)}", key)
        return out

    def _scalar(self, value: Any, kind: info.Type, pointer: str, name: str, known: _Known) -> Any:
        match kind:
            case info.StrType():
                if self._text(value, kind, pointer, name, known):
                    self._form(value, known.form, pointer, name)
            case info.IntType():
                value = int(value)
                self._range(value, kind, pointer, name)
            case info.FloatType():
                self._range(value, kind, pointer, name)
            case info.UUIDType() if not _is_uuid(value):
                self.bad(pointer, f"{name} must be a UUID like 0190f5fe-7e3b-7ccc-8000-abcdef012345.")
            case info.DateTimeType() if parse_instant(value) is None:
                self.bad(pointer, instant_fault(name, value))
            case info.EnumType(cls=cls) if value not in (texts := [member.value for member in cls]):
                self.bad(pointer, f"{name} must be one of {', '.join(map(str, texts))}.")
            case info.LiteralType(values=values) if value not in values:
                self.bad(pointer, f"{name} must be one of {', '.join(map(str, values))}.")
            case _:
                pass
        return value

    def _object(self, text: bytes, kinds: list[info.StructType], pointer: str, name: str) -> dict[str, Any]:
        members = read_members(text, kinds[0])
        if len(kinds) == 1:
            return self._struct(members, kinds[0], pointer)
        kind = self._variant(members, kinds, pointer, name)
        if kind is None:
            return {member: read_shallow(value) for member, value in members.items()}
        return self._struct(read_members(text, kind), kind, pointer)

    def _struct(self, members: dict[str, bytes], kind: info.StructType, pointer: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if kind.tag_field is not None:
            out[kind.tag_field] = read_shallow(members.get(kind.tag_field, b"null"))
        for field in kind.fields:
            at = f"{pointer}/{escape(field.encode_name)}"
            if field.encode_name in members:
                out[field.encode_name] = self.value(
                    members[field.encode_name], field.type, at, field.encode_name
                )
            elif field.required:
                self.form(at, f"{field.encode_name} is required.")
        return out

    def _variant(
        self, members: dict[str, bytes], kinds: list[info.StructType], pointer: str, name: str
    ) -> info.StructType | None:
        """Return the variant that the tag of an object selects, or add the fault of the tag."""
        tag_field = kinds[0].tag_field
        assert tag_field is not None
        at = f"{pointer}/{escape(tag_field)}"
        variants = {kind.tag: kind for kind in kinds}
        known = ", ".join(str(tag) for tag in variants)
        tag = read_shallow(members.get(tag_field, b"null"))
        if tag is None:
            self.form(at, f"{tag_field} is required in {name}: one of {known}.")
        elif not isinstance(tag, str):
            self.form(at, f"{tag_field} must be a string, not {json_type(tag)}.")
        elif tag not in variants:
            self.bad(at, f"{tag_field} must be one of {known}.")
        else:
            return variants[tag]
        return None

    def _text(self, value: str, kind: info.StrType, pointer: str, name: str, known: _Known) -> bool:
        """Add the faults of a text. Return whether it is short enough for its format to be checked.

        A rule says in words what a pattern says in signs.
        """
        if self._length(len(value), kind, pointer, name, "characters"):
            return False
        if "\x00" in value:
            if known.form == "uuid":
                return True  # the reader of the value finds that it is none
            self.bad(pointer, f"{name} must not contain the NUL character.")
        elif kind.pattern is not None and re.search(kind.pattern, value) is None:
            before = len(self.faults)
            self._apply_rule(value, known.rule, pointer)
            if len(self.faults) == before:
                self.bad(pointer, f"{name} must be {known.words or f'a text of the form {kind.pattern}'}.")
        return True

    def _form(self, value: str, form: str | None, pointer: str, name: str) -> None:
        """Add the fault of a text that doesn't have its documented format, which later readers expect."""
        if form == "uri" and value and (fault := uri_fault(value, name)) is not None:
            self.bad(pointer, fault)
        if form == "date-time" and parse_instant(value) is None:
            self.bad(pointer, instant_fault(name, value))

    def _apply_rule(self, value: Any, rule: Rule | None, pointer: str) -> None:
        """Add the fault that the type's rule finds."""
        objection = None if rule is None else rule(value)
        if objection is not None:
            fault = Objection(objection) if isinstance(objection, str) else objection
            self._add(FieldFault(pointer + fault.below, fault.message, form=fault.form))

    def _length(
        self, size: int, kind: info.StrType | info.ListType | info.DictType, pointer: str, name: str, of: str
    ) -> bool:
        """Add the fault of a length that isn't allowed. Return whether it exceeds its maximum."""
        if kind.min_length is not None and size < kind.min_length:
            self.bad(pointer, f"{name} must have at least {_counted(kind.min_length, of)}.")
        if kind.max_length is None or size <= kind.max_length:
            return False
        self.bad(pointer, f"{name} may have at most {_counted(kind.max_length, of)}, not {size}.")
        return True

    def _range(self, value: float, kind: info.IntType | info.FloatType, pointer: str, name: str) -> None:
        if kind.ge is not None and value < kind.ge:
            self.bad(pointer, f"{name} must be at least {kind.ge}.")
        if kind.le is not None and value > kind.le:
            self.bad(pointer, f"{name} must be at most {kind.le}.")
