"""Carts: the requests, and the priced response."""

import re
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato_contract.problems import OrderError
from mercato_contract.wire import MAX_ENTRIES, Wire, validator

MAX_QUANTITY: Final = 2**31 - 1
"""The largest int32."""


MAX_LINES: Final = 200
"""Lines of a cart, including modifiers at every depth: it bounds the work of one request."""


MAX_DEPTH: Final = 8
"""Levels of modifiers; a top-level line is at depth 0."""


DECIMAL: Final = r"^-?\d+(\.\d+)?$"
"""A decimal string."""


Amount = Annotated[
    str,
    Meta(
        description="Decimal in the currency's own scale.",
        examples=["12.50"],
        extra_json_schema={"pattern": DECIMAL},
    ),
]
"""Money in responses. The pattern is only documented: our own output isn't checked."""


Quantity = Annotated[int, Meta(ge=1, le=MAX_QUANTITY, extra_json_schema={"format": "int32"})]


NewQuantity = Annotated[
    int,
    Meta(
        ge=0, le=MAX_QUANTITY, description="0 removes the line item.", extra_json_schema={"format": "int32"}
    ),
]


MAX_NOTE: Final = 500
"""Characters of a note."""


NOTE: Final = r"^[^\x00-\x09\x0b-\x1f\x7f-\x9f]*$"
"""A note has no control characters, except that its lines may end with U+000A."""


def _note_fault(text: str) -> str | None:
    if re.search(NOTE, text):
        return None
    return "note must not contain control characters, except line feeds (U+000A) between its lines."


NOTE_RULE: Final = validator(_note_fault)

Note = Annotated[
    str,
    Meta(
        max_length=MAX_NOTE,
        pattern=NOTE,
        description="Words of the customer for the store. Line feeds are its only control characters.",
        extra=NOTE_RULE,
    ),
]


class LineItem(Wire, gc=False):
    """Units of an item, all with the same modifiers and the same note."""

    item_id: UUID
    modifier_groups: Annotated[list["CartModifierGroup"], Meta(max_length=MAX_ENTRIES)]
    quantity: Quantity
    line_item_id: UUID | None = None
    note: Note | UnsetType | None = UNSET


class CartModifierGroup(Wire, gc=False):
    """The choices from one modifier group; a choice may have modifiers of its own."""

    modifier_group_id: UUID
    line_items: Annotated[list[LineItem], Meta(max_length=MAX_LINES)]


class Cart(Wire):
    """A client's cart. Amounts of an earlier response are ignored, like every unknown member."""

    catalog_set_id: UUID
    line_items: Annotated[list[LineItem], Meta(max_length=MAX_LINES)]
    store_id: UUID


class AddCartItemRequest(Wire):
    """The item to add, and the cart.

    A new or empty cart needs the store and the set beside the item, also if the empty cart carries them.
    """

    item: LineItem
    cart: Cart | None = None
    catalog_set_id: UUID | None = None
    store_id: UUID | None = None


class RemoveCartItemRequest(Wire):
    """The cart, and the line to remove."""

    cart: Cart
    line_item_id: UUID


class UpdateCartItemRequest(Wire):
    """The cart, and the new quantity of one of its lines."""

    cart: Cart
    line_item_id: UUID
    quantity: NewQuantity


class LineItemAmounts(Wire):
    """A line's price: of one unit with its modifiers, and of all its units that aren't free."""

    unit_price: Amount
    total: Amount


class CartAmounts(Wire):
    """A cart's price, without fees, taxes, promotions, adjustments and tip."""

    currency: str
    sub_total: Amount
    total: Amount


FreeQuantity = Annotated[
    int,
    Meta(
        description="Units of a modifier that its group includes: their own price isn't charged. Absent if none is.",
        extra_json_schema={"format": "int32"},
    ),
]


class PricedLineItem(Wire, gc=False):
    """A line of a priced cart. Top-level lines have `amounts` unless something in them is `unavailable`.

    Modifiers have theirs, and `freeQuantity`, in orders.
    """

    item_id: UUID
    modifier_groups: list["PricedModifierGroup"]
    quantity: Quantity
    line_item_id: UUID
    amounts: LineItemAmounts | UnsetType = UNSET
    unavailable: bool | UnsetType = UNSET
    note: str | None = None
    free_quantity: FreeQuantity | UnsetType = UNSET


class PricedModifierGroup(Wire, gc=False):
    """The choices from one modifier group, each with its id."""

    modifier_group_id: UUID
    line_items: list[PricedLineItem]


class PricedCart(Wire):
    """A priced cart. It can be sent as a request's cart. `amounts` are absent if something is unavailable.

    `errors` are the faults of a cart from which a line was removed.
    """

    catalog_set_id: UUID
    line_items: list[PricedLineItem]
    store_id: UUID
    amounts: CartAmounts | UnsetType = UNSET
    errors: Annotated[
        tuple[OrderError, ...],
        Meta(
            description="Like the errors of an order: each pointer is into an order with this cart as its `cart`."
        ),
    ] = ()
