"""A whole order through a client that was generated from the OpenAPI document: a program of its own."""

# mypy: disable-error-code="import-not-found"
# The client exists only where the test has generated it.

import json
import sys
import time
from typing import TypeVar
from uuid import UUID, uuid4

from mercato_generated import AuthenticatedClient
from mercato_generated.api.carts import add_cart_item
from mercato_generated.api.commerce import activate_store, get_onboarding_status, register_store
from mercato_generated.api.marketfront import discover_stores, get_catalog_set, get_marketfront_store
from mercato_generated.api.orders import (
    get_marketfront_order,
    get_order_timeline,
    list_orders,
    place_order,
    update_order_status,
    validate_order,
)
from mercato_generated.models import (
    AddCartItemRequest,
    AddressRequest,
    Cart,
    CatalogSet,
    ClientContext,
    Coordinates,
    Customer,
    DiscoverRequest,
    DiscoverResponse,
    LineItem,
    OnboardingRequest,
    OnboardingState,
    OnboardingStatus,
    Order,
    OrderCore,
    OrderPage,
    OrderState,
    OrderStatusResponse,
    OrderStatusUpdate,
    OrderTimeline,
    PickupFulfillment,
    PickupFulfillmentMode,
    PlaceOrderRequest,
    PricedCart,
    ProblemDetail,
    ScheduleType,
    Store,
    ValidateAmounts,
    ValidateOrderResponse,
)

T = TypeVar("T")


def of(kind: type[T], answer: object) -> T:
    """Return the answer if it is the expected one."""
    assert isinstance(answer, kind), answer
    return answer


def live(pos: AuthenticatedClient, facts: dict[str, str]) -> Store:
    """Register a store, wait for its catalog, and activate it."""
    asked = OnboardingRequest(
        partner_store_id="client-1",
        name="Tea & Cake",
        address=AddressRequest(street="1 Main St", coordinates=Coordinates(lat=39.8, lng=-89.6)),
        catalog_callback_url=facts["catalogUrl"],
        webhook_url=facts["webhookUrl"],
    )
    status = of(OnboardingStatus, register_store.sync(client=pos, body=asked))
    until = time.monotonic() + 60
    while status.status is not OnboardingState.READY_TO_ACTIVATE:
        assert time.monotonic() < until, status
        time.sleep(0.02)
        status = of(OnboardingStatus, get_onboarding_status.sync(status.onboarding_id, client=pos))
    again = of(ProblemDetail, register_store.sync(client=pos, body=asked))
    assert (again.error_code, again.onboarding_id) == ("STORE_ALREADY_REGISTERED", status.onboarding_id)
    return of(Store, activate_store.sync(status.onboarding_id, client=pos))


def found(front: AuthenticatedClient, store_id: UUID) -> None:
    """Find the store by its words, and read it and its catalog."""
    until = time.monotonic() + 60
    page = of(DiscoverResponse, discover_stores.sync(client=front, body=DiscoverRequest(query="cake")))
    while store_id not in [one.store_id for one in page.stores]:
        assert time.monotonic() < until, page
        time.sleep(0.02)
        page = of(DiscoverResponse, discover_stores.sync(client=front, body=DiscoverRequest(query="cake")))


def bought(front: AuthenticatedClient, store_id: UUID) -> Order:
    """Fill a cart with the catalog's first item, validate the order, and place it unchanged."""
    shown = get_marketfront_store.sync(store_id, client=front)
    assert shown is not None
    assert not isinstance(shown, ProblemDetail), shown
    catalog = of(CatalogSet, get_catalog_set.sync(shown.catalog_set_id, client=front))
    items = catalog.items.additional_properties
    item = next(id_ for id_, one in items.items() if one.name == "Tea")
    added = AddCartItemRequest(
        item=LineItem(item_id=UUID(item), modifier_groups=[], quantity=2),
        store_id=store_id,
        catalog_set_id=shown.catalog_set_id,
    )
    cart = of(PricedCart, add_cart_item.sync(client=front, body=added))
    asked = OrderCore(
        cart=Cart.from_dict(cart.to_dict()),
        client_context=ClientContext(ip="203.0.113.7", user_agent="program/1.0"),
        fulfillment=PickupFulfillment(mode=PickupFulfillmentMode.PICKUP, schedule_type=ScheduleType.ASAP),
        amounts=ValidateAmounts(tip="1.00"),
        customer=Customer(email="ada@example.com", first_name="Ada", last_name="Lovelace", phone="+15550100"),
    )
    checked = of(ValidateOrderResponse, validate_order.sync(client=front, body=asked))
    assert checked.is_valid, checked
    order = PlaceOrderRequest.from_dict(checked.order.to_dict())
    order.validated_order_token = checked.validated_order_token
    key = str(uuid4())
    placed = of(Order, place_order.sync(client=front, body=order, idempotency_key=key))
    again = place_order.sync_detailed(client=front, body=order, idempotency_key=key)
    assert (again.parsed, again.headers["Idempotent-Replayed"]) == (placed, "true")
    return placed


def main() -> None:
    """Register, activate, discover, fill a cart, validate, place, move on, read."""
    facts = json.loads(sys.argv[1])
    pos = AuthenticatedClient(base_url=facts["base"], token=facts["commerceKey"])
    front = AuthenticatedClient(base_url=facts["base"], token=facts["marketfrontKey"])
    store = live(pos, facts)
    found(front, store.store_id)
    placed = bought(front, store.store_id)
    for change in (
        OrderStatusUpdate(status="confirmed"),
        OrderStatusUpdate(status="ready", state="completed"),
    ):
        of(OrderStatusResponse, update_order_status.sync(placed.order_id, client=pos, body=change))
    read = of(Order, get_marketfront_order.sync(placed.order_id, client=front))
    assert read.state is OrderState.COMPLETED
    assert read.amounts.total == "6.00"
    [listed] = of(OrderPage, list_orders.sync(client=pos)).orders
    [theirs], [mine] = listed.cart.line_items, read.cart.line_items
    # The merchant's ids are UUIDs, so they are the ones that are served.
    assert (listed.order_id, theirs.partner_item_id) == (read.order_id, str(mine.item_id))
    history = of(OrderTimeline, get_order_timeline.sync(placed.order_id, client=pos)).entries
    assert history[0].type_ == "placed"
    print(json.dumps({"orderId": str(read.order_id), "state": read.state}))  # noqa: T201  # its result


main()
