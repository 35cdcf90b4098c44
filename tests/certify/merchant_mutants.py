"""A correct merchant, and merchants with one bug each, by the check that has to find it."""

from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from aiohttp import web
from tests.certify.menu import GONE
from tests.certify.mutants import Mutants
from tests.certify.receiver_mutants import MUTANTS as RECEIVER_MUTANTS
from tests.certify.receiver_mutants import Verifying

from mercato_client.testing import MerchantDouble, Received, Reply
from mercato_client.testing.acts import Act
from mercato_client.testing.merchant import Error
from mercato_client.testing.prices import UnknownItemError


class CorrectMerchant(Verifying, MerchantDouble):
    """Does everything correctly."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.operation = ""
        self.times: Counter[Any] = Counter()

    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        self.operation = operation
        self.times[webhook.webhook_id] += 1
        document = webhook.json()
        wrong = self.wrong_answer(operation, webhook, document["data"])
        return wrong if wrong is not None else super().answer(operation, webhook, act)

    def wrong_answer(self, operation: str, webhook: Received, data: Any) -> Reply | None:
        """Return the answer of a mutant in place of the correct one."""
        return None

    def next_number(self) -> str:
        self.times["number"] += 1
        return f"A-{self.times['number']}"

    def item_faults(self, order: Mapping[str, Any]) -> list[Error]:
        gone = any(line["itemId"] == GONE for line in order["cart"]["lineItems"])
        if gone:
            return [
                {"code": "ITEM_UNAVAILABLE", "message": "It is sold out.", "pointer": "/cart/lineItems/0"}
            ]
        return super().item_faults(order)


MUTANTS = Mutants[CorrectMerchant]()
fails = MUTANTS.fails


def answers(check: str, operation: str, when: Callable[[Any], bool], status: int = 500) -> None:
    """Register a merchant that answers such an order with this status."""

    class Answering(CorrectMerchant):
        def wrong_answer(self, operation_: str, webhook: Received, data: Any) -> Reply | None:
            return Reply(status) if operation_ == operation and when(data) else None

    fails(check)(Answering)


def trusts(check: str, kind: bytes) -> None:
    class Trusting(CorrectMerchant):
        def fault_of(self, headers: Mapping[str, str], body: bytes) -> str | None:
            return None if kind in body else super().fault_of(headers, body)

    fails(check)(Trusting)


trusts("merchant.place.forged-refused", b'"order.place"')
trusts("merchant.events.sync-checked", b'"catalog.sync.')
trusts("merchant.events.cancelled-checked", b'"order.cancelled"')

# --- validate -------------------------------------------------------------------------------------


@fails("merchant.validate.accepted")
class TakesNoOrders(CorrectMerchant):
    def answer_validate(self, webhook: Received, act: Act) -> Reply:
        return Reply(200, {"isValid": False, "errors": [{"code": "STORE_CLOSED"}]})


class ChangingAmounts(CorrectMerchant):
    """Answers `order.validate` with other amounts."""

    def answer_validate(self, webhook: Received, act: Act) -> Reply:
        reply = super().answer_validate(webhook, act)
        if "amounts" in reply.value:
            self.spoil(reply.value["amounts"], webhook.json()["data"]["order"])
            del reply.value["amounts"]["total"]
        return reply

    def spoil(self, amounts: dict[str, Any], order: Any) -> None:
        raise NotImplementedError


@fails("merchant.validate.amounts-exact")
class Floats(ChangingAmounts):
    def spoil(self, amounts: dict[str, Any], order: Any) -> None:
        if 1 < order["cart"]["lineItems"][0]["quantity"] < 100:
            amounts["taxes"] = float(amounts["subTotal"]) * 0.05 + 1e-9
            del amounts["taxesDescription"]


@fails("merchant.validate.tip-kept")
class TakesTheTip(ChangingAmounts):
    def spoil(self, amounts: dict[str, Any], order: Any) -> None:
        amounts["fees"] = order["amounts"]["tip"]


@fails("merchant.validate.same-again")
class RaisesThePrice(ChangingAmounts):
    def spoil(self, amounts: dict[str, Any], order: Any) -> None:
        line = order["cart"]["lineItems"][0]["lineItemId"]
        self.times[line] += 1
        amounts["fees"] = str(Decimal("0.10") * self.times[line])


def _chosen(data: Any) -> list[str]:
    lines = data["order"]["cart"]["lineItems"]
    return [one["name"] for line in lines for group in line["modifierGroups"] for one in group["lineItems"]]


answers("merchant.validate.modifiers-agreed", "validate", lambda data: "Egg" in _chosen(data))
answers("merchant.validate.free-choice-agreed", "validate", lambda data: "Napkin" in _chosen(data))


class IgnoringPrices(CorrectMerchant):
    """Doesn't check prices in one operation."""

    where: str

    def sub_total_of(self, order: Mapping[str, Any]) -> Decimal | None:
        own = super().sub_total_of(order)
        return None if self.operation == self.where else own

    def amount_faults(self, order: Mapping[str, Any]) -> list[Error]:
        return [] if self.operation == self.where else super().amount_faults(order)


@fails("merchant.validate.wrong-prices-refused")
class IgnoresPricesAtValidate(IgnoringPrices):
    where = "validate"


@fails("merchant.place.wrong-prices-refused")
class IgnoresPricesAtPlace(IgnoringPrices):
    where = "place"


class IgnoringItems(CorrectMerchant):
    """Doesn't check items in one operation."""

    where: str

    def sub_total_of(self, order: Mapping[str, Any]) -> Decimal | None:
        try:
            return super().sub_total_of(order)
        except UnknownItemError:
            if self.operation == self.where:
                return None
            raise


@fails("merchant.validate.unknown-item-refused")
class IgnoresItemsAtValidate(IgnoringItems):
    where = "validate"


@fails("merchant.place.unknown-item-refused")
class IgnoresItemsAtPlace(IgnoringItems):
    where = "place"


@fails("merchant.validate.sold-out-refused")
class SellsWhatIsGone(CorrectMerchant):
    def item_faults(self, order: Mapping[str, Any]) -> list[Error]:
        return MerchantDouble.item_faults(self, order)


def _address(data: Any) -> Any:
    return data["order"]["fulfillment"].get("address")


answers("merchant.validate.unknown-members-ignored", "validate", lambda data: "addedLater" in data, 400)
answers("merchant.validate.members-any-order", "validate", lambda data: next(iter(data)) != "storeId", 400)
answers(
    "merchant.validate.unicode-names",
    "validate",
    lambda data: not data["order"].get("customer", {}).get("firstName", "").isascii(),
)
answers("merchant.validate.no-customer", "validate", lambda data: "customer" not in data["order"])
answers("merchant.validate.delivery", "validate", lambda data: bool((_address(data) or {}).get("city")))
answers(
    "merchant.validate.address-with-nulls",
    "validate",
    lambda data: _address(data) is not None and _address(data)["city"] is None,
)
answers(
    "merchant.validate.scheduled",
    "validate",
    lambda data: data["order"]["fulfillment"]["scheduleType"] == "SCHEDULED",
)
answers(
    "merchant.validate.many-units",
    "validate",
    lambda data: data["order"]["cart"]["lineItems"][0]["quantity"] > 999,
)
answers("merchant.validate.big-cart", "validate", lambda data: len(data["order"]["cart"]["lineItems"]) > 99)


@fails("merchant.validate.many-at-once")
class RefusesParallelRequests(CorrectMerchant):
    def wrong_answer(self, operation: str, webhook: Received, data: Any) -> Reply | None:
        if operation != "validate":
            return None
        line = data["order"]["cart"]["lineItems"][0]["lineItemId"]
        self.times[line] += 1
        return Reply(503) if self.times[line] > 10 else None


class UnreadVerdict(CorrectMerchant):
    """Says yes to one operation in its own words."""

    where: str

    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        reply = super().answer(operation, webhook, act)
        said = reply.value if reply.status == 200 and operation == self.where else {}
        return Reply(200, {"data": {"ok": True}}) if said.get("isValid") or said.get("accepted") else reply


@fails("merchant.validate.verdict-read")
class UnreadVerdictOfValidate(UnreadVerdict):
    where = "validate"


@fails("merchant.place.verdict-read")
class UnreadVerdictOfPlace(UnreadVerdict):
    where = "place"


# --- place ----------------------------------------------------------------------------------------

answers("merchant.place.accepted", "place", lambda _: True, 409)


@fails("merchant.place.repeat-same-answer")
class MarksDuplicates(CorrectMerchant):
    def answer_place(self, webhook: Received, act: Act) -> Reply:
        reply = super().answer_place(webhook, act)
        again = self.times[webhook.webhook_id] > 1 and reply.status == 200
        return Reply(200, {**reply.value, "duplicate": True}) if again else reply


@fails("merchant.place.repeat-one-order")
class ForgetsOrders(CorrectMerchant):
    def find_entry(self, webhook: Received) -> Any:
        return None


@fails("merchant.place.repeat-in-rotation")
class KnowsBySignature(CorrectMerchant):
    def find_entry(self, webhook: Received) -> Any:
        return None if " " in webhook.headers["webhook-signature"] else super().find_entry(webhook)


@fails("merchant.place.duplicates-at-once")
class Races(CorrectMerchant):
    def find_entry(self, webhook: Received) -> Any:
        return None if self.times[webhook.webhook_id] > 3 else super().find_entry(webhook)


@fails("merchant.place.lost-answer")
class ForgetsInterruptedOrders(CorrectMerchant):
    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        # No client library sends a head without it: this is the call whose answer nobody waits for.
        if "accept-encoding" not in webhook.headers:
            self.times["lost", webhook.webhook_id] += 1
        return super().answer(operation, webhook, act)

    def find_entry(self, webhook: Received) -> Any:
        return None if self.times["lost", webhook.webhook_id] else super().find_entry(webhook)


@fails("merchant.place.cut-off")
class FailsAfterHalfABody(CorrectMerchant):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.halves: set[str] = set()

    async def take(self, request: web.Request) -> web.StreamResponse:
        webhook_id = request.headers.get("webhook-id", "")
        if webhook_id in self.halves:
            return web.Response(status=500)
        self.halves.add(webhook_id)
        answer = await super().take(request)
        self.halves.discard(webhook_id)
        return answer


@fails("merchant.place.new-id-new-order")
class KnowsByContent(CorrectMerchant):
    def find_entry(self, webhook: Received) -> Any:
        mine = self.content(webhook.json()["data"])
        same = (entry for entry in self.book.values() if self.content(entry.data) == mine)
        return super().find_entry(webhook) or next(same, None)

    def content(self, data: Any) -> tuple[Any, ...]:
        order = data["order"]
        items = [line["itemId"] for line in order["cart"]["lineItems"]]
        return items, order["amounts"], data.get("payment")


@fails("merchant.place.refusal-repeated")
class ChangesItsMind(CorrectMerchant):
    def answer_place(self, webhook: Received, act: Act) -> Reply:
        reply = super().answer_place(webhook, act)
        return (
            Reply(200, {"accepted": True})
            if self.times[webhook.webhook_id] > 1 and reply.status != 200
            else reply
        )


@fails("merchant.place.amounts-kept")
class Reprices(CorrectMerchant):
    def answer_place(self, webhook: Received, act: Act) -> Reply:
        reply = super().answer_place(webhook, act)
        return Reply(200, {**reply.value, "amounts": {"fees": "1.00"}}) if reply.status == 200 else reply


@fails("merchant.place.card-not-echoed")
class EchoesThePayment(CorrectMerchant):
    def answer_place(self, webhook: Received, act: Act) -> Reply:
        reply = super().answer_place(webhook, act)
        data = webhook.json()["data"]
        return Reply(reply.status, {**reply.value, "paidWith": data.get("payment")})


@fails("merchant.place.card-declined")
class HidesThatACardIsDeclined(CorrectMerchant):
    def payment_faults(self, data: Mapping[str, Any]) -> list[Error]:
        return [{**fault, "code": "OTHER"} for fault in super().payment_faults(data)]


answers("merchant.place.unknown-members-ignored", "place", lambda data: "addedLater" in data, 400)
answers(
    "merchant.place.agent-order",
    "place",
    lambda data: any("\n" in (line["note"] or "") for line in data["order"]["cart"]["lineItems"]),
)
answers(
    "merchant.place.paid-elsewhere",
    "place",
    lambda data: (data.get("payment") or {}).get("type") == "somethingNew",
)

# --- cancel ---------------------------------------------------------------------------------------

trusts("merchant.cancel.forged-refused", b'"order.cancel"')
answers("merchant.cancel.answered", "cancel", lambda _: True, 404)
answers("merchant.cancel.no-message", "cancel", lambda data: data["message"] is None)
answers("merchant.cancel.unknown-members-ignored", "cancel", lambda data: "addedLater" in data, 400)


class Undecided(CorrectMerchant):
    """Decides again about some of the calls, and differently."""

    def answer_cancel(self, webhook: Received, act: Act) -> Reply:
        reply = super().answer_cancel(webhook, act)
        return Reply(409) if self.decides_again(webhook) else reply

    def decides_again(self, webhook: Received) -> bool:
        raise NotImplementedError


@fails("merchant.cancel.repeat-same-answer")
class RefusesRepeats(Undecided):
    def decides_again(self, webhook: Received) -> bool:
        return self.times[webhook.webhook_id] > 1


@fails("merchant.cancel.duplicates-at-once")
class RefusesParallelRepeats(Undecided):
    def decides_again(self, webhook: Received) -> bool:
        return self.times[webhook.webhook_id] > 3


@fails("merchant.cancel.lost-answer")
class ForgetsLostDecisions(Undecided):
    def answer(self, operation: str, webhook: Received, act: Act) -> Reply:
        # As above: no client library sends a head without it.
        if "accept-encoding" not in webhook.headers:
            self.times["lost", webhook.webhook_id] += 1
        return super().answer(operation, webhook, act)

    def decides_again(self, webhook: Received) -> bool:
        return self.times["lost", webhook.webhook_id] > 0 and self.times[webhook.webhook_id] > 2


# --- events ---------------------------------------------------------------------------------------


class RefusingEvents(CorrectMerchant):
    """Refuses events of one kind."""

    def answer_event(self, webhook: Received) -> Reply:
        return Reply(404) if self.refuses(webhook, webhook.json()) else super().answer_event(webhook)

    def refuses(self, webhook: Received, event: Any) -> bool:
        raise NotImplementedError


def refuses_events(check: str, refuses: Callable[[RefusingEvents, Received, Any], bool]) -> None:
    fails(check)(type("RefusingEvents", (RefusingEvents,), {"refuses": refuses}))


refuses_events(
    "merchant.events.catalog-sync-succeeded", lambda _, __, event: event["type"] == "catalog.sync.succeeded"
)
refuses_events(
    "merchant.events.catalog-sync-failed", lambda _, __, event: event["type"] == "catalog.sync.failed"
)
refuses_events(
    "merchant.events.catalog-sync-rolled-back", lambda _, __, event: "rolledBackFrom" in event["data"]
)
refuses_events("merchant.events.order-cancelled", lambda _, __, event: event["type"] == "order.cancelled")
refuses_events(
    "merchant.events.unknown-order-cancelled",
    lambda here, _, event: event["type"] == "order.cancelled" and event["data"]["orderId"] not in here.book,
)
refuses_events(
    "merchant.events.cancelled-again",
    lambda here, _, event: event["type"] == "order.cancelled" and event["data"]["orderId"] in here.cancelled,
)
refuses_events(
    "merchant.events.repeat-acknowledged",
    lambda here, webhook, event: "sync" in event["type"] and not here.is_new(webhook),
)
refuses_events(
    "merchant.events.unknown-type-acknowledged", lambda _, __, event: event["type"] == "catalog.sync.paused"
)
refuses_events("merchant.events.unknown-members-ignored", lambda _, __, event: "addedLater" in event)

# --- transport ------------------------------------------------------------------------------------


class FailingAtMethod(CorrectMerchant):
    """Answers a method that isn't for webhooks with a 500."""

    method: str

    async def serve_document(self, request: web.Request) -> web.StreamResponse:
        if request.method == self.method and request.path.startswith("/hooks"):
            return web.Response(status=500)
        return await super().serve_document(request)


@fails("merchant.transport.get")
class FailsAtGet(FailingAtMethod):
    method = "GET"


@fails("merchant.transport.head")
class FailsAtHead(FailingAtMethod):
    method = "HEAD"


# --- catalog --------------------------------------------------------------------------------------


@fails("merchant.catalog.served")
class ServesNothing(CorrectMerchant):
    def answer_document(self, path: str, headers: Mapping[str, str]) -> Reply:
        return Reply(404)


@fails("merchant.catalog.valid")
class ServesNonsense(CorrectMerchant):
    def answer_document(self, path: str, headers: Mapping[str, str]) -> Reply:
        reply = super().answer_document(path, headers)
        return (
            Reply(reply.status, b'{"items": {"a": {"basePrice": "cheap"}}}', reply.headers)
            if reply.value
            else reply
        )


@fails("merchant.catalog.not-modified")
class SendsItAgain(CorrectMerchant):
    def has_it(self, headers: Mapping[str, str], etag: str) -> bool:
        return False


@fails("merchant.catalog.etag-of-content")
class ChangesTheETag(CorrectMerchant):
    def answer_document(self, path: str, headers: Mapping[str, str]) -> Reply:
        if "If-None-Match" in headers:
            return Reply(304)
        reply = super().answer_document(path, headers)
        return Reply(reply.status, reply.value, {"ETag": f'"{self.fetched}"'})


for _name, _kind in RECEIVER_MUTANTS.items():
    fails(f"merchant.{_name}")(type(_kind.__name__, (_kind, CorrectMerchant), {}))
