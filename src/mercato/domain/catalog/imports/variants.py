"""A product that is sold in several sizes: an item at the lowest price, with a group in which one has to be chosen."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from mercato.domain.catalog.imports.draft import Draft, Ref
from mercato.domain.catalog.validation.document import GroupRow, ItemRow


class Variant(Struct, frozen=True, kw_only=True):
    """One size: its row with the price in minor units, and the groups that belong to it alone."""

    id: str
    at: str
    row: ItemRow
    groups: Sequence[Ref] = ()


def add_product(
    draft: Draft, key: str, row: ItemRow, groups: Sequence[Ref], variants: Sequence[Variant], *, at: str
) -> None:
    """Add the item; with several variants also the group of them, and an item for each."""
    sizes = f"{key}:sizes"
    prices = [one.row.base_price for one in variants if one.row.base_price is not None]
    lowest = min(prices, default=0)
    item = replace(
        row,
        base_price=lowest if prices else None,
        is_available=any(one.row.is_available is not False for one in variants),
    )
    if len(variants) == 1:
        [only] = variants
        item = replace(item, partner_item_id=only.row.partner_item_id)
        groups = [*groups, *only.groups]
    elif variants:
        draft.losses.approximated(
            at, "Its sizes become choices of a group: what each costs more than the cheapest is added."
        )
        groups = [Ref(sizes, at), *groups]
    draft.item(key, item, groups, at=at)
    if len(variants) <= 1:
        return
    for one in variants:
        price = one.row.base_price
        # Without a basePrice, so that no size can be bought for what it costs more.
        size = replace(
            one.row,
            name=one.row.name or row.name,
            base_price=None,
            is_available=one.row.is_available is not False and price is not None,
        )
        draft.item(one.id, size, one.groups, at=one.at)
        draft.override(sizes, one.id, (lowest if price is None else price) - lowest, one.at)
    choices = [Ref(one.id, one.at) for one in variants]
    draft.group(sizes, GroupRow(name=row.name, minimum_allowed=1, maximum_allowed=1), choices, at=at)
