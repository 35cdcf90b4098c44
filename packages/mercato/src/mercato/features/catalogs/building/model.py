"""The request to build a document, and its results."""

from typing import Final
from uuid import UUID

import msgspec

from mercato.features.catalogs.model import Finding
from mercato_contract.catalogs import CatalogSummary

LENGTH: Final = 8
"""Bytes of the length before a message to the building process, and before its answer."""

NO_MEMORY: Final = 3
"""The exit code of a process whose document needs more memory than it may take."""


class BuildRequest(msgspec.Struct, frozen=True):
    """What to build. `previous_hash` is the content hash of the set that is served now."""

    onboarding_id: UUID
    catalog_set_id: UUID
    store_id: UUID
    default_currency: str
    previous_hash: str | None = None


class Task(msgspec.Struct, frozen=True):
    """Sent before a document of `size` bytes. Without `serves` only the results of a dry run are made."""

    size: int
    request: BuildRequest
    serves: bool


class BuildFailed(msgspec.Struct, frozen=True, tag=True):
    """The document cannot be served."""

    faults: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    excerpts: tuple[str, ...] = ()
    """What the document has at each fault."""


class Unchanged(msgspec.Struct, frozen=True, tag=True):
    """The document has the content that is already served."""

    content_hash: str
    warnings: tuple[Finding, ...] = ()


class Built(msgspec.Struct, frozen=True, tag=True):
    """All that is stored of a set. `Builder.compress` returns the bodies; those of a large set are compressed where it
    is built, and its `body` is empty.
    """

    content_hash: str
    body: bytes
    compiled: bytes
    summary: CatalogSummary
    warnings: tuple[Finding, ...]
    search: bytes
    """The packed SetSearch."""
    bodies: dict[str, bytes] | None = None
    """The compressed bodies by their coding."""


Result = BuildFailed | Unchanged | Built
