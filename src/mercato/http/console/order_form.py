"""The playground's form: what was chosen, the cart and the token that it carries, and the order that it makes."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import msgspec
from msgspec import Meta

from mercato.domain.carts.model import PricedCart
from mercato.domain.stores.model import StoreRow
from mercato.domain.stores.storefront import FulfillmentMode
from mercato.http.console.screen import Visit, decode_form
from mercato.kernel.errors import InvalidRequest, StoreNotFound, ValidationFailed
from mercato.kernel.wire import Wire, redacted
from mercato.kernel.wire.decode import Decoder

MAX_CART: Final = 40_000
"""Characters of a cart that a form carries."""

MAX_FIELDS: Final = 600

Text = Annotated[str, Meta(max_length=1000)]

_read_cart: Final = Decoder(PricedCart)


@redacted("token", "payment")
class OrderForm(Wire):
    """The form: what was chosen, the state that the page carries, and the rest of an order."""

    store: UUID | None = None
    item: UUID | None = None
    quantity: Text = "1"
    cart: Annotated[str, Meta(max_length=MAX_CART)] | None = None
    token: str | None = None
    key: UUID | None = None
    line: UUID | None = None
    confirmed: bool = False
    mode: FulfillmentMode = FulfillmentMode.PICKUP
    address1: Text | None = None
    city: Text | None = None
    postal_code: Text | None = None
    scheduled_time: Text | None = None
    first_name: Text | None = None
    last_name: Text | None = None
    email: Text | None = None
    phone: Text | None = None
    tip: Text | None = None
    payment: Text | None = None


_CUSTOMER: Final = ("firstName", "lastName", "email", "phone")
FIRST_FORM: Final = OrderForm(
    first_name="Test", last_name="Customer", email="customer@example.com", phone="+15550100"
)


def read_form(visit: Visit) -> tuple[OrderForm, Mapping[str, str]]:
    """Return the form, and all its fields: choices and quantities have names of their own.

    Raises InvalidRequest, and StoreNotFound for a cart of a store that the session doesn't see.
    """
    try:
        fields = dict(parse_qsl(visit.form.decode("ascii", "replace"), max_num_fields=MAX_FIELDS))
    except ValueError:
        raise InvalidRequest(f"The form has more than {MAX_FIELDS} fields. Choose fewer choices.") from None
    known = OrderForm.__struct_encode_fields__
    form = decode_form(OrderForm, urlencode({k: v for k, v in fields.items() if k in known}).encode())
    cart = cart_of(form)
    if cart is not None:
        visit.check_store(cart.store_id, StoreNotFound(cart.store_id))
    return form, fields


def cart_of(form: OrderForm) -> PricedCart | None:
    return None if form.cart is None else _read_cart(form.cart.encode())


def cart_json(form: OrderForm, store: StoreRow) -> Any:
    """Return the cart as the API returned it, or an empty one."""
    if cart_of(form) is not None:
        assert form.cart is not None
        return msgspec.Raw(form.cart.encode())
    return {"storeId": store.id, "catalogSetId": store.catalog_set_id, "lineItems": []}


def payment_of(text: str) -> msgspec.Raw:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ValidationFailed.at(None, "Payment isn't JSON. Write an object, or nothing.") from None
    return msgspec.Raw(text.encode())


def order_of(visit: Visit, form: OrderForm, store: StoreRow) -> dict[str, Any]:
    """Return the order of the form: its customer's device is this browser."""
    sent = msgspec.to_builtins(form)
    fulfillment: dict[str, Any] = {"mode": form.mode, "scheduleType": "ASAP"}
    if form.scheduled_time is not None:
        fulfillment |= {"scheduleType": "SCHEDULED", "scheduledTime": form.scheduled_time}
    if form.mode is FulfillmentMode.DELIVERY_BY_MERCHANT:
        address = {name: sent[name] for name in ("address1", "city", "postalCode") if sent[name] is not None}
        fulfillment |= {"deliveryType": "DOOR_TO_DOOR", "address": address}
    order: dict[str, Any] = {
        "cart": cart_json(form, store),
        "clientContext": {
            "ip": visit.head.address,
            "userAgent": visit.head.headers.get(b"user-agent", b"")[:200].decode("latin-1"),
        },
        "fulfillment": fulfillment,
    }
    customer = {name: sent[name] for name in _CUSTOMER if sent[name] is not None}
    if customer:
        order["customer"] = customer
    return order if form.tip is None else order | {"amounts": {"tip": form.tip}}
