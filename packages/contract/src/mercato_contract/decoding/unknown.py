"""Finds the members of a request body that its type doesn't have, and that are therefore ignored."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import inspect as info

from mercato_contract.decoding.checks import alternatives
from mercato_contract.decoding.walk import read_dict, read_entries
from mercato_contract.json_texts import is_too_deep, repair
from mercato_contract.json_values import escape
from mercato_contract.refusals import InvalidRequest, ValidationFailed
from mercato_contract.wire import MAX_ENTRIES

MAX_LISTED: Final = 20
"""Pointers that are listed of one body."""

MAX_BYTES: Final = 256 * 1024
"""Bytes of the largest body that is examined: a few milliseconds of decoding. An ordinary one has a hundredth."""

MAX_POINTER: Final = 200
"""Characters of a pointer: a longer one is cut, as the name in it is the client's."""

MAX_HEADER: Final = 2_400
"""Bytes of the header's value: one pointer always fits, at twelve bytes a character.

nginx gives all headers of an answer 4 KiB by default, and answers 502 if they need more: the client wouldn't learn
what it did.
"""

NAMED_WITH: Final = frozenset({200, 201, 202, 204, InvalidRequest.status, ValidationFailed.status})
"""Statuses of answers that name unknown members."""

_SAFE: Final = "/~!$&'()*+;=:@"
"""What a header shows as it is, besides letters, digits and `_.-`; a comma separates the pointers."""


def find_unknown(body: bytes, kind: info.Type) -> tuple[str, ...]:
    """Return the pointers to the first unknown members, in the body's order; nothing of a body that isn't JSON.

    Of a list with more than MAX_ENTRIES entries nothing is read, and nothing below an unknown member.
    """
    if len(body) > MAX_BYTES:
        return ()
    found: list[str] = []
    if is_too_deep(body):
        return ()
    # The typed decoder says what is wrong.
    shape = _shape_of(kind)
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        if shape is not None:
            found.extend(islice(_unknown(repair(body).strip(), shape, ""), MAX_LISTED))
    return tuple(found)


def refuses_unknown(kind: type[msgspec.Struct]) -> bool:
    """Return whether a type, and those of all members below it, refuse members that they don't have."""
    seen: set[type[msgspec.Struct]] = set()
    waiting = [kind]
    while waiting:
        cls = waiting.pop()
        if not cls.__struct_config__.forbid_unknown_fields:
            return False
        seen.add(cls)
        for shape in _members((cls,)).values():
            below = shape
            while below is not None:
                waiting += [struct for struct in below.structs if struct not in seen]
                below = below.entries
    return True


def unknown_header(status: int, pointers: tuple[str, ...]) -> list[tuple[bytes, bytes]]:
    """Return the header `X-Unknown-Members` of a success or of the refusal of a body; none without pointers.

    Characters are encoded as in a URI's fragment (RFC 6901, section 6), and commas too. Pointers beyond MAX_HEADER are
    left out.
    """
    if not pointers or status not in NAMED_WITH:
        return []
    value = ", ".join(quote(pointer, safe=_SAFE) for pointer in pointers)
    if len(value) > MAX_HEADER:
        value = value[: value.rindex(",", 0, MAX_HEADER + 1)]
    return [(b"x-unknown-members", value.encode())]


class _Shape(NamedTuple):
    """What a value may have below it: members of objects of these types, or entries of a list.

    A variant's members are those of all variants: another reader chooses the one.
    """

    structs: tuple[type[msgspec.Struct], ...]
    entries: "_Shape | None"


def _unknown(text: bytes, shape: _Shape, pointer: str) -> Iterator[str]:
    if shape.structs and text[:1] == b"{":
        known = _members(shape.structs)
        for name, value in (read_dict(text, None) or {}).items():
            if name not in known:
                yield f"{pointer}/{escape(name)}"[:MAX_POINTER]
            elif (inner := known[name]) is not None:
                yield from _unknown(value, inner, f"{pointer}/{escape(name)}")
    elif shape.entries is not None and text[:1] == b"[":
        for index, entry in enumerate(read_entries(text, MAX_ENTRIES) or ()):
            yield from _unknown(entry, shape.entries, f"{pointer}/{index}")


@cache
def _members(structs: tuple[type[msgspec.Struct], ...]) -> dict[str, _Shape | None]:
    """Return the members of all structs with what is below them; None if nothing is, as for the tag of a variant."""
    found: dict[str, _Shape | None] = {}
    for cls in structs:
        struct = info.type_info(cls)
        assert isinstance(struct, info.StructType)
        found |= {field.encode_name: _shape_of(field.type) for field in struct.fields}
        if struct.tag_field is not None:
            found[struct.tag_field] = None
    return found


def _shape_of(kind: info.Type) -> _Shape | None:
    options = tuple(alternatives(kind))
    structs = tuple(option.cls for option in options if isinstance(option, info.StructType))
    lists = (_shape_of(option.item_type) for option in options if isinstance(option, info.ListType))
    entries = next(filter(None, lists), None)
    return _Shape(structs, entries) if structs or entries else None
