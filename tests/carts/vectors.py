"""Carts with their catalogs and answers, for every implementation of the rules.

`python -m tests.carts.vectors` writes them to `packages/catalog/vectors`.

Each file has catalogs as they are served, and requests with what they answer. A line without an id gets the next of
`NEW_ID`, counted from 1 in each request, so that answers can be compared byte by byte.
"""

import gzip
import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
from tests.carts.random_store import Json, RandomStore

from mercato_catalog import Catalog, build
from mercato_catalog.building.build import build as build_document
from mercato_catalog.model import BuildRequest, Built
from mercato_contract.carts import Cart, LineItem, PricedCart
from mercato_contract.refusals import Problem

VECTORS: Final = Path(__file__).resolve().parents[2] / "packages/catalog/vectors"
FILES: Final = 10
CATALOGS: Final = 40
"""Catalogs of a file."""
CARTS: Final = 25
"""Requests for each catalog: 10,000 in all."""
NEW_ID: Final = "00000000-0000-4000-8000-{:012x}"
SEED: Final = 20_261_128


class VectorStore(RandomStore):
    """A random store with names, notes and amounts at their limits."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, careless=1 if seed % 3 else 0)
        for entity in (*self.document["items"].values(), *self.document["modifierGroups"].values()):
            entity["name"] = self.random.choice(["Soup", "Pad Thai", None, "", "ส้มตำ", "🍕" * 300, "x" * 257])
        if self.often(0.1):
            for item in self.document["items"].values():
                item["basePrice"] = str(self.random.randint(2**40, 2**60 // 1000))

    def order(self) -> list[Json]:
        """Return the lines of a cart: some with ids, some ids twice, some with notes."""
        lines = self.lines()
        self._mark(lines)
        if self.often(0.1):
            lines.append(json.loads(json.dumps(self.random.choice(lines))))
        if self.often(0.02):
            lines = (lines * 100)[:200]
        if self.often(0.01):
            lines.append(self._deep(self.random.randint(7, 12)))
        return lines

    def _deep(self, levels: int) -> Json:
        """Return a line with modifiers of modifiers: to the limit, or beyond it."""
        line = self.line(self.random.choice(list(self.document["items"])), 8)
        if levels:
            below = {"modifierGroupId": self.id(), "lineItems": [self._deep(levels - 1)]}
            line["modifierGroups"] = [below]
        return line

    def request(self) -> Json:
        """Return an operation and its arguments."""
        lines = self.order()
        cart: Json = {"storeId": str(STORE), "catalogSetId": str(SET), "lineItems": lines}
        kind = self.random.choice(["add", "add", "remove", "update", "price"])
        if kind == "price":
            return {"operation": kind, "cart": cart}
        if kind == "add":
            item = json.loads(json.dumps(self.random.choice(lines))) if self.often(0.5) else lines.pop()
            if self.often(0.02):
                item["quantity"] = 2**31 - 1
            return {"operation": kind, "cart": None if self.often(0.1) else cart, "item": item}
        places = list(_all_lines(lines))
        target = self.random.choice(places)
        line_id = target.setdefault("lineItemId", self.id()) or self.id()
        target["lineItemId"] = line_id
        if self.often(0.05):
            line_id = self.id()
        asked: Json = {"operation": kind, "cart": cart, "lineItemId": line_id}
        return (
            asked if kind == "remove" else asked | {"quantity": self.random.choice([0, 1, 2, 7, 2**31 - 1])}
        )

    def _mark(self, lines: list[Json]) -> None:
        ids = [self.id(), self.id()]
        for line in _all_lines(lines):
            if self.often(0.5):
                line["lineItemId"] = self.random.choice([self.id(), self.id().upper(), ids[0], None])
            if self.often(0.1):
                line["note"] = self.random.choice(["no onions", "", None, "två\nrader"])
            if self.often(0.02):
                line["itemId"] = line["itemId"].upper()


STORE: Final = UUID("01963f5e-7e3b-7ccc-8000-0000000000a1")
SET: Final = UUID("01963f5e-7e3b-7ccc-8000-0000000000b1")


def _all_lines(lines: list[Json]) -> Iterator[Json]:
    for line in lines:
        yield line
        for group in line["modifierGroups"]:
            yield from _all_lines(group["lineItems"])


class Ids:
    """Makes the ids of lines; the first one again after `restart`."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._count = 0

    def __call__(self) -> UUID:
        self._count += 1
        return UUID(NEW_ID.format(self._count))


def served(document: Json) -> bytes:
    """Return the copy that storefronts get."""
    built = build_document(json.dumps(document).encode(), BuildRequest(STORE, SET, STORE, "USD"))
    assert isinstance(built, Built), built
    return built.body


def answered(asked: Json, catalog: Catalog, sold_out: Collection[UUID]) -> Json:
    """Return what the rules answer: a cart, or a refusal."""
    try:
        answer = _answer(asked, catalog, sold_out)
    except Problem as refused:
        facts = {"code": refused.code, "status": refused.status, "message": refused.detail}
        return {"refusal": facts | {"errors": _as_sent(refused.errors)}}
    return {"answer": _as_sent(answer)}


def _as_sent(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _answer(asked: Json, catalog: Catalog, sold_out: Collection[UUID]) -> PricedCart:
    cart = msgspec.convert(asked["cart"], Cart | None)
    if asked["operation"] == "add":
        return catalog.add(cart, msgspec.convert(asked["item"], LineItem), sold_out=sold_out)
    assert cart is not None
    if asked["operation"] == "price":
        return catalog.price(cart, sold_out=sold_out)
    line_id = UUID(asked["lineItemId"])
    if asked["operation"] == "remove":
        return catalog.remove(cart, line_id, sold_out=sold_out)
    return catalog.update(cart, line_id, asked["quantity"], sold_out=sold_out)


def made(number: int) -> Json:
    """Return the content of the file with this number."""
    catalogs = []
    for index in range(CATALOGS):
        store = VectorStore(SEED + number * CATALOGS + index)
        document, sold_out, new_id = served(store.document), sorted(store.sold_out), Ids()
        catalog, requests = build(document, new_id=new_id), []
        for _ in range(CARTS):
            asked = store.request()
            new_id.restart()
            requests.append(asked | answered(asked, catalog, [UUID(one) for one in sold_out]))
        catalogs.append({"catalog": json.loads(document), "soldOut": sold_out, "carts": requests})
    return {"catalogs": catalogs}


def path_of(number: int) -> Path:
    return VECTORS / f"carts-{number}.json.gz"


def main() -> None:
    VECTORS.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        content = json.dumps(made(number), ensure_ascii=False, separators=(",", ":")).encode()
        path_of(number).write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
        sys.stdout.write(f"{path_of(number).name}: {len(content):,} bytes\n")


if __name__ == "__main__":
    main()
