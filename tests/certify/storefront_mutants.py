"""A correct storefront, and storefronts with one bug each, by the check that has to find it."""

import asyncio
import contextlib
import copy
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from aiohttp import web
from tests.certify.mutants import Mutants
from tests.certify.receiver_mutants import MUTANTS as RECEIVER_MUTANTS
from tests.certify.receiver_mutants import Verifying

from mercato.local.storefront.drivers import PurchaseEnd
from mercato.local.storefront.proxy import FaultProxy
from mercato.local.storefront.scenarios import UNKNOWN
from mercato.local.storefront.service import SET, UNAVAILABLE
from mercato_client.testing import Received, Reply, StorefrontDouble
from mercato_client.testing.acts import Act
from mercato_client.testing.caller import Answer, NoAnswerError, ServiceError


class CorrectStorefront(Verifying, StorefrontDouble):
    """Buys and listens, and shows its orders."""

    followed: ClassVar[float] = 0.0
    """Seconds that an order is followed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.times: Counter[str] = Counter()
        self.newest_kept: dict[str, Any] = {}
        self.previous_set: str | None = None

    def routes(self, app: web.Application) -> None:
        super().routes(app)
        app.router.add_get("/shown/{order}", self.shown)

    @property
    def order_url(self) -> str:
        return f"{self.url}/shown/{{orderId}}"

    async def shown(self, request: web.Request) -> web.Response:
        return web.json_response(self.order_shown(request.match_info["order"]))

    def order_shown(self, order_id: str) -> Any:
        return self.newest(order_id)


class InProcess:
    """Drives a double: an order that the service refuses is reported, anything else is a crash."""

    is_one_storefront = True
    port: int | None = None
    concurrency = 8

    def __init__(self, kind: type[CorrectStorefront]) -> None:
        self.kind = kind
        # Not by address: a later scenario may listen on the port of an earlier one.
        self.storefronts: dict[FaultProxy, CorrectStorefront] = {}

    async def buy(self, proxy: FaultProxy, store_id: str, situation: str, *, cancels: bool) -> PurchaseEnd:
        storefront = self.storefronts.get(proxy)
        if storefront is None:
            storefront = self.storefronts[proxy] = self.kind(api=proxy.base, key=proxy.key)
            storefront.previous_set = str(proxy.stores[0].previous_set)
            if cancels:
                storefront.behaviour.on("order", "cancel:CHANGED_MIND always")
        async with storefront:
            try:
                await storefront.buy(len(storefront.purchases) + 1, follow=storefront.followed)
            except ServiceError as error:
                return PurchaseEnd(crashed=False, message=str(error))
            except Exception as error:  # noqa: BLE001  # a crash of the double is what the check looks for
                return PurchaseEnd(crashed=True, message=repr(error))
            return PurchaseEnd(crashed=False)


MUTANTS = Mutants[CorrectStorefront]()
fails = MUTANTS.fails


# --- orders ---------------------------------------------------------------------------------------


@fails("storefront.order.sent")
class NeverOrders(CorrectStorefront):
    async def validate(self, order: Mapping[str, Any]) -> Any:
        raise ServiceError("I was only looking.")


class Altering(CorrectStorefront):
    """Places something else than it validated."""

    async def place_once(self, order: Mapping[str, Any], key: str) -> Answer:
        return await super().place_once(self.altered(copy.deepcopy(dict(order))), key)

    def altered(self, order: dict[str, Any]) -> Mapping[str, Any]:
        raise NotImplementedError


def alters(check: str, change: Callable[[dict[str, Any]], None]) -> None:
    class Changing(Altering):
        def altered(self, order: dict[str, Any]) -> Mapping[str, Any]:
            change(order)
            return order

    fails(check)(Changing)


def _one_more(order: dict[str, Any]) -> None:
    order["cart"]["lineItems"][0]["quantity"] += 1


def _cheaper(order: dict[str, Any]) -> None:
    order["amounts"]["total"] = "1.00"


def _tips(order: dict[str, Any]) -> None:
    order["amounts"]["tip"] = "2.00"


def _rounds(order: dict[str, Any]) -> None:
    if "." in order["amounts"]["total"]:
        order["amounts"]["total"] = f"{float(order['amounts']['total']):.2f}"


def _in_cents(order: dict[str, Any]) -> None:
    if "." not in order["amounts"]["total"]:
        order["amounts"]["total"] = str(int(order["amounts"]["total"]) / 100)


alters("storefront.order.same-order", _one_more)
alters("storefront.order.total", _cheaper)
alters("storefront.order.tip", _tips)
alters("storefront.order.token", lambda order: order.pop("validatedOrderToken"))
alters("storefront.order.three-decimals", _rounds)
alters("storefront.order.no-decimals", _in_cents)
alters("storefront.order.placed", lambda order: order.update(fulfillment={"mode": "PICKUP"}))


@fails("storefront.order.patient")
class Impatient(CorrectStorefront):
    async def place(self, order: Mapping[str, Any], key: str) -> tuple[Answer, int]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                return await super().place(order, key)
        return await super().place(order, key)


@fails("storefront.order.validated-first")
class ValidatesNothing(CorrectStorefront):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, behaviour=["order unvalidated always"])


@fails("storefront.order.once")
class PlacesTwice(CorrectStorefront):
    async def place(self, order: Mapping[str, Any], key: str) -> tuple[Answer, int]:
        await super().place(order, key)
        return await super().place(order, key)


@fails("storefront.order.key")
class ShortKeys(CorrectStorefront):
    def new_key(self) -> str:
        return super().new_key()[:8]


@fails("storefront.order.new-key")
class OneKey(CorrectStorefront):
    def new_key(self) -> str:
        return "3f6d1f0e-52c5-4a6b-9f43-0f6b0a1f7f11"


# --- requests -------------------------------------------------------------------------------------


class Sends(CorrectStorefront):
    """Sends one more request, whatever the answer."""

    async def read_store(self, store_id: str) -> Any:
        assert self._session is not None
        base, key = self._service
        method, path, options = self.more(store_id, key)
        async with self._session.request(method, base + path, **options) as reply:
            await reply.read()
        return await super().read_store(store_id)

    def more(self, store_id: str, key: str) -> tuple[str, str, dict[str, Any]]:
        raise NotImplementedError


def sends(check: str, method: str, path: str, **options: Any) -> None:
    class Sending(Sends):
        def more(self, store_id: str, key: str) -> tuple[str, str, dict[str, Any]]:
            headers = {"Authorization": f"Bearer {key}"} | options.get("headers", {})
            requested = {name: value for name, value in options.items() if name != "headers"}
            return (
                method,
                f"/v1/marketfront{path.format(store=store_id, key=key)}",
                requested | {"headers": headers},
            )

    fails(check)(Sending)


sends("storefront.request.bearer", "GET", "/stores/{store}", headers={"Authorization": "Bearer wrong"})
sends("storefront.request.key-not-in-url", "GET", "/stores/{store}?key={key}")
sends("storefront.request.known", "GET", "/basket")
sends("storefront.request.well-formed", "POST", "/stores/discover", json={"limit": "ten"})
sends(
    "storefront.request.media-type",
    "POST",
    "/stores/discover",
    data=b"{}",
    headers={"Content-Type": "text/plain"},
)


sends("storefront.request.members-known", "POST", "/stores/discover", json={"fulfilmentType": "PICKUP"})


@fails("storefront.request.later-version")
class RefusesUnknownMembers(CorrectStorefront):
    async def read_store(self, store_id: str) -> Any:
        store = await super().read_store(store_id)
        if "addedLater" in store:
            raise ServiceError("What is addedLater?")
        return store


@fails("storefront.request.follow-pace")
class PollsWithoutPause(CorrectStorefront):
    async def follow(self, order_id: str, *, seconds: float) -> Any:
        # All at once: one after the other, a slow machine may make no 16 in a second.
        return (await asyncio.gather(*(self.read_order(order_id) for _ in range(60))))[-1]

    followed = 0.1


# --- carts ----------------------------------------------------------------------------------------


@fails("storefront.cart.current-set")
class UsesThePreviousSet(CorrectStorefront):
    def order_of(self, store: Any, cart: Any, number: int) -> dict[str, Any]:
        order = super().order_of(store, cart, number)
        order["cart"] = order["cart"] | {"catalogSetId": self.previous_set}
        return order


class ValidatingTwice(CorrectStorefront):
    """Validates something else first."""

    line: ClassVar[dict[str, Any]]

    async def validate(self, order: Mapping[str, Any]) -> Any:
        wrong = {**order, "cart": {**order["cart"], "lineItems": [self.line]}}
        await self.ask("validate", "POST", "/v1/marketfront/orders/validate", wrong)
        return await super().validate(order)


@fails("storefront.cart.to-be-had")
class OffersUnavailableItems(ValidatingTwice):
    line: ClassVar[dict[str, Any]] = {"itemId": UNAVAILABLE, "quantity": 1, "modifierGroups": []}


@fails("storefront.cart.modifier-rules")
class ChoosesNothing(ValidatingTwice):
    line: ClassVar[dict[str, Any]] = {"itemId": SET, "quantity": 1, "modifierGroups": []}


@fails("storefront.cart.catalog-once")
class CachesNothing(CorrectStorefront):
    async def read_catalog(self, set_id: str) -> Any:
        self.catalogs.clear()
        return await super().read_catalog(set_id)


@fails("storefront.cart.pages")
class ReadsOnePage(CorrectStorefront):
    async def discover(self, **requested: Any) -> list[Any]:
        reply = await self.ask("discover", "POST", "/v1/marketfront/stores/discover", {"limit": 100})
        return list(reply.json()["stores"])


# --- repeats --------------------------------------------------------------------------------------


class RememberingAnswers(CorrectStorefront):
    """Remembers the last answer to a placement: its code, or nothing when there was none."""

    code: str | None = None
    status = 0

    async def place_once(self, order: Mapping[str, Any], key: str) -> Answer:
        self.code, self.status = None, 0
        reply = await super().place_once(order, key)
        self.code, self.status = reply.problem().get("errorCode"), reply.status
        return reply


def gives_up(check: str, code: str) -> None:
    class GivingUp(RememberingAnswers):
        def should_retry(self, reply: Answer) -> bool:
            return self.code != code and super().should_retry(reply)

    fails(check)(GivingUp)


def doubles(check: str, code: str | None) -> None:
    """A new key after an answer of this code, or after none at all."""

    class Doubling(RememberingAnswers):
        def key_of_retry(self, key: str) -> str:
            return self.new_key() if self.code == code else key

    fails(check)(Doubling)


def insists(check: str, when: Callable[[Answer], bool]) -> None:
    class Insisting(CorrectStorefront):
        def should_retry(self, reply: Answer) -> bool:
            return when(reply) or super().should_retry(reply)

        def wait_seconds(self, reply: Answer | None, attempt: int) -> float:
            return 0.0 if reply is not None and when(reply) else super().wait_seconds(reply, attempt)

    fails(check)(Insisting)


gives_up("storefront.retry.busy", "SERVICE_UNAVAILABLE")
gives_up("storefront.retry.in-progress", "REQUEST_IN_PROGRESS")
doubles("storefront.retry.same-key", "SERVICE_UNAVAILABLE")
doubles("storefront.retry.store-unreachable", "STORE_UNREACHABLE")
doubles("storefront.retry.lost-answer", None)


@fails("storefront.retry.same-body")
class ChangesTheRetry(RememberingAnswers):
    async def place_once(self, order: Mapping[str, Any], key: str) -> Answer:
        if self.code == "SERVICE_UNAVAILABLE":
            order = {**order, "customer": {**order["customer"], "phone": "+15550000000"}}
        return await super().place_once(order, key)


@fails("storefront.retry.retry-after")
class IgnoresRetryAfter(RememberingAnswers):
    def wait_seconds(self, reply: Answer | None, attempt: int) -> float:
        return 0.0 if self.code == "SERVICE_UNAVAILABLE" else super().wait_seconds(reply, attempt)


class GivesUpValidating(CorrectStorefront):
    code: str

    async def validate(self, order: Mapping[str, Any]) -> Any:
        reply = await self.ask("validate", "POST", "/v1/marketfront/orders/validate", order)
        if reply.problem().get("errorCode") == self.code:
            raise ServiceError("Validation is not available.")
        return reply.json() if reply.status == 200 else await super().validate(order)


@fails("storefront.retry.validate-busy")
class GivesUpBusy(GivesUpValidating):
    code = "SERVICE_UNAVAILABLE"


@fails("storefront.retry.rate-limited")
class GivesUpLimited(GivesUpValidating):
    code = "RATE_LIMITED"


@fails("storefront.retry.follow-limited")
class PollsAtOnce(CorrectStorefront):
    followed = 0.1

    async def read_order(self, order_id: str) -> Any:
        path = f"/v1/marketfront/orders/{order_id}"
        for _ in range(4):
            reply = await self.ask("order", "GET", path)
            if not self.should_retry(reply):
                break
        return reply.expect(200, "The order cannot be read")


# --- refusals -------------------------------------------------------------------------------------


def overlooks(check: str, code: str) -> None:
    """Places what was found invalid for this reason."""

    class Overlooking(CorrectStorefront):
        async def validate(self, order: Mapping[str, Any]) -> Any:
            response = await super().validate(order)
            seen = [one["code"] for one in response["order"]["errors"]]
            return response | {"isValid": True} if seen == [code] else response

    fails(check)(Overlooking)


overlooks("storefront.refusal.invalid-not-placed", "ITEM_UNAVAILABLE")
overlooks("storefront.refusal.unknown-reason-not-placed", UNKNOWN)

WORDS = {"ITEM_UNAVAILABLE": "It is sold out.", "PAYMENT_DECLINED": "Try another card."}


@fails("storefront.refusal.unknown-reason-survived")
class CrashesOnUnknownReasons(CorrectStorefront):
    async def validate(self, order: Mapping[str, Any]) -> Any:
        response = await super().validate(order)
        for one in response["order"]["errors"]:
            WORDS[one["code"]]
        return response


@fails("storefront.refusal.unknown-problem-survived")
class CrashesOnUnknownProblems(CorrectStorefront):
    async def place_once(self, order: Mapping[str, Any], key: str) -> Answer:
        reply = await super().place_once(order, key)
        if reply.problem().get("errorCategory") == "weather":
            WORDS[reply.problem()["errorCode"]]
        return reply


@fails("storefront.refusal.bare-problem-survived")
class ReadsEveryMember(CorrectStorefront):
    def should_retry(self, reply: Answer) -> bool:
        problem = reply.problem()
        return bool(problem["retryable"]) if problem else False


def _code(reply: Answer) -> Any:
    return reply.problem().get("errorCode")


insists("storefront.refusal.declined-not-repeated", lambda reply: _code(reply) == "PAYMENT_DECLINED")
insists("storefront.refusal.unknown-not-repeated", lambda reply: _code(reply) == UNKNOWN)
insists(
    "storefront.refusal.bare-not-repeated",
    lambda reply: reply.status == 422 and "retryable" not in reply.problem(),
)
insists("storefront.refusal.other-total-not-repeated", lambda reply: _code(reply) == "ORDER_TOTAL_DIFFERENT")


@fails("storefront.refusal.new-body-new-key")
class TriesAnotherCard(CorrectStorefront):
    async def place(self, order: Mapping[str, Any], key: str) -> tuple[Answer, int]:
        reply, attempts = await super().place(order, key)
        if _code(reply) == "PAYMENT_DECLINED":
            return await super().place({**order, "payment": {"type": "external"}}, key)
        return reply, attempts


@fails("storefront.refusal.locked-out")
class RepeatsUnauthenticated(CorrectStorefront):
    async def discover(self, **requested: Any) -> list[Any]:
        for _ in range(5):
            with contextlib.suppress(ServiceError):
                return await super().discover(**requested)
        return await super().discover(**requested)


# --- events ---------------------------------------------------------------------------------------


class RefusingEvents(CorrectStorefront):
    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        if self.refuses(webhook, webhook.json()):
            return Reply(409)
        return super().answer(operation, webhook, act)

    def refuses(self, webhook: Received, event: Any) -> bool:
        raise NotImplementedError

    def known(self, event: Any) -> dict[int, Received]:
        return self.events.get(event["data"]["orderId"], {})


def refuses_events(check: str, refuses: Callable[[Any, Received, Any], bool]) -> None:
    fails(check)(type("RefusingEvents", (RefusingEvents,), {"refuses": refuses}))


refuses_events("storefront.events.created", lambda _, __, event: event["type"] == "order.created")
refuses_events(
    "storefront.events.updated",
    lambda here, _, event: event["data"]["sequence"] == 2 and set(here.known(event)) == {1},
)
refuses_events(
    "storefront.events.unknown-order",
    lambda here, _, event: event["data"]["sequence"] > 1 and not here.known(event),
)
refuses_events(
    "storefront.events.repeat",
    lambda here, webhook, _: not here.is_new(webhook),
)
refuses_events(
    "storefront.events.late",
    lambda here, _, event: max(here.known(event), default=0) > event["data"]["sequence"] > 1,
)
refuses_events("storefront.events.adjusted", lambda _, __, event: event["type"] == "order.adjusted")
refuses_events("storefront.events.unknown-type", lambda _, __, event: event["type"] == "order.rated")
refuses_events("storefront.events.unknown-members", lambda _, __, event: "addedLater" in event)


@fails("storefront.events.at-once")
class Races(CorrectStorefront):
    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        self.times[webhook.webhook_id] += 1
        return Reply(409) if self.times[webhook.webhook_id] > 3 else super().answer(operation, webhook, act)


@fails("storefront.events.state")
class ShowsNothingNew(CorrectStorefront):
    def order_shown(self, order_id: str) -> Any:
        return {"status": "pending"}


@fails("storefront.events.late-changes-nothing")
class ShowsTheLastEvent(CorrectStorefront):
    """Shows the last event that isn't a repeat."""

    def order_shown(self, order_id: str) -> Any:
        return self.newest_kept[order_id]

    def keep(self, webhook: Received) -> None:
        super().keep(webhook)
        data = webhook.json()["data"]
        self.newest_kept[data["orderId"]] = data["order"]


@fails("storefront.events.repeat-changes-nothing")
class ShowsRepeats(ShowsTheLastEvent):
    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        data = webhook.json()["data"]
        before = max(self.events.get(data["orderId"], {}), default=0)
        if not self.is_new(webhook) or data["sequence"] > before:
            self.newest_kept[data["orderId"]] = data["order"]
        return super().answer(operation, webhook, act)

    def keep(self, webhook: Received) -> None:
        CorrectStorefront.keep(self, webhook)


@fails("storefront.events.refund-shown")
class ShowsThePlacedAmounts(CorrectStorefront):
    def order_shown(self, order_id: str) -> Any:
        first = self.events[order_id][1].json()["data"]["order"]
        return super().order_shown(order_id) | {"amounts": first["amounts"]}


# --- cancellations --------------------------------------------------------------------------------


@fails("storefront.cancel.sent")
class CancelsWithoutReason(CorrectStorefront):
    async def cancel(self, order_id: str, reason: str, *, key: str) -> Answer:
        return await super().cancel(order_id, "", key=key)


@fails("storefront.cancel.key")
class ShortCancellationKeys(CorrectStorefront):
    async def cancel(self, order_id: str, reason: str, *, key: str) -> Answer:
        return await super().cancel(order_id, reason, key=key[:8])


class CancellingAgain(CorrectStorefront):
    """Decides by the first answer how to cancel again: with which key, or not at all."""

    async def cancel(self, order_id: str, reason: str, *, key: str) -> Answer:
        path, first = f"/v1/marketfront/orders/{order_id}/cancel", None
        with contextlib.suppress(NoAnswerError):
            first = await self.ask("cancel", "POST", path, {"reason": reason}, **{"Idempotency-Key": key})
        again = self.key_after(first, key)
        return (
            first
            if first is not None and again is None
            else await super().cancel(order_id, reason, key=again or key)
        )

    def key_after(self, first: Answer | None, key: str) -> str | None:
        return key if first is None or self.should_retry(first) else None


@fails("storefront.cancel.store-unreachable")
class CancelsAnewAfterSilence(CancellingAgain):
    def key_after(self, first: Answer | None, key: str) -> str | None:
        is_new = first is not None and first.code == "STORE_UNREACHABLE"
        return self.new_key() if is_new else super().key_after(first, key)


@fails("storefront.cancel.lost-answer")
class CancelsAnewAfterALoss(CancellingAgain):
    def key_after(self, first: Answer | None, key: str) -> str | None:
        return self.new_key() if first is None else super().key_after(first, key)


@fails("storefront.cancel.refused-not-repeated")
class InsistsOnCancelling(CancellingAgain):
    def key_after(self, first: Answer | None, key: str) -> str | None:
        is_refused = first is not None and first.code == "CANCELLATION_REFUSED"
        return key if is_refused else super().key_after(first, key)


for _name, _kind in RECEIVER_MUTANTS.items():
    fails(f"storefront.{_name}")(type(_kind.__name__, (_kind, CorrectStorefront), {}))


class FailingAtMethod(CorrectStorefront):
    method: str

    def routes(self, app: web.Application) -> None:
        async def fail(request: web.Request) -> web.Response:
            return web.Response(status=500 if request.method == self.method else 405)

        app.router.add_get("/events", fail)
        super().routes(app)


@fails("storefront.transport.get")
class FailsAtGet(FailingAtMethod):
    method = "GET"


@fails("storefront.transport.head")
class FailsAtHead(FailingAtMethod):
    method = "HEAD"
