"""How a storefront cancels an order: under a key of its own, again after what may pass, and never after a refusal."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from mercato.tools.certify.storefront.context import StorefrontContext, after
from mercato.tools.certify.storefront.failures import not_repeated
from mercato.tools.certify.storefront.proxy import Call
from mercato.tools.certify.storefront.purchases import key_length
from mercato.tools.certify.storefront.scenarios import ScenarioResult
from mercato.tools.certify.suite import Failed, Run, Skipped

Context = StorefrontContext


def _calls(context: Context, result: ScenarioResult) -> list[Call]:
    """Return the cancellations. Raises Skipped for a storefront that doesn't cancel."""
    calls = result.of("cancel")
    context.show(calls or result.of("place"))
    if not calls:
        raise Skipped("It doesn't cancel orders. With MERCATO_CANCEL a command has to: it is the reason.")
    return calls


def _sent(context: Context, result: ScenarioResult) -> str:
    last = _calls(context, result)[-1]
    if last.status != HTTPStatus.OK:
        raise Failed(f"The last response was {last.status}. {result.end.message}".strip())
    return "cancelled"


def _key(context: Context, result: ScenarioResult) -> str:
    return key_length(_calls(context, result)[0])


def _cancelled_in_the_end(context: Context, result: ScenarioResult) -> str:
    calls = _calls(context, result)
    if len(calls) == 1:
        raise Failed("It gave up after the first attempt.")
    if len({call.headers.get("idempotency-key") for call in calls}) > 1:
        raise Failed("It sent the cancellation again with another key.")
    if calls[-1].status != HTTPStatus.OK:
        raise Failed("It gave up before the order was cancelled.")
    return "sent again with the same key, and cancelled"


CANCEL: Final[Mapping[str, Run[Context]]] = {
    "sent": after("cancel", _sent),
    "key": after("cancel", _key),
    "store-unreachable": after("cancel-unreachable", _cancelled_in_the_end),
    "lost-answer": after("cancel-dropped", _cancelled_in_the_end),
    "refused-not-repeated": after("cancel-refused", not_repeated("cancel")),
}
