"""The copy that storefronts get: the document as fetched, but for the few changes that make it one shape for all.

Four dictionaries; prices as strings at scale; served ids; whole weeks written out; a catalog where there is none;
the service's own catalogSetId and storeId, which stand in front, so that they are put in without a second encode.
"""

import hashlib
from typing import Any, Final
from uuid import UUID

import msgspec

from mercato.catalog import ids
from mercato.catalog.hours import ALWAYS
from mercato.catalog.source import Source, Table

_OURS: Final = ("catalogSetId", "storeId")
_IMPLIED_NAME: Final = "Menu"


def served_content(source: Source) -> bytes:
    """Return the served copy without the service's ids: JSON of an object that is not empty."""
    tables: dict[str, Table[Any]] = {
        "catalogs": source.catalogs,
        "sections": source.sections,
        "items": source.items,
        "modifierGroups": source.groups,
    }
    top: dict[str, Any] = {
        name: tables[name].members if name in tables else value
        for name, value in source.top.items()
        if name not in _OURS
    }
    if not source.catalogs.entities:
        top["catalogs"] = _implied(source)
    return msgspec.json.encode(top)


def content_hash(content: bytes, currency: str) -> str:
    """Return the identity of a set: what is served but for the service's ids, and the currency it is read in."""
    return hashlib.sha256(currency.encode() + b"\0" + content).hexdigest()


def with_ids(content: bytes, *, catalog_set_id: UUID, store_id: UUID) -> bytes:
    """Return the bytes that are served."""
    return b"".join((_prefix(catalog_set_id, store_id), memoryview(content)[1:]))


def content_of(body: bytes) -> bytes:
    """Return the content of served bytes, to be given other ids."""
    return b"{" + body[len(_prefix(UUID(int=0), UUID(int=0))) :]


def top_level(sections: Table[Any]) -> list[str]:
    """Return the sections that no other section holds, in document order."""
    held = {child for section in sections.entities.values() for child in section.section_ids or ()}
    return [key for key in sections.entities if key not in held]


def _implied(source: Source) -> dict[str, Any]:
    catalog_id = ids.place_id(source.onboarding_id, "/catalogs")
    return {
        catalog_id: {
            "catalogId": catalog_id,
            "name": _IMPLIED_NAME,
            "sectionIds": top_level(source.sections),
            "availability": ALWAYS,
        }
    }


def _prefix(catalog_set_id: UUID, store_id: UUID) -> bytes:
    return f'{{"catalogSetId":"{catalog_set_id}","storeId":"{store_id}",'.encode()
