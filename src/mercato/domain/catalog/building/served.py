"""The copy that storefronts get: the document as fetched, with the few changes that give all copies one shape.

Four dictionaries; prices as strings at scale; served ids; whole weeks written out; a catalog if there is none; the
service's own catalogSetId and storeId first, so that they can be replaced without encoding again.
"""

import hashlib
from typing import Any, Final
from uuid import UUID

import msgspec

from mercato.domain.catalog import ids
from mercato.domain.catalog.validation.hours import ALWAYS
from mercato.domain.catalog.validation.validate import ValidDocument

_SERVICE_MEMBERS: Final = ("catalogSetId", "storeId")
_IMPLIED_NAME: Final = "Menu"


def served_pieces(valid: ValidDocument, *, catalog_set_id: UUID, store_id: UUID) -> list[bytes]:
    """Return the bytes that are served, in pieces: the service's ids are the first."""
    source = valid.source
    tables = {table.kind.member: table for table in source.tables}
    pieces = {
        name: tables[name].write() if name in tables else msgspec.json.encode(value)
        for name, value in source.top.items()
        if name not in _SERVICE_MEMBERS
    }
    if not source.catalogs:
        pieces["catalogs"] = msgspec.json.encode(_implied_catalog(valid))
    # Joined, not encoded with the tables inside: that would copy megabytes again and again as they grow.
    joined = [_prefix(catalog_set_id, store_id)]
    for name, piece in pieces.items():
        joined += (msgspec.json.encode(name), b":", piece, b",")
    return [*joined[:-1], b"}"]


def content_hash(pieces: list[bytes], currency: str) -> str:
    """Return the hash of a set's served bytes without the service's ids, and of its currency."""
    digest = hashlib.sha256(currency.encode() + b"\0")
    for piece in pieces[1:]:
        digest.update(piece)
    return digest.hexdigest()


def with_ids(body: bytes, *, catalog_set_id: UUID, store_id: UUID) -> bytes:
    """Return served bytes with other ids, for a set that was built before its store existed."""
    return b"".join((_prefix(catalog_set_id, store_id), memoryview(body)[_PREFIX:]))


def _implied_catalog(valid: ValidDocument) -> dict[str, Any]:
    """Return the catalog of a document without catalogs: all sections that aren't within another."""
    held = {child for below in valid.references.section_sections.values() for child in below}
    catalog_id = ids.place_id(valid.source.onboarding_id, "/catalogs")
    return {
        catalog_id: {
            "catalogId": catalog_id,
            "name": _IMPLIED_NAME,
            "sectionIds": [key for key in valid.source.sections.members if key not in held],
            "availability": ALWAYS,
        }
    }


def _prefix(catalog_set_id: UUID, store_id: UUID) -> bytes:
    return f'{{"catalogSetId":"{catalog_set_id}","storeId":"{store_id}",'.encode()


_PREFIX: Final = len(_prefix(UUID(int=0), UUID(int=0)))
"""Bytes before the content; all ids have one length."""
