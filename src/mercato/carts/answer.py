"""A priced cart as it is answered: every line with an id of its own, amounts where there are any."""

from collections.abc import Sequence
from uuid import UUID

from msgspec import UNSET, UnsetType

from mercato.carts.model import (
    CartAmounts,
    LineItem,
    LineItemAmounts,
    PricedCart,
    PricedLineItem,
    PricedModifierGroup,
)
from mercato.carts.pricing import Priced
from mercato.catalog.model import CompiledCatalog
from mercato.catalog.money import scaled
from mercato.clock import MakeId


def answer(
    lines: Sequence[LineItem],
    priced: Priced,
    *,
    store_id: UUID,
    catalog_set_id: UUID,
    catalog: CompiledCatalog,
    new_id: MakeId,
) -> PricedCart:
    """Return the cart with ids and amounts; without amounts of its own when a line of it has no price."""
    scale = catalog.scale
    writer = _Writer(priced.unavailable, new_id)
    tops = [
        writer.line(line, UNSET if unit is None else _amounts(unit, line.quantity, scale))
        for line, unit in zip(lines, priced.units, strict=True)
    ]
    total = scaled(priced.total, scale)
    whole = None not in priced.units
    return PricedCart(
        catalog_set_id=catalog_set_id,
        line_items=tops,
        store_id=store_id,
        amounts=CartAmounts(currency=catalog.currency, sub_total=total, total=total) if whole else UNSET,
    )


def _amounts(unit: int, quantity: int, scale: int) -> LineItemAmounts:
    return LineItemAmounts(unit_price=scaled(unit, scale), total=scaled(unit * quantity, scale))


class _Writer:
    """Writes lines; an id that was given to a line before is not given again."""

    def __init__(self, unavailable: frozenset[int], new_id: MakeId) -> None:
        self._unavailable = unavailable
        self._new_id = new_id
        # As numbers: a UUID's own hash is Python code.
        self._given: set[int] = set()

    def line(self, line: LineItem, amounts: LineItemAmounts | UnsetType = UNSET) -> PricedLineItem:
        return PricedLineItem(
            item_id=line.item_id,
            line_item_id=self._id(line.line_item_id),
            quantity=line.quantity,
            modifier_groups=[
                PricedModifierGroup(
                    modifier_group_id=group.modifier_group_id,
                    line_items=[self.line(below) for below in group.line_items],
                )
                for group in line.modifier_groups
            ]
            if line.modifier_groups
            else [],
            amounts=amounts,
            unavailable=True if id(line) in self._unavailable else UNSET,
        )

    def _id(self, wanted: UUID | None) -> UUID:
        if wanted is None:
            wanted = self._new_id()
        given = self._given
        before = len(given)
        given.add(wanted.int)
        # An id that was there already leaves the set as large as it was: one look-up a line, not two.
        return wanted if len(given) > before else self._id(None)
