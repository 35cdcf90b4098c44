"""The Marketfront surface, for storefronts, and the operations of both surfaces."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from mercato_client.exchange import Id, Request, Sent
from mercato_client.operation import Each, operation
from mercato_contract.carts import (
    AddCartItemRequest,
    Cart,
    PricedCart,
    RemoveCartItemRequest,
    UpdateCartItemRequest,
)
from mercato_contract.catalogs import CatalogSet
from mercato_contract.console import ConsoleLink, ConsoleLinkRequest
from mercato_contract.debugger.findings import SignatureExplanation
from mercato_contract.discovery import DiscoverRequest, DiscoverResponse
from mercato_contract.orders import (
    CommerceCart,
    Order,
    OrderCart,
    OrderCore,
    OrderTimeline,
    PlaceAmounts,
    PlaceOrderRequest,
    ValidateOrderResponse,
)
from mercato_contract.requests import RefusedRequestPage
from mercato_contract.stores import MarketfrontStore, StoreAvailability
from mercato_contract.webhooks import (
    DeliveryStatus,
    ExplainSignatureRequest,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
)
from mercato_contract.wire import as_json

STORES: Final = "/v1/marketfront/stores"
CARTS: Final = "/v1/marketfront/carts"
ORDERS: Final = "/v1/marketfront/orders"
DELIVERIES: Final = "/v1/marketfront/webhook-deliveries"


def _by_offset(
    request: Request[DiscoverResponse], page: DiscoverResponse
) -> Request[DiscoverResponse] | None:
    """Return the request of the next page, None after the last."""
    if not page.has_more or not page.stores:
        return None
    offset = (request.body.offset or 0) + len(page.stores)
    return replace(request, body=msgspec.structs.replace(request.body, offset=offset))


class Marketfront:
    """The methods for a storefront's key or token."""

    # --- stores

    @operation("POST", STORES + "/discover", DiscoverResponse, repeats=True)
    def discover_stores(self, request: DiscoverRequest) -> Sent:
        """Return a page of stores: by place, nearest first; else by words, best match first; else by name."""
        return Sent(body=request)

    each_discovered_store = Each(
        discover_stores,
        lambda page: page.stores,
        "Yield every store that a request finds.",
        following=_by_offset,
    )

    @operation("GET", STORES + "/{storeId}", MarketfrontStore)
    def get_marketfront_store(self, store_id: Id) -> Sent:
        """Return a store as it is now."""
        return Sent(ids=(store_id,))

    @operation("GET", STORES + "/{storeId}/availability", StoreAvailability)
    def get_store_availability(self, store_id: Id, *, at: datetime | str | None = None) -> Sent:
        """Return whether the store is open at an instant, now without one, and why."""
        return Sent(ids=(store_id,), query={"at": at})

    @operation("GET", "/v1/marketfront/catalog-sets/{catalogSetId}", CatalogSet)
    def get_catalog_set(self, catalog_set_id: Id) -> Sent:
        """Return a CatalogSet. It never changes under its id, so keep it."""
        return Sent(ids=(catalog_set_id,))

    # --- carts

    @operation("POST", CARTS + "/add", PricedCart, repeats=True)
    def add_cart_item(self, request: AddCartItemRequest) -> Sent:
        """Return the cart with one more item, priced. `as_cart` turns the answer into a cart to send."""
        return Sent(body=request)

    @operation("POST", CARTS + "/remove", PricedCart, repeats=True)
    def remove_cart_item(self, request: RemoveCartItemRequest) -> Sent:
        """Return the cart without one of its lines, priced."""
        return Sent(body=request)

    @operation("POST", CARTS + "/update", PricedCart, repeats=True)
    def update_cart_item(self, request: UpdateCartItemRequest) -> Sent:
        """Return the cart with another quantity of one of its lines, priced."""
        return Sent(body=request)

    # --- orders

    @operation("POST", ORDERS + "/validate", ValidateOrderResponse, repeats=True)
    def validate_order(self, order: OrderCore) -> Sent:
        """Return whether the order can be placed, what it costs, and the token that places it."""
        return Sent(body=order)

    @operation("POST", ORDERS + "/place", Order, repeats=True)
    def place_order(self, order: PlaceOrderRequest, *, idempotency_key: str | None = None) -> Sent:
        """Place an order, once for each idempotency key. Without one a new key is made.

        Give a key that you have stored before, so that you can repeat the call after a crash. An exception has the key
        as `idempotency_key`.
        """
        return Sent(body=order, idempotency_key=idempotency_key or str(uuid.uuid4()))

    @operation("GET", ORDERS + "/{orderId}", Order)
    def get_marketfront_order(self, order_id: Id) -> Sent:
        """Return an order that was placed with this account, as it is now."""
        return Sent(ids=(order_id,))

    @operation("GET", ORDERS + "/{orderId}/timeline", OrderTimeline)
    def get_marketfront_order_timeline(self, order_id: Id) -> Sent:
        """Return the history of an order, with every webhook attempt."""
        return Sent(ids=(order_id,))

    # --- refused requests

    @operation("GET", "/v1/marketfront/requests", RefusedRequestPage)
    def list_marketfront_requests(
        self,
        *,
        error_code: str | None = None,
        since: datetime | str | None = None,
        store_id: Id | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Sent:
        """Return a page of the account's requests that were refused in the last 7 days, newest first."""
        which = {"errorCode": error_code, "since": since, "storeId": store_id}
        return Sent(query={**which, "limit": limit, "cursor": cursor})

    each_marketfront_request = Each(
        list_marketfront_requests,
        lambda page: page.requests,
        "Yield every request of the account that was refused in the last 7 days, newest first.",
    )

    # --- webhooks

    @operation("GET", DELIVERIES, WebhookDeliveryPage)
    def list_marketfront_webhook_deliveries(
        self,
        *,
        status: DeliveryStatus | str | None = None,
        type: str | None = None,  # noqa: A002  # the wire's word
        store_id: Id | None = None,
        order_id: Id | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Sent:
        """Return a page of the order events that the account was sent, newest first."""
        which = {"status": status, "type": type, "storeId": store_id, "orderId": order_id}
        return Sent(query={**which, "limit": limit, "cursor": cursor})

    each_marketfront_webhook_delivery = Each(
        list_marketfront_webhook_deliveries,
        lambda page: page.deliveries,
        "Yield every order event that the account was sent, newest first.",
    )

    @operation("GET", DELIVERIES + "/{deliveryId}", WebhookDeliveryDetail)
    def get_marketfront_webhook_delivery(self, delivery_id: Id) -> Sent:
        """Return an order event with its body and every attempt."""
        return Sent(ids=(delivery_id,))

    @operation("POST", DELIVERIES + "/{deliveryId}/redeliver", WebhookDeliveryDetail)
    def redeliver_marketfront_webhook(self, delivery_id: Id) -> Sent:
        """Redeliver an order event with the same id and body."""
        return Sent(ids=(delivery_id,))


class Clinic:
    """The methods for a key of either surface."""

    @operation("POST", "/v1/console/links", ConsoleLink)
    def create_console_link(self, *, read_only: bool = False, store_id: UUID | None = None) -> Sent:
        """Return a link that signs one browser in to the console of this account, within 15 minutes."""
        return Sent(body=ConsoleLinkRequest(read_only=read_only, store_id=store_id))

    @operation("POST", "/v1/webhooks/explain", SignatureExplanation, repeats=True)
    def explain_webhook_signature(self, request: ExplainSignatureRequest) -> Sent:
        """Return what is wrong with a webhook's signature, compared with what the service has sent."""
        return Sent(body=request)


def as_cart(cart: PricedCart | OrderCart | CommerceCart) -> Cart:
    """Return the cart of an answer as one that can be sent, with its line ids."""
    return msgspec.json.decode(as_json(cart), type=Cart)


def to_place(
    order: OrderCore, validated: ValidateOrderResponse, *, payment: Mapping[str, Any] | None = None
) -> PlaceOrderRequest:
    """Return the request that places an order as validated, at exactly that total.

    `payment` goes to the store unchanged. Raises ValueError for an invalid order.
    """
    if not validated.is_valid or isinstance(validated.order.amounts, UnsetType):
        reasons = ", ".join(error.code for error in validated.order.errors)
        raise ValueError(f"The order is invalid: {reasons}.")
    tip = None if order.amounts is None else order.amounts.tip
    return PlaceOrderRequest(
        cart=order.cart,
        client_context=order.client_context,
        fulfillment=order.fulfillment,
        amounts=PlaceAmounts(tip=tip, total=validated.order.amounts.total),
        customer=order.customer,
        validated_order_token=validated.validated_order_token,
        payment=UNSET if payment is None else msgspec.Raw(as_json(payment)),
    )
