"""Where a line stands in a request: cheap to carry along, made into an RFC 6901 pointer only when it is told."""

from collections.abc import Iterable, Sequence
from typing import Final

from mercato.carts.model import MOST_DEPTH, MOST_LINES, LineItem
from mercato.errors import ValidationFailed

Place = tuple["Place | None", str]
"""The place above, and the steps from there."""

CART: Final[Place] = (None, "cart/lineItems")
ITEM: Final[Place] = (None, "item")


def pointer(place: Place) -> str:
    """Return the pointer into the request body."""
    steps = []
    above: Place | None = place
    while above is not None:
        above, step = above
        steps.append(step)
    return "/" + "/".join(reversed(steps))


def in_cart(lines: Sequence[LineItem]) -> list[Place]:
    """Return the places of the cart's lines."""
    return [(CART, str(index)) for index in range(len(lines))]


def check_bounds(lines: Iterable[LineItem], places: Iterable[Place]) -> None:
    """Refuse more lines than a cart may have, and modifiers that stand too deep. Raises ValidationFailed.

    It comes before everything else and stops at the first fault, so that all that follows is bounded.
    """
    lines = list(lines)
    if _size(lines, 0) <= MOST_LINES:
        return
    # Only a refusal says where it is: the places are made for it alone.
    count = 0
    for line, place in zip(lines, places, strict=True):
        count = _counted(line, place, depth=0, count=count)


def _size(lines: Sequence[LineItem], depth: int) -> int:
    """Return how many lines there are, modifiers included; more than may be when they stand too deep."""
    if depth > MOST_DEPTH and lines:
        return MOST_LINES + 1
    count = len(lines)
    for line in lines:
        for group in line.modifier_groups:
            count += _size(group.line_items, depth + 1)
        if count > MOST_LINES:
            break
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
            at = (place, f"modifierGroups/{number}/lineItems/{index}")
            count = _counted(below, at, depth=depth + 1, count=count)
    return count


def _root(place: Place) -> Place:
    while place[0] is not None:
        place = place[0]
    return place
