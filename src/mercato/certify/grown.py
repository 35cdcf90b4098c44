"""JSON of a later version: the same, with members that nobody knows yet."""

from typing import Any, Final

DICTIONARIES: Final = frozenset({"items", "sections", "catalogs", "modifierGroups", "priceOverrides"})
"""Members that hold entities by their ids: a new name there would be an entity."""


def grown(value: Any, *, named: str = "") -> Any:
    """Return a JSON value with unknown members in every object."""
    if isinstance(value, list):
        return [grown(one) for one in value]
    if isinstance(value, dict):
        inside = {name: grown(one, named=name) for name, one in value.items()}
        more = {"x-new": {"since": 2030, "list": [None, True, "?"]}, "addedLater": None}
        return inside if named in DICTIONARIES else inside | more
    return value
