"""The Commerce surface, for merchants' systems."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, Final

from mercato_client import both
from mercato_client.exchange import Id, Sent, given_or_new
from mercato_client.operation import listing, operation
from mercato_contract.catalogs import (
    CatalogIngestAccepted,
    CatalogIngestPage,
    CatalogIngestStatusResponse,
    CatalogSet,
    CatalogSetActivated,
    CatalogSetHistory,
    CatalogSetNotification,
    CatalogValidation,
    StoreIds,
)
from mercato_contract.feeds import EventPage
from mercato_contract.orders import (
    AdjustOrderRequest,
    CommerceOrder,
    OrderPage,
    OrderState,
    OrderStatusBatch,
    OrderStatusEntry,
    OrderStatusResponse,
    OrderStatusResults,
    OrderStatusUpdate,
    OrderTimeline,
)
from mercato_contract.reports import OrderReport
from mercato_contract.requests import RefusedRequestPage
from mercato_contract.stores import (
    ItemAvailabilityEntry,
    ItemAvailabilityRequest,
    ItemAvailabilityResponse,
    OnboardingPage,
    OnboardingRequest,
    OnboardingStatus,
    RetryRequest,
    Store,
    StorePage,
    StoreStatusBatch,
    StoreStatusEntry,
    StoreStatusResponse,
    StoreStatusResults,
    StoreStatusUpdate,
    StoreStatusValue,
    StoreUpdate,
)
from mercato_contract.webhooks import (
    RedeliverAccepted,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
    WebhookEndpoint,
    WebhookEndpointPage,
    WebhookEndpointWithSecret,
)
from mercato_contract.wire import rfc3339

ONBOARDING: Final = "/v1/commerce/onboarding/stores"
STORES: Final = "/v1/commerce/stores"
ORDERS: Final = "/v1/commerce/orders"
DELIVERIES: Final = "/v1/commerce/webhook-deliveries"
ENDPOINTS: Final = "/v1/commerce/webhook-endpoints"


class Commerce:
    """The methods for a merchant's key."""

    # --- onboarding

    @operation("POST", ONBOARDING, OnboardingStatus)
    def register_store(self, request: OnboardingRequest) -> Sent:
        """Start the onboarding of a store; its catalog is pulled at once. Go on with `wait_until_live`."""
        return Sent(body=request)

    @listing("GET", ONBOARDING, OnboardingPage, lambda page: page.onboardings)
    def list_onboardings(self, *, limit: int | None = None, cursor: str | None = None) -> Sent:
        """Return the onboardings that were not cancelled, newest first."""
        return Sent(query={"limit": limit, "cursor": cursor})

    @operation("GET", ONBOARDING + "/{onboardingId}", OnboardingStatus)
    def get_onboarding_status(self, onboarding_id: Id) -> Sent:
        """Return an onboarding's status; if its catalog has failed, with every error and its pointer."""
        return Sent(ids=(onboarding_id,))

    @operation("DELETE", ONBOARDING + "/{onboardingId}", NoneType)
    def cancel_onboarding(self, onboarding_id: Id) -> Sent:
        """Cancel an onboarding that is not active."""
        return Sent(ids=(onboarding_id,))

    @operation("POST", ONBOARDING + "/{onboardingId}/retry", OnboardingStatus)
    def retry_onboarding(self, onboarding_id: Id, *, catalog_callback_url: str | None = None) -> Sent:
        """Retry a failed onboarding, from another catalog URL if one is given."""
        return Sent(ids=(onboarding_id,), body=RetryRequest(catalog_callback_url=catalog_callback_url))

    @operation("POST", ONBOARDING + "/{onboardingId}/activate", Store)
    def activate_store(self, onboarding_id: Id) -> Sent:
        """Make the store live. Only when the status is `ready_to_activate`.

        If it is live already, ConflictError has its `storeId` in `members`. `wait_until_live` returns the store then.
        """
        return Sent(ids=(onboarding_id,))

    # --- catalogs

    @operation("POST", "/v1/commerce/catalogset-notification", CatalogIngestAccepted)
    def notify_catalog_update(
        self, store_id: Id, callback_url: str, *, activate_at: datetime | str | None = None
    ) -> Sent:
        """Notify of a new catalog, which is then pulled. `replace_catalog` also waits until it is served.

        With `activate_at` it is checked at once and served from that instant.
        """
        at = rfc3339(activate_at) if isinstance(activate_at, datetime) else activate_at
        body = CatalogSetNotification(callback_url=callback_url, activate_at=at)
        return Sent(query={"storeId": store_id}, body=body)

    @operation("PUT", STORES + "/{storeId}/catalog", CatalogIngestAccepted)
    def put_catalog(
        self, store_id: Id, document: bytes | Mapping[str, Any], *, activate_at: datetime | str | None = None
    ) -> Sent:
        """Send a new catalog itself. `publish_catalog` also waits until it is served.

        With `activate_at` it is checked at once and served from that instant.
        """
        return Sent(ids=(store_id,), query={"activateAt": activate_at}, body=document)

    @operation("DELETE", STORES + "/{storeId}/catalog-ingest/{catalogIngestId}/activation", NoneType)
    def cancel_catalog_activation(self, store_id: Id, catalog_ingest_id: Id) -> Sent:
        """Cancel the switch of a run with `activate_at`. The store keeps its catalog."""
        return Sent(ids=(store_id, catalog_ingest_id))

    @listing("GET", STORES + "/{storeId}/catalog-sets", CatalogSetHistory, lambda page: page.catalog_sets)
    def list_catalog_sets(self, store_id: Id, *, limit: int | None = None, cursor: str | None = None) -> Sent:
        """Return which CatalogSets a store has served, and when, the last one first."""
        return Sent(ids=(store_id,), query={"limit": limit, "cursor": cursor})

    @operation(
        "POST",
        STORES + "/{storeId}/catalog-sets/{catalogSetId}/activate",
        CatalogSetActivated,
    )
    def activate_catalog_set(self, store_id: Id, catalog_set_id: Id) -> Sent:
        """Switch a store back to a CatalogSet that it served before. Raises ConflictError with CATALOGSET_EXPIRED."""
        return Sent(ids=(store_id, catalog_set_id))

    @operation(
        "GET", STORES + "/{storeId}/catalog-ingest/{catalogIngestId}/status", CatalogIngestStatusResponse
    )
    def get_catalog_ingest_status(self, store_id: Id, catalog_ingest_id: Id) -> Sent:
        """Return the status of a catalog run."""
        return Sent(ids=(store_id, catalog_ingest_id))

    @listing("GET", STORES + "/{storeId}/catalog-ingest", CatalogIngestPage, lambda page: page.runs)
    def list_catalog_ingest_runs(
        self, store_id: Id, *, limit: int | None = None, cursor: str | None = None
    ) -> Sent:
        """Return a store's catalog runs, newest first."""
        return Sent(ids=(store_id,), query={"limit": limit, "cursor": cursor})

    @operation("POST", "/v1/commerce/catalogset-validation", CatalogValidation, repeats=True)
    def validate_catalog_set(
        self, document: bytes | Mapping[str, Any], *, store_id: Id | None = None
    ) -> Sent:
        """Check a CatalogSet, or `{"callbackUrl": …}`, as a run would; change nothing."""
        return Sent(query={"storeId": store_id}, body=document)

    @operation("GET", "/v1/commerce/catalog-sets/{catalogSetId}", CatalogSet)
    def get_commerce_catalog_set(self, catalog_set_id: Id) -> Sent:
        """Return one of the account's CatalogSets, as storefronts get it."""
        return Sent(ids=(catalog_set_id,))

    @operation("GET", STORES + "/{storeId}/ids", StoreIds)
    def get_store_ids(self, store_id: Id) -> Sent:
        """Return the served ids of the items and modifier groups in the store's document."""
        return Sent(ids=(store_id,))

    # --- stores

    @listing("GET", STORES, StorePage, lambda page: page.stores)
    def list_stores(
        self,
        *,
        status: StoreStatusValue | str | None = None,
        partner_store_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Sent:
        """Return the account's live stores, newest first."""
        which = {"status": status, "partnerStoreId": partner_store_id}
        return Sent(query={**which, "limit": limit, "cursor": cursor})

    @operation("GET", STORES + "/{storeId}", Store)
    def get_store(self, store_id: Id) -> Sent:
        """Return a store of the account."""
        return Sent(ids=(store_id,))

    @operation("PUT", STORES + "/{storeId}", Store)
    def update_store(self, store_id: Id, update: StoreUpdate) -> Sent:
        """Change the members that are given; None clears those that may be empty."""
        return Sent(ids=(store_id,), body=update)

    @operation("GET", STORES + "/{storeId}/status", StoreStatusResponse)
    def get_store_status(self, store_id: Id) -> Sent:
        """Return whether the store accepts orders now."""
        return Sent(ids=(store_id,))

    @operation("POST", STORES + "/status", StoreStatusResults)
    def set_store_statuses(self, updates: Sequence[StoreStatusEntry]) -> Sent:
        """Pause or resume up to 100 stores in one transaction; each result has the store's status or a problem."""
        return Sent(body=StoreStatusBatch(updates=list(updates)))

    @operation("POST", STORES + "/{storeId}/status", StoreStatusResponse)
    def set_store_status(self, store_id: Id, update: StoreStatusUpdate) -> Sent:
        """Pause the store, until an instant or until further notice, or bring it online."""
        return Sent(ids=(store_id,), body=update)

    @operation("POST", STORES + "/{storeId}/item-availability", ItemAvailabilityResponse)
    def set_item_availability(self, store_id: Id, items: Sequence[ItemAvailabilityEntry]) -> Sent:
        """Mark items as sold out, or as available again; return all that are sold out now."""
        return Sent(ids=(store_id,), body=ItemAvailabilityRequest(items=list(items)))

    # --- orders

    @listing("GET", ORDERS, OrderPage, lambda page: page.orders)
    def list_orders(
        self,
        *,
        store_id: Id | None = None,
        state: OrderState | str | None = None,
        since: datetime | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Sent:
        """Return the orders of the account's stores, newest first."""
        which = {"storeId": store_id, "state": state, "since": since}
        return Sent(query={**which, "limit": limit, "cursor": cursor})

    @operation("GET", ORDERS + "/{orderId}", CommerceOrder)
    def get_order(self, order_id: Id) -> Sent:
        """Return an order of the account's stores as it is now."""
        return Sent(ids=(order_id,))

    @operation("GET", ORDERS + "/{orderId}/timeline", OrderTimeline)
    def get_order_timeline(self, order_id: Id) -> Sent:
        """Return the history of an order, with every webhook attempt."""
        return Sent(ids=(order_id,))

    @operation("POST", ORDERS + "/status", OrderStatusResults)
    def update_order_statuses(self, updates: Sequence[OrderStatusEntry]) -> Sent:
        """Update up to 100 orders in one transaction; each result has the order's status or a problem."""
        return Sent(body=OrderStatusBatch(updates=list(updates)))

    @operation("POST", ORDERS + "/{orderId}/status", OrderStatusResponse)
    def update_order_status(self, order_id: Id, update: OrderStatusUpdate) -> Sent:
        """Update an order's status, close it, or say when it will be ready, and who brings it when."""
        return Sent(ids=(order_id,), body=update)

    @operation("POST", ORDERS + "/{orderId}/adjustments", CommerceOrder, repeats=True)
    def adjust_order(
        self, order_id: Id, adjustment: AdjustOrderRequest, *, idempotency_key: str | None = None
    ) -> Sent:
        """Refund, charge or substitute after an order was placed, once for each idempotency key; return the order.

        Without a key a new one is made: repeat a call that failed with the exception's `idempotency_key`.
        """
        return Sent(ids=(order_id,), body=adjustment, idempotency_key=given_or_new(idempotency_key))

    # --- feeds

    list_commerce_events = operation("GET", "/v1/commerce/events", EventPage)(both.events)

    # --- reports, refused requests, webhooks

    report_commerce_orders = operation("GET", "/v1/commerce/reports/orders", OrderReport)(both.order_report)

    list_commerce_requests = listing(
        "GET", "/v1/commerce/requests", RefusedRequestPage, lambda page: page.requests
    )(both.refused_requests)

    list_commerce_webhook_deliveries = listing(
        "GET", DELIVERIES, WebhookDeliveryPage, lambda page: page.deliveries
    )(both.webhook_deliveries)

    get_commerce_webhook_delivery = operation("GET", DELIVERIES + "/{deliveryId}", WebhookDeliveryDetail)(
        both.webhook_delivery
    )

    redeliver_commerce_webhook = operation(
        "POST", DELIVERIES + "/{deliveryId}/redeliver", WebhookDeliveryDetail
    )(both.redelivery)

    redeliver_commerce_webhooks = operation("POST", DELIVERIES + "/redeliver", RedeliverAccepted)(
        both.redeliveries
    )

    list_commerce_webhook_endpoints = listing(
        "GET", ENDPOINTS, WebhookEndpointPage, lambda page: page.endpoints
    )(both.webhook_endpoints)

    create_commerce_webhook_endpoint = operation("POST", ENDPOINTS, WebhookEndpointWithSecret)(
        both.new_webhook_endpoint
    )

    get_commerce_webhook_endpoint = operation("GET", ENDPOINTS + "/{endpointId}", WebhookEndpoint)(
        both.webhook_endpoint
    )

    update_commerce_webhook_endpoint = operation("PUT", ENDPOINTS + "/{endpointId}", WebhookEndpoint)(
        both.changed_webhook_endpoint
    )

    delete_commerce_webhook_endpoint = operation("DELETE", ENDPOINTS + "/{endpointId}", NoneType)(
        both.deleted_webhook_endpoint
    )

    test_commerce_webhook_endpoint = operation(
        "POST", ENDPOINTS + "/{endpointId}/test", WebhookDeliveryDetail
    )(both.webhook_endpoint_test)

    rotate_commerce_webhook_endpoint_secret = operation(
        "POST", ENDPOINTS + "/{endpointId}/rotate-secret", WebhookEndpointWithSecret
    )(both.webhook_endpoint_secret)
