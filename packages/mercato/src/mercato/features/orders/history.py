"""An order's history in sentences: what happened, and what is worth knowing about it."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from mercato.features.orders.lifecycle import STORE_UNREACHABLE
from mercato.features.orders.rules import NOT_ACCEPTED
from mercato.features.orders.sentences import SAYS_WHO, readable
from mercato_contract.orders import Actor, AdjustmentType, OrderStatus, TimelineEntry

_ACTORS: Final = {
    Actor.STOREFRONT: "the storefront",
    Actor.STORE: "the store",
    Actor.MERCHANT: "the merchant",
    Actor.SERVICE: "an operator",
}

_STATUSES: Final = {
    OrderStatus.CONFIRMED: "Confirmed",
    OrderStatus.PREPARING: "In preparation",
    OrderStatus.READY: "Ready",
    OrderStatus.IN_TRANSIT: "On its way",
}

_UPDATES: Final = {
    "courier": "Courier assigned",
    "estimatedReadyAt": "Promised for another time",
    "estimatedDeliveryAt": "Delivery expected",
    "partnerOrderId": "Numbered by the store",
}

_TITLES: Final = {
    "accepted.late": "Accepted by the store, too late",
    "refused": "Refused by the store",
    "unanswered": "No answer from the store yet",
    "pending": "Waiting for a person at the store",
    "completed": "Completed",
    "cancellation.requested": "The storefront asked to cancel it",
    "cancellation.accepted": "Cancelled while the store was asked",
    "cancellation.refused": "The store refused to cancel it",
    "cancellation.unanswered": "The store never answered the request to cancel it",
}

ADJUSTMENTS: Final = {
    AdjustmentType.REFUND: "Refund",
    AdjustmentType.FEE: "Fee",
    AdjustmentType.SUBSTITUTION: "Substitution",
}

_OWN_REASONS: Final = {
    STORE_UNREACHABLE: "The store never answered",
    NOT_ACCEPTED: "Nobody accepted it in time",
}


def title_of(entry: TimelineEntry) -> str:
    """Return what happened, in a few words."""
    detail = entry.detail
    match entry.type:
        case "placed":
            return f"Placed by agent {detail['agent']}" if "agent" in detail else "Placed by the storefront"
        case "accepted":
            return f"Accepted by the {'service' if entry.actor == Actor.SERVICE else 'store'}"
        case "cancelled" if detail.get("cancelReason") in {STORE_UNREACHABLE, NOT_ACCEPTED}:
            return "Cancelled by the service"
        case "cancelled":
            return f"Cancelled by {_ACTORS.get(Actor(entry.actor), entry.actor)}"
        case "updated" if "status" in detail:
            return _STATUSES.get(detail["status"]) or str(detail["status"])
        case "updated":
            return next((words for name, words in _UPDATES.items() if name in detail), "Updated")
        case "cancellation.refused" if entry.actor == Actor.SERVICE:
            return "Its cancellation was refused"
        case "adjusted":
            return ADJUSTMENTS.get(detail["adjustment"], "Adjustment")
    return _TITLES.get(entry.type, entry.type.replace(".", " ").capitalize())


def note_of(entry: TimelineEntry, *, show_instant: Callable[[str], str]) -> str:
    """Return what is worth knowing about it, in sentences, or "". `show_instant` turns RFC 3339 into words."""
    detail = entry.detail
    if entry.type == "placed":
        return f"{detail['total']} {detail['currency']}"
    if entry.type == "accepted" and entry.actor == Actor.SERVICE:
        return "Nobody is called about the store's orders."
    if entry.type == "unanswered":
        return "The order is sent to it again."
    said_by_store = entry.actor != Actor.SERVICE
    sentences = (
        text.rstrip(".") for text in _notes(detail, show_instant, said_by_store=said_by_store) if text
    )
    return " ".join(f"{text}." for text in sentences)


def _notes(
    detail: dict[str, Any], show_instant: Callable[[str], str], *, said_by_store: bool
) -> Iterator[str]:
    yield str(detail.get("amount") or "")
    if number := detail.get("partnerOrderId"):
        yield f"Its number is {number}"
    if at := detail.get("estimatedReadyAt"):
        yield f"Ready at {show_instant(str(at))}"
    if at := detail.get("estimatedDeliveryAt"):
        yield f"Delivered at {show_instant(str(at))}"
    if (reason := detail.get("cancelReason") or detail.get("reason")) is not None:
        yield "" if reason in SAYS_WHO else _OWN_REASONS.get(reason, f"Reason: {readable(reason)}")
    if refusal := detail.get("refusal"):
        yield f"The store says: {readable(refusal)}" if said_by_store else refusal
    for error in detail.get("errors") or ():
        yield str(error.get("message") or error.get("code"))
    yield str(detail.get("storeNotified") or "")
