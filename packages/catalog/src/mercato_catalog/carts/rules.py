"""Add, remove and update items of a cart: pure functions of the request and the store's current menu."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato_catalog.carts.errors import CatalogSetRequired, ItemUnavailable, MissingStoreId, Origin
from mercato_catalog.carts.lines import (
    MakeId,
    check_bounds,
    find_same,
    get_path,
    has_empty_group,
    with_quantity,
)
from mercato_catalog.carts.pricing import MAX_FAULTS, UNAVAILABLE, Priced, price
from mercato_catalog.model import CompiledCatalog
from mercato_contract.carts import (
    MAX_QUANTITY,
    AddCartItemRequest,
    LineItem,
    PricedCart,
    RemoveCartItemRequest,
    UpdateCartItemRequest,
)
from mercato_contract.problems import OrderError
from mercato_contract.refusals import ValidationFailed

_NO_STORE: Final = OrderError(
    code=MissingStoreId.code,
    message="A new or empty cart needs a store: send its storeId beside the item.",
    pointer="/storeId",
)
_NO_SET: Final = OrderError(
    code=CatalogSetRequired.code,
    message="A new or empty cart needs the store's catalogSetId beside the item.",
    pointer="/catalogSetId",
)


class CatalogRef(Struct, frozen=True):
    """The store and the CatalogSet that a request names."""

    store_id: UUID
    catalog_set_id: UUID


class StoreMenu(Struct, frozen=True):
    """A store's current set, compiled, and its sold-out items."""

    store_id: UUID
    catalog_set_id: UUID
    catalog: CompiledCatalog
    sold_out: Collection[UUID]


def get_catalog_ref(
    request: AddCartItemRequest | RemoveCartItemRequest | UpdateCartItemRequest,
) -> CatalogRef:
    """Return the store and set of a request within bounds.

    Raises ValidationFailed, and for a new or empty cart MissingStoreId or CatalogSetRequired.
    """
    cart = request.cart
    if cart is not None:
        check_bounds(cart.line_items)
    if not isinstance(request, AddCartItemRequest):
        return CatalogRef(request.cart.store_id, request.cart.catalog_set_id)
    check_bounds([request.item], Origin(item=0))
    if cart is not None and cart.line_items:
        return CatalogRef(cart.store_id, cart.catalog_set_id)
    # An empty cart is a new one, whatever ids it carries.
    store_id, set_id = request.store_id, request.catalog_set_id
    if store_id is None:
        raise MissingStoreId(_NO_STORE.message, errors=[_NO_STORE, *([_NO_SET] if set_id is None else [])])
    if set_id is None:
        raise CatalogSetRequired(_NO_SET.message, errors=[_NO_SET])
    return CatalogRef(store_id, set_id)


def add_item(request: AddCartItemRequest, menu: StoreMenu, new_id: MakeId) -> PricedCart:
    """Return the cart with the item added: to the line with the same choices, or as a new line.

    Raises ItemUnavailable or ValidationFailed.
    """
    item = request.item
    lines = list(request.cart.line_items) if request.cart is not None else []
    same = find_same(lines, item)
    if same is not None:
        return _merge(lines, same, item, menu, new_id)
    origin = Origin(item=len(lines))
    lines.append(item)
    check_bounds(lines, origin)
    return _accept(_price(lines, menu, new_id), menu, origin)


def remove_item(request: RemoveCartItemRequest, menu: StoreMenu, new_id: MakeId) -> PricedCart:
    """Return the cart without the line. Faults of the rest are listed in it rather than raised.

    Raises LineItemNotFound; ValidationFailed if an amount is out of range.
    """
    return _remove(request.cart.line_items, request.line_item_id, menu, new_id)


def update_item(request: UpdateCartItemRequest, menu: StoreMenu, new_id: MakeId) -> PricedCart:
    """Return the cart with another quantity of the line; 0 removes it.

    Raises LineItemNotFound; unless it is removed, ItemUnavailable or ValidationFailed.
    """
    lines = request.cart.line_items
    if request.quantity == 0:
        return _remove(lines, request.line_item_id, menu, new_id)
    path = get_path(lines, request.line_item_id)
    origin = Origin(quantity=(path[0], "/quantity")) if len(path) == 1 else Origin()
    return _accept(_price(with_quantity(lines, path, request.quantity), menu, new_id), menu, origin)


def _merge(lines: list[LineItem], index: int, item: LineItem, menu: StoreMenu, new_id: MakeId) -> PricedCart:
    """Return the cart with the item's quantity added to the line with the same choices."""
    added: list[OrderError] = []
    quantity = lines[index].quantity + item.quantity
    if quantity > MAX_QUANTITY:
        message = f"quantity together with the cart's may be at most {MAX_QUANTITY}."
        # Without the item's id: the limit is that of any line.
        added.append(
            OrderError(
                code=ValidationFailed.code, message=message, pointer="/item/quantity", maximum=MAX_QUANTITY
            )
        )
    else:
        lines[index] = replace(lines[index], quantity=quantity)
    priced = _price(lines, menu, new_id)
    if priced.faults or has_empty_group(item):
        # What is wrong with the line is wrong with the item, too. Merging drops an empty group, and with it the fault
        # that the set doesn't have it.
        added += [fault.error(Origin(item=0)) for fault in _price([item], menu, new_id).faults]
    return _accept(priced, menu, Origin(quantity=(index, "/item/quantity")), added=added)


def _remove(lines: Sequence[LineItem], line_item_id: UUID, menu: StoreMenu, new_id: MakeId) -> PricedCart:
    path = get_path(lines, line_item_id)
    priced = _price(with_quantity(lines, path, 0), menu, new_id)
    origin = Origin(removed=path[0]) if len(path) == 1 else Origin()
    _refuse([fault.error(origin) for fault in priced.overflows])
    # Pointers are into the returned cart.
    return _respond(priced, menu, errors=tuple(fault.error() for fault in priced.faults))


def _price(lines: Sequence[LineItem], menu: StoreMenu, new_id: MakeId) -> Priced:
    return price(lines, catalog=menu.catalog, sold_out=menu.sold_out, new_id=new_id)


def _accept(
    priced: Priced, menu: StoreMenu, origin: Origin, *, added: Sequence[OrderError] = ()
) -> PricedCart:
    """Return the cart, or raise all its faults; `added` are those of a merged item."""
    if priced.faults or priced.overflows or added:
        faults = [fault.error(origin) for fault in (*priced.faults, *priced.overflows)]
        _refuse([*faults, *(fault for fault in added if fault not in faults)])
    return _respond(priced, menu)


def _respond(priced: Priced, menu: StoreMenu, *, errors: tuple[OrderError, ...] = ()) -> PricedCart:
    return PricedCart(
        catalog_set_id=menu.catalog_set_id,
        line_items=priced.lines,
        store_id=menu.store_id,
        amounts=priced.amounts,
        errors=errors,
    )


def _refuse(faults: Sequence[OrderError]) -> None:
    """Raise the problem that lists the faults, if any: 400 if something is unavailable, else 422."""
    if not faults:
        return
    count = str(len(faults)) if len(faults) < MAX_FAULTS else f"{MAX_FAULTS} or more"
    detail = faults[0].message if len(faults) == 1 else f"{count} faults in the cart: see errors."
    unavailable = next((fault for fault in faults if fault.code == UNAVAILABLE), None)
    listed = list(faults[:MAX_FAULTS])
    if unavailable is None:
        raise ValidationFailed(detail, errors=listed)
    # The fault that determines the status must be listed.
    raise ItemUnavailable(detail, errors=listed if unavailable in listed else [*listed[:-1], unavailable])
