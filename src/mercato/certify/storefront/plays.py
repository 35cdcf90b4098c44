"""Purchases that are staged: what the shops are like, what goes wrong, and what a person is told to do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mercato import errors
from mercato.certify.shop import Shop
from mercato.certify.storefront.drivers import Ended
from mercato.certify.storefront.menus import Offer, Trap, offer, street
from mercato.certify.storefront.network import Call, Script, Turn
from mercato.errors import OrderError

WAIT: Final = 1
"""Seconds that the storefront is told to wait."""

UNKNOWN: Final = "WEATHER_TOO_BAD"
"""A reason that nobody knows yet."""


def one() -> Sequence[Offer]:
    """Return the usual store."""
    return (offer(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One staged purchase. `times`: how often it is bought there; `slow`: how many of the pace's long waits pass."""

    words: str
    offers: Callable[[], Sequence[Offer]] = one
    script: Script = field(default_factory=dict)
    is_later: bool = False
    times: int = 1
    is_slow: bool = False
    names_store: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it: every call, in the order of their answers."""

    calls: tuple[Call, ...]
    ended: Ended
    shops: Sequence[Shop]
    key: str = field(repr=False)
    is_kept: bool = False

    def of(self, *operations: str) -> list[Call]:
        """Return the calls of these operations, in the order in which they came."""
        return sorted((one for one in self.calls if one.operation in operations), key=lambda one: one.began)

    @property
    def placed(self) -> list[Call]:
        """Return the calls that placed an order, or found it placed."""
        return [one for one in self.of("place") if one.status == 201]  # noqa: PLR2004  # created

    @property
    def shop(self) -> Shop:
        """Return the first shop."""
        return self.shops[0]


def _invalid(code: str, message: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a change: what was found valid is not."""

    def change(said: dict[str, Any]) -> dict[str, Any]:
        reason = {"code": code, "message": message, "pointer": None}
        order = said["order"] | {"errors": [reason]}
        return said | {"isValid": False, "validatedOrderToken": None, "order": order}

    return change


def _unheard_of(members: dict[str, Any]) -> dict[str, Any]:
    more = {"status": 400, "errorCode": UNKNOWN, "errorCategory": "weather", "retryable": False}
    reason = {"code": UNKNOWN, "message": "Nobody rides in this weather.", "pointer": None}
    return members | more | {"title": "Not in this weather", "errors": [reason]}


def _bare(_members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "about:blank", "title": "The order is not taken", "status": 422}


def _busy() -> errors.Problem:
    return errors.ServiceUnavailable("The service is busy.", retry_after=WAIT)


def _unreachable() -> errors.Problem:
    return errors.StoreUnreachable("The store's system did not answer.", retry_after=WAIT)


def _limited() -> errors.Problem:
    return errors.RateLimited("Too many requests.", retry_after=WAIT)


def _declined() -> errors.Problem:
    reason = OrderError(code="PAYMENT_DECLINED", message="The bank declines this card.")
    return errors.PaymentDeclined(reason.message, errors=[reason])


def _different() -> errors.Problem:
    return errors.OrderTotalDifferent("The order's total is another one now.")


def _running() -> errors.Problem:
    return errors.RequestInProgress("The first request is still running.", retry_after=WAIT)


def _unknown_key() -> errors.Problem:
    return errors.Unauthenticated("This key is not known any more.", sent=True)


PLAYS: Final[Mapping[str, Play]] = {
    "plain": Play(words="nothing goes wrong"),
    "slow": Play(words="the store takes long", is_slow=True),
    "busy": Play(words="the service is busy twice", script={"place": (Turn(problem=_busy),) * 2}),
    "unreachable": Play(
        words="the store does not answer once", script={"place": (Turn(problem=_unreachable),)}
    ),
    "dropped": Play(words="an answer is lost", script={"place": (Turn(drop=True),)}),
    "running": Play(
        words="the order is still being placed",
        script={"place": (Turn(problem=_running),)},
    ),
    "limited": Play(words="too many requests", script={"validate": (Turn(problem=_limited),)}),
    "validate-busy": Play(words="validation is busy once", script={"validate": (Turn(problem=_busy),)}),
    "traps": Play(words="some items can't be had", offers=lambda: (offer(trap=Trap.GONE),)),
    "choices": Play(words="an item needs a choice", offers=lambda: (offer(trap=Trap.CHOICE),)),
    "later": Play(words="answers of a later version", is_later=True),
    "refused": Play(
        words="the store says no",
        script={"validate": (Turn(change=_invalid("ITEM_UNAVAILABLE", "It has just been sold.")),) * 9},
    ),
    "unheard-of": Play(
        words="the store says no, for a reason that is new",
        script={"validate": (Turn(change=_invalid(UNKNOWN, "Nobody rides in this weather.")),) * 9},
    ),
    "new-problem": Play(
        words="the order is refused for a reason that is new",
        script={"place": (Turn(problem=_declined, change=_unheard_of),) * 9},
    ),
    "bare-problem": Play(
        words="the order is refused without a reason",
        script={"place": (Turn(problem=_declined, change=_bare),) * 9},
    ),
    "declined": Play(words="the card is declined", script={"place": (Turn(problem=_declined),) * 9}),
    "different": Play(words="the total has changed", script={"place": (Turn(problem=_different),) * 9}),
    "locked-out": Play(words="the key is not known", script={"*": (Turn(problem=_unknown_key),)}),
    "street": Play(words="there are many stores", offers=street, names_store=False),
    "dinars": Play(words="in dinars, with three decimals", offers=lambda: (offer(currency="KWD"),)),
    "yen": Play(words="in yen, without decimals", offers=lambda: (offer(currency="JPY"),)),
    "follow-limited": Play(
        words="the order is followed, and then: too many requests",
        script={"order": (Turn(problem=_limited),) * 3},
    ),
    "again": Play(words="twice in the same store", times=2),
}
