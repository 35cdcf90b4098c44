"""What every importer is: the shape of its format, and how a document of that shape becomes a CatalogSet."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from mercato.domain.catalog.imports.draft import Draft
from mercato.domain.catalog.imports.losses import Losses
from mercato.kernel.wire.base import WireMeta


class Shape(msgspec.Struct, metaclass=WireMeta, frozen=True, kw_only=True):
    """The base of a source format's structs: members as they are written there, all optional but ids."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the document does not say. `currency` goes before what it says, `default_currency` behind it."""

    default_currency: str
    now: datetime
    currency: str | None = None
    language: str | None = None


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One format. `shape_of` tells the type of a document that was decoded without one."""

    name: str
    shape_of: Callable[[Any], Any]
    currency_of: Callable[[Any], str | None]
    fill: Callable[[Any, Draft, ImportOptions], None]
    idle: frozenset[str] = frozenset()


def translated(texts: dict[str, str], at: str, options: ImportOptions, losses: Losses) -> str | None:
    """Return the text in the language asked for, or the first one; the other languages are lost."""
    if not texts:
        return None
    wanted = (options.language or "").replace("-", "_").lower()
    chosen = next(
        (name for name in texts if wanted and name.replace("-", "_").lower().startswith(wanted)), None
    )
    if chosen is None:
        chosen = next(iter(texts))
    for name in texts:
        if name != chosen:
            losses.dropped(f"{at}/{name}", "A text is kept in one language; see --language.")
    return texts[chosen] or None
