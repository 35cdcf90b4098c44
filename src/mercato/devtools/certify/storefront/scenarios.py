"""The scenarios in which a storefront buys: its stores, what goes wrong, and the words for a person who buys."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from mercato.devtools.certify.mutations import with_unknown_members
from mercato.devtools.certify.sample_store import SampleStore
from mercato.devtools.certify.storefront.drivers import PurchaseEnd
from mercato.devtools.certify.storefront.proxy import Call, Fault, Script
from mercato.devtools.certify.storefront.stores import Offer, many_stores, offer
from mercato.kernel import errors
from mercato.kernel.errors import OrderError

RETRY_SECONDS: Final = 1
"""The Retry-After of the service's problems."""

UNKNOWN: Final = "WEATHER_TOO_BAD"
"""A reason that no storefront knows yet."""

ALWAYS: Final = 9
"""More often than any storefront tries."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One purchase, or several in the same stores. In a slow one, placing takes as long as the options say."""

    situation: str
    script: Script = field(default_factory=dict)
    offers: Callable[[], Sequence[Offer]] = lambda: (offer(),)
    times: int = 1
    is_slow: bool = False
    names_store: bool = True


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


def _later(kind: type[errors.Problem], detail: str) -> Fault:
    return Fault(problem=kind(detail, retry_after=RETRY_SECONDS))


_DECLINED: Final = errors.PaymentDeclined(
    "The bank declines this card.",
    errors=[OrderError(code="PAYMENT_DECLINED", message="The bank declines this card.")],
)
_BUSY: Final = _later(errors.ServiceUnavailable, "The service is busy.")
_UNREACHABLE: Final = _later(errors.StoreUnreachable, "The store's system did not answer.")
_LIMITED: Final = _later(errors.RateLimited, "Too many requests.")
_RUNNING: Final = _later(errors.RequestInProgress, "The first request is still running.")
_DIFFERENT: Final = Fault(problem=errors.OrderTotalDifferent("The order's total has changed."))
_UNAUTHENTICATED: Final = Fault(problem=errors.Unauthenticated("This key isn't known any more.", sent=True))


def _at(operation: str, fault: Fault, times: int = 1) -> Script:
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
    "again": Scenario("twice in the same store", times=2),
}
