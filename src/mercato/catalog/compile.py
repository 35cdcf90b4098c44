"""From a validated document to the form that pricing reads, packed: it is stored, and loaded by other processes."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mercato.catalog.model import FORMAT, CompiledCatalog
from mercato.catalog.reach import find_reaches
from mercato.catalog.source import GroupSource
from mercato.catalog.validate import Valid

_ID: Final = 16
_DIGEST: Final = 8

_unpack: Final = msgspec.msgpack.Decoder(CompiledCatalog)
_pack: Final = msgspec.msgpack.Encoder(uuid_format="bytes")


def compile_catalog(valid: Valid) -> bytes:
    """Return the packed CompiledCatalog; `unpack` makes the struct of it.

    Ids are packed as bytes and entities as rows, column by column: 27,555 structs and UUIDs that are made only
    to be packed would cost more than all the rest.
    """
    source = valid.source
    reach, reaches = find_reaches(source)
    base = dict(zip(source.items.entities, valid.item_prices, strict=True)) if source.groups.entities else {}
    return msgspec.msgpack.encode(
        (
            FORMAT,
            source.currency,
            source.scale,
            _items(valid, reach),
            {
                _bytes(key): _group(group, valid.overrides.get(key, {}), base)
                for key, group in source.groups.entities.items()
            },
            {
                key: (
                    section.name or "",
                    _digest((*(section.section_ids or ()), "", *(section.item_ids or ()))),
                )
                for key, section in source.sections.entities.items()
            },
            [
                (key, catalog.name or "", valid.windows[key], _digest(catalog.section_ids or ()))
                for key, catalog in source.catalogs.entities.items()
            ],
            reaches,
        )
    )


def pack(catalog: CompiledCatalog) -> bytes:
    """Return the compiled catalog as it is stored."""
    return _pack.encode(catalog)


def unpack(packed: bytes) -> CompiledCatalog:
    """Return the compiled catalog of its stored form. Raises ValueError when another version wrote it."""
    try:
        catalog = _unpack.decode(packed)
    except msgspec.DecodeError as fault:
        raise ValueError("not a compiled catalog of this version") from fault
    if catalog.format != FORMAT:
        raise ValueError(f"compiled form {catalog.format}, this version reads {FORMAT}")
    return catalog


def _items(valid: Valid, reach: Mapping[str, int]) -> dict[bytes, tuple[Any, ...]]:
    entities = valid.source.items.entities
    items = list(entities.values())
    rows = zip(
        [item.name or "" for item in items],
        valid.item_prices,
        [
            [_bytes(group) for group in item.modifier_group_ids] if item.modifier_group_ids else ()
            for item in items
        ],
        [item.is_available is not False for item in items],
        [item.maximum_quantity for item in items],
        [item.partner_item_id for item in items],
        [reach.get(key, 0) for key in entities],
        strict=True,
    )
    return dict(zip(_all_bytes(entities), rows, strict=True))


def _group(group: GroupSource, own: Mapping[str, int], base: Mapping[str, int | None]) -> tuple[Any, ...]:
    """Return the group's row. A choice costs its override, else its base price, else nothing."""
    return (
        group.name or "",
        group.minimum_allowed or 0,
        group.maximum_allowed,
        group.maximum_per_item,
        group.free_quantity or 0,
        {_bytes(item): own[item] if item in own else base[item] or 0 for item in group.item_ids or ()},
    )


def _all_bytes(ids: Iterable[str]) -> Iterator[bytes]:
    joined = bytes.fromhex("".join(ids).replace("-", ""))
    return (joined[at : at + _ID] for at in range(0, len(joined), _ID))


def _bytes(served: str) -> bytes:
    return bytes.fromhex(served.replace("-", ""))


def _digest(parts: Iterable[str]) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=_DIGEST).digest()
