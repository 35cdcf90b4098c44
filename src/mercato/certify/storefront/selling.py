"""The operations of the scripted service: discovery, catalogs, carts, orders, as the real ones answer."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from mercato import clock, errors
from mercato.carts.changes import CatalogRef, Menu, add_item, get_catalog_ref, remove_item, update_item
from mercato.carts.model import AddCartItemRequest, RemoveCartItemRequest, UpdateCartItemRequest
from mercato.certify.shop import Shop
from mercato.certify.storefront.menus import OLD_SET
from mercato.certify.storefront.network import Answer, Request, Route, route
from mercato.certify.storefront.taking import agreed, check_total, order_of
from mercato.discovery.model import DiscoverRequest
from mercato.orders.amounts import wire
from mercato.orders.model import CheckedOrder, Order, OrderState, OrderStatus, ValidateOrderResponse
from mercato.orders.reasons import refusal
from mercato.orders.request import OrderCore, PlaceOrderRequest
from mercato.orders.review import Review, review
from mercato.orders.tokens import Seal, Terms, digest_of
from mercato.stores.storefront import storefront_of
from mercato.wire import Decoder, as_json, instant, parse_uuid

FRONT: Final = "/v1/marketfront"

PAGE: Final = 50

STEP: Final = timedelta(milliseconds=200)
"""How long an order takes from one status to the next."""

STATUSES: Final = (
    OrderStatus.PENDING,
    OrderStatus.CONFIRMED,
    OrderStatus.PREPARING,
    OrderStatus.READY,
)

_KEY: Final = re.compile(r"[\x20-\x7e]{1,255}")

T = TypeVar("T")

_discover: Final = Decoder(DiscoverRequest)
_add: Final = Decoder(AddCartItemRequest)
_remove: Final = Decoder(RemoveCartItemRequest)
_update: Final = Decoder(UpdateCartItemRequest)
_core: Final = Decoder(OrderCore)
_place: Final = Decoder(PlaceOrderRequest)


@dataclass(frozen=True, slots=True)
class Placed:
    """An order that was taken, and when."""

    order: Order
    at: datetime


@dataclass(slots=True)
class Selling:
    """The shops of one purchase, and the orders that were placed there."""

    shops: Sequence[Shop]
    orders: dict[UUID, Placed] = field(default_factory=dict)
    _seal: Seal = field(default_factory=lambda: Seal((b"certify" * 5,), clock.new_id), repr=False)
    _caller: UUID = field(default_factory=clock.new_id)
    _used: dict[UUID, UUID] = field(default_factory=dict)
    _keys: dict[str, tuple[bytes, Answer]] = field(default_factory=dict)

    def routes(self) -> list[Route]:
        """Return what can be asked."""
        return [
            route("discover", "POST", f"{FRONT}/stores/discover", self.discover),
            route("store", "GET", f"{FRONT}/stores/{{}}", self.store),
            route("availability", "GET", f"{FRONT}/stores/{{}}/availability", self.store),
            route("catalog", "GET", f"{FRONT}/catalog-sets/{{}}", self.catalog),
            route("cart", "POST", f"{FRONT}/carts/add", self.add),
            route("cart", "POST", f"{FRONT}/carts/remove", self.remove),
            route("cart", "POST", f"{FRONT}/carts/update", self.update),
            route("validate", "POST", f"{FRONT}/orders/validate", self.validate),
            route("place", "POST", f"{FRONT}/orders/place", self.place),
            route("timeline", "GET", f"{FRONT}/orders/{{}}/timeline", self.timeline),
            route("order", "GET", f"{FRONT}/orders/{{}}", self.order),
        ]

    # --- stores and catalogs ----------------------------------------------------------------------

    def discover(self, request: Request) -> Answer:
        """Return a page of stores, by name."""
        asked = _discover(request.body)
        found = [self._shown(shop) for shop in self.shops]
        if asked.open_now:
            found = [one for one in found if one["isOpen"]]
        if asked.query:
            found = [
                one for one in found if asked.query.casefold() in f"{one['name']} ramen gyoza".casefold()
            ]
        begin, most = asked.offset or 0, asked.limit or PAGE
        page = found[begin : begin + most]
        more = begin + len(page) < len(found)
        return _json({"stores": page, "totalCount": len(found), "hasMore": more})

    def store(self, request: Request) -> Answer:
        """Return a store as it is now."""
        return _json(self._shown(self._shop(request.ids[0])), headers=(("Cache-Control", "no-store"),))

    def catalog(self, request: Request) -> Answer:
        """Return a CatalogSet, or 304."""
        set_id = parse_uuid(request.ids[0])
        shop = next((one for one in self.shops if one.store.catalog_set_id == set_id), None)
        if shop is None:
            raise errors.CatalogSetNotFound(request.ids[0])
        tag = f'"{hashlib.sha256(shop.body).hexdigest()[:32]}"'
        headers = (("ETag", tag), ("Cache-Control", "private, max-age=31536000, immutable"))
        if tag in request.headers.get("if-none-match", ""):
            return Answer(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Answer(headers=(*headers, _JSON), body=shop.body)

    # --- carts ------------------------------------------------------------------------------------

    def add(self, request: Request) -> Answer:
        """Return the cart with an item in it."""
        asked = _add(request.body)
        return _json(add_item(asked, self._menu(get_catalog_ref(asked)), clock.new_id))

    def remove(self, request: Request) -> Answer:
        """Return the cart without a line."""
        asked = _remove(request.body)
        return _json(remove_item(asked, self._menu(get_catalog_ref(asked)), clock.new_id))

    def update(self, request: Request) -> Answer:
        """Return the cart with another quantity."""
        asked = _update(request.body)
        return _json(update_item(asked, self._menu(get_catalog_ref(asked)), clock.new_id))

    # --- orders -----------------------------------------------------------------------------------

    def validate(self, request: Request) -> Answer:
        """Return what the order costs, and the token; or why it can't be had."""
        order = _core(request.body)
        shop, found = self._review(order)
        sums = None if found.sums is None else agreed(found.sums)
        token = None
        if not found.reasons and sums is not None:
            terms = Terms(digest=digest_of(self._caller, shop.store.id, found), sums=sums)
            token = self._seal.issue(terms, now=clock.now())
        checked = CheckedOrder(
            cart=found.cart,
            client_context=order.client_context,
            fulfillment=found.fulfillment,
            amounts=msgspec.UNSET if sums is None else wire(sums),
            customer=order.customer or msgspec.UNSET,
            errors=found.reasons,
        )
        said = ValidateOrderResponse(is_valid=token is not None, validated_order_token=token, order=checked)
        return _json(said)

    def place(self, request: Request) -> Answer:
        """Take an order, once for each key."""
        key = request.headers.get("idempotency-key", "").strip()
        if not key:
            raise errors.MissingIdempotencyKey("Send the header Idempotency-Key: a new UUID for each order.")
        if not _KEY.fullmatch(key):
            raise errors.ValidationFailed.at(
                None, "Idempotency-Key may have 1 to 255 printable ASCII characters."
            )
        order = _place(request.body)
        digest = hashlib.sha256(as_json(order)).digest()
        known = self._keys.get(key)
        if known is not None:
            if known[0] != digest:
                raise errors.IdempotencyKeyReused("This key has named another request.")
            first, replayed = known[1], ("Idempotent-Replayed", "true")
            return Answer(status=first.status, headers=(*first.headers, replayed), body=first.body)
        answer = self._taken(order)
        self._keys[key] = (digest, answer)
        return answer

    def order(self, request: Request) -> Answer:
        """Return an order as it is now: it goes on by the clock."""
        return _json(self._now(self._placed(request.ids[0])))

    def timeline(self, request: Request) -> Answer:
        """Return what happened to an order."""
        placed = self._placed(request.ids[0])
        entry: dict[str, Any] = {
            "at": instant(placed.at),
            "type": "placed",
            "actor": "storefront",
            "detail": {},
        }
        return _json({"orderId": str(placed.order.order_id), "entries": [entry]})

    # --- parts ------------------------------------------------------------------------------------

    def _taken(self, order: PlaceOrderRequest) -> Answer:
        shop, found = self._review(order)
        now = clock.now()
        if found.reasons:
            raise refusal(found.reasons)
        assert found.sums is not None, "what has no reasons against it has a price"
        sums = agreed(found.sums)
        if order.validated_order_token is not None:
            digest = digest_of(self._caller, shop.store.id, found)
            said = self._seal.read(order.validated_order_token, digest=digest, now=now)
            if said.token_id in self._used:
                raise errors.OrderAlreadyPlaced("An order was placed with this token.")
            check_total(sums, said.sums.total)
            self._used[said.token_id] = shop.store.id
        if found.total is not None:
            check_total(sums, found.total)
        placed = Placed(order_of(shop, order, found, sums, now), now)
        self.orders[placed.order.order_id] = placed
        location = ("Location", f"{FRONT}/orders/{placed.order.order_id}")
        return _json(placed.order, status=HTTPStatus.CREATED, headers=(location,))

    def _review(self, order: OrderCore | PlaceOrderRequest) -> tuple[Shop, Review]:
        shop = self._shop(str(order.cart.store_id))
        self._check_set(shop, order.cart.catalog_set_id)
        now = clock.now()
        return shop, review(order, store=shop.store, catalog=shop.catalog, now=now, new_id=clock.new_id)

    def _menu(self, asked: CatalogRef) -> Menu:
        shop = self._shop(str(asked.store_id))
        self._check_set(shop, asked.catalog_set_id)
        out = frozenset(shop.store.unavailable_at(clock.now()))
        return Menu(shop.store.id, shop.store.catalog_set_id, shop.catalog, out)

    def _check_set(self, shop: Shop, set_id: UUID) -> None:
        if set_id not in {shop.store.catalog_set_id, OLD_SET}:
            raise errors.CatalogSetNotFound(str(set_id))

    def _shop(self, text: str) -> Shop:
        store_id = parse_uuid(text)
        shop = next((one for one in self.shops if one.store.id == store_id), None)
        if shop is None:
            raise errors.StoreNotFound(text)
        return shop

    def _shown(self, shop: Shop) -> Any:
        return msgspec.to_builtins(storefront_of(shop.store, shop.catalog, clock.now()))

    def _placed(self, text: str) -> Placed:
        order_id = parse_uuid(text)
        if order_id is None or order_id not in self.orders:
            raise errors.OrderNotFound(text)
        return self.orders[order_id]

    def _now(self, placed: Placed) -> Order:
        steps = (clock.now() - placed.at) // STEP
        over = steps >= len(STATUSES)
        return msgspec.structs.replace(
            placed.order,
            status=STATUSES[min(steps, len(STATUSES) - 1)],
            state=OrderState.COMPLETED if over else OrderState.OPEN,
            updated_at=instant(placed.at + min(steps, len(STATUSES)) * STEP) or "",
        )


_JSON: Final = ("Content-Type", "application/json")


def _json(value: Any, *, status: int = HTTPStatus.OK, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(status=status, headers=(_JSON, *headers), body=as_json(value))
