"""Webhooks that are right but for one thing: other prices, other items, members that nobody knows."""

import json
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from mercato.catalog.money import get_scale, scaled, to_minor
from mercato.certify.sending import Message
from mercato.certify.shop import Draft
from mercato.wire import as_json

NOBODYS: Final = UUID("0190f5fe-0000-7000-8000-00000000dead")
"""An item that no catalog has."""


def rewritten(message: Message, change: Callable[[Any], Any]) -> Message:
    """Return the message with another body, signed as it is then."""
    return message.but(body=as_json(change(json.loads(message.body))))


def turned(value: Any) -> Any:
    """Return a JSON value with the members of every object in the opposite order."""
    if isinstance(value, list):
        return [turned(one) for one in value]
    if isinstance(value, dict):
        return {name: turned(one) for name, one in reversed(value.items())}
    return value


def with_item(item_id: UUID) -> Callable[[Any], Any]:
    """Return a change: every line is of another item, at the same price."""

    def change(document: Any) -> Any:
        for line in document["data"]["order"]["cart"]["lineItems"]:
            line |= {
                "itemId": str(item_id),
                "partnerItemId": str(item_id),
                "modifierGroups": [],
                "name": "Not on the menu",
            }
        return document

    return change


def halved(document: Any) -> Any:
    """Return an order at half its prices, which add up all the same."""
    order = document["data"]["order"]
    currency = order["amounts"]["currency"]
    scale = get_scale(currency)

    def less(text: str, by: int) -> str:
        return scaled(to_minor(text, currency) - by, scale)

    for line in order["cart"]["lineItems"]:
        each = to_minor(line["amounts"]["unitPrice"], currency) // 2
        line["amounts"] = {"unitPrice": scaled(each, scale), "total": scaled(each * line["quantity"], scale)}
    totals = [to_minor(line["amounts"]["total"], currency) for line in order["cart"]["lineItems"]]
    for holder in (order["cart"]["amounts"], order["amounts"]):
        by = to_minor(holder["subTotal"], currency) - sum(totals)
        holder |= {"subTotal": less(holder["subTotal"], by), "total": less(holder["total"], by)}
    return document


def at_half(draft: Draft) -> Draft:
    """Return what the halved order says that it costs. It must be one unit of one line."""
    return Draft(draft.order, replace(draft.sums, sub_total=draft.sums.sub_total // 2))
