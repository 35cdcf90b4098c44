"""The cart helpers of the Marketfront surface. Carts aren't stored: each request contains its cart."""

from mercato.features.catalogs.errors import CatalogSetNotFound
from mercato.features.stores.model import StoreNotFound
from mercato.http.operations import Access, Call, Operations, Rate
from mercato.services import Services
from mercato_catalog.carts.errors import (
    CatalogSetRequired,
    ItemUnavailable,
    LineItemNotFound,
    MissingStoreId,
)
from mercato_catalog.carts.rules import (
    CatalogRef,
    StoreMenu,
    add_item,
    get_catalog_ref,
    remove_item,
    update_item,
)
from mercato_contract.carts import (
    AddCartItemRequest,
    PricedCart,
    RemoveCartItemRequest,
    UpdateCartItemRequest,
)

carts = Operations(access=Access.MARKETFRONT, tag="Carts")

CARTS = "/v1/marketfront/carts"


@carts.post(
    CARTS + "/add",
    summary="Add item to cart",
    rate=Rate.READ,
    problems=(
        MissingStoreId,
        CatalogSetRequired,
        StoreNotFound,
        CatalogSetNotFound,
        ItemUnavailable,
    ),
)
async def add_cart_item(call: Call[AddCartItemRequest, None]) -> PricedCart:
    """Add an item to a cart, or to a new one, and return it priced from the store's current CatalogSet.

    An item with the same modifiers as a line adds to its quantity; any other gets a line of its own. A cart of an
    earlier CatalogSet is returned with the current one.
    """
    menu = await _menu(call.app, get_catalog_ref(call.body))
    call.app.activity.carts += 1
    return add_item(call.body, menu, call.app.new_id)


@carts.post(
    CARTS + "/remove",
    summary="Remove item from cart",
    rate=Rate.READ,
    problems=(StoreNotFound, CatalogSetNotFound, LineItemNotFound),
)
async def remove_cart_item(call: Call[RemoveCartItemRequest, None]) -> PricedCart:
    """Remove a line or a modifier and return the cart priced.

    Remaining lines that aren't available any more are marked `unavailable`; the cart has no `amounts` until they are
    removed.
    """
    menu = await _menu(call.app, get_catalog_ref(call.body))
    call.app.activity.carts += 1
    return remove_item(call.body, menu, call.app.new_id)


@carts.post(
    CARTS + "/update",
    summary="Update item quantity",
    rate=Rate.READ,
    problems=(
        StoreNotFound,
        CatalogSetNotFound,
        LineItemNotFound,
        ItemUnavailable,
    ),
)
async def update_cart_item(call: Call[UpdateCartItemRequest, None]) -> PricedCart:
    """Set the quantity of a line or a modifier and return the cart priced. 0 removes the line."""
    menu = await _menu(call.app, get_catalog_ref(call.body))
    call.app.activity.carts += 1
    return update_item(call.body, menu, call.app.new_id)


async def _menu(app: Services, ref: CatalogRef) -> StoreMenu:
    """Return what the store sells now. Raises StoreNotFound, CatalogSetNotFound for a set that was never its own."""
    store, catalog = await app.menus.get(ref.store_id, ref.catalog_set_id)
    sold_out = frozenset(store.unavailable_at(app.clock())) if store.sold_out else frozenset()
    return StoreMenu(store.id, store.catalog_set_id, catalog, sold_out)
