"""Half of a merchant's double: hosts CatalogSets, and knows what carts cost by them."""

from collections.abc import Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from aiohttp import web

from mercato.testing import shelf
from mercato.testing.double import Double, Reply
from mercato.testing.prices import UntoldItemError
from mercato.testing.shelf import Shelf

CATALOG: Final = "/catalog.json"
"""Where the first document is, unless it is put elsewhere."""


class Hosting(Double):
    """A host of catalogs. `fetched` counts the answers with a document, `unchanged` those of them that were 304."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fetched = 0
        self.unchanged = 0
        self._shelf = Shelf()

    def host(self, path: str, document: Any) -> str:
        """Host a document as JSON, in place of what the path had before; return its URL."""
        self._shelf.put(path, document)
        return self.url + path

    def known_as(self, onboarding_id: UUID) -> None:
        """Know as which onboarding the store was registered: of that the service makes ids that are UUIDs."""
        self._shelf.known_as(onboarding_id)

    def sub_total_of(self, order: Mapping[str, Any]) -> Decimal | None:
        """Return what the items cost by the hosted catalogs, None if that can't be known. Raises UnknownItemError."""
        menu = self._shelf.menu
        if not menu.items:
            return None
        try:
            return menu.sub_total(order["cart"]["lineItems"])
        except UntoldItemError:
            return None

    async def serve_document(self, request: web.Request) -> web.StreamResponse:
        """Answer a GET: the document, 304 to who has it, 404."""
        act = self.behaviour.next("catalog")
        reply = self._failed(act) or self.answer_document(request.path, request.headers)
        return await self.send(request, reply, act, operation="catalog")

    def answer_document(self, path: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer to who fetches a document."""
        document = self._shelf.find(path)
        if document is None:
            return Reply(HTTPStatus.NOT_FOUND)
        self.fetched += 1
        tagged = {"ETag": document.etag}
        if self.has_it(headers, document.etag):
            self.unchanged += 1
            return Reply(HTTPStatus.NOT_MODIFIED, None, tagged)
        return Reply(HTTPStatus.OK, document.body, tagged)

    def has_it(self, headers: Mapping[str, str], etag: str) -> bool:
        """Tell whether who asks has the document already."""
        return shelf.is_known(headers.get("If-None-Match"), etag)
