"""Refusals of carts; faults of a cart and their location. Only a reported fault gets a JSON Pointer (RFC 6901)."""

from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from mercato_contract import problems
from mercato_contract.problems import OrderError
from mercato_contract.refusals import Problem


class MissingStoreId(Problem):
    kind = problems.MISSING_STORE_ID


class CatalogSetRequired(Problem):
    kind = problems.CATALOGSET_REQUIRED


class ModifierRequired(Problem):
    kind = problems.MODIFIER_REQUIRED


class ModifierLimitExceeded(Problem):
    kind = problems.MODIFIER_LIMIT_EXCEEDED


class ItemUnavailable(Problem):
    kind = problems.ITEM_UNAVAILABLE


class LineItemNotFound(Problem):
    kind = problems.LINE_ITEM_NOT_FOUND


Path = tuple[int, ...]
"""The path to a line: its index, then (group, index) for each level below. A path that ends after a group leads to that
group; the empty path leads to all lines."""

_LINES: Final = "/cart/lineItems"
_LEVELS: Final = ("modifierGroups", "lineItems")


class Origin(Struct, frozen=True):
    """The location of a changed cart's lines in the request.

    `item`: the index of the line that is the request's `item`. `removed`: the index of the removed line. `quantity`:
    the index of a line whose quantity the request changes, and the pointer to the new one.
    """

    item: int | None = None
    removed: int | None = None
    quantity: tuple[int, str] | None = None

    def pointer(self, path: Path, member: str = "") -> str:
        """Return the pointer into the request, with `member` appended."""
        if not path:
            return _LINES
        index, *below = path
        if member == "/quantity" and not below and self.quantity is not None and self.quantity[0] == index:
            return self.quantity[1]
        if self.removed is not None and index >= self.removed:
            index += 1
        root = "/item" if path[0] == self.item else f"{_LINES}/{index}"
        steps = [f"/{_LEVELS[depth % 2]}/{step}" for depth, step in enumerate(below)]
        return "".join([root, *steps, member])


AS_SENT: Final = Origin()
"""The origin of a cart that the request doesn't change."""


class CartFault(Struct, frozen=True):
    """A fault of a line or group. `member` is the end of its pointer.

    `item_id` is the item of the line; of a limit of one choice, the choice. `minimum` and `maximum` are units.
    """

    code: str
    message: str
    path: Path
    member: str = ""
    item_id: UUID | UnsetType = UNSET
    group_id: UUID | UnsetType = UNSET
    minimum: int | UnsetType = UNSET
    maximum: int | UnsetType = UNSET

    def error(self, origin: Origin = AS_SENT) -> OrderError:
        """Return the fault with its pointer."""
        return OrderError(
            code=self.code,
            message=self.message,
            pointer=origin.pointer(self.path, self.member),
            item_id=self.item_id,
            modifier_group_id=self.group_id,
            minimum=self.minimum,
            maximum=self.maximum,
        )
