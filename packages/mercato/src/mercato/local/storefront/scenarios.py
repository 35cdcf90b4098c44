"""The scenarios in which a storefront buys: its stores, what goes wrong, words for a person, and the run of each."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Self, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Struct

from mercato.features.orders.errors import (
    CancellationRefused,
    OrderTotalDifferent,
    PaymentDeclined,
    StoreUnreachable,
)
from mercato.local.storefront.drivers import Driver, PurchaseEnd
from mercato.local.storefront.proxy import Call, Fault, FaultProxy, Faults
from mercato.local.storefront.service import Offer, Service, many_stores, offer, running_service
from mercato.platform import errors
from mercato_client.testing.caller import open_session
from mercato_client.testing.server import app_of, listening
from mercato_contract.problems import OrderError
from mercato_contract.refusals import Problem
from mercato_tools.certify.sample_store import SampleStore, with_unknown_members
from mercato_tools.certify.suite import Skipped, UnusableTargetError

RETRY_SECONDS: Final = 1
"""The Retry-After of the service's problems."""

UNKNOWN: Final = "WEATHER_TOO_BAD"
"""A reason that no storefront knows yet."""

ALWAYS: Final = 9
"""More often than any storefront tries."""

MAX_BODY: Final = 4 << 20


def one_store() -> Sequence[Offer]:
    return (offer(),)


class Scenario(Struct, frozen=True):
    """One purchase, or several in the same stores. In a slow one, placing takes as long as the options say.

    Scenarios with the same `offers` have one service, which knows the storefront of each as another partner.
    With `cancels` the customer cancels the order, which its store hasn't begun.
    """

    situation: str
    faults: Faults = msgspec.field(default_factory=dict)
    offers: Callable[[], Sequence[Offer]] = one_store
    times: int = 1
    is_slow: bool = False
    names_store: bool = True
    cancels: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """The result of a scenario: every request, and how the purchase ended."""

    calls: tuple[Call, ...]
    end: PurchaseEnd
    stores: Sequence[SampleStore]
    key: str = field(repr=False)
    is_one_storefront: bool = False

    def of(self, *operations: str) -> list[Call]:
        """Return the requests of these operations, in the order in which they arrived."""
        return [call for call in self.calls if call.operation in operations]

    @property
    def placed(self) -> list[Call]:
        """The requests that placed an order, or found it placed."""
        return [call for call in self.of("place") if call.status == HTTPStatus.CREATED]


# --- faults ----------------------------------------------------------------------------------------


def _invalid(code: str, message: str) -> Fault:
    """Return the fault that a valid order is reported as invalid."""
    reason = {"code": code, "message": message, "pointer": None}

    def change(answer: dict[str, Any]) -> dict[str, Any]:
        if "order" not in answer:
            return answer
        order = answer["order"] | {"errors": [reason]}
        return answer | {"isValid": False, "validatedOrderToken": None, "order": order}

    return Fault(change=change)


def _unknown_problem(members: dict[str, Any]) -> dict[str, Any]:
    reason = {"code": UNKNOWN, "message": "Nobody rides in this weather.", "pointer": None}
    return members | {
        "status": HTTPStatus.BAD_REQUEST,
        "errorCode": UNKNOWN,
        "errorCategory": "weather",
        "retryable": False,
        "title": "Not in this weather",
        "errors": [reason],
    }


def _bare_problem(_members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "about:blank", "title": "The order is refused", "status": 422}


def _later(kind: type[Problem], detail: str) -> Fault:
    return Fault(problem=kind(detail, retry_after=RETRY_SECONDS))


_DECLINED: Final = PaymentDeclined(
    "The bank declines this card.",
    errors=[OrderError(code="PAYMENT_DECLINED", message="The bank declines this card.")],
)
_BUSY: Final = _later(errors.ServiceUnavailable, "The service is busy.")
_UNREACHABLE: Final = _later(StoreUnreachable, "The store's system did not answer.")
_LIMITED: Final = _later(errors.RateLimited, "Too many requests.")
_RUNNING: Final = _later(errors.RequestInProgress, "The first request is still running.")
_DIFFERENT: Final = Fault(problem=OrderTotalDifferent("The order's total has changed."))
_UNAUTHENTICATED: Final = Fault(problem=errors.Unauthenticated("This key isn't known any more.", sent=True))


_NOT_CANCELLED: Final = Fault(problem=CancellationRefused("The store does not cancel the order."))


def _at(operation: str, fault: Fault, times: int = 1) -> Faults:
    return {operation: (fault,) * times}


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "plain": Scenario("nothing goes wrong"),
    "slow": Scenario("the store takes long", is_slow=True),
    "busy": Scenario("the service is busy twice", _at("place", _BUSY, 2)),
    "unreachable": Scenario("the store does not answer once", _at("place", _UNREACHABLE)),
    "dropped": Scenario("an answer is lost", _at("place", Fault(drop=True))),
    "running": Scenario("the order is still being placed", _at("place", _RUNNING)),
    "limited": Scenario("too many requests", _at("validate", _LIMITED)),
    "validate-busy": Scenario("validation is busy once", _at("validate", _BUSY)),
    "unavailable": Scenario("some items are not available", offers=lambda: (offer(unavailable_first=True),)),
    "choices": Scenario("an item requires a modifier", offers=lambda: (offer(choice_first=True),)),
    "later": Scenario("the service has a later version", _at("*", Fault(change=with_unknown_members))),
    "refused": Scenario(
        "the store refuses the order",
        _at("validate", _invalid("ITEM_UNAVAILABLE", "It has just been sold."), ALWAYS),
    ),
    "unknown-reason": Scenario(
        "the store refuses the order for a new reason",
        _at("validate", _invalid(UNKNOWN, "Nobody rides in this weather."), ALWAYS),
    ),
    "unknown-problem": Scenario(
        "the order is refused for a new reason",
        _at("place", Fault(problem=_DECLINED, change=_unknown_problem), ALWAYS),
    ),
    "bare-problem": Scenario(
        "the order is refused without a reason",
        _at("place", Fault(problem=_DECLINED, change=_bare_problem), ALWAYS),
    ),
    "declined": Scenario("the card is declined", _at("place", Fault(problem=_DECLINED), ALWAYS)),
    "different": Scenario("the total has changed", _at("place", _DIFFERENT, ALWAYS)),
    "locked-out": Scenario("the key is not known", _at("*", _UNAUTHENTICATED)),
    "many-stores": Scenario("there are many stores", offers=many_stores, names_store=False),
    "dinars": Scenario("in dinars, with three decimals", offers=lambda: (offer(currency="KWD"),)),
    "yen": Scenario("in yen, without decimals", offers=lambda: (offer(currency="JPY"),)),
    "follow-limited": Scenario("the order is followed, then: too many requests", _at("order", _LIMITED, 3)),
    "cancel": Scenario("then cancel it", cancels=True),
    "cancel-unreachable": Scenario(
        "then cancel it, while the store does not answer once", _at("cancel", _UNREACHABLE), cancels=True
    ),
    "cancel-dropped": Scenario(
        "then cancel it, and an answer is lost", _at("cancel", Fault(drop=True)), cancels=True
    ),
    "cancel-refused": Scenario(
        "then cancel it, which the store refuses", _at("cancel", _NOT_CANCELLED, ALWAYS), cancels=True
    ),
    # In a store of its own: a storefront that still has the menu of another scenario doesn't read it.
    "again": Scenario("twice in the same store", offers=lambda: (offer(),), times=2),
}


Stores: TypeAlias = tuple[Callable[[], Sequence[Offer]], bool]
"""The stores of a service: what they sell, and whether the merchant leaves their orders to be cancelled."""


class ScenarioRunner:
    """Runs a scenario when its result is first asked for."""

    def __init__(self, driver: Driver | None, *, key: str, slow_seconds: float) -> None:
        self._driver = driver
        self._key = key
        self._slow_seconds = slow_seconds
        self._slots = asyncio.Semaphore(driver.concurrency if driver is not None else 1)
        self._tasks: dict[str, asyncio.Task[ScenarioResult]] = {}
        self._stack = AsyncExitStack()
        self._services: dict[Stores, Callable[[], Awaitable[Service]]] = {}
        self._opening: defaultdict[Stores, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._base = ""
        self._current: FaultProxy | None = None

    async def __aenter__(self) -> Self:
        """Listen, if there is one port for all scenarios. Raises UnusableTargetError."""
        if self._driver is not None and self._driver.port is not None:
            app, port = app_of(self._handle, max_body=MAX_BODY), self._driver.port
            try:
                self._base = await self._stack.enter_async_context(listening(app, port=port))
            except OSError as error:
                raise UnusableTargetError(
                    f"The certifier can't listen on port {port}: {error.strerror}. Take another one with --listen."
                ) from None
        return self

    async def result(self, name: str) -> ScenarioResult:
        """Return the result of a scenario. Raises Skipped when there is no storefront."""
        if self._driver is None:
            raise Skipped("Say how to drive the storefront: --command, or --listen.")
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._run(SCENARIOS[name], self._driver))
        return await asyncio.shield(self._tasks[name])

    async def __aexit__(self, *_error: object) -> None:
        """Stop the scenarios that are still running."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._stack.aclose()

    async def _run(self, scenario: Scenario, driver: Driver) -> ScenarioResult:
        faults = {"place": (Fault(seconds=self._slow_seconds),)} if scenario.is_slow else scenario.faults
        async with self._slots, open_session() as session:
            service = await self._service(scenario)
            proxy = FaultProxy(service, session, key=self._key, faults=faults)
            store_id = str(service.stores[0].store.id) if scenario.names_store else ""
            async with self._published(proxy):
                for number in range(scenario.times):
                    again = ", once more" if number else ""
                    end = await driver.buy(
                        proxy, store_id, scenario.situation + again, cancels=scenario.cancels
                    )
        return ScenarioResult(
            calls=proxy.calls,
            end=end,
            stores=service.stores,
            key=self._key,
            is_one_storefront=driver.is_one_storefront,
        )

    async def _service(self, scenario: Scenario) -> Service:
        """Return the service of a scenario, which runs until the last scenario has ended."""
        stores = scenario.offers, scenario.cancels
        async with self._opening[stores]:
            if stores not in self._services:
                service = running_service(scenario.offers(), works=not scenario.cancels)
                self._services[stores] = await self._stack.enter_async_context(service)
        return await self._services[stores]()

    @asynccontextmanager
    async def _published(self, proxy: FaultProxy) -> AsyncIterator[None]:
        """Make a proxy reachable, on the one port if there is one."""
        if not self._base:
            async with listening(app_of(proxy.handle, max_body=MAX_BODY)) as proxy.base:
                yield
            return
        proxy.base, self._current = self._base, proxy
        try:
            yield
        finally:
            self._current = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Handle a request to the one port. Between two scenarios the client gets an answer that it should retry."""
        if self._current is None:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})
        return await self._current.handle(request)
