"""A merchant's double: hosts CatalogSets, prices orders, accepts each order once, receives signed events.

It does what a merchant's system has to do and no more, so it can be read as an example.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from http import HTTPStatus
from typing import Any, ClassVar, Final, NamedTuple

from aiohttp import web

from mercato_client.testing import acts, prices
from mercato_client.testing.acts import Act, Script
from mercato_client.testing.double import Double, Reply
from mercato_client.testing.journal import MAX_KEPT
from mercato_client.testing.prices import Menu, UnknownItemError, items_of
from mercato_client.testing.server import HOST, Received
from mercato_contract.events import EventType
from mercato_contract.problems import default_message

CATALOG: Final = "/catalog.json"
"""The default path of the catalog."""

DECLINED_CARD: Final = "tok_sandbox_declined"
"""The card token that the bank declines."""

FIRST_NUMBER: Final = 1001

MAX_ORDERS: Final = 10_000
"""The most orders, and the most events, that are kept; more are answered with 503, so they are sent again."""

_PAYMENT: Final = ("PAYMENT_DECLINED", "PAYMENT_FAILED", "PAYMENT_METHOD_INVALID")

Error = dict[str, Any]


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
        """Return whether If-None-Match has the ETag."""
        named = {tag.strip().removeprefix("W/") for tag in headers.get("If-None-Match", "").split(",")}
        return not named.isdisjoint({etag, "*"})


def _value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Entry:
    """An order in the book, with its first answer. `again` is the answer to repeats, if it isn't the first one."""

    data: Mapping[str, Any] = field(repr=False)
    answer: Mapping[str, Any]
    status: int
    again: Reply | None = None

    @property
    def taken(self) -> bool:
        """Return whether the order was accepted."""
        return self.status == HTTPStatus.OK


class MerchantDouble(CatalogHost):
    """The running merchant. The book holds every order by its webhook-id, which is its orderId.

    `cancellations` has the first answer to each storefront's cancellation, by its webhook-id.

    `catalog` is a CatalogSet document to host at `catalog_url`; `secret` one signing secret or several; `token`
    the bearer token that webhooks must carry, if any; `sold_out` are item ids as carts have them.
    """

    operations: ClassVar = acts.MERCHANT
    title: ClassVar = "Sandbox merchant"

    def __init__(
        self,
        *,
        secret: str | Iterable[str] = (),
        token: str | None = None,
        catalog: Any = None,
        sold_out: Iterable[str] = (),
        behaviour: Script | Iterable[str] = (),
        seed: int = 0,
        host: str = HOST,
        port: int = 0,
    ) -> None:
        super().__init__(secret=secret, token=token, behaviour=behaviour, seed=seed, host=host, port=port)
        if catalog is not None:
            self.host(CATALOG, catalog)
        self.book: dict[str, Entry] = {}
        self.cancellations: dict[str, Mapping[str, Any]] = {}
        self.cancelled: set[str] = set()
        self.sold_out = {item.lower() for item in sold_out}
        self.validated = self.repeats = self.failed = 0
        self.is_down = False
        self._late: dict[str, int] = {}
        self._events: set[str] = set()
        self._unread: asyncio.Queue[Received] = asyncio.Queue(MAX_KEPT)

    @property
    def webhook_url(self) -> str:
        """Return the URL to register as `webhookUrl`."""
        return f"{self.url}/hooks"

    @property
    def catalog_url(self) -> str:
        """Return the URL to register as `catalogCallbackUrl`: the first document's."""
        return self.url + next(iter(self._documents), CATALOG)

    @property
    def taken(self) -> list[str]:
        """Return the ids of the accepted orders."""
        return [order_id for order_id, entry in self.book.items() if entry.taken]

    def go_down(self) -> None:
        """Fail from now on, in the worst way: an order is still recorded, but answered with 503."""
        self.is_down = True

    def come_back(self) -> None:
        """Work again, with the same book."""
        self.is_down = False

    async def webhook(self) -> Received:
        """Wait for the next event, genuine or not. Each is returned once; the newest thousand are kept."""
        return await self._unread.get()

    def noted(self, operation: str, webhook: Received) -> None:
        """Keep an event for `webhook`."""
        if operation not in {"validate", "place", "cancel"}:
            if self._unread.full():
                self._unread.get_nowait()
            self._unread.put_nowait(webhook)

    # --- the steps of accepting an order; each may be overridden ---

    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        """Return the answer to a genuine webhook."""
        match operation:
            case "validate":
                return self.answer_validate(webhook, act)
            case "place":
                return self.answer_place(webhook, act)
            case "cancel":
                return self.answer_cancel(webhook, act)
            case _:
                return self.answer_event(webhook)

    def draw(self, operation: str, webhook: Received) -> Act:
        """Return the act that the script has; an order in the book, or a known cancellation, has had its act."""
        match operation:
            case "place":
                known = self.find_entry(webhook) is not None
            case "cancel":
                known = webhook.webhook_id in self.cancellations
            case _:
                known = False
        return acts.HONEST if known else super().draw(operation, webhook)

    def answer_validate(self, webhook: Received, act: Act) -> Reply:
        """Return what the order costs here, or why it is refused. Nothing is recorded."""
        if self.is_down:
            return Reply(HTTPStatus.SERVICE_UNAVAILABLE)
        self.validated += 1
        order = webhook.json()["data"]["order"]
        errors = _declined(act) or self.item_faults(order)
        if errors:
            return Reply(HTTPStatus.OK, {"isValid": False, "errors": errors})
        amounts = self.amounts_of(order)
        if act.name == acts.WRONG:
            amounts = prices.corrupt(amounts, act.argument or "total")
        return Reply(HTTPStatus.OK, {"isValid": True, "amounts": amounts})

    def answer_place(self, webhook: Received, act: Act) -> Reply:
        """Accept or refuse the order. The same webhook-id is the same order and gets its first answer."""
        entry = self.find_entry(webhook)
        known = entry is not None
        if entry is None and len(self.book) < MAX_ORDERS:
            entry = self.enter(webhook, act)
            self.keep(webhook, entry, act)
        if entry is None or self.is_down or self._is_late(webhook.webhook_id):
            self.failed += 1
            return Reply(HTTPStatus.SERVICE_UNAVAILABLE)
        self.repeats += known
        return entry.again if known and entry.again is not None else Reply(entry.status, entry.answer)

    def answer_cancel(self, webhook: Received, act: Act) -> Reply:
        """Let the storefront cancel its order, or refuse. The same webhook-id gets its first answer."""
        answer = self.cancellations.get(webhook.webhook_id)
        if answer is None and len(self.cancellations) < MAX_ORDERS:
            answer = self.cancellations[webhook.webhook_id] = self.consent(webhook, act)
        if answer is None or self.is_down:
            return Reply(HTTPStatus.SERVICE_UNAVAILABLE)
        return Reply(HTTPStatus.OK, answer)

    def consent(self, webhook: Received, act: Act) -> Mapping[str, Any]:
        """Decide on a new cancellation: every one is accepted, unless the script refuses it."""
        if act.name == acts.DECLINE:
            return {"accepted": False, "reason": act.argument}
        self.cancelled.add(webhook.json()["data"]["orderId"])
        return {"accepted": True}

    def answer_event(self, webhook: Received) -> Reply:
        """Handle an event once; an unknown type is accepted, too."""
        if self.is_new(webhook):
            if len(self._events) >= MAX_ORDERS:
                return Reply(HTTPStatus.SERVICE_UNAVAILABLE)
            self._events.add(webhook.webhook_id)
            self.take_event(webhook.json())
        return Reply(HTTPStatus.NO_CONTENT)

    def find_entry(self, webhook: Received) -> Entry | None:
        """Return the entry of an order that is in the book."""
        return self.book.get(webhook.webhook_id)

    def enter(self, webhook: Received, act: Act) -> Entry:
        """Decide on a new order."""
        data = webhook.json()["data"]
        errors = _declined(act) or self.refusals(data)
        if errors:
            unpaid = errors[0]["code"] in _PAYMENT
            status = HTTPStatus.PAYMENT_REQUIRED if unpaid else HTTPStatus.CONFLICT
            return Entry(data, {"accepted": False, "errors": errors}, status)
        answer: dict[str, Any] = {"accepted": True, "partnerOrderId": self.next_number()}
        if act.name == acts.WRONG:
            answer["amounts"] = prices.corrupt(self.amounts_of(data["order"]), act.argument or "total")
        return Entry(data, answer, HTTPStatus.OK, self.denial(answer, act))

    def denial(self, answer: Mapping[str, Any], act: Act) -> Reply | None:
        """Return the answer of a merchant that takes a repeat for a mistake, None if the act is another."""
        if act.name != acts.DUPLICATE:
            return None
        number = {"partnerOrderId": answer["partnerOrderId"]} if act.argument else {}
        return Reply(HTTPStatus.CONFLICT, {"message": "Order already exists", **number})

    def keep(self, webhook: Received, entry: Entry, act: Act) -> None:
        """Record an order in the book."""
        self.book[webhook.webhook_id] = entry
        if act.name == acts.LATE:
            self._late[webhook.webhook_id] = act.count

    def is_new(self, webhook: Received) -> bool:
        """Return whether the event wasn't handled before."""
        return webhook.webhook_id not in self._events

    def take_event(self, event: Any) -> None:
        """Apply an event."""
        if event.get("type") == EventType.ORDER_CANCELLED:
            self.cancelled.add(event["data"]["orderId"])

    def next_number(self) -> str:
        """Return the merchant's own number for the next order."""
        return f"A-{FIRST_NUMBER + len(self.taken)}"

    def refusals(self, data: Mapping[str, Any]) -> list[Error]:
        """Return why an order is refused: for its items, its amounts or its payment."""
        order = data["order"]
        return self.item_faults(order) or self.amount_faults(order) or self.payment_faults(data)

    def item_faults(self, order: Mapping[str, Any]) -> list[Error]:
        """Return the faults of the items and their price. Without a catalog every price is right."""
        gone = self.sold_out_faults(order)
        if gone:
            return gone
        try:
            own = self.sub_total_of(order)
        except UnknownItemError as unknown:
            return [{"code": "ITEM_UNAVAILABLE", "message": str(unknown), "pointer": unknown.pointer}]
        if own is None or own == Decimal(order["amounts"]["subTotal"]):
            return []
        message = f"By our catalog the items cost {own}."
        return [{"code": "ITEM_PRICE_CHANGED", "message": message, "pointer": "/amounts/subTotal"}]

    def sold_out_faults(self, order: Mapping[str, Any]) -> list[Error]:
        """Return a fault for each item that is sold out."""
        return [
            {"code": "ITEM_UNAVAILABLE", "message": f"{item} is sold out.", "pointer": pointer}
            for item, pointer in items_of(order.get("cart", {}).get("lineItems", ()))
            if item in self.sold_out
        ]

    def amount_faults(self, order: Mapping[str, Any]) -> list[Error]:
        """Return the faults of an order's amounts, and of those of its lines."""
        return prices.booking_faults(order["cart"]) + prices.faults_of(order["amounts"])

    def payment_faults(self, data: Mapping[str, Any]) -> list[Error]:
        """Return the faults of an order's payment."""
        if (data.get("payment") or {}).get("cardToken") != DECLINED_CARD:
            return []
        return [{"code": "PAYMENT_DECLINED", "message": "The bank declines this card."}]

    def amounts_of(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the order costs: its items by the hosted catalog, and the tax."""
        return prices.with_tax(order["amounts"], self.sub_total_of(order))

    def addresses(self) -> list[tuple[str, str]]:
        """Return the URLs to register."""
        return [("webhookUrl", self.webhook_url), ("catalogCallbackUrl", self.catalog_url)]

    def facts(self) -> list[tuple[str, int]]:
        """Return counts for the page."""
        return [
            ("orders taken", len(self.taken)),
            ("refused", len(self.book) - len(self.taken)),
            ("cancelled", len(self.cancelled)),
        ]

    def routes(self, app: web.Application) -> None:
        """Add the catalogs and the webhooks."""
        app.router.add_get("/{path:.*}", self.serve_document)
        app.router.add_post("/hooks/{operation}", self.take)

    def _is_late(self, webhook_id: str) -> bool:
        left = self._late.get(webhook_id, 0)
        self._late[webhook_id] = left - 1
        return left > 0


def _declined(act: Act) -> list[Error]:
    if act.name != acts.DECLINE:
        return []
    return [{"code": act.argument, "message": default_message(act.argument)}]
