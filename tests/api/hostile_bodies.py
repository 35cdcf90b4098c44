"""Bodies that cost as much as they can, made from the type of an operation's body."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect as info
from tests.api.table import BODIES

from mercato.http.operations import Operation
from mercato_contract.decoding.checks import alternatives
from mercato_tools.settings import MiB

UNITS: Final = {
    "integers": b"1",
    "negative integers": b"-1",
    "long integers": b"9" * 4000,
    "large floats": b"1e300",
    "small floats": b"5e-324",
    "long floats": b"1.7976931348623157e308",
    "nulls": b"null",
    "lists": b"[]",
    "lists of lists": b"[[]]",
    "objects": b"{}",
    "objects of objects": b'{"":{}}',
    "texts": b'""',
    "escapes": b'"\\u00e9"',
    "short texts": b'"xx"',
}
"""What a list is filled with that should hold something else."""

VALUES: Final = {
    "a long text": b'"%s"' % (b"x" * MiB),
    "a long text of digits": b'"%s"' % (b"1" * MiB),
    "a long text of escapes": b'"%s"' % (rb"\u00e9" * (MiB // 6)),
    "a long URI": b'"http://%s"' % (b"a." * (MiB // 2)),
    "a text with a NUL": b'"a\\u0000%s"' % (b"," * MiB),
    "a long integer": b"9" * MiB,
    "a long float": b"0.%s" % (b"1" * MiB),
    "an object of many names": b"{%s}" % b",".join(b'"%x":1' % n for n in range(100_000)),
    "an object of long names": b"{%s}" % b",".join(b'"%s%d":1' % (b"n" * 2000, n) for n in range(500)),
    "one name many times": b"{%s}" % b",".join([b'"a":1e300'] * 100_000),
    "deep lists": b"[" * (MiB // 2) + b"]" * (MiB // 2),
    "deep objects": b'{"a":' * (MiB // 6) + b"1" + b"}" * (MiB // 6),
    "as deep as is read": b"[" * 400 + b"]" * 400,
}

Step = tuple[str, info.Type]


def shapes(operation: Operation, size: int) -> Iterator[tuple[str, bytes]]:
    """Yield bodies of at most `size` bytes, each with a name: hostile values at every place that the type has."""
    yield from _whole(size)
    if operation.decode is None:
        return
    good = json.dumps(BODIES[operation.id])
    kind = msgspec.inspect.type_info(operation.takes)
    for place, below in _places(kind, "", set()):
        before, after = _around(place)
        room = size - len(before) - len(after) - len(good)
        for name, value in _values(below, room):
            if len(value) <= room:
                yield f"{name} at {place}", before + value + after
        member = b'"%s":' % place.rpartition("/")[2].encode()
        for value in (b"5e-324", b"1", b"{}"):
            entry = b"," + member + value
            many = value + entry * ((room - 10) // len(entry))
            yield f"{value.decode()} many times at {place}", before + many + after


def _whole(size: int) -> Iterator[tuple[str, bytes]]:
    for name, unit in UNITS.items():
        yield f"a list of {name}", _filled(unit, size)
        yield f"an unknown member of {name}", b'{"unknown":%s,"cart":1}' % _filled(unit, size - 24)
    for name, value in VALUES.items():
        yield name, value[:size]
    yield "half a surrogate pair", b'{"a":"%s\\ud800"}' % (b"\\u00e9" * ((size - 20) // 6))
    yield "backslashes", b"\\" * size
    yield "spaces", b" " * size
    yield "line breaks before a fault", b"\n" * (size - 1) + b"x"
    yield "bytes that are not UTF-8", b'{"cart":"%s"}' % (b"\xff" * (size - 20))
    yield "a form of many parameters", b"a=b&" * (size // 4)
    yield "a form of one long parameter", b"a=" + b"%41" * ((size - 2) // 3)
    yield "a form without names", b"&" * size
    yield "marks", b'{"a":' + b"[1,{" * ((size - 5) // 4)


def _values(kind: info.Type, room: int) -> Iterator[tuple[str, bytes]]:
    for name, unit in UNITS.items():
        yield f"a list of {name}", _filled(unit, room)
    yield from VALUES.items()
    for option in alternatives(kind):
        if isinstance(option, info.ListType):
            entry = _least(option.item_type)
            most = option.max_length or room
            yield "entries that are allowed", _filled(entry, room)
            yield "as many entries as are allowed", _filled(entry, min(room, most * (len(entry) + 1)))
            yield "entries with many members", _filled(_most(option.item_type, min(4000, room // 3)), room)


def _places(kind: info.Type, at: str, seen: set[str]) -> Iterator[Step]:
    """Yield the place of every member of the type, once for each struct that has it."""
    for option in alternatives(kind):
        match option:
            case info.StructType(cls=cls, fields=fields) if cls.__name__ not in seen:
                seen.add(cls.__name__)
                for field in fields:
                    place = f"{at}/{field.encode_name}"
                    yield place, field.type
                    yield from _places(field.type, place, seen)
            case info.ListType(item_type=item):
                yield from _places(item, f"{at}/0", seen)
            case info.DictType(value_type=item):
                yield from _places(item, f"{at}/name", seen)
            case _:
                pass


def _around(place: str) -> tuple[bytes, bytes]:
    """Return what stands before and after a value at this place, and a fault after all of it."""
    before, after = b"", b""
    for step in place.split("/")[1:]:
        opening, closing = (b"[", b"]") if step.isdigit() else (b'{"%s":' % step.encode(), b"}")
        before, after = before + opening, closing + after
    return before, after[:-1] + b',"lineItemId":1}'


def _filled(unit: bytes, size: int) -> bytes:
    # Thousands of bodies are made like this: a repeated string takes a tenth of the time of a joined list.
    entry = unit + b","
    return b"[%s]" % (entry * ((size - 2) // len(entry)))[:-1]


def _least(kind: info.Type) -> bytes:
    """Return the shortest value of the type that has all its required members."""
    return msgspec.json.encode(_value(kind))


def _most(kind: info.Type, size: int) -> bytes:
    """Return a value whose first list has as many entries as there is room for."""
    for option in alternatives(kind):
        if isinstance(option, info.StructType):
            value = _value(option)
            for field in option.fields:
                for below in alternatives(field.type):
                    if isinstance(below, info.ListType):
                        entry = _least(below.item_type)
                        value[field.encode_name] = msgspec.Raw(_filled(entry, size))
                        return msgspec.json.encode(value)
    return _least(kind)


def _value(kind: info.Type) -> Any:
    option = next(option for option in alternatives(kind) if not isinstance(option, info.NoneType))
    match option:
        case info.StructType(fields=fields, tag_field=tag_field, tag=tag):
            members = {field.encode_name: _value(field.type) for field in fields if field.required}
            return members if tag_field is None else {tag_field: tag} | members
        case info.ListType():
            return []
        case info.DictType():
            return {}
        case info.UUIDType():
            return "0190f5fe-7e3b-7ccc-8000-00000000000a"
        case info.EnumType(cls=cls):
            return next(iter(cls)).value
        case info.StrType(min_length=least):
            return "x" * (least or 0)
        case info.BoolType():
            return True
        case _:
            return 1
