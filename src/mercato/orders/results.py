"""What a storefront is answered: an order, or why there is none."""

from uuid import UUID

from mercato import errors
from mercato.errors import OrderError, Problem
from mercato.orders import amounts
from mercato.orders.amounts import Sums
from mercato.orders.model import Order
from mercato.orders.reasons import refusal
from mercato.orders.record import OrderRow, StoreAnswer, order_of
from mercato.orders.replies import Agreed
from mercato.orders.review import Review
from mercato.orders.validation import RETRY_SECONDS


def result_of(order: OrderRow) -> Order | Problem:
    """Return what the storefront is answered once the store has said yes or no, or was given up."""
    about = {"orderId": str(order.id)}
    match order.answer:
        case StoreAnswer.REFUSED:
            problem = refusal(order.errors)
            problem.extensions |= about
            return problem
        case StoreAnswer.GIVEN_UP:
            return errors.OrderClosed(
                "The order was cancelled because its store could not be reached. Place it anew with a new key.",
                extensions=about,
            )
        case _:
            return order_of(order)


def unreachable(order: OrderRow) -> errors.StoreUnreachable:
    """Return the refusal of an order whose store has not answered yet."""
    return errors.StoreUnreachable(
        "The store has not answered yet. The order is kept and sent again for some minutes; ask with the same "
        "Idempotency-Key, or read the order.",
        retry_after=RETRY_SECONDS,
        extensions={"orderId": str(order.id)},
    )


def already_placed(order_id: UUID) -> errors.OrderAlreadyPlaced:
    """Return the refusal of a second order with one token."""
    return errors.OrderAlreadyPlaced(
        "An order was placed with this validatedOrderToken. Read it by its orderId.",
        extensions={"orderId": str(order_id)},
    )


def total_different(sums: Sums, at: str | None) -> errors.OrderTotalDifferent:
    """Return the refusal that says what the order costs now, and which member says otherwise."""
    total = amounts.wire(sums).total
    words = f"The order's total is {total} {sums.currency} now. Validate it again and show the customer the new total."
    reason = OrderError(code=errors.OrderTotalDifferent.code, message=words, pointer=at)
    return errors.OrderTotalDifferent(words, errors=[reason])


def claimed_total(found: Review, agreed: Agreed) -> Problem | None:
    """Return the refusal if the request names another total than the order has."""
    if found.total is None or found.total == agreed.sums.total:
        return None
    return total_different(agreed.sums, "/amounts/total")
