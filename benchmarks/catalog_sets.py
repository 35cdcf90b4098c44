"""CatalogSet 200 (60 items, gzip) and 304 against a bare application that returns the same bytes, head and all."""

import json
import urllib.request
from itertools import repeat

from benchmarks.alternated import against
from benchmarks.load import bare, encoded, get
from benchmarks.trade import Trade, trading

GOAL = 0.7


def main() -> None:
    with trading() as trade:
        path = f"/v1/marketfront/catalog-sets/{trade.store['catalogSetId']}"
        body, headers = fetched(trade, path)
        print(f"{len(body):,} bytes, compressed")
        full = get(path, trade.front_key, **{"Accept-Encoding": "gzip"})
        known = get(path, trade.front_key, **{"Accept-Encoding": "gzip", "If-None-Match": headers["etag"]})
        pairs = json.dumps(list(headers.items())).encode()
        with bare("conditional", encoded(body), encoded(pairs)) as floor:
            against("CatalogSet 200", floor, trade.server, lambda: repeat(full), goal=GOAL)
            against("CatalogSet 304", floor, trade.server, lambda: repeat(known), goal=GOAL)


def fetched(trade: Trade, path: str) -> tuple[bytes, dict[str, str]]:
    """Return the compressed bytes, and the headers that come with them but for those of the server itself."""
    request = urllib.request.Request(  # a loopback URL
        f"http://127.0.0.1:{trade.server.port}{path}",
        headers={"Authorization": f"Bearer {trade.front_key}", "Accept-Encoding": "gzip"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310  # a loopback URL
        named = {name.lower(): value for name, value in reply.headers.items()}
        return reply.read(), {name: value for name, value in named.items() if name not in OF_SERVER}


OF_SERVER = frozenset({"connection", "date", "server"})


if __name__ == "__main__":
    main()
