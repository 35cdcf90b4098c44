"""Builds a CatalogSet from its document: the served copy, the compiled catalog that pricing loads, and search data.

Pure: faults never raise, and the same arguments give the same result.
"""

import gc
import hashlib
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from graphlib import TopologicalSorter
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import msgspec

from mercato_catalog.building.packed import pack
from mercato_catalog.model import BuildFailed, BuildRequest, Built, Result, Unchanged, pack_ids, place_id
from mercato_catalog.validation.document import R, Table
from mercato_catalog.validation.findings import Findings
from mercato_catalog.validation.scan import excerpts
from mercato_catalog.validation.validate import ValidDocument, validate
from mercato_catalog.validation.values import ALWAYS
from mercato_catalog.words import WEEK, SetSearch, merge_windows, words_of
from mercato_contract.catalogs import CatalogSummary
from mercato_contract.wire import as_json

_SERVICE_MEMBERS: Final = ("catalogSetId", "storeId")
_IMPLIED_NAME: Final = "Menu"


def served_pieces(valid: ValidDocument, *, catalog_set_id: UUID, store_id: UUID) -> list[bytes]:
    """Return the copy that storefronts get, in pieces: the service's ids are the first, so that they can be replaced.

    It is the document as fetched, with the few changes that give all copies one shape: four dictionaries, prices as
    strings at scale, served ids, whole weeks written out, and a catalog if there is none.
    """
    source = valid.source
    tables = {table.schema.member: table for table in source.tables}
    pieces = {
        name: tables[name].write() if name in tables else as_json(value)
        for name, value in source.top.items()
        if name not in _SERVICE_MEMBERS
    }
    if not source.catalogs:
        pieces["catalogs"] = as_json(_implied_catalog(valid))
    # Joined, not encoded with the tables inside: that would copy megabytes again and again as they grow.
    joined = [_prefix(catalog_set_id, store_id)]
    for name, piece in pieces.items():
        joined += (as_json(name), b":", piece, b",")
    return [*joined[:-1], b"}"]


def content_hash(pieces: list[bytes], currency: str) -> str:
    """Return the hash of a set's served bytes without the service's ids, and of its currency."""
    digest = hashlib.sha256(currency.encode() + b"\0")
    for piece in pieces[1:]:
        digest.update(piece)
    return digest.hexdigest()


def _implied_catalog(valid: ValidDocument) -> dict[str, Any]:
    """Return the catalog of a document without catalogs: all sections that aren't within another."""
    held = {child for below in valid.references.section_sections.values() for child in below}
    catalog_id = place_id(valid.source.onboarding_id, "/catalogs")
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


"""Bytes before the content; all ids have one length."""


def build(document: bytes, request: BuildRequest) -> Result:
    """Build the document."""
    # A separate function, so that everything it made is freed before the collector runs again.
    with _without_collector():
        return build_uncollected(document, request)


def build_uncollected(document: bytes, request: BuildRequest) -> Result:
    """Build the document in a process that runs no garbage collector.

    The document is freed once it is validated if the caller keeps no reference, the parsed tables before the served
    bytes are joined.
    """
    valid, findings = validate(
        document, onboarding_id=request.onboarding_id, default_currency=request.default_currency
    )
    if valid is None:
        faults = findings.faults()
        shown = excerpts(document, faults, broken_at=findings.broken_at)
        return BuildFailed(faults, findings.warnings(), shown)
    del document
    # White space and escapes aren't content: a document that is only formatted differently gives the same bytes.
    pieces = served_pieces(valid, catalog_set_id=request.catalog_set_id, store_id=request.store_id)
    digest = content_hash(pieces, valid.source.currency)
    if digest == request.previous_hash:
        return Unchanged(digest, findings.warnings())
    compiled, search, summary = compile_catalog(valid), pack_search(valid), _summary(valid, findings)
    del valid
    return Built(
        content_hash=digest,
        body=b"".join(pieces),
        compiled=compiled,
        summary=summary,
        warnings=findings.warnings(),
        search=search,
    )


def pack_search(valid: ValidDocument) -> bytes:
    """Return the packed SetSearch of a validated document."""
    source = valid.source
    words = words_of(source.sections.names() + source.items.names())
    spans: list[tuple[int, int]] = [] if source.catalogs else list(WEEK)
    for windows in valid.windows:
        spans += WEEK if windows is None else windows
    return msgspec.msgpack.encode(SetSearch(tuple(words), merge_windows(spans)))


def _summary(valid: ValidDocument, findings: Findings) -> CatalogSummary:
    source = valid.source
    return CatalogSummary(
        currency=source.currency,
        catalogs=len(source.catalogs),
        sections=len(source.sections),
        items=len(source.items),
        modifier_groups=len(source.groups),
        warnings=findings.warning_count,
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector: it would traverse a hundred thousand new objects repeatedly, none in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# --- the compiled catalog -------------------------------------------------------------------------

MAX_ID: Final = 255
"""Characters of an id in the merchant's document that the lines of orders repeat; a longer one is left out."""

MAX_NAME: Final = 256
"""Characters of a name that every line of an order and every message repeats; the served copy has all of it."""


def compile_catalog(valid: ValidDocument) -> bytes:
    """Return the packed CompiledCatalog, which `unpack` reads."""
    source = valid.source
    items, groups = _ids(source.items), dict(zip(source.groups.members, _ids(source.groups), strict=True))
    reach, reaches = _find_reaches(valid)
    return pack(
        (
            source.currency,
            source.scale,
            _items(valid, items, groups, reach),
            reaches,
            _groups(valid, items, groups),
            _sections(valid),
            _catalogs(valid),
        )
    )


def _items(
    valid: ValidDocument, ids: tuple[bytes, ...], groups: dict[str, bytes], reach: list[int]
) -> tuple[Any, ...]:
    """Return the columns of PackedItems."""
    table, listed = valid.source.items, valid.references.item_groups
    rows, used = table.rows, table.member_names
    document_ids = _document_ids(table)
    return (
        ids,
        _names(table),
        valid.item_prices,
        [[groups[group] for group in listed.get(key, ())] for key in table.members] if listed else None,
        [row.is_available is not False for row in rows] if "isAvailable" in used else None,
        [row.maximum_quantity for row in rows] if "maximumQuantity" in used else None,
        _partner_item_ids(table.column("partnerItemId"), document_ids) if "partnerItemId" in used else None,
        reach if any(reach) else None,
        document_ids,
    )


def _partner_item_ids(
    own: Iterable[str | None], document_ids: list[str | None] | None
) -> list[str | None] | None:
    """Return the column without the ids that are in `document_ids`."""
    if document_ids is None:
        return list(own)
    left = [
        None if text == document_id else text for text, document_id in zip(own, document_ids, strict=True)
    ]
    return left if any(text is not None for text in left) else None


def _groups(
    valid: ValidDocument, ids: tuple[bytes, ...], groups: dict[str, bytes]
) -> dict[bytes, tuple[Any, ...]]:
    """Return the rows of CompiledGroup."""
    table, references = valid.source.groups, valid.references
    if not table:
        return {}
    items = dict(zip(valid.source.items.members, ids, strict=True))
    base = dict(zip(items, valid.item_prices, strict=True))
    document_ids = _document_ids(table) or [None] * len(table)

    def choices(key: str) -> dict[bytes, int]:
        """Return item → price of one unit: the group's override, else the item's base price, else nothing."""
        own = references.overrides.get(key, {})
        return {
            items[item]: own[item] if item in own else base[item] or 0
            for item in references.group_items.get(key, ())
        }

    return {
        groups[key]: (
            (row.name or "")[:MAX_NAME],
            row.minimum_allowed or 0,
            row.maximum_allowed,
            row.maximum_per_item,
            row.free_quantity or 0,
            choices(key),
            document_id,
        )
        for (key, row), document_id in zip(table.entries(), document_ids, strict=True)
    }


def _sections(valid: ValidDocument) -> dict[str, tuple[str, int]]:
    """Return the rows of CompiledSection."""
    below, items = valid.references.section_sections, valid.references.section_items
    return {
        key: (row.name or "", _checksum((below.get(key, ()), items.get(key, ()))))
        for key, row in valid.source.sections.entries()
    }


def _catalogs(valid: ValidDocument) -> list[tuple[Any, ...]]:
    """Return the rows of CompiledHours."""
    sections = valid.references.catalog_sections
    return [
        (key, row.name or "", windows, _checksum(sections.get(key, ())))
        for (key, row), windows in zip(valid.source.catalogs.entries(), valid.windows, strict=True)
    ]


def _names(table: Table[R]) -> list[str]:
    names = table.names()
    return [name[:MAX_NAME] for name in names] if max(map(len, names), default=0) > MAX_NAME else names


def _document_ids(table: Table[R]) -> list[str | None] | None:
    """Return the ids in the merchant's document; None for one that is served unchanged or too long to repeat."""
    ids = [None if text == served else text for served, text in table.document_ids.items()]
    if all(text is None for text in ids):
        return None
    return [text if text is None or len(text) <= MAX_ID else None for text in ids]


def _ids(table: Table[R]) -> tuple[bytes, ...]:
    """Return each UUID's bytes. Unpacking all at once takes a tenth of the time."""
    packed = pack_ids(table.members) if table.packed_ids is None else table.packed_ids
    assert packed is not None, "ids that carts name are served as UUIDs"
    return struct.unpack("16s" * len(table), packed)


def _checksum(parts: Collection[Any]) -> int:
    return crc32(msgspec.msgpack.encode(parts))


# --- reach ----------------------------------------------------------------------------------------
#
# The catalogs through which an item can be bought: a section belongs to a catalog, or to a section above it.

Reaches = tuple[bytes | None, ...]
"""The catalogs of an item as bits of a little-endian integer, the first catalog being the lowest; None for any time.

As bytes, because a document can have as many different ones as items, chosen so that their integers collide.
"""


def _find_reaches(valid: ValidDocument) -> tuple[list[int], Reaches]:
    """Return for each item an index into the reaches, and the reaches.

    Without sections any item can be bought at any time, without catalogs any item of any section.
    """
    source, lists = valid.source, valid.references.section_items
    if not source.sections:
        return [0] * len(source.items), (None,)
    width = len(source.catalogs) // 8 + 1
    sections = _section_masks(valid)
    listing = {sections[key].to_bytes(width, "little") for key in lists}
    if len(listing) == 1 and valid.references.are_all_listed:
        # All items are in sections with the same catalogs.
        return [0] * len(source.items), _reaches(listing, valid)
    masks: dict[str, int] = {}
    for key, items in lists.items():
        for item in items:
            masks[item] = masks.get(item, 0) | sections[key]
    of_items = [masks.get(key, 0).to_bytes(width, "little") for key in source.items.members]
    index = {mask: place for place, mask in enumerate(dict.fromkeys(of_items))}
    return [index[mask] for mask in of_items], _reaches(index, valid)


def _reaches(masks: Iterable[bytes], valid: ValidDocument) -> Reaches:
    return tuple(mask if valid.source.catalogs or not any(mask) else None for mask in masks)


def _section_masks(valid: ValidDocument) -> dict[str, int]:
    """Return each section's catalogs as the bits of an integer, handed down from parent to child.

    Without catalogs one bit means any time.
    """
    source, children = valid.source, valid.references.section_sections
    if not source.catalogs:
        return dict.fromkeys(source.sections.members, 1)
    masks = dict.fromkeys(source.sections.members, 0)
    for bit, key in enumerate(source.catalogs.members):
        for section in valid.references.catalog_sections.get(key, ()):
            masks[section] |= 1 << bit
    order: TopologicalSorter[str] = TopologicalSorter()
    for parent, below in children.items():
        for child in below:
            order.add(child, parent)
    for section in order.static_order():
        for child in children.get(section, ()):
            masks[child] |= masks[section]
    return masks
