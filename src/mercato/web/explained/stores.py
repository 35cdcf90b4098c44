"""What only a store can say of an order: here its webhook is a program of a few lines that says it."""

import json
from typing import Final

from mercato.web.explained.commands import (
    HERE,
    PICKUP,
    answered,
    call,
    kept,
    order,
    place,
    script,
    throw_away,
    webhook,
)
from mercato.web.explained.model import Explained

_CARD: Final = '"payment": {"type": "cardOnFile", "cardToken": "tok_1", "processorType": "example"},\n  '
_NOWHERE: Final = "http://127.0.0.1:9"
"""Where nobody listens."""


def _refused(
    code: str,
    message: str,
    cause: str,
    remedy: str,
    *,
    status: int = 409,
    fulfillment: str = PICKUP,
    more: str = "",
) -> Explained:
    body = json.dumps({"errors": [{"code": code, "message": message}]})
    return Explained(cause, remedy, answered(status, body, place(order(fulfillment=fulfillment, more=more))))


PAGES: Final = {
    "ADDRESS_OUT_OF_RANGE": _refused(
        "ADDRESS_OUT_OF_RANGE",
        "We deliver in Chicago only.",
        "The store was asked, and does not deliver to this address.",
        "Another address, or pickup.",
        fulfillment=HERE,
    ),
    "ITEM_PRICE_CHANGED": Explained(
        "The store takes another price than the catalog has: the `subTotal` of its answer is not ours.",
        "Try again later: the store has to publish its catalog with the new prices. If it is your store, "
        "notify of the new catalog before the till takes its prices.",
        answered(200, '{"isValid": true, "amounts": {"subTotal": "0.01"}}', place(order())),
    ),
    "PAYMENT_DECLINED": _refused(
        "PAYMENT_DECLINED",
        "The bank declined the card.",
        "The store has charged the payment, and the bank or the processor said no.",
        "Ask the customer for another means of payment, and place with a new `Idempotency-Key`. The token "
        "is still good.",
        status=402,
        more=_CARD,
    ),
    "PAYMENT_FAILED": _refused(
        "PAYMENT_FAILED",
        "The processor cannot be reached.",
        "The store could not charge the payment, for a reason that may pass.",
        "Try again, with the same key; or ask for another means of payment.",
        status=402,
        more=_CARD,
    ),
    "PAYMENT_METHOD_INVALID": _refused(
        "PAYMENT_METHOD_INVALID",
        "We take cash only.",
        "The store does not take this means of payment, or cannot read it.",
        "Ask the customer for another one. `payment` goes to the store as you send it: agree with it on "
        "`processorType`.",
        status=402,
        more=_CARD,
    ),
    "OTHER": _refused(
        "OTHER",
        "The oven is broken.",
        "The store refused the order with a code that is none of ours, or gave no reason that could be "
        "read. A code of its own stands in `errorCode` as it came, and `type` leads here.",
        "Show the customer the `message`, or take an unknown code for `OTHER`.",
    ),
    "STORE_UNREACHABLE": Explained(
        "The store's webhook did not answer in time, could not be reached, or answered what cannot be used.",
        "Send the same request with the same `Idempotency-Key` after `Retry-After`. With an `orderId` the "
        "order is kept: the store is asked again for 10 minutes, then it is cancelled. The merchant finds "
        "the cause in its webhook deliveries.",
        throw_away(webhook(_NOWHERE), call("/v1/marketfront/orders/validate", order(), key="SHOP_KEY")),
    ),
    "REQUEST_IN_PROGRESS": Explained(
        "The first request with this `Idempotency-Key` is still running: its store has not answered yet.",
        "Send the same again a little later, with the same key. It gets the first one's answer.",
        answered(
            200,
            "{}",
            script(
                kept(order()),
                "ORDER_KEY=example-$RANDOM-$RANDOM",
                "for n in 1 2; do",
                "  "
                + place("@order.json", key="$ORDER_KEY", options="-o answer-$n.json").replace("\n", "\n  ")
                + " &",
                "  ASKED[$n]=$!",
                "done",
                "wait ${ASKED[1]} ${ASKED[2]}",
                "grep -h REQUEST_IN_PROGRESS answer-[12].json",
            ).rstrip(),
            seconds=1,
        ),
    ),
}
