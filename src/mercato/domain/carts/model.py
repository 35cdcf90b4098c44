"""What carts look like on the wire: as clients keep and send them, and as they are answered, with prices."""

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato.kernel.errors import OrderError
from mercato.kernel.wire import MAX_ENTRIES, Wire

MAX_QUANTITY: Final = 2**31 - 1
"""What an int32 holds."""

MAX_LINES: Final = 200
"""Lines of a cart, modifiers counted like the lines they belong to: a bound on the work of one request."""

MAX_DEPTH: Final = 8
"""How deep modifiers may stand; a top-level line is at depth 0."""

DECIMAL: Final = r"^-?\d+(\.\d+)?$"
"""A decimal string, as money is sent."""

Amount = Annotated[
    str,
    Meta(
        description="Decimal in the currency's own scale.",
        examples=["12.50"],
        extra_json_schema={"pattern": DECIMAL},
    ),
]
"""Money as it is sent. Its pattern is for readers: what we have written ourselves is not checked again."""

Quantity = Annotated[int, Meta(ge=1, le=MAX_QUANTITY, extra_json_schema={"format": "int32"})]
NewQuantity = Annotated[
    int,
    Meta(
        ge=0, le=MAX_QUANTITY, description="0 removes the line item.", extra_json_schema={"format": "int32"}
    ),
]


# No line can hold itself, so that the garbage collector needn't track them.


class LineItem(Wire, gc=False):
    """So many units of an item, each with the modifiers chosen for it."""

    item_id: UUID
    modifier_groups: Annotated[list["CartModifierGroup"], Meta(max_length=MAX_ENTRIES)]
    quantity: Quantity
    line_item_id: UUID | None = None


class CartModifierGroup(Wire, gc=False):
    """What was chosen from one modifier group; a choice may have modifiers of its own."""

    modifier_group_id: UUID
    line_items: Annotated[list[LineItem], Meta(max_length=MAX_LINES)]


class Cart(Wire):
    """A cart as its client keeps it. Amounts of an earlier answer are ignored, like every unknown member."""

    catalog_set_id: UUID
    line_items: Annotated[list[LineItem], Meta(max_length=MAX_LINES)]
    store_id: UUID


class AddCartItemRequest(Wire):
    """The item to add, and the cart; without one, or with an empty one, the store and set of a new cart."""

    item: LineItem
    cart: Cart | None = None
    catalog_set_id: UUID | None = None
    store_id: UUID | None = None


class RemoveCartItemRequest(Wire):
    """The cart, and the line that leaves it."""

    cart: Cart
    line_item_id: UUID


class UpdateCartItemRequest(Wire):
    """The cart, and the new quantity of one of its lines."""

    cart: Cart
    line_item_id: UUID
    quantity: NewQuantity


class LineItemAmounts(Wire):
    """What a line costs: one unit with its modifiers, and all of them."""

    unit_price: Amount
    total: Amount


class CartAmounts(Wire):
    """What a cart costs, before anything that an order adds."""

    currency: str
    sub_total: Amount
    total: Amount


class PricedLineItem(Wire, gc=False):
    """A line of an answered cart: top-level lines have `amounts`, what can't be had now is `unavailable`."""

    item_id: UUID
    modifier_groups: list["PricedModifierGroup"]
    quantity: Quantity
    line_item_id: UUID
    amounts: LineItemAmounts | UnsetType = UNSET
    unavailable: bool | UnsetType = UNSET


class PricedModifierGroup(Wire, gc=False):
    """What was chosen from one modifier group, every choice with its id."""

    modifier_group_id: UUID
    line_items: list[PricedLineItem]


class PricedCart(Wire):
    """A cart as it is answered. It can be sent back as it is. Without `amounts` some of it can't be had.

    `errors` say what is wrong with the rest of a cart from which a line was removed.
    """

    catalog_set_id: UUID
    line_items: list[PricedLineItem]
    store_id: UUID
    amounts: CartAmounts | UnsetType = UNSET
    errors: Annotated[
        tuple[OrderError, ...],
        Meta(
            description="As the errors of an order: each pointer is into an order with this cart as its `cart`."
        ),
    ] = ()
