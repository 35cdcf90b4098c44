"""The cart of an order with the ids of the merchant's document, which merchants read and storefronts don't."""

from uuid import UUID

from mercato.catalog.model import CompiledCatalog, CompiledGroup, CompiledItem
from mercato.orders.model import (
    CommerceCart,
    CommerceLine,
    CommerceModifierGroup,
    OrderCart,
    OrderLine,
    OrderModifierGroup,
)


def with_partner_ids(cart: OrderCart, catalog: CompiledCatalog) -> CommerceCart:
    """Return the cart as its merchant reads it, by the ids of the CatalogSet it was priced from."""

    def line_of(line: OrderLine) -> CommerceLine:
        return CommerceLine(
            item_id=line.item_id,
            partner_item_id=document_id(line.item_id, catalog.items.get(line.item_id.int)),
            modifier_groups=tuple(map(group_of, line.modifier_groups)) if line.modifier_groups else (),
            quantity=line.quantity,
            line_item_id=line.line_item_id,
            name=line.name,
            amounts=line.amounts,
            unavailable=line.unavailable,
        )

    def group_of(group: OrderModifierGroup) -> CommerceModifierGroup:
        group_id = group.modifier_group_id
        return CommerceModifierGroup(
            modifier_group_id=group_id,
            partner_modifier_group_id=document_id(group_id, catalog.groups.get(group_id.int)),
            line_items=tuple(map(line_of, group.line_items)),
        )

    return CommerceCart(
        catalog_set_id=cart.catalog_set_id,
        line_items=tuple(map(line_of, cart.line_items)),
        store_id=cart.store_id,
        amounts=cart.amounts,
    )


def without_partner_ids(cart: CommerceCart) -> OrderCart:
    """Return the cart as its storefront reads it."""
    return OrderCart(
        catalog_set_id=cart.catalog_set_id,
        line_items=tuple(map(_line, cart.line_items)),
        store_id=cart.store_id,
        amounts=cart.amounts,
    )


def document_id(served_id: UUID, compiled: CompiledItem | CompiledGroup | None) -> str:
    """Return the id of an item or group in the merchant's document."""
    written = None if compiled is None else compiled.document_id
    return str(served_id) if written is None else written


def _line(line: CommerceLine) -> OrderLine:
    return OrderLine(
        item_id=line.item_id,
        modifier_groups=tuple(map(_group, line.modifier_groups)) if line.modifier_groups else (),
        quantity=line.quantity,
        line_item_id=line.line_item_id,
        name=line.name,
        amounts=line.amounts,
        unavailable=line.unavailable,
    )


def _group(group: CommerceModifierGroup) -> OrderModifierGroup:
    return OrderModifierGroup(
        modifier_group_id=group.modifier_group_id, line_items=tuple(map(_line, group.line_items))
    )
