"""Entries of an order's timeline in words, for people."""

from typing import Any, Final

from mercato_contract.orders import TimelineEntry

ATTEMPT: Final = "webhook.attempt"
"""The type of a timeline's entry for a call."""

_SENTENCES: Final = {
    "unanswered": "The store hasn't answered yet. The order is sent to it again.",
    "accepted": "The store accepted the order.",
}
"""What entries without details say."""

_NAMES: Final = {
    "cancelReason": "reason",
    "refusal": "the store's reason",
    "estimatedReadyAt": "ready at",
    "errors": "reason",
}
"""Members of an entry in words."""


def describe(entry: TimelineEntry) -> str:
    """Return the detail of an entry in words."""
    detail = entry.detail
    if entry.type == "placed":
        return f"{detail['total']} {detail['currency']}"
    if entry.type in _SENTENCES and not detail:
        return _SENTENCES[entry.type]
    if entry.type == ATTEMPT:
        answer = "no answer" if detail["status"] is None else f"HTTP {detail['status']}"
        reason = f": {detail['error']}" if detail.get("error") else ""
        call = f"{detail['event']} to the {detail['to']}, attempt {detail['number']}"
        return f"{call}: {answer}, {detail['ms']} ms{reason}"
    return ", ".join(f"{_NAMES.get(name, name)}: {_value(value)}" for name, value in detail.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_value(one) for one in value)
    if isinstance(value, dict):
        return " ".join(_value(one) for one in value.values() if one is not None)
    return str(value)
