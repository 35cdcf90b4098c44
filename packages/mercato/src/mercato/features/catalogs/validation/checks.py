"""Checks of counts, names and prices: counts leave a choice, names are there, prices have a use."""

from typing import Any, Final

from mercato.features.catalogs.validation.document import Source, Table
from mercato.features.catalogs.validation.findings import Findings, Rule, shorten
from mercato.features.catalogs.validation.references import References

MAX_UNITS: Final = 2**31 - 1
"""Quantities in carts are 32-bit integers, so a higher count can't be reached."""

MAX_GROUPS: Final = 500
"""Modifier groups of one item: every line of a cart is checked against all of its item's."""

_COUNTS: Final = ("minimumAllowed", "maximumAllowed", "maximumPerItem", "freeQuantity")
_NAMED: Final = 3
"""Items that one warning names."""


def check_counts(source: Source, references: References, findings: Findings) -> None:
    """Report counts that are negative, too large, or contradictory."""
    for key, groups in references.item_groups.items():
        if len(groups) > MAX_GROUPS:
            findings.fault(
                Rule.TOO_MANY_GROUPS,
                f"The item {source.items.label(key)} lists more than {MAX_GROUPS:,} modifier groups.",
                f"{source.items.pointer(key)}/modifierGroupIds",
            )
    _check_range(source.items, "maximumQuantity", findings)
    before = findings.fault_count
    for name in _COUNTS:
        _check_range(source.groups, name, findings)
    if findings.fault_count == before:
        _check_choices(source, references, findings)


def _check_range(table: Table[Any], name: str, findings: Findings) -> None:
    for key, count in table.values(name).items():
        if not 0 <= count <= MAX_UNITS:
            bound = "not be negative" if count < 0 else f"be at most {MAX_UNITS}"
            findings.fault(Rule.COUNT_OUT_OF_RANGE, f"{name} must {bound}.", f"{table.pointer(key)}/{name}")


def _check_choices(source: Source, references: References, findings: Findings) -> None:
    groups = source.groups
    for key, row in groups.entries():
        minimum, maximum, per_item = row.minimum_allowed, row.maximum_allowed, row.maximum_per_item
        if not minimum:
            continue
        at = f"{groups.pointer(key)}/minimumAllowed"
        if maximum is not None and minimum > maximum:
            findings.fault(
                Rule.MINIMUM_ABOVE_MAXIMUM,
                f"The modifier group {groups.label(key)} requires at least {minimum} and at most {maximum}.",
                at,
            )
            continue
        choices = len(set(references.group_items.get(key, ())))
        if minimum > choices * (MAX_UNITS if per_item is None else per_item):
            findings.warn(
                Rule.UNREACHABLE_MINIMUM,
                f"The modifier group {groups.label(key)} requires at least {minimum}, more than can be chosen.",
                at,
            )


def warn_nameless(source: Source, findings: Findings) -> None:
    """Warn of entities without a name."""
    for table in source.tables:
        names = table.names()
        if all(names):
            continue
        for key in [key for key, name in zip(table.members, names, strict=True) if not name]:
            findings.warn(
                Rule.NO_NAME, f"The {table.kind.noun} {table.label(key)} has no name.", table.pointer(key)
            )


def warn_idle_overrides(source: Source, references: References, findings: Findings) -> None:
    """Warn of prices for items that their group doesn't offer."""
    groups = source.groups
    for key, prices in references.overrides.items():
        idle = sorted(prices.keys() - set(references.group_items.get(key, ())))
        if idle:
            named = ", ".join(map(shorten, idle[:_NAMED])) + (" and more" if len(idle) > _NAMED else "")
            findings.warn(
                Rule.IDLE_OVERRIDE,
                f"priceOverrides of the modifier group {groups.label(key)} has items that the group doesn't offer: "
                f"{named}.",
                f"{groups.pointer(key)}/priceOverrides",
            )


def warn_negative_prices(
    source: Source, item_prices: list[int | None], references: References, findings: Findings
) -> None:
    """Warn of negative prices of items and choices."""
    items, groups = source.items, source.groups
    for key, price in zip(items.members, item_prices, strict=True):
        if price is not None and price < 0:
            findings.warn(
                Rule.NEGATIVE_PRICE,
                f"The item {items.label(key)} has a price below zero. Did you mean a positive one?",
                f"{items.pointer(key)}/basePrice",
            )
    for key, overrides in references.overrides.items():
        below = [item for item, price in overrides.items() if price < 0]
        if below:
            findings.warn(
                Rule.NEGATIVE_PRICE,
                f"The modifier group {groups.label(key)} has prices below zero: {shorten(below[0])}"
                f"{' and more' if len(below) > 1 else ''}. Did you mean positive ones?",
                f"{groups.pointer(key)}/priceOverrides",
            )
