"""How many of what may be chosen: counts are whole, not negative, and leave something to choose."""

from typing import Final

from mercato.catalog.findings import Findings
from mercato.catalog.source import GROUPS, ITEMS, GroupSource, Source, Table

MOST: Final = 2**31 - 1
"""Quantities in carts are 32-bit integers, so no count beyond one can be reached."""

_COUNTS: Final = (
    ("minimum_allowed", "minimumAllowed"),
    ("maximum_allowed", "maximumAllowed"),
    ("maximum_per_item", "maximumPerItem"),
    ("free_quantity", "freeQuantity"),
)


def check_counts(source: Source, findings: Findings) -> None:
    """Note counts that are negative, too large, or contradict each other."""
    for key, item in source.items.entities.items():
        if item.maximum_quantity is not None:
            at = f"{source.items.pointer(key)}/maximumQuantity"
            _check(item.maximum_quantity, ITEMS.noun, "maximumQuantity", at, findings)
    for key, group in source.groups.entities.items():
        _check_group(source.groups, key, group, findings)


def _check_group(groups: Table[GroupSource], key: str, group: GroupSource, findings: Findings) -> None:
    before = findings.fault_count
    for field, member in _COUNTS:
        count = getattr(group, field)
        if count is not None:
            _check(count, GROUPS.noun, member, f"{groups.pointer(key)}/{member}", findings)
    if findings.fault_count > before:
        return
    minimum, maximum = group.minimum_allowed or 0, group.maximum_allowed
    if maximum is not None and minimum > maximum:
        findings.fault(
            f"The modifier group {groups.said(key)} asks for at least {minimum} and at most {maximum}.",
            f"{groups.pointer(key)}/minimumAllowed",
        )
    elif minimum > _reachable(group):
        findings.warn(
            "unreachable minimum",
            f"The modifier group {groups.said(key)} asks for at least {minimum}, more than can be chosen.",
            f"{groups.pointer(key)}/minimumAllowed",
        )


def _reachable(group: GroupSource) -> int:
    choices = len(set(group.item_ids or ()))
    per_item = MOST if group.maximum_per_item is None else group.maximum_per_item
    return choices * per_item


def _check(count: int, noun: str, member: str, at: str, findings: Findings) -> None:
    if count < 0:
        findings.fault(f"{member} of a {noun} must not be negative.", at)
    elif count > MOST:
        findings.fault(f"{member} of a {noun} must be at most {MOST}.", at)
