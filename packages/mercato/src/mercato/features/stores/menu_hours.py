"""Puts opening hours into a CatalogSet that says none, or others: every catalog of it is available in these.

A served copy is sent again with the ids of its document, by which the merchant's system knows items and groups.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
from msgspec import Raw

from mercato_catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato_contract.catalogs import AvailabilityWindow

_NAME: Final = "Menu"
_ID: Final = str(uuid5(NAMESPACE_URL, "mercato:menu"))
"""The id of the catalog, and of the section, that a document without any gets."""

_document: Final = msgspec.json.Decoder(dict[str, Raw])
_table: Final = msgspec.json.Decoder(dict[str, dict[str, Raw]] | None)
_ids: Final = msgspec.json.Decoder(list[str] | None)
_prices: Final = msgspec.json.Decoder(dict[str, Raw] | None)
_encode: Final = msgspec.json.Encoder().encode
_NULL: Final = Raw(b"null")


def with_hours(document: bytes, windows: Sequence[AvailabilityWindow]) -> bytes:
    """Return a valid CatalogSet with these hours; what it says besides stays as it is, to the byte.

    Its tables are objects, as those of an imported menu and of a served copy are.
    """
    members = _document.decode(document)
    hours = Raw(_encode(windows))
    catalogs = _read(members, "catalogs")
    if not catalogs:
        sections = _read(members, "sections")
        if not sections:
            items = list(_document.decode(members["items"]))
            sections = {_ID: {"sectionId": _raw(_ID), "name": _raw(_NAME), "itemIds": _raw(items)}}
            members["sections"] = _raw(sections)
        catalogs = {
            _ID: {"catalogId": _raw(_ID), "name": _raw(_NAME), "sectionIds": _raw(_top_level(sections))}
        }
    members["catalogs"] = _raw({key: catalog | {"availability": hours} for key, catalog in catalogs.items()})
    return _encode(members)


def with_document_ids(served: bytes, catalog: CompiledCatalog) -> bytes:
    """Return a served CatalogSet with the ids of its document, of which an ingest makes the served ones again.

    `catalog` is that set. An id that it doesn't know stays as it is served.
    """
    items, groups = _document_ids(catalog.items), _document_ids(catalog.groups)
    if not items and not groups:
        return served
    members = _document.decode(served)
    _rename(members, "sections", "sectionId", {}, lists={"itemIds": items})
    _rename(members, "items", "itemId", items, lists={"modifierGroupIds": groups})
    _rename(members, "modifierGroups", "modifierGroupId", groups, lists={"itemIds": items}, prices_of=items)
    return _encode(members)


def _document_ids(entities: Mapping[Key, CompiledItem] | Mapping[Key, CompiledGroup]) -> dict[str, str]:
    """Return served id → id in the document, of those that differ."""
    return {
        str(UUID(int=key)): entity.document_id
        for key, entity in entities.items()
        if entity.document_id is not None
    }


def _rename(
    members: dict[str, Raw],
    name: str,
    own_id: str,
    ids: Mapping[str, str],
    *,
    lists: Mapping[str, Mapping[str, str]],
    prices_of: Mapping[str, str] | None = None,
) -> None:
    """Rename the entities of a table, what they list, and what their price overrides are for."""
    entities = _read(members, name)
    for key, entity in entities.items():
        if key in ids:
            entity[own_id] = _raw(ids[key])
        for member, listed in lists.items():
            found = _ids.decode(entity.get(member, _NULL))
            if found:
                entity[member] = _raw([listed.get(one, one) for one in found])
        prices = None if prices_of is None else _prices.decode(entity.get("priceOverrides", _NULL))
        if prices and prices_of is not None:
            entity["priceOverrides"] = _raw({prices_of.get(one, one): prices[one] for one in prices})
    if entities:
        members[name] = _raw({ids.get(key, key): entity for key, entity in entities.items()})


def _read(members: Mapping[str, Raw], name: str) -> dict[str, dict[str, Raw]]:
    return _table.decode(members.get(name, _NULL)) or {}


def _top_level(sections: Mapping[str, Mapping[str, Raw]]) -> list[str]:
    """Return the ids of the sections that no other section holds, in the document's order."""
    below = {
        inner
        for section in sections.values()
        for inner in _ids.decode(section.get("sectionIds", _NULL)) or ()
    }
    return [key for key in sections if key not in below]


def _raw(value: object) -> Raw:
    return Raw(_encode(value))
