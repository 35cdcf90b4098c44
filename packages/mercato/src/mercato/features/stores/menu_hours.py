"""Puts opening hours into a CatalogSet that says none, or others: every catalog of it is available in these."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Raw

from mercato_contract.catalogs import AvailabilityWindow

_NAME: Final = "Menu"
_ID: Final = str(uuid5(NAMESPACE_URL, "mercato:menu"))
"""The id of the catalog, and of the section, that a document without any gets."""

_document: Final = msgspec.json.Decoder(dict[str, Raw])
_entities: Final = msgspec.json.Decoder(dict[str, dict[str, Raw]] | list[dict[str, Raw]] | None)
_ids: Final = msgspec.json.Decoder(list[str] | None)
_encode: Final = msgspec.json.Encoder().encode


def with_hours(document: bytes, windows: Sequence[AvailabilityWindow]) -> bytes:
    """Return a valid CatalogSet with these hours; what it says besides stays as it is, to the byte."""
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
    if isinstance(catalogs, list):
        members["catalogs"] = _raw([catalog | {"availability": hours} for catalog in catalogs])
    else:
        members["catalogs"] = _raw(
            {key: catalog | {"availability": hours} for key, catalog in catalogs.items()}
        )
    return _encode(members)


def _read(members: Mapping[str, Raw], name: str) -> dict[str, dict[str, Raw]] | list[dict[str, Raw]] | None:
    return _entities.decode(members[name]) if name in members else None


def _top_level(sections: Mapping[str, Mapping[str, Raw]] | Sequence[Mapping[str, Raw]]) -> list[str]:
    """Return the ids of the sections that no other section holds, in the document's order."""
    if isinstance(sections, Mapping):
        named = dict(sections)
    else:
        named = {msgspec.json.decode(one["sectionId"], type=str): one for one in sections}
    below = {
        inner
        for section in named.values()
        if "sectionIds" in section
        for inner in _ids.decode(section["sectionIds"]) or ()
    }
    return [key for key in named if key not in below]


def _raw(value: object) -> Raw:
    return Raw(_encode(value))
