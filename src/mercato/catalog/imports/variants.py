"""A product that is sold in several sizes: an item at the lowest price, with a group in which one has to be chosen."""

from collections.abc import Sequence
from dataclasses import dataclass

from mercato.catalog.imports.draft import Draft, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One size: its price in minor units, and the groups that belong to it alone."""

    id: str
    at: str
    name: str | None
    price: int | None
    partner_id: str | None
    available: bool = True
    groups: Sequence[Ref] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What is sold, in one size or in several."""

    id: str
    at: str
    name: str | None
    description: str | None
    image: str | None
    partner_id: str | None
    tags: Sequence[str]
    groups: Sequence[Ref]
    variants: Sequence[Variant]


def add_product(draft: Draft, product: Product) -> None:
    """Add the item; with several variants also the group of them, and an item for each."""
    only = product.variants[0] if len(product.variants) == 1 else None
    groups = [*product.groups]
    if only is not None:
        groups += only.groups
    elif product.variants:
        draft.losses.approximated(
            product.at,
            "Its sizes become choices of a group: what each costs more than the cheapest is added.",
        )
        groups.insert(0, Ref(f"{product.id}:sizes", product.at))
    prices = [one.price for one in product.variants if one.price is not None]
    draft.item(
        product.id,
        at=product.at,
        name=product.name,
        description=product.description,
        image=product.image,
        price=min(prices, default=None),
        partner_id=product.partner_id if only is None else only.partner_id,
        available=any(one.available for one in product.variants),
        groups=groups,
        tags=product.tags,
    )
    if only is None and product.variants:
        _add_sizes(draft, product, min(prices, default=0))


def _add_sizes(draft: Draft, product: Product, lowest: int) -> None:
    group = f"{product.id}:sizes"
    for one in product.variants:
        # Without a basePrice, so that no size can be bought for what it costs more.
        draft.item(
            one.id,
            at=one.at,
            name=one.name or product.name,
            price=None,
            partner_id=one.partner_id,
            available=one.available and one.price is not None,
            groups=one.groups,
        )
        draft.override(group, one.id, (lowest if one.price is None else one.price) - lowest, one.at)
    choices = [Ref(one.id, one.at) for one in product.variants]
    draft.group(group, at=product.at, name=product.name, choices=choices, minimum=1, maximum=1)
