"""The Marketfront surface, for storefronts."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import NoneType
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from mercato_client import both
from mercato_client.exchange import Id, Request, Sent, given_or_new
from mercato_client.operation import listing, operation
from mercato_contract.agents import Agent, AgentPage, AgentWithKey, NewAgentRequest
from mercato_contract.carts import (
    AddCartItemRequest,
    Cart,
    PricedCart,
    RemoveCartItemRequest,
    UpdateCartItemRequest,
)
from mercato_contract.catalogs import CatalogSet
from mercato_contract.discovery import DiscoverRequest, DiscoverResponse
from mercato_contract.feeds import EventPage, StoreChangePage
from mercato_contract.orders import CancelOrderRequest, MarketfrontOrderPage, Order, OrderState, OrderTimeline
from mercato_contract.placements import (
    CommerceCart,
    OrderCart,
    OrderCore,
    PlaceAmounts,
    PlaceOrderRequest,
    ValidateOrderResponse,
)
from mercato_contract.reports import OrderReport
from mercato_contract.requests import RefusedRequestPage
from mercato_contract.stores import MarketfrontStore, StoreAvailability
from mercato_contract.webhooks import (
    RedeliverAccepted,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
    WebhookEndpoint,
    WebhookEndpointPage,
    WebhookEndpointWithSecret,
)
from mercato_contract.wire import as_json

STORES: Final = "/v1/marketfront/stores"
CARTS: Final = "/v1/marketfront/carts"
ORDERS: Final = "/v1/marketfront/orders"
DELIVERIES: Final = "/v1/marketfront/webhook-deliveries"
ENDPOINTS: Final = "/v1/marketfront/webhook-endpoints"
AGENTS: Final = "/v1/marketfront/agents"


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

    @listing("POST", STORES + "/discover", DiscoverResponse, lambda page: page.stores, following=_by_offset)
    def discover_stores(self, request: DiscoverRequest) -> Sent:
        """Return stores: by place, nearest first; else by words, best match first; else by name."""
        return Sent(body=request)

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

        Give a key that you have stored with the order, so that you can repeat the call after a crash. An exception has
        the key as `idempotency_key`. If the key came with another order, IDEMPOTENCY_KEY_REUSED has an `orderId` in its
        `members`, if that was placed: read it before you place anything again.
        """
        return Sent(body=order, idempotency_key=given_or_new(idempotency_key))

    @listing("GET", ORDERS, MarketfrontOrderPage, lambda page: page.orders)
    def list_marketfront_orders(
        self,
        *,
        store_id: Id | None = None,
        state: OrderState | str | None = None,
        since: datetime | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Sent:
        """Return the orders that were placed with this account, newest first."""
        which = {"storeId": store_id, "state": state, "since": since}
        return Sent(query={**which, "limit": limit, "cursor": cursor})

    @operation("GET", ORDERS + "/{orderId}", Order)
    def get_marketfront_order(self, order_id: Id) -> Sent:
        """Return an order that was placed with this account, as it is now."""
        return Sent(ids=(order_id,))

    @operation("POST", ORDERS + "/{orderId}/cancel", Order, repeats=True)
    def cancel_order(
        self,
        order_id: Id,
        *,
        reason: str,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> Sent:
        """Cancel an order, once for each idempotency key. Without one a new key is made.

        Raises ConflictError with CANCELLATION_REFUSED if the store doesn't cancel it, ServiceUnavailableError while the
        store doesn't answer: repeat the call with the exception's `idempotency_key`.
        """
        return Sent(
            ids=(order_id,),
            body=CancelOrderRequest(reason=reason, message=message),
            idempotency_key=given_or_new(idempotency_key),
        )

    @operation("GET", ORDERS + "/{orderId}/timeline", OrderTimeline)
    def get_marketfront_order_timeline(self, order_id: Id) -> Sent:
        """Return the history of an order, with every webhook attempt."""
        return Sent(ids=(order_id,))

    # --- feeds

    list_marketfront_events = operation("GET", "/v1/marketfront/events", EventPage)(both.events)

    @operation("GET", STORES + "/changes", StoreChangePage)
    def list_store_changes(
        self, *, after: str | None = None, limit: int | None = None, wait: int | None = None
    ) -> Sent:
        """Return the stores that changed after a cursor, one entry a store, and the cursor to go on from: keep it.

        Without a cursor, every store once. With `wait`, in whole seconds up to 25, an answer without a change is held
        until there is one.
        """
        return Sent(query={"after": after, "limit": limit, "wait": wait})

    # --- agents

    @listing("GET", AGENTS, AgentPage, lambda page: page.agents)
    def list_agents(self, *, limit: int | None = None, cursor: str | None = None) -> Sent:
        """Return this account's agents with what they spent today, newest first; revoked ones are among them."""
        return Sent(query={"limit": limit, "cursor": cursor})

    @operation("POST", AGENTS, AgentWithKey)
    def create_agent(self, request: NewAgentRequest) -> Sent:
        """Create an agent, which orders within limits. Only this answer has its `key`: store it.

        It is revoked with the key of this client. With a key, not with an access token.
        """
        return Sent(body=request)

    @operation("GET", AGENTS + "/{agentId}", Agent)
    def get_agent(self, agent_id: Id) -> Sent:
        """Return an agent with what it spent today."""
        return Sent(ids=(agent_id,))

    @operation("DELETE", AGENTS + "/{agentId}", NoneType)
    def revoke_agent(self, agent_id: Id) -> Sent:
        """Revoke an agent: its keys are refused everywhere within 2 seconds. Its orders go on."""
        return Sent(ids=(agent_id,))

    # --- reports, refused requests, webhooks

    report_marketfront_orders = operation("GET", "/v1/marketfront/reports/orders", OrderReport)(
        both.order_report
    )

    list_marketfront_requests = listing(
        "GET", "/v1/marketfront/requests", RefusedRequestPage, lambda page: page.requests
    )(both.refused_requests)

    list_marketfront_webhook_deliveries = listing(
        "GET", DELIVERIES, WebhookDeliveryPage, lambda page: page.deliveries
    )(both.webhook_deliveries)

    get_marketfront_webhook_delivery = operation("GET", DELIVERIES + "/{deliveryId}", WebhookDeliveryDetail)(
        both.webhook_delivery
    )

    redeliver_marketfront_webhook = operation(
        "POST", DELIVERIES + "/{deliveryId}/redeliver", WebhookDeliveryDetail
    )(both.redelivery)

    redeliver_marketfront_webhooks = operation("POST", DELIVERIES + "/redeliver", RedeliverAccepted)(
        both.redeliveries
    )

    list_marketfront_webhook_endpoints = listing(
        "GET", ENDPOINTS, WebhookEndpointPage, lambda page: page.endpoints
    )(both.webhook_endpoints)

    create_marketfront_webhook_endpoint = operation("POST", ENDPOINTS, WebhookEndpointWithSecret)(
        both.new_webhook_endpoint
    )

    get_marketfront_webhook_endpoint = operation("GET", ENDPOINTS + "/{endpointId}", WebhookEndpoint)(
        both.webhook_endpoint
    )

    update_marketfront_webhook_endpoint = operation("PUT", ENDPOINTS + "/{endpointId}", WebhookEndpoint)(
        both.changed_webhook_endpoint
    )

    delete_marketfront_webhook_endpoint = operation("DELETE", ENDPOINTS + "/{endpointId}", NoneType)(
        both.deleted_webhook_endpoint
    )

    test_marketfront_webhook_endpoint = operation(
        "POST", ENDPOINTS + "/{endpointId}/test", WebhookDeliveryDetail
    )(both.webhook_endpoint_test)

    rotate_marketfront_webhook_endpoint_secret = operation(
        "POST", ENDPOINTS + "/{endpointId}/rotate-secret", WebhookEndpointWithSecret
    )(both.webhook_endpoint_secret)


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
