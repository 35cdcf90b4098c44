"""A storefront's double: finds stores, prices carts, validates, places, retries, follows by events and polling.

It does what a storefront's system has to do and no more, so it can be read as an example.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from http import HTTPStatus
from typing import Any, ClassVar, Final, Self
from uuid import uuid4

import aiohttp
from msgspec import Struct

from mercato_client.testing import acts, prices, shopper
from mercato_client.testing.acts import Act, Script
from mercato_client.testing.caller import (
    MAX_ANSWER,
    MAX_CATALOG,
    Answer,
    Caller,
    NoAnswerError,
    RefusedError,
    ServiceError,
    open_session,
)
from mercato_client.testing.events import Events
from mercato_client.testing.merchant import DECLINED_CARD
from mercato_client.testing.prices import Menu, UnknownItemError
from mercato_client.testing.server import HOST
from mercato_contract.carts import PricedCart
from mercato_contract.catalogs import CatalogSet
from mercato_contract.discovery import DiscoverResponse
from mercato_contract.orders import Order, OrderState
from mercato_contract.placements import ValidateOrderResponse
from mercato_contract.problems import ORDER_ERROR_CODES
from mercato_contract.stores import MarketfrontStore

SURFACE: Final = "/v1/marketfront"

PAGE: Final = 100

MAX_STORES: Final = 10_000
"""Stores that are looked at."""

MAX_ATTEMPTS: Final = 5
"""Attempts at a request, and at placing an order with one key."""

MAX_WAIT: Final = 10.0
"""The longest wait between two attempts, in seconds."""

POLL: Final = 1.0
"""Seconds between two reads of an order; an event arrives at once."""

OTHER: Final = "OTHER"
UNREACHABLE: Final = "STORE_UNREACHABLE"

_IMPATIENT: Final = 0.05
"""Seconds after which a storefront with the act `drop` hangs up."""


class Outcome(StrEnum):
    """How a purchase ended, or its present state."""

    PLACED = "placed"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    UNDECIDED = "waiting for approval"
    UNANSWERED = "unanswered"
    WRONG = "wrong"

    @classmethod
    def of(cls, state: str) -> "Outcome":
        """Return the outcome for an order's state."""
        return cls(state) if state in {cls.COMPLETED, cls.CANCELLED} else cls.PLACED

    @property
    def is_answer(self) -> bool:
        """Return whether a correct service may answer so."""
        return self not in {Outcome.UNANSWERED, Outcome.WRONG}


class _State(Struct):
    """What is read of a cancelled order, also of an agent's."""

    state: OrderState


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
        self.order_id, self.partner_order_id = order["orderId"], order.get("partnerOrderId")
        agreed, self.total = self.total, order["amounts"]["total"]
        if agreed in {None, self.total}:
            return self.ended(Outcome.PLACED)
        return self.ended(Outcome.WRONG, [f"the agreed total was {agreed}"])

    def ended(self, outcome: Outcome, codes: Iterable[str] = ()) -> Self:
        """Record the outcome and its codes."""
        self.outcome, self.codes = outcome, tuple(codes)
        return self


class StorefrontDouble(Events):
    """The running storefront. `api` and `key` are the service's; without them it only listens.

    `pace` multiplies the waits between attempts.
    """

    title: ClassVar = "Sandbox storefront"

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
        self._session = await self._open.enter_async_context(open_session())

    # --- the steps up to an order; each may be overridden ---

    async def discover(self, **filters: Any) -> list[Any]:
        """Return all stores that the service finds. Raises ServiceError."""
        stores: list[Any] = []
        while True:
            body = {"limit": PAGE, "offset": len(stores)} | filters
            reply = await self.ask_with_retries("discover", "POST", f"{SURFACE}/stores/discover", body)
            found = reply.expect(HTTPStatus.OK, "Stores cannot be found", DiscoverResponse)
            stores += found["stores"]
            if not found["hasMore"] or not found["stores"] or len(stores) >= MAX_STORES:
                return stores

    async def read_store(self, store_id: str) -> Any:
        """Return the store as it is now. Raises ServiceError."""
        reply = await self.ask_with_retries("store", "GET", f"{SURFACE}/stores/{store_id}")
        return reply.expect(HTTPStatus.OK, "The store cannot be read", MarketfrontStore)

    async def read_catalog(self, set_id: str) -> Any:
        """Return a CatalogSet; a known one is requested by its ETag. Raises ServiceError."""
        tag, known = self.catalogs.get(set_id, ("", None))
        headers = {"If-None-Match": tag} if tag else {}
        path = f"{SURFACE}/catalog-sets/{set_id}"
        reply = await self.ask_with_retries("catalog", "GET", path, **headers)
        if known is not None and reply.status == HTTPStatus.NOT_MODIFIED:
            return known
        catalog = reply.expect(HTTPStatus.OK, "The CatalogSet cannot be read", CatalogSet)
        self.catalogs[set_id] = (reply.headers.get("ETag", ""), catalog)
        return catalog

    def choose_store(self, stores: list[Any], number: int) -> Any:
        """Return the store where a customer buys: open, and answering. Raises ServiceError if there is none."""
        open_now = sorted((store for store in stores if store["isOpen"]), key=lambda one: str(one["name"]))
        if not open_now:
            raise ServiceError(f"None of the {len(stores)} stores that were found is open.")
        answering = [store for store in open_now if store["storeId"] not in self.unreachable]
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
            cart = reply.expect(HTTPStatus.OK, "The cart helper refuses", PricedCart)
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

    # --- the steps of a purchase; each may be overridden ---

    async def validate(self, order: Mapping[str, Any]) -> Any:
        """Return the service's validation of an order. Raises ServiceError."""
        reply = await self.ask_with_retries("validate", "POST", f"{SURFACE}/orders/validate", order)
        return reply.expect(HTTPStatus.OK, "The order cannot be validated", ValidateOrderResponse)

    def amount_faults(self, order: Mapping[str, Any], catalog: Any) -> list[str]:
        """Return the faults of an order's amounts, by the catalog and by their own sums."""
        amounts = order["amounts"]
        own = Menu.of(catalog).sub_total(order["cart"]["lineItems"])
        faults = [] if own == Decimal(amounts["subTotal"]) else [f"the catalog comes to {own}"]
        total = prices.total_of(amounts)
        return faults if total == Decimal(amounts["total"]) else [*faults, f"the sum is {total}"]

    def new_key(self) -> str:
        """Return an Idempotency-Key for a new order."""
        return str(uuid4())

    async def place(self, order: Mapping[str, Any], key: str) -> tuple[Answer, int]:
        """Place an order, with retries; return the answer and the number of attempts. Raises NoAnswerError."""
        return await self._repeat(lambda key: self.place_once(order, key), key)

    async def _repeat(self, send: Callable[[str], Awaitable[Answer]], key: str) -> tuple[Answer, int]:
        """Send a request with a key until there is a final answer; return it and the number of attempts."""
        attempt = 1
        while True:
            try:
                reply = await send(key)
            except NoAnswerError:
                if attempt >= MAX_ATTEMPTS:
                    raise
                reply = None
            if reply is not None and (not self.should_retry(reply) or attempt >= MAX_ATTEMPTS):
                return reply, attempt
            await asyncio.sleep(self.wait_seconds(reply, attempt) * self._pace)
            key = self.key_of_retry(key)
            attempt += 1

    async def place_once(self, order: Mapping[str, Any], key: str) -> Answer:
        """Place an order without retries. Raises NoAnswerError."""
        headers = {"Idempotency-Key": key}
        return await self.ask("place", "POST", f"{SURFACE}/orders/place", order, **headers)

    async def cancel(self, order_id: str, reason: str, *, key: str) -> Answer:
        """Cancel an order, with retries under one key; return the last answer. Raises NoAnswerError."""
        path = f"{SURFACE}/orders/{order_id}/cancel"
        body = {"reason": reason}
        reply, _ = await self._repeat(
            lambda key: self.ask("cancel", "POST", path, body, **{"Idempotency-Key": key}), key
        )
        return reply

    def key_of_retry(self, key: str) -> str:
        """Return the key for a retry of the same order or cancellation: the same key."""
        return key

    def reasons_of(self, errors: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return the codes of a refusal; an unknown one becomes OTHER."""
        return tuple(code if (code := error["code"]) in ORDER_ERROR_CODES else OTHER for error in errors)

    def codes_of(self, reply: Answer) -> tuple[str, ...]:
        """Return the codes of a refusal: the order's reasons, or the service's own, such as SPEND_LIMIT_EXCEEDED."""
        errors = reply.problem().get("errors")
        return self.reasons_of(errors) if errors else (reply.code or OTHER,)

    async def read_order(self, order_id: str) -> Any:
        """Return the order as it is now. Raises ServiceError."""
        reply = await self.ask_with_retries("order", "GET", f"{SURFACE}/orders/{order_id}")
        return reply.expect(HTTPStatus.OK, "The order cannot be read", Order)

    async def follow(self, order_id: str, *, seconds: float) -> Any:
        """Return the order once it is closed, or as it is after that many seconds."""
        until = asyncio.get_running_loop().time() + seconds
        while True:
            order = await self.read_order(order_id)
            left = until - asyncio.get_running_loop().time()
            if order["state"] != "open" or left <= 0:
                return order
            await self.news_of(order_id, seconds=min(POLL, left))

    async def news_of(self, order_id: str, *, seconds: float) -> None:
        """Wait for the next event of an order, at most that many seconds."""
        known = len(self.events.get(order_id, {}))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.journal.until(lambda: len(self.events.get(order_id, {})) > known)

    # --- whole purchases ---

    async def buy(
        self, number: int = 1, *, store_id: str | None = None, follow: float = 0.0, **filters: Any
    ) -> Purchase:
        """Buy as one customer, from the search to the end of the order. Raises ServiceError.

        A store that doesn't answer is skipped, now and later, unless the customer wants that one.
        """
        act = self.behaviour.next("order")
        if store_id is not None:
            return await self._buy_at(store_id, number, act, follow=follow)
        stores = await self.discover(**filters)
        while True:
            chosen: str = self.choose_store(stores, number)["storeId"]
            try:
                return await self._buy_at(chosen, number, act, follow=follow)
            except RefusedError as refused:
                if refused.answer.code != UNREACHABLE:
                    raise
                self.unreachable.add(chosen)

    async def _buy_at(self, store_id: str, number: int, act: Act, *, follow: float) -> Purchase:
        store = await self.read_store(store_id)
        catalog = await self.read_catalog(store["catalogSetId"])
        with checked_sums("The CatalogSet"):
            lines = self.choose_lines(store, catalog, number)
        if not lines:
            raise ServiceError(f"{store['name']} sells nothing at the moment.")
        order = self.order_of(store, await self.fill_cart(store, lines), number)
        purchase = await self._bought(Purchase(number, store["name"], str(act)), order, catalog, act)
        if UNREACHABLE in purchase.codes:
            self.unreachable.add(store_id)
        if purchase.outcome == Outcome.PLACED and follow > 0:
            over = await self.follow(purchase.order_id, seconds=follow)
            purchase.outcome = Outcome.of(over["state"])
        self.purchases.append(purchase)
        return purchase

    async def _bought(self, purchase: Purchase, order: dict[str, Any], catalog: Any, act: Act) -> Purchase:
        if act.name != acts.UNVALIDATED:
            validated = await self.validate(order)
            if not validated["isValid"]:
                return purchase.ended(Outcome.REFUSED, self.reasons_of(validated["order"].get("errors", ())))
            with checked_sums("The validated order"):
                faults = self.amount_faults(validated["order"], catalog)
            if faults:
                return purchase.ended(Outcome.WRONG, faults)
            purchase.total = validated["order"]["amounts"]["total"]
            order |= {"validatedOrderToken": validated["validatedOrderToken"]}
            order["amounts"] = order["amounts"] | {"total": purchase.total}
        if act.name == acts.WRONG:
            order["amounts"] = prices.corrupt({"total": "0.00"} | order["amounts"], "total")
        if act.name == acts.DECLINED:
            order["payment"] = {"type": "cardOnFile", "cardToken": DECLINED_CARD, "processorType": "sandbox"}
        await asyncio.sleep(act.seconds)
        return await self._sent(purchase, order, act)

    async def _sent(self, purchase: Purchase, order: Mapping[str, Any], act: Act) -> Purchase:
        key = self.new_key()
        if act.name == acts.DROP:
            await self.hang_up_on(self.place_once(order, key))
        reply, purchase.attempts = await self.place(order, key)
        if act.name == acts.REPEAT:
            again = await self.place_once(order, key)
            if again.body != reply.body:
                return purchase.ended(Outcome.WRONG, ["the same key got another answer"])
        if reply.status != HTTPStatus.CREATED:
            purchase.order_id = reply.problem().get("orderId", "")
            outcome = Outcome.UNANSWERED if self.should_retry(reply) else Outcome.REFUSED
            return purchase.ended(outcome, self.codes_of(reply))
        purchase.placed(reply.expect(HTTPStatus.CREATED, "The order's answer cannot be read", Order))
        if act.name == acts.CANCEL:
            await self._cancelled(purchase, act.argument)
        return purchase

    async def _cancelled(self, purchase: Purchase, reason: str) -> None:
        """Cancel an order that was just placed. One that its store doesn't cancel goes on."""
        reply = await self.cancel(purchase.order_id, reason, key=self.new_key())
        if reply.status == HTTPStatus.OK:
            order = reply.expect(HTTPStatus.OK, "The cancellation's answer cannot be read", _State)
            purchase.ended(Outcome.of(order["state"]))
        else:
            purchase.ended(Outcome.PLACED, [reply.code or OTHER])

    async def hang_up_on(self, call: Awaitable[Answer]) -> None:
        """Send an order and close the connection before the answer comes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_IMPATIENT):
                await call

    # --- calls ---

    def should_retry(self, reply: Answer) -> bool:
        """Return whether the same request may succeed later."""
        return reply.is_retryable or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    def wait_seconds(self, reply: Answer | None, attempt: int) -> float:
        """Return the wait before the next attempt: what the service says, else longer each time."""
        seconds = None if reply is None else reply.retry_after
        return min(MAX_WAIT, 0.25 * 2**attempt if seconds is None else seconds)

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
        max_bytes = MAX_CATALOG if operation == "catalog" else MAX_ANSWER
        reply = await caller.call(method, path, body, headers=headers, max_bytes=max_bytes)
        self.journal.sent(operation, method, path, headers=headers, body=body, answer=reply)
        return reply


@contextmanager
def checked_sums(what: str) -> Iterator[None]:
    """Raise ServiceError for amounts or references that no service answers."""
    try:
        yield
    except (KeyError, ArithmeticError, UnknownItemError) as fault:
        raise ServiceError(
            f"{what} can't be read ({type(fault).__name__}: {str(fault)[:100]}), so no Mercato service wrote it. "
            "Is this the URL of one?"
        ) from None
