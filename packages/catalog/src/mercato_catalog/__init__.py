"""The rules of catalogs and carts: documents in; findings, prices, hours, diffs out. No I/O, no clock, no HTTP."""

from mercato_catalog.carts.ordering import Resolution
from mercato_catalog.catalog import Availability, Catalog, InvalidDocument, build, validate
from mercato_catalog.charges import apply_charges
from mercato_catalog.model import Finding
from mercato_catalog.validation.findings import Findings, Rule

__all__ = [
    "Availability",
    "Catalog",
    "Finding",
    "Findings",
    "InvalidDocument",
    "Resolution",
    "Rule",
    "apply_charges",
    "build",
    "validate",
]
