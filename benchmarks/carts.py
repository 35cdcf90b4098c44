"""`carts/add`, warm, against a bare application that decodes, prices and encodes the same members, as structs."""

import json
from itertools import repeat

from benchmarks.alternated import against
from benchmarks.load import bare, encoded
from benchmarks.trade import CARTS, Trade, trading

GOAL = 0.6


def main() -> None:
    with trading() as trade:
        body = trade.add()
        request = trade.post(CARTS, body)
        size = len(json.dumps(trade.call(CARTS, body), separators=(",", ":")))
        print(f"{len(request):,} bytes in, {size:,} out")
        with bare("cart", encoded(json.dumps(prices(trade)).encode())) as floor:
            against(
                "carts/add, 5 lines",
                floor,
                trade.server,
                lambda: repeat(request),
                goal=GOAL,
            )


def prices(trade: Trade) -> dict[str, int]:
    """Return what every item costs in cents."""
    return {key: int(item["basePrice"].replace(".", "")) for key, item in trade.catalog["items"].items()}


if __name__ == "__main__":
    main()
