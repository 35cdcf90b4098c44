"""The stored form of a compiled catalog: columns, not rows, so that making it makes no object per item."""

from itertools import repeat
from typing import Final
from uuid import UUID

import msgspec

from mercato.catalog.model import CompiledCatalog, CompiledGroup, CompiledHours, CompiledItem, CompiledSection

FORMAT: Final = 1
"""Version of this form. It is stored, so another version can only mean: compile the set again."""


class PackedItems(msgspec.Struct, frozen=True, array_like=True):
    """The columns of CompiledItem, in document order; None is a column in which nothing stands."""

    ids: tuple[UUID, ...]
    names: list[str]
    prices: list[int | None]
    groups: list[tuple[UUID, ...]] | None
    available: list[bool] | None
    maximum_quantities: list[int | None] | None
    partner_item_ids: list[str | None] | None
    reach: list[int] | None


class PackedCatalog(msgspec.Struct, frozen=True, array_like=True):
    """A CompiledCatalog, packed."""

    currency: str
    scale: int
    items: PackedItems
    reaches: tuple[bytes | None, ...]
    groups: dict[UUID, CompiledGroup]
    sections: dict[str, CompiledSection]
    catalogs: tuple[CompiledHours, ...]


_read: Final = msgspec.msgpack.Decoder(PackedCatalog).decode
_write: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode
_VERSION: Final = bytes([FORMAT])


def pack(parts: object) -> bytes:
    """Return the stored form of what a PackedCatalog is made of; ids may be UUIDs or their 16 bytes."""
    return _VERSION + _write(parts)


def unpack(packed: bytes) -> CompiledCatalog:
    """Return the compiled catalog of its stored form. Raises ValueError when another version wrote it."""
    if packed[:1] != _VERSION:
        raise ValueError(f"compiled form {packed[:1]!r}, this version reads {_VERSION!r}")
    try:
        parts = _read(memoryview(packed)[1:])
    except msgspec.DecodeError as fault:
        raise ValueError("these bytes are no compiled catalog") from fault
    return CompiledCatalog(
        currency=parts.currency,
        scale=parts.scale,
        items=_items(parts.items),
        reaches=tuple(None if mask is None else int.from_bytes(mask, "little") for mask in parts.reaches),
        groups=parts.groups,
        sections=parts.sections,
        catalogs=parts.catalogs,
    )


def _items(columns: PackedItems) -> dict[UUID, CompiledItem]:
    rows = map(
        CompiledItem,
        columns.names,
        columns.prices,
        repeat(()) if columns.groups is None else columns.groups,
        repeat(True) if columns.available is None else columns.available,
        repeat(None) if columns.maximum_quantities is None else columns.maximum_quantities,
        repeat(None) if columns.partner_item_ids is None else columns.partner_item_ids,
        repeat(0) if columns.reach is None else columns.reach,
    )
    return dict(zip(columns.ids, rows, strict=True))
