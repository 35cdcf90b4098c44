"""What may become of a document that is built."""

import msgspec

from mercato.catalog.model import CatalogFault, CatalogSummary, CatalogWarning


class BuildFailed(msgspec.Struct, frozen=True, tag=True):
    """The document cannot be served."""

    faults: tuple[CatalogFault, ...]
    warnings: tuple[CatalogWarning, ...]
    fault_rules: tuple[str, ...]
    """The id of each fault's rule; `warning_rules` likewise."""
    warning_rules: tuple[str, ...]


class Unchanged(msgspec.Struct, frozen=True, tag=True):
    """The document's content is what is served already."""

    content_hash: str
    warnings: tuple[CatalogWarning, ...] = ()
    warning_rules: tuple[str, ...] = ()


class Built(msgspec.Struct, frozen=True, tag=True):
    """All that is stored of a set. The bodies of a large one are compressed already, and `body` is empty; those of any
    other are made by `Builder.compress`.
    """

    content_hash: str
    body: bytes
    compiled: bytes
    summary: CatalogSummary
    warnings: tuple[CatalogWarning, ...]
    search: bytes
    """What discovery needs of the set: a packed SetSearch."""
    warning_rules: tuple[str, ...]
    bodies: dict[str, bytes] | None = None
    """The compressed bodies of a large set by their coding."""


Result = BuildFailed | Unchanged | Built
