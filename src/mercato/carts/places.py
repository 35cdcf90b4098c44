"""Where a line stands in a request: cheap to carry along, made into an RFC 6901 pointer only when it is told."""

from collections.abc import Iterable, Sequence
from typing import Final

from mercato.carts.known import LINES, count_lines
from mercato.carts.model import MOST_DEPTH, MOST_LINES, LineItem
from mercato.errors import ValidationFailed

Place = tuple["Place | None", str, int | None]
"""The place above, the name of the member there, and the index in it if it is a list of which this is one."""

_CART: Final = "cart/lineItems"

CART: Final[Place] = (None, _CART, None)
ITEM: Final[Place] = (None, "item", None)


def pointer(place: Place) -> str:
    """Return the pointer into the request body."""
    steps = []
    above: Place | None = place
    while above is not None:
        above, name, index = above
        steps.append(name if index is None else f"{name}/{index}")
    return "/" + "/".join(reversed(steps))


def in_cart(lines: Sequence[LineItem]) -> list[Place]:
    """Return the places of the cart's lines."""
    return [(None, _CART, index) for index in range(len(lines))]


def check_bounds(lines: Iterable[LineItem], places: Iterable[Place]) -> None:
    """Refuse more lines than a cart may have, and modifiers that stand too deep. Raises ValidationFailed.

    It comes before everything else and stops at the first fault, so that all that follows is bounded.
    """
    lines = list(lines)
    if _size(lines) <= MOST_LINES:
        return
    # Only a refusal says where it is: the places are made for it alone.
    count = 0
    for line, place in zip(lines, places, strict=True):
        count = _counted(line, place, depth=0, count=count)


def _size(lines: Sequence[LineItem]) -> int:
    """Return how many lines there are, modifiers included; more than may be when they stand too deep."""
    count = 0
    for line in lines:
        known = LINES.find(line)
        count += count_lines([line]) if known is None else known.size
        if count > MOST_LINES:
            return count
    return count


def _counted(line: LineItem, place: Place, *, depth: int, count: int) -> int:
    """Return `count` and one for the line and each of its modifiers."""
    if depth > MOST_DEPTH:
        raise ValidationFailed.at(pointer(place), f"Modifiers may be nested at most {MOST_DEPTH} deep.")
    count += 1
    if count > MOST_LINES:
        message = f"A cart may have at most {MOST_LINES} lines, modifiers included."
        raise ValidationFailed.at(pointer(_root(place)), message)
    for number, group in enumerate(line.modifier_groups):
        for index, below in enumerate(group.line_items):
            at: Place = ((place, "modifierGroups", number), "lineItems", index)
            count = _counted(below, at, depth=depth + 1, count=count)
    return count


def _root(place: Place) -> Place:
    above, name, _ = place
    return (None, name, None) if above is None else _root(above)
