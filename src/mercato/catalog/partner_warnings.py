"""The warnings of a catalog's check as they are stored with a run: with codes, and bounded."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mercato.catalog.model import CatalogWarning, PartnerWarning
from mercato.catalog.rules import Rule

MOST_WARNINGS: Final = 100
"""Warnings stored with a run; the last of them says how many more there are."""


def partner_warnings(found: Sequence[CatalogWarning], rules: Sequence[str]) -> tuple[PartnerWarning, ...]:
    """Return warnings with their rules as codes. Where there are too many, every rule keeps its share."""
    if len(found) <= MOST_WARNINGS:
        return tuple(_coded(warning, rule) for warning, rule in zip(found, rules, strict=True))
    share = max((MOST_WARNINGS - 1) // len(set(rules)), 1)
    counted: Counter[str] = Counter()
    kept: list[PartnerWarning] = []
    for warning, rule in zip(found, rules, strict=True):
        counted[rule] += 1
        if counted[rule] <= share and len(kept) < MOST_WARNINGS - 1:
            kept.append(_coded(warning, rule))
    more = f"{len(found) - len(kept)} more warnings are not listed. `mercato catalog lint` lists more of a document."
    return (*kept, PartnerWarning(code=Rule.NOT_LISTED.id, message=more, pointer=""))


def _coded(warning: CatalogWarning, rule: str) -> PartnerWarning:
    return PartnerWarning(code=rule, message=warning.message, pointer=warning.path)
