"""`price_cart`, warm: against the bare application of `carts`, and against `carts/add`, with the same five lines.

The agent sends the lines by name or by id; the storefront sends a cart of four as it was answered, and the fifth line.
"""

import json
from functools import partial
from itertools import repeat
from typing import Any

from benchmarks.alternated import ROUNDS, SECONDS, against, report
from benchmarks.carts import prices
from benchmarks.hammer import hammer
from benchmarks.load import Server, bare, encoded
from benchmarks.trade import CARTS, Trade, trading

GOAL = 0.45
OPERATION = 1 / 1.3
"""The share that `carts/add` has of the CPU of a call of the tool, at least."""

PATH = "/mcp"
REVISION = "2025-11-25"


def main() -> None:
    with trading() as trade:
        body = trade.add()
        add = trade.post(CARTS, body)
        with bare("cart", encoded(json.dumps(prices(trade)).encode())) as floor:
            lines = [*body["cart"]["lineItems"], body["item"]]
            for words, by_name in (("by name", True), ("by id", False)):
                sent = [named(trade, line, by_name=by_name) for line in lines]
                arguments = {"storeId": trade.store["storeId"], "lines": sent}
                request, answer = requested(trade, "price_cart", arguments)
                assert answer["amounts"] == trade.call(CARTS, body)["amounts"]
                against(
                    f"price_cart {words}, 5 lines",
                    floor,
                    trade.server,
                    partial(repeat, request),
                    floor_requests=partial(repeat, add),
                    goal=GOAL,
                )
                compare(f"price_cart {words} against carts/add", trade.server, add, request)


def compare(name: str, server: Server, operation: bytes, tool: bytes) -> None:
    """Print what a call of the tool takes of CPU, as the share that the operation has of it."""
    pairs = []
    for number in range(ROUNDS):
        turns = [operation, tool] if number % 2 else [tool, operation]
        loads = {
            request: hammer(server.process, server.port, repeat(request), seconds=SECONDS)
            for request in turns
        }
        pairs.append((loads[operation], loads[tool]))
    report(name, pairs, OPERATION)


def requested(trade: Trade, tool: str, arguments: Any) -> tuple[bytes, Any]:
    """Return the bytes of a call of a tool, and what it answers."""
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    version = {"MCP-Protocol-Version": REVISION}
    answer = trade.server.call("POST", PATH, message, key=trade.front_key, headers=version)
    assert not answer["result"]["isError"], answer
    request = trade.post(PATH, message, **version)
    size = len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode())
    print(f"{tool}: {len(request):,} bytes in, {size:,} out")
    return request, answer["result"]["structuredContent"]


def named(trade: Trade, line: Any, *, by_name: bool) -> Any:
    """Return a line of a cart as an agent sends it."""
    items, groups = trade.catalog["items"], trade.catalog["modifierGroups"]

    def text(table: Any, key: str) -> str:
        name: str = table[key]["name"] if by_name else key
        return name

    return {
        "item": text(items, line["itemId"]),
        "quantity": line["quantity"],
        "choices": [
            {
                "group": text(groups, group["modifierGroupId"]),
                "option": text(items, choice["itemId"]),
                "quantity": choice["quantity"],
            }
            for group in line["modifierGroups"]
            for choice in group["lineItems"]
        ],
    }


if __name__ == "__main__":
    main()
