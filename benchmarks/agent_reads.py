"""Calls of tools that read, warm, each in turns with the operation that it calls, on the same server."""

from typing import Any

from benchmarks.agent_carts import compare, requested
from benchmarks.load import get
from benchmarks.trade import PLACE, VALIDATE, Trade, trading

ORDERS = "/v1/marketfront/orders"
DISCOVER = "/v1/marketfront/stores/discover"
PAGE = 20


def main() -> None:
    with trading() as trade:
        order_id = [placed(trade) for _ in range(PAGE)][-1]
        read = get(f"{ORDERS}/{order_id}", trade.front_key)
        listed = get(f"{ORDERS}?limit={PAGE}", trade.front_key)
        found = trade.post(DISCOVER, {"limit": 10})
        for name, arguments, operation in (
            ("get_order", {"orderId": order_id}, read),
            ("list_orders", {"limit": PAGE}, listed),
            ("find_stores", {}, found),
        ):
            request, _ = requested(trade, name, arguments)
            compare(f"{name} against its operation", trade.server, operation, request)


def placed(trade: Trade) -> Any:
    """Place an order of five lines; return its id."""
    order = trade.order()
    token = trade.call(VALIDATE, order)["validatedOrderToken"]
    headers = {"Idempotency-Key": token[:32]}
    order |= {"validatedOrderToken": token}
    return trade.server.call("POST", PLACE, order, key=trade.front_key, headers=headers)["orderId"]


if __name__ == "__main__":
    main()
