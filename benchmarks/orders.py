"""Validate and place, with a store on loopback, against a bare application that relays one POST.

`python -m benchmarks.orders [URL]`: on an empty PostgreSQL database; without one, on SQLite.
"""

import json
import sys
from itertools import repeat
from typing import Any

from benchmarks.alternated import against
from benchmarks.load import bare, encoded
from benchmarks.trade import PLACE, VALIDATE, Trade, trading

VALIDATE_GOAL = 0.5
PLACE_GOAL = 0.35
PLACEMENTS = 400


def main(url: str | None = None) -> None:
    with trading(url=url) as trade:
        order = trade.order()
        validated(trade, order)
        placed(trade, order)
    with bare("static", encoded(b"{}")) as events:
        event_url = f"http://127.0.0.1:{events.port}/events"
        with trading(url=None, event_url=event_url) as trade:
            placed(trade, trade.order(), what="place, the event to the storefront included", goal=None)


def validated(trade: Trade, order: Any) -> None:
    """Compare validations."""
    request = trade.post(VALIDATE, order)
    answered = trade.call(VALIDATE, order)
    with relay(trade, f"{trade.hooks}/validate", order, answered) as floor:
        against("validate", floor, trade.server, lambda: repeat(request), goal=VALIDATE_GOAL)


def placed(trade: Trade, order: Any, *, what: str = "place", goal: float | None = PLACE_GOAL) -> None:
    """Compare placements, each with a token of its own."""
    (request,) = trade.placements(order, 1)
    body = json.loads(request.partition(b"\r\n\r\n")[2])
    answered = trade.server.call(
        "POST", PLACE, body, key=trade.front_key, headers={"Idempotency-Key": "benchmark"}
    )
    with relay(trade, f"{trade.hooks}/place", order, answered) as floor:
        against(
            what,
            floor,
            trade.server,
            lambda: trade.placements(order, PLACEMENTS),
            floor_requests=lambda: repeat(request, 3 * PLACEMENTS),
            goal=goal,
        )


def relay(trade: Trade, url: str, order: Any, answered: Any) -> Any:
    """Run the floor: the call to the store has about the size of the order."""
    told = {"type": "order.validate", "data": {"storeId": trade.store["storeId"], "order": order}}
    documents = (json.dumps(document, separators=(",", ":")).encode() for document in (told, answered))
    return bare("relay", encoded(url.encode()), *map(encoded, documents))


if __name__ == "__main__":
    main(*sys.argv[1:2])
