"""How many of what may be chosen: counts are whole, not negative, and leave something to choose."""

from typing import Final

from mercato.catalog.findings import Findings
from mercato.catalog.rules import Rule
from mercato.catalog.source import Source, Table

MOST: Final = 2**31 - 1
"""Quantities in carts are 32-bit integers, so no count beyond one can be reached."""

MOST_GROUPS: Final = 500
"""Modifier groups of one item: a cart's every line of it is held against all of them, while everybody waits."""

_COUNTS: Final = ("minimumAllowed", "maximumAllowed", "maximumPerItem", "freeQuantity")


def check_counts(source: Source, findings: Findings) -> None:
    """Note counts that are negative, too large, or contradict each other."""
    _check_groups(source.items, findings)
    _check_range(source.items, "maximumQuantity", findings)
    groups, before = source.groups, findings.fault_count
    for name in _COUNTS:
        _check_range(groups, name, findings)
    if findings.fault_count == before:
        _check_choice(groups, findings)


def _check_groups(items: Table, findings: Findings) -> None:
    for key, groups in items.rows_with("modifierGroupIds"):
        if len(groups) > MOST_GROUPS:
            findings.fault(
                Rule.TOO_MANY_GROUPS,
                f"The item {items.said(key)} lists more than {MOST_GROUPS:,} modifier groups.",
                f"{items.pointer(key)}/modifierGroupIds",
            )


def _check_range(table: Table, name: str, findings: Findings) -> None:
    for key, count in table.rows_with(name):
        if count < 0:
            findings.fault(
                Rule.COUNT_OUT_OF_RANGE, f"{name} must not be negative.", f"{table.pointer(key)}/{name}"
            )
        elif count > MOST:
            findings.fault(
                Rule.COUNT_OUT_OF_RANGE, f"{name} must be at most {MOST}.", f"{table.pointer(key)}/{name}"
            )


def _check_choice(groups: Table, findings: Findings) -> None:
    rows = zip(
        groups.column("minimumAllowed"),
        groups.column("maximumAllowed"),
        groups.column("maximumPerItem"),
        groups.column("itemIds"),
        strict=True,
    )
    for key, (minimum, maximum, per_item, items) in zip(groups.members, rows, strict=True):
        at = f"{groups.pointer(key)}/minimumAllowed"
        if minimum and maximum is not None and minimum > maximum:
            findings.fault(
                Rule.MINIMUM_ABOVE_MAXIMUM,
                f"The modifier group {groups.said(key)} asks for at least {minimum} and at most {maximum}.",
                at,
            )
        elif minimum and minimum > len(set(items or ())) * (MOST if per_item is None else per_item):
            findings.warn(
                Rule.UNREACHABLE_MINIMUM,
                f"The modifier group {groups.said(key)} asks for at least {minimum}, more than can be chosen.",
                at,
            )
