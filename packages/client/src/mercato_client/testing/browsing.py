"""The buying half of a storefront's double: stores, catalogs, choices and carts, and how a purchase ended."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, Self

import aiohttp

from mercato_client.testing import shopper
from mercato_client.testing.acts import Script
from mercato_client.testing.caller import Answer, Caller, ServiceError
from mercato_client.testing.events import Events
from mercato_client.testing.server import HOST

SURFACE: Final = "/v1/marketfront"

PAGE: Final = 100

MAX_ATTEMPTS: Final = 5
"""Attempts at a request, and at placing an order with one key."""

MAX_WAIT: Final = 10.0
"""The longest wait between two attempts, in seconds."""


class Outcome(StrEnum):
    """How a purchase ended, or its present state."""

    PLACED = "placed"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    WRONG = "wrong"

    @classmethod
    def of(cls, state: str) -> "Outcome":
        """Return the outcome for an order's state."""
        return cls(state) if state in {cls.COMPLETED, cls.CANCELLED} else cls.PLACED

    @property
    def is_answer(self) -> bool:
        """Tell whether a correct service may answer so."""
        return self not in {Outcome.UNANSWERED, Outcome.WRONG}


@dataclass(slots=True)
class Purchase:
    """One purchase. `attempts` counts how often the order was sent; `codes` say why it was refused."""

    number: int
    store: str
    act: str
    outcome: Outcome = Outcome.UNANSWERED
    order_id: str = ""
    partner_order_id: str | None = None
    total: str | None = None
    attempts: int = 0
    codes: tuple[str, ...] = ()

    def placed(self, order: Any) -> Self:
        """Record the placed order; it is wrong if its total isn't the agreed one."""
        self.order_id, self.partner_order_id = order["orderId"], order["partnerOrderId"]
        agreed, self.total = self.total, order["amounts"]["total"]
        if agreed in {None, self.total}:
            return self.ended(Outcome.PLACED)
        return self.ended(Outcome.WRONG, [f"the agreed total was {agreed}"])

    def ended(self, outcome: Outcome, codes: Iterable[str] = ()) -> Self:
        """Record the outcome and its codes."""
        self.outcome, self.codes = outcome, tuple(codes)
        return self


class Browsing(Events):
    """A storefront up to its orders. `api` and `key` are the service's; without them it only listens.

    `pace` multiplies the waits between attempts.
    """

    def __init__(
        self,
        *,
        api: str = "",
        key: str = "",
        secret: str | Iterable[str] = (),
        token: str | None = None,
        behaviour: Script | Iterable[str] = (),
        seed: int = 0,
        pace: float = 1.0,
        host: str = HOST,
        port: int = 0,
    ) -> None:
        super().__init__(secret=secret, token=token, behaviour=behaviour, seed=seed, host=host, port=port)
        self.purchases: list[Purchase] = []
        self.catalogs: dict[str, tuple[str, Any]] = {}
        self.unreachable: set[str] = set()
        """Ids of stores that don't respond: customers skip them."""
        self._service = (api, key)
        self._pace = pace
        self._session: aiohttp.ClientSession | None = None

    def connect(self, api: str, key: str) -> None:
        """Buy at this service from now on, with this key."""
        self._service = (api, key)

    async def start(self) -> None:
        """Start to listen and to call."""
        await super().start()
        self._session = await self._open.enter_async_context(aiohttp.ClientSession())

    # --- the steps up to an order; each may be overridden ---

    async def discover(self, **filters: Any) -> list[Any]:
        """Return all stores that the service finds. Raises ServiceError."""
        stores: list[Any] = []
        while True:
            body = {"limit": PAGE, "offset": len(stores)} | filters
            reply = await self.ask_with_retries("discover", "POST", f"{SURFACE}/stores/discover", body)
            found = reply.expect(HTTPStatus.OK, "Stores cannot be found")
            stores += found["stores"]
            if not found["hasMore"] or not found["stores"]:
                return stores

    async def read_store(self, store_id: str) -> Any:
        """Return the store as it is now. Raises ServiceError."""
        reply = await self.ask_with_retries("store", "GET", f"{SURFACE}/stores/{store_id}")
        return reply.expect(HTTPStatus.OK, "The store cannot be read")

    async def read_catalog(self, set_id: str) -> Any:
        """Return a CatalogSet; a known one is requested by its ETag. Raises ServiceError."""
        tag, known = self.catalogs.get(set_id, ("", None))
        headers = {"If-None-Match": tag} if tag else {}
        reply = await self.ask_with_retries("catalog", "GET", f"{SURFACE}/catalog-sets/{set_id}", **headers)
        if known is not None and reply.status == HTTPStatus.NOT_MODIFIED:
            return known
        catalog = reply.expect(HTTPStatus.OK, "The CatalogSet cannot be read")
        self.catalogs[set_id] = (reply.headers.get("ETag", ""), catalog)
        return catalog

    def choose_store(self, stores: list[Any], number: int) -> Any:
        """Return the store where a customer buys: open, and answering. Raises ServiceError if there is none."""
        open_now = sorted((one for one in stores if one["isOpen"]), key=lambda one: str(one["name"]))
        if not open_now:
            raise ServiceError(f"None of the {len(stores)} stores that were found is open.")
        answering = [one for one in open_now if one["storeId"] not in self.unreachable]
        if not answering:
            raise ServiceError(f"None of the {len(open_now)} open stores that were found answers.")
        return shopper.lots(self.seed, number, "store").choice(answering)

    def choose_lines(self, store: Any, catalog: Any, number: int) -> list[Any]:
        """Return the lines that a customer wants."""
        return shopper.wanted(catalog, self.seed, number, sold_out=store["unavailableItemIds"])

    async def fill_cart(self, store: Any, lines: list[Any]) -> Any:
        """Return a cart with the lines, priced by the service. Raises ServiceError."""
        cart: Any = None
        for line in lines:
            body = {"item": line, "cart": cart}
            if cart is None:
                body |= {"storeId": store["storeId"], "catalogSetId": store["catalogSetId"]}
            reply = await self.ask_with_retries("cart", "POST", f"{SURFACE}/carts/add", body)
            cart = reply.expect(HTTPStatus.OK, "The cart helper refuses")
        return cart

    def order_of(self, store: Any, cart: Any, number: int) -> dict[str, Any]:
        """Return a customer's order of the cart."""
        return {
            "cart": cart,
            "clientContext": {"ip": "203.0.113.7", "userAgent": "sandbox-storefront/1"},
            "fulfillment": self.handover(store, number),
            "note": self.note(number),
            "customer": shopper.customer(self.seed, number),
            "amounts": {"tip": "0"},
        }

    def note(self, number: int) -> str | None:
        """Return a customer's words for the store: every third has some."""
        return "Please ring twice." if number % 3 == 0 else None

    def handover(self, store: Any, _number: int) -> dict[str, Any]:
        """Return the fulfillment: pickup where the store has it."""
        if "PICKUP" in store["fulfillmentTypes"]:
            return {"mode": "PICKUP", "scheduleType": "ASAP"}
        address = {"address1": "1 Main Street", "city": "Springfield", "postalCode": "12345"}
        return {
            "mode": "DELIVERY_BY_MERCHANT",
            "scheduleType": "ASAP",
            "deliveryType": "LEAVE_AT_DOOR",
            "address": address,
        }

    # --- calls ---

    def should_retry(self, reply: Answer) -> bool:
        """Tell whether the same request may succeed later."""
        return reply.is_retryable or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    def wait_seconds(self, reply: Answer | None, attempt: int) -> float:
        """Return the wait before the next attempt: what the service says, else longer each time."""
        said = (
            None if reply is None else reply.problem().get("retryAfter") or reply.headers.get("Retry-After")
        )
        return min(MAX_WAIT, float(said) if said else 0.25 * 2**attempt)

    async def ask_with_retries(
        self, operation: str, method: str, path: str, body: Any = None, **headers: str
    ) -> Answer:
        """Call the service, with retries; for requests that a repeat doesn't harm. Raises NoAnswerError."""
        reply = await self.ask(operation, method, path, body, **headers)
        for attempt in range(1, MAX_ATTEMPTS):
            if not self.should_retry(reply):
                break
            await asyncio.sleep(self.wait_seconds(reply, attempt) * self._pace)
            reply = await self.ask(operation, method, path, body, **headers)
        return reply

    async def ask(self, operation: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Call the service and record the call. Raises NoAnswerError."""
        assert self._session is not None, "only while it runs"
        caller = Caller(*self._service, self._session)
        reply = await caller.call(method, path, body, headers=headers)
        self.journal.sent(operation, method, path, headers=headers, body=body, answer=reply)
        return reply
