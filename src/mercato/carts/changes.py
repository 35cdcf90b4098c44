"""The three changes of a cart: pure functions of the request and of what the store sells now."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato import errors
from mercato.carts.answer import answer
from mercato.carts.lines import Path, find_same, get_path, has_empty_group, with_quantity
from mercato.carts.model import (
    MOST_QUANTITY,
    AddCartItemRequest,
    LineItem,
    PricedCart,
    RemoveCartItemRequest,
    UpdateCartItemRequest,
)
from mercato.carts.places import CART, ITEM, Place, check_bounds, in_cart, pointer
from mercato.carts.pricing import Priced, price, refuse
from mercato.catalog.model import CompiledCatalog
from mercato.clock import MakeId
from mercato.errors import OrderError, ValidationFailed

Said = tuple[Place, str] | None
"""A line whose quantity the request changes, and the pointer to where it says so."""


_NO_STORE: Final = OrderError(
    code=errors.MissingStoreId.code,
    message="A new cart needs a store: send its storeId beside the item.",
    pointer="/storeId",
)
_NO_SET: Final = OrderError(
    code=errors.CatalogSetRequired.code,
    message="A new cart needs the store's catalogSetId beside the item.",
    pointer="/catalogSetId",
)


class Named(Struct, frozen=True):
    """The store and the CatalogSet that a request names."""

    store_id: UUID
    catalog_set_id: UUID


class Menu(Struct, frozen=True):
    """What a store sells now: its current set, compiled, and the items that are sold out."""

    store_id: UUID
    catalog_set_id: UUID
    catalog: CompiledCatalog
    sold_out: Collection[UUID]


def named(request: AddCartItemRequest | RemoveCartItemRequest | UpdateCartItemRequest) -> Named:
    """Return the store and set that the request is about, having checked the request's bounds.

    Raises ValidationFailed, and for a new cart MissingStoreId or CatalogSetRequired.
    """
    cart = request.cart
    if cart is not None:
        check_bounds(cart.line_items, in_cart(cart.line_items))
    if not isinstance(request, AddCartItemRequest):
        return Named(request.cart.store_id, request.cart.catalog_set_id)
    check_bounds([request.item], [ITEM])
    if cart is not None and cart.line_items:
        return Named(cart.store_id, cart.catalog_set_id)
    store_id = request.store_id or (None if cart is None else cart.store_id)
    set_id = request.catalog_set_id or (None if cart is None else cart.catalog_set_id)
    if store_id is None:
        raise errors.MissingStoreId(
            _NO_STORE.message, errors=[_NO_STORE, *([_NO_SET] if set_id is None else [])]
        )
    if set_id is None:
        raise errors.CatalogSetRequired(_NO_SET.message, errors=[_NO_SET])
    return Named(store_id, set_id)


def add_item(request: AddCartItemRequest, menu: Menu, new_id: MakeId) -> PricedCart:
    """Return the cart with the item in it: more of a line that is the same choice, else a line of its own.

    Raises ItemUnavailable or ValidationFailed.
    """
    lines = list(request.cart.line_items) if request.cart is not None else []
    places = in_cart(lines)
    same = find_same(lines, request.item)
    if same is None:
        lines.append(request.item)
        places.append(ITEM)
        check_bounds(lines, places)
        return _checked(lines, places, menu, new_id)
    own: list[OrderError] = []
    quantity = lines[same].quantity + request.item.quantity
    if quantity > MOST_QUANTITY:
        message = f"quantity together with the cart's may be at most {MOST_QUANTITY}."
        own.append(OrderError(code=ValidationFailed.code, message=message, pointer="/item/quantity"))
    else:
        lines[same] = replace(lines[same], quantity=quantity)
    if has_empty_group(request.item):
        # Merging drops such a group, and with it the fault that the set lacks it.
        own += price(
            [request.item], places=[ITEM], whole=ITEM, catalog=menu.catalog, sold_out=menu.sold_out
        ).faults
    return _checked(lines, places, menu, new_id, said=(places[same], "/item/quantity"), own=own)


def remove_item(request: RemoveCartItemRequest, menu: Menu, new_id: MakeId) -> PricedCart:
    """Return the cart without the line; what is wrong with the rest is listed on it, not refused.

    Raises LineItemNotFound; ValidationFailed only for amounts that are out of range.
    """
    return _removed(request.cart.line_items, request.line_item_id, menu, new_id)


def update_item(request: UpdateCartItemRequest, menu: Menu, new_id: MakeId) -> PricedCart:
    """Return the cart with another quantity of the line; 0 removes it.

    Raises LineItemNotFound, and for more than 0 ItemUnavailable or ValidationFailed.
    """
    lines = request.cart.line_items
    if request.quantity == 0:
        return _removed(lines, request.line_item_id, menu, new_id)
    path = get_path(lines, request.line_item_id)
    places = in_cart(lines)
    said = (places[path[0]], "/quantity") if len(path) == 1 else None
    return _checked(with_quantity(lines, path, request.quantity), places, menu, new_id, said=said)


def _removed(lines: Sequence[LineItem], line_item_id: UUID, menu: Menu, new_id: MakeId) -> PricedCart:
    path = get_path(lines, line_item_id)
    rest = with_quantity(lines, path, 0)
    # What stays is told by its place in the cart that is answered.
    priced = _priced(rest, in_cart(rest), menu)
    if priced.overflows:
        refuse(_priced(rest, _left(in_cart(lines), path), menu).overflows)
    return _answered(rest, priced, menu, new_id)


def _left(places: list[Place], path: Path) -> list[Place]:
    """Return the places of the top-level lines that are left."""
    return places[: path[0]] + places[path[0] + 1 :] if len(path) == 1 else places


def _checked(
    lines: Sequence[LineItem],
    places: Sequence[Place],
    menu: Menu,
    new_id: MakeId,
    *,
    said: Said = None,
    own: Sequence[OrderError] = (),
) -> PricedCart:
    """Return the cart as it is answered, or refuse all that is wrong with it; `own` are the new line's faults."""
    priced = _priced(lines, places, menu)
    faults = [_said_there(fault, said) for fault in (*priced.faults, *priced.overflows)]
    listed = {(fault.code, fault.message) for fault in faults}
    refuse([*faults, *(fault for fault in own if (fault.code, fault.message) not in listed)])
    return _answered(lines, priced, menu, new_id)


def _priced(lines: Sequence[LineItem], places: Sequence[Place], menu: Menu) -> Priced:
    return price(lines, places=places, whole=CART, catalog=menu.catalog, sold_out=menu.sold_out)


def _answered(lines: Sequence[LineItem], priced: Priced, menu: Menu, new_id: MakeId) -> PricedCart:
    return answer(
        lines,
        priced,
        store_id=menu.store_id,
        catalog_set_id=menu.catalog_set_id,
        catalog=menu.catalog,
        new_id=new_id,
    )


def _said_there(fault: OrderError, said: Said) -> OrderError:
    """Return the fault of a quantity with the pointer to where the request says that quantity."""
    if said is None or fault.pointer != pointer((said[0], "quantity", None)):
        return fault
    return replace(fault, pointer=said[1])
