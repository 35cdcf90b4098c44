"""Where a line stands in a request: cheap to carry along, made into an RFC 6901 pointer only when it is told."""

from collections.abc import Sequence
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


def check_bounds(lines: Sequence[LineItem], whole: Place) -> None:
    """Refuse more lines than a cart may have, and modifiers that stand too deep. Raises ValidationFailed.

    It comes before everything else and stops at the first of either, so that what follows is bounded.
    """
    count_lines(lines, whole, depth=0, count=0)


def count_lines(lines: Sequence[LineItem], whole: Place, *, depth: int, count: int) -> int:
    """Return `count` and how many lines these are, modifiers included. Raises ValidationFailed."""
    if depth > MOST_DEPTH and lines:
        message = f"Modifiers may be nested at most {MOST_DEPTH} deep."
        raise ValidationFailed.at(pointer(whole), message)
    count += len(lines)
    if count > MOST_LINES:
        message = f"A cart may have at most {MOST_LINES} lines, modifiers included."
        raise ValidationFailed.at(pointer(CART), message)
    for index, line in enumerate(lines):
        for number, group in enumerate(line.modifier_groups):
            below = (whole, f"{index}/modifierGroups/{number}/lineItems")
            count = count_lines(group.line_items, below, depth=depth + 1, count=count)
    return count
