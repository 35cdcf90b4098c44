"""What a storefront gets for an order that it places."""

from msgspec import Struct

from mercato.features.orders.errors import StoreUnreachable
from mercato.platform.wire.problem import ProblemFormat
from mercato_contract.orders import Order
from mercato_contract.problems import ProblemDetail


class PlacedOrder(Struct, frozen=True):
    """The order as it was when its store had accepted it. `replayed`: an earlier request got the same."""

    order: Order
    replayed: bool = False


class RefusedOrder(Struct, frozen=True):
    """The refusal by the order's store, in the format that the first request with the key preferred."""

    problem: ProblemDetail
    format: ProblemFormat
    replayed: bool = False


class UnansweredOrder(Struct, frozen=True):
    """The order is stored, and its store hasn't answered yet. The result is open."""

    problem: StoreUnreachable


PinnedOutcome = PlacedOrder | RefusedOrder
Outcome = PlacedOrder | RefusedOrder | UnansweredOrder
