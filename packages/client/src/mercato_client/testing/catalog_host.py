"""The hosting half of a merchant's double: CatalogSets with ETags, and the price of carts by them."""

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web

from mercato_client.testing.double import Double, Reply
from mercato_client.testing.prices import Menu

CATALOG: Final = "/catalog.json"
"""The default path of the catalog."""


class _Document(NamedTuple):
    body: bytes
    etag: str
    value: Any


class CatalogHost(Double):
    """Hosts catalogs. `fetched` counts the requests for a document, `unchanged` those answered with 304."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fetched = 0
        self.unchanged = 0
        self._documents: dict[str, _Document] = {}
        self._menu: Menu | None = None

    def host(self, path: str, document: Any) -> str:
        """Host a document as JSON (bytes as they are), replacing the path's earlier one; return its URL."""
        is_raw = isinstance(document, bytes)
        body = document if is_raw else json.dumps(document, ensure_ascii=False).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        self._documents[path] = _Document(body, etag, _value(body) if is_raw else document)
        self._menu = None
        return self.url + path

    def sub_total_of(self, order: Mapping[str, Any]) -> Decimal | None:
        """Return what the items cost by the hosted catalogs, None without any. Raises UnknownItemError."""
        if self._menu is None:
            self._menu = Menu()
            for document in self._documents.values():
                if isinstance(document.value, dict) and isinstance(document.value.get("items"), dict):
                    self._menu |= Menu.of(document.value)
        return self._menu.sub_total(order["cart"]["lineItems"]) if self._menu.items else None

    async def serve_document(self, request: web.Request) -> web.StreamResponse:
        """Answer a GET: the document, 304 or 404."""
        act = self.behaviour.next("catalog")
        reply = self.failure(act) or self.answer_document(request.path, request.headers)
        return await self.send(request, reply, act, operation="catalog")

    def answer_document(self, path: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer to a GET of a document."""
        document = self._documents.get(path)
        if document is None:
            return Reply(HTTPStatus.NOT_FOUND)
        self.fetched += 1
        tagged = {"ETag": document.etag}
        if self.has_it(headers, document.etag):
            self.unchanged += 1
            return Reply(HTTPStatus.NOT_MODIFIED, None, tagged)
        return Reply(HTTPStatus.OK, document.body, tagged)

    def has_it(self, headers: Mapping[str, str], etag: str) -> bool:
        """Tell whether If-None-Match has the ETag."""
        named = {tag.strip().removeprefix("W/") for tag in headers.get("If-None-Match", "").split(",")}
        return not named.isdisjoint({etag, "*"})


def _value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
