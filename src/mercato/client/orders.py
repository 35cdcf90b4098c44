"""From an answered cart to an order: what an answer says more is left out of the next request."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mercato.carts.model import Cart, PricedCart
from mercato.orders.model import CommerceCart, OrderCart, ValidateOrderResponse
from mercato.orders.request import OrderCore, PlaceAmounts, PlaceOrderRequest
from mercato.wire import as_json


def as_cart(cart: PricedCart | OrderCart | CommerceCart) -> Cart:
    """Return the cart of an answer as one that can be sent, its line ids kept."""
    return msgspec.json.decode(as_json(cart), type=Cart)


def to_place(
    order: OrderCore, validated: ValidateOrderResponse, *, payment: Mapping[str, Any] | None = None
) -> PlaceOrderRequest:
    """Return the request that places an order as it was validated, at that total and no other.

    `payment` goes to the store as it is. ValueError for an order that was found invalid.
    """
    if not validated.is_valid or isinstance(validated.order.amounts, UnsetType):
        reasons = ", ".join(error.code for error in validated.order.errors)
        raise ValueError(f"The order was found invalid: {reasons}.")
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
