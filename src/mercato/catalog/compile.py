"""From a validated document to the form that pricing reads, packed: it is stored, and loaded by other processes."""

import struct
from binascii import unhexlify
from collections.abc import Collection, Mapping
from typing import Any, Final
from zlib import crc32

import msgspec

from mercato.catalog.packed import pack, unpack
from mercato.catalog.reach import find_reaches
from mercato.catalog.source import Table
from mercato.catalog.validate import Valid

__all__ = ["compile_catalog", "unpack"]

MOST_ID: Final = 255
"""Characters of an id of the merchant's document as the lines of orders repeat it; a longer one isn't repeated."""

MOST_NAME: Final = 256
"""Characters of a name as orders and messages repeat it, for each line anew; the served copy has all of it."""


def compile_catalog(valid: Valid) -> bytes:
    """Return the packed CompiledCatalog; `unpack` makes the struct of it."""
    source = valid.source
    reach, reaches = find_reaches(source)
    return pack(
        (
            source.currency,
            source.scale,
            _items(valid, reach),
            reaches,
            _groups(valid),
            _sections(source.sections),
            _catalogs(valid),
        )
    )


def _items(valid: Valid, reach: list[int]) -> tuple[Any, ...]:
    """Return the columns of PackedItems."""
    items = valid.source.items

    def column(name: str) -> list[Any] | None:
        return items.column(name) if items.has(name) else None

    groups, available = column("modifierGroupIds"), column("isAvailable")
    document_ids = _document_ids(items)
    return (
        _all_bytes(items.members),
        _names(items),
        valid.item_prices,
        groups and [[_bytes(group) for group in of_item or ()] for of_item in groups],
        available and [flag is not False for flag in available],
        column("maximumQuantity"),
        _partner_item_ids(column("partnerItemId"), document_ids),
        reach if any(reach) else None,
        document_ids,
    )


def _groups(valid: Valid) -> dict[bytes, tuple[Any, ...]]:
    """Return the rows of CompiledGroup."""
    groups, items = valid.source.groups, valid.source.items
    if not groups:
        return {}
    base = dict(zip(items.members, valid.item_prices, strict=True))
    names = (
        "minimumAllowed",
        "maximumAllowed",
        "maximumPerItem",
        "freeQuantity",
        "itemIds",
        "priceOverrides",
    )
    document_ids = _document_ids(groups) or [None] * len(groups)
    rows = zip(groups.members, _names(groups), document_ids, *map(groups.column, names), strict=True)
    return {
        _bytes(key): (
            name,
            least or 0,
            most,
            each,
            free or 0,
            _choices(chosen or (), own or {}, base),
            document_id,
        )
        for key, name, document_id, least, most, each, free, chosen, own in rows
    }


def _choices(
    items: Collection[str], own: Mapping[str, int], base: Mapping[str, int | None]
) -> dict[bytes, int]:
    """Return item → price of one unit: the group's override, else the item's base price, else nothing."""
    return {_bytes(item): own[item] if item in own else base[item] or 0 for item in items}


def _sections(sections: Table) -> dict[str, tuple[str, int]]:
    """Return the rows of CompiledSection."""
    rows = zip(
        sections.members,
        sections.names(),
        sections.column("sectionIds"),
        sections.column("itemIds"),
        strict=True,
    )
    return {key: (name, _checksum((below or (), items or ()))) for key, name, below, items in rows}


def _catalogs(valid: Valid) -> list[tuple[Any, ...]]:
    """Return the rows of CompiledHours."""
    catalogs = valid.source.catalogs
    rows = zip(catalogs.members, catalogs.names(), valid.windows, catalogs.column("sectionIds"), strict=True)
    return [(key, name, windows, _checksum(sections or ())) for key, name, windows, sections in rows]


def _names(table: Table) -> list[str]:
    names = table.names()
    return [name[:MOST_NAME] for name in names] if max(map(len, names), default=0) > MOST_NAME else names


def _document_ids(table: Table) -> list[str | None] | None:
    """Return the ids of the merchant's document; None is an id that is served as it is, or too long to be repeated."""
    ids = table.document_ids()
    return ids and [text if text is None or len(text) <= MOST_ID else None for text in ids]


def _partner_item_ids(
    own: list[str | None] | None, document_ids: list[str | None] | None
) -> list[str | None] | None:
    """Return the column without what stands in the other."""
    if own is None or document_ids is None:
        return own
    left = [
        None if text == document_id else text for text, document_id in zip(own, document_ids, strict=True)
    ]
    return left if any(text is not None for text in left) else None


def _all_bytes(ids: Collection[str]) -> tuple[bytes, ...]:
    """Return each UUID's bytes: all at once costs a tenth of one by one."""
    return struct.unpack("16s" * len(ids), _bytes("".join(ids)))


def _bytes(served: str) -> bytes:
    return unhexlify(served.encode().translate(None, b"-"))


def _checksum(parts: Any) -> int:
    return crc32(msgspec.msgpack.encode(parts))
