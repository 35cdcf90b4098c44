"""Members of a storefront's requests that nobody reads: what they were meant to say is ignored."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, inspect

from mercato.local.storefront.context import StorefrontContext
from mercato.local.storefront.proxy import Call
from mercato.local.storefront.scenarios import ScenarioResult
from mercato_contract.carts import (
    AddCartItemRequest,
    PricedCart,
    PricedLineItem,
    PricedModifierGroup,
    RemoveCartItemRequest,
    UpdateCartItemRequest,
)
from mercato_contract.decoding.unknown import find_unknown
from mercato_contract.discovery import DiscoverRequest
from mercato_contract.member_hints import SUGGESTS, member_hint
from mercato_contract.orders import CancelOrderRequest
from mercato_contract.placements import (
    CheckedOrder,
    OrderCore,
    OrderLine,
    OrderModifierGroup,
    PlaceOrderRequest,
)
from mercato_contract.texts import count_of

_BODIES: Final[dict[str, type[Struct]]] = {
    "/stores/discover": DiscoverRequest,
    "/carts/add": AddCartItemRequest,
    "/carts/remove": RemoveCartItemRequest,
    "/carts/update": UpdateCartItemRequest,
    "/orders/validate": OrderCore,
    "/orders/place": PlaceOrderRequest,
    "/cancel": CancelOrderRequest,
}
"""The type of a body, by the end of its path."""

_ANSWERED: Final = frozenset(
    name
    for kind in (PricedCart, PricedLineItem, PricedModifierGroup, CheckedOrder, OrderLine, OrderModifierGroup)
    for name in kind.__struct_encode_fields__
)
"""Members of the service's answers: what it answered may be sent back as it is."""


def members_known(context: StorefrontContext, result: ScenarioResult) -> str:
    """Return how many members are unknown. Raises Failed for one that is close to a member, or means one."""
    count = 0
    for call in result.calls:
        for hint in _hints(call):
            if SUGGESTS in hint:
                context.fail(f"{hint} It was sent to {call.path.partition('?')[0]}.", [call])
            count += 1
    return f"{count_of(count, 'member')} of its own" if count else "every member is known"


def _hints(call: Call) -> Iterator[str]:
    """Yield what is said about the unknown members of a request."""
    path = call.path.partition("?")[0]
    kind = next((body for end, body in _BODIES.items() if path.endswith(end)), None)
    if call.method == "POST" and kind is not None:
        for pointer in find_unknown(call.body, inspect.type_info(kind)):
            if pointer.rpartition("/")[2] not in _ANSWERED:
                yield member_hint(kind, pointer)
