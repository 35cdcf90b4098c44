"""A priced cart as it is answered: every line with an id of its own, amounts where there are any."""

from collections.abc import Sequence
from functools import lru_cache
from typing import cast
from uuid import UUID

from msgspec import UNSET, UnsetType

from mercato.carts.known import Reading
from mercato.carts.model import (
    CartAmounts,
    CartModifierGroup,
    LineItem,
    LineItemAmounts,
    PricedCart,
    PricedLineItem,
    PricedModifierGroup,
)
from mercato.carts.pricing import MOST_FAULTS, Priced
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
    writer = _Writer(priced.unavailable, new_id)
    return PricedCart(
        catalog_set_id=catalog_set_id,
        line_items=[
            writer.top(line, unit, reading, scale=catalog.scale, as_sent=as_sent)
            for line, unit, reading, as_sent in zip(
                lines, priced.units, priced.readings, priced.as_sent, strict=True
            )
        ],
        store_id=store_id,
        amounts=cart_amounts(priced, catalog),
        errors=priced.faults[:MOST_FAULTS],
    )


def cart_amounts(priced: Priced, catalog: CompiledCatalog) -> CartAmounts | UnsetType:
    """Return what a cart costs; UNSET when a line of it has no price."""
    if None in priced.units:
        return UNSET
    total = scaled(priced.total, catalog.scale)
    return CartAmounts(currency=catalog.currency, sub_total=total, total=total)


@lru_cache(maxsize=8192)
def amounts_of(unit: int | None, quantity: int, scale: int) -> LineItemAmounts | UnsetType:
    """Return what a line costs of which one unit costs so much; UNSET when it has no price."""
    if unit is None:
        return UNSET
    return LineItemAmounts(unit_price=scaled(unit, scale), total=scaled(unit * quantity, scale))


class _Writer:
    """Writes lines."""

    def __init__(self, unavailable: frozenset[int], new_id: MakeId) -> None:
        self._unavailable = unavailable
        self._id = Ids(new_id).give

    def top(
        self, line: LineItem, unit: int | None, reading: Reading | None, *, scale: int, as_sent: bool
    ) -> PricedLineItem:
        """Return a line of the cart itself."""
        written = None if reading is None else reading.written.get(PricedLineItem)
        if written is None:
            written = self.line(line, amounts_of(unit, line.quantity, scale), as_sent=as_sent)
            if reading is not None:
                reading.written[PricedLineItem] = written
        return cast("PricedLineItem", written)

    def line(
        self, line: LineItem, amounts: LineItemAmounts | UnsetType = UNSET, *, as_sent: bool = False
    ) -> PricedLineItem:
        return PricedLineItem(
            item_id=line.item_id,
            line_item_id=self._id(line.line_item_id),
            quantity=line.quantity,
            modifier_groups=(
                # Written out, it is the same: so it needn't be made anew.
                cast("list[PricedModifierGroup]", line.modifier_groups)
                if as_sent
                else list(map(self._group, line.modifier_groups))
            ),
            amounts=amounts,
            unavailable=True if id(line) in self._unavailable else UNSET,
        )

    def _group(self, group: CartModifierGroup) -> PricedModifierGroup:
        return PricedModifierGroup(
            modifier_group_id=group.modifier_group_id,
            line_items=[self._choice(below) for below in group.line_items],
        )

    def _choice(self, line: LineItem) -> PricedLineItem:
        """Return a choice as it is answered: most are what they were in the answer that they come from."""
        if line.modifier_groups or id(line) in self._unavailable:
            return self.line(line)
        kept = line.line_item_id
        given = self._id(kept)
        if given is kept:
            # Written out, it is the same: so it needn't be made anew.
            return cast("PricedLineItem", line)
        return PricedLineItem(
            item_id=line.item_id, line_item_id=given, quantity=line.quantity, modifier_groups=[]
        )


class Ids:
    """Ids of a cart's lines: each keeps its own, but for one that a line before it has already."""

    __slots__ = ("_given", "_new_id")

    def __init__(self, new_id: MakeId) -> None:
        self._new_id = new_id
        # As numbers: a UUID's own hash is Python code.
        self._given: set[int] = set()

    def give(self, wanted: UUID | None) -> UUID:
        """Return the id of a line that has this one, or none."""
        given = self._given
        while wanted is None or wanted.int in given:
            wanted = self._new_id()
        given.add(wanted.int)
        return wanted
