"""The stored forms of a CatalogSet: its bytes in every coding, and its compiled catalog.

The latter is in columns, not rows, so that making it makes no object per item.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Final

import msgspec

from mercato_catalog.model import (
    CompiledCatalog,
    CompiledGroup,
    CompiledHours,
    CompiledItem,
    CompiledSection,
    Key,
)

FORMAT: Final = 2
"""The version of this form. It is stored: a set of another version must be compiled again."""


class PackedItems(msgspec.Struct, frozen=True, array_like=True):
    """The columns of CompiledItem, in document order; None for a column without values.

    A partner's item id that equals the document's is in `document_ids` alone.
    """

    ids: tuple[bytes, ...]
    names: list[str]
    prices: list[int | None]
    groups: list[tuple[bytes, ...]] | None
    available: list[bool] | None
    maximum_quantities: list[int | None] | None
    partner_item_ids: list[str | None] | None
    reach: list[int] | None
    document_ids: list[str | None] | None


class PackedGroup(msgspec.Struct, frozen=True, array_like=True):
    """A CompiledGroup, packed."""

    name: str
    minimum: int
    maximum: int | None
    maximum_per_item: int | None
    free: int
    choices: dict[bytes, int]
    document_id: str | None


class PackedCatalog(msgspec.Struct, frozen=True, array_like=True):
    """A CompiledCatalog, packed."""

    currency: str
    scale: int
    items: PackedItems
    reaches: tuple[bytes | None, ...]
    groups: dict[bytes, PackedGroup]
    sections: dict[str, CompiledSection]
    catalogs: tuple[CompiledHours, ...]


_read: Final = msgspec.msgpack.Decoder(PackedCatalog).decode
_write: Final = msgspec.msgpack.Encoder().encode
_VERSION: Final = bytes([FORMAT])

_key: Final = int.from_bytes
"""Return the Key of an id's bytes."""


def pack(parts: object) -> bytes:
    """Return the stored form of the members of a PackedCatalog; ids are their 16 bytes."""
    return _VERSION + _write(parts)


def unpack(packed: bytes) -> CompiledCatalog:
    """Return the compiled catalog of its stored form. Raises ValueError when another version wrote it."""
    if packed[:1] != _VERSION:
        raise ValueError(f"compiled form {packed[:1]!r}, this version reads {_VERSION!r}")
    try:
        parts = _read(memoryview(packed)[1:])
    except msgspec.DecodeError as fault:
        raise ValueError("these bytes aren't a compiled catalog") from fault
    return CompiledCatalog(
        currency=parts.currency,
        scale=parts.scale,
        items=_items(parts.items),
        reaches=tuple(None if mask is None else int.from_bytes(mask, "little") for mask in parts.reaches),
        groups={_key(group_id): _group(group) for group_id, group in parts.groups.items()},
        sections=parts.sections,
        catalogs=parts.catalogs,
    )


def _group(packed: PackedGroup) -> CompiledGroup:
    return CompiledGroup(
        packed.name,
        packed.minimum,
        packed.maximum,
        packed.maximum_per_item,
        packed.free,
        dict(zip(map(_key, packed.choices), packed.choices.values(), strict=True)),
        packed.document_id,
    )


def _items(columns: PackedItems) -> dict[Key, CompiledItem]:
    rows = map(
        CompiledItem,
        columns.names,
        columns.prices,
        repeat(()) if columns.groups is None else (tuple(map(_key, ids)) for ids in columns.groups),
        repeat(True) if columns.available is None else columns.available,
        repeat(None) if columns.maximum_quantities is None else columns.maximum_quantities,
        _partner_item_ids(columns),
        repeat(0) if columns.reach is None else columns.reach,
        repeat(None) if columns.document_ids is None else columns.document_ids,
    )
    return dict(zip(map(_key, columns.ids), rows, strict=True))


def _partner_item_ids(columns: PackedItems) -> Iterable[str | None]:
    own, documents = columns.partner_item_ids, columns.document_ids
    if own is None or documents is None:
        return own or documents or repeat(None)
    return (text if text is not None else document for text, document in zip(own, documents, strict=True))
