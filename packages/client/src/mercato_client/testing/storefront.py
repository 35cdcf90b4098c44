"""A storefront's double: finds stores, prices carts, validates, places, retries, follows by events and polling.

It does what a storefront's system has to do and no more, so it can be read as an example.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from http import HTTPStatus
from typing import Any, ClassVar, Final
from uuid import uuid4

from mercato_client.testing import acts, prices
from mercato_client.testing.acts import Act
from mercato_client.testing.browsing import MAX_ATTEMPTS, SURFACE, Browsing, Outcome, Purchase
from mercato_client.testing.caller import Answer, NoAnswerError, RefusedError, ServiceError
from mercato_client.testing.merchant import DECLINED_CARD
from mercato_client.testing.prices import Menu
from mercato_contract.problems import ORDER_ERROR_CODES

POLL: Final = 1.0
"""Seconds between two reads of an order; an event arrives at once."""

OTHER: Final = "OTHER"
UNREACHABLE: Final = "STORE_UNREACHABLE"

_IMPATIENT: Final = 0.05
"""Seconds after which a storefront with the act `drop` hangs up."""


class StorefrontDouble(Browsing):
    """The running storefront. `api` and `key` are the service's; without them it only listens.

    `pace` multiplies the waits between attempts.
    """

    title: ClassVar = "Sandbox storefront"

    # --- the steps of a purchase; each may be overridden ---

    async def validate(self, order: Mapping[str, Any]) -> Any:
        """Return the service's validation of an order. Raises ServiceError."""
        reply = await self.ask_with_retries("validate", "POST", f"{SURFACE}/orders/validate", order)
        return reply.expect(HTTPStatus.OK, "The order cannot be validated")

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
        return tuple(code if (code := one["code"]) in ORDER_ERROR_CODES else OTHER for one in errors)

    async def read_order(self, order_id: str) -> Any:
        """Return the order as it is now. Raises ServiceError."""
        reply = await self.ask_with_retries("order", "GET", f"{SURFACE}/orders/{order_id}")
        return reply.expect(HTTPStatus.OK, "The order cannot be read")

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
            said = await self.validate(order)
            if not said["isValid"]:
                return purchase.ended(Outcome.REFUSED, self.reasons_of(said["order"]["errors"]))
            faults = self.amount_faults(said["order"], catalog)
            if faults:
                return purchase.ended(Outcome.WRONG, faults)
            purchase.total = said["order"]["amounts"]["total"]
            order |= {"validatedOrderToken": said["validatedOrderToken"]}
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
            await self.hang_up(order, key)
        reply, purchase.attempts = await self.place(order, key)
        if act.name == acts.REPEAT:
            again = await self.place_once(order, key)
            if again.body != reply.body:
                return purchase.ended(Outcome.WRONG, ["the same key got another answer"])
        if reply.status != HTTPStatus.CREATED:
            problem = reply.problem()
            purchase.order_id = problem.get("orderId", "")
            errors = problem.get("errors") or [{"code": problem.get("errorCode", OTHER)}]
            outcome = Outcome.UNANSWERED if self.should_retry(reply) else Outcome.REFUSED
            return purchase.ended(outcome, self.reasons_of(errors))
        purchase.placed(reply.json())
        if act.name == acts.CANCEL:
            await self._cancelled(purchase, act.argument)
        return purchase

    async def _cancelled(self, purchase: Purchase, reason: str) -> None:
        """Cancel an order that was just placed. One that its store doesn't cancel goes on."""
        reply = await self.cancel(purchase.order_id, reason, key=self.new_key())
        if reply.status == HTTPStatus.OK:
            purchase.ended(Outcome.of(reply.json()["state"]))
        else:
            purchase.ended(Outcome.PLACED, [reply.code or OTHER])

    async def hang_up(self, order: Mapping[str, Any], key: str) -> None:
        """Send an order and close the connection before the answer comes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_IMPATIENT):
                await self.place_once(order, key)
