"""Catalogs to measure with, made here, and a server that hosts one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID, uuid5

_SPACE = UUID(int=7)


def small(items: int = 60, *, note: str = "") -> bytes:
    """Return a restaurant's catalog: sections of ten items, each with two shared modifier groups."""
    ids = [str(uuid5(_SPACE, f"item {number}")) for number in range(items)]
    extras = [str(uuid5(_SPACE, f"extra {number}")) for number in range(8)]
    groups = [str(uuid5(_SPACE, f"group {number}")) for number in range(2)]
    made: dict[str, Any] = {
        "currency": "USD",
        "note": note,
        "sections": [{"name": f"Section {n}", "itemIds": ids[n : n + 10]} for n in range(0, items, 10)],
        "items": {
            key: {
                "itemId": key,
                "name": f"Dish {n}",
                "description": "Served with rice and a small salad of the day, made to order.",
                "basePrice": f"{5 + n % 20}.{n % 100:02d}",
                "modifierGroupIds": groups,
            }
            for n, key in enumerate(ids)
        }
        | {key: {"itemId": key, "name": f"Extra {n}", "basePrice": "0.75"} for n, key in enumerate(extras)},
        "modifierGroups": {
            key: {
                "modifierGroupId": key,
                "name": f"Extras {n}",
                "maximumAllowed": 3,
                "itemIds": extras[n * 4 : n * 4 + 4],
            }
            for n, key in enumerate(groups)
        },
    }
    return json.dumps(made).encode()


def large(items: int = 27_555) -> bytes:
    """Return a web grocer's catalog of some 5 MB: three levels of sections, no modifiers."""
    ids = [str(uuid5(_SPACE, f"product {number}")) for number in range(items)]
    leaves = [ids[n : n + 50] for n in range(0, items, 50)]
    sections: dict[str, Any] = {}
    for number, leaf in enumerate(leaves):
        sections[str(uuid5(_SPACE, f"leaf {number}"))] = {"name": f"Shelf {number}", "itemIds": leaf}
    return json.dumps(
        {
            "currency": "INR",
            "sections": sections,
            "items": {
                key: {
                    "name": f"Product number {n} of a large web grocer",
                    "basePrice": f"{n % 900}.{n % 10}",
                    "brand": f"Brand {n % 300}",
                    "tags": [f"tag-{n % 40}", "pantry"],
                }
                for n, key in enumerate(ids)
            },
        },
        separators=(",", ":"),
    ).encode()


@contextmanager
def hosted(document: bytes) -> Iterator[str]:
    """Host one document; give its URL, at which any path answers the same."""
    with hosting(lambda _path: document) as url:
        yield url


@contextmanager
def hosting(answer: Any) -> Iterator[str]:
    """Host what `answer(path)` returns."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A head and a body are two packets: the second would wait for the first to be acknowledged, up to 40 ms.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:  # the library's name
            body = answer(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/catalog.json"
    finally:
        server.shutdown()
        server.server_close()
