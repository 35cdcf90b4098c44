"""What operators see of an order: not its customer, the address, the device, nor what partners wrote of them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mercato.features.orders.record import OrderRow, StoreAnswer
from mercato.features.webhooks.operators import HIDDEN
from mercato_contract.orders import ClientContext, Customer, DeliveryFulfillment, Fulfillment, TimelineEntry
from mercato_contract.problems import ORDER_ERROR_CODES, OTHER, OrderError, default_message

_WORD: Final = re.compile(r"[^\W_]+")
_CODE: Final = re.compile(r"[A-Z0-9_]+", re.ASCII)

_MIN_LENGTH: Final = 3
"""Letters and digits of a shorter text that others contain by chance, such as the two letters of a state."""

_MIN_RUN: Final = 6
"""Letters and digits of a text that is found in others whatever stands between them, as in a phone number."""

_SHOWN: Final = frozenset(
    {
        *("total", "currency", "status", "state", "estimatedReadyAt"),
        *("event", "to", "number", "ms", "succeeded", "error", "deliveryId"),
    }
)
"""Members of a timeline's entries whose texts are this service's."""


def mask_order(row: OrderRow) -> OrderRow:
    """Return the order as operators see it."""
    private = private_texts(row.customer, row.client_context, row.fulfillment)
    return replace(
        row,
        customer=None,
        client_context=None,
        fulfillment=without_address(row.fulfillment),
        errors=tuple(map(_mask_error, row.errors)),
        partner_order_id=mask_text(row.partner_order_id, private),
        cancel_reason=mask_reason(row.cancel_reason, row.answer, private),
    )


def mask_entry(entry: TimelineEntry, private: Sequence[str]) -> TimelineEntry:
    """Return an entry of an order's timeline as operators see it."""
    return replace(entry, detail={name: _mask_member(name, at, private) for name, at in entry.detail.items()})


def _mask_member(name: str, value: Any, private: Sequence[str]) -> Any:
    if name in _SHOWN:
        return value
    if name == "errors":
        reasons = map(_mask_error, msgspec.convert(value, list[OrderError]))
        return [{"code": one.code, "message": one.message} for one in reasons]
    return _mask_words(value, private) if name == "cancelReason" else HIDDEN


def _mask_error(error: OrderError) -> OrderError:
    """Return a store's reason in the words of its code."""
    code = _mask_code(error.code)
    return OrderError(code=code, message=default_message(code), pointer=None)


def _mask_code(code: str) -> str:
    return code if code in ORDER_ERROR_CODES else OTHER


def mask_reason(text: str | None, answer: StoreAnswer, private: Sequence[str]) -> str | None:
    """Return why an order was cancelled. If its store refused it, that is the store's code."""
    if text is None:
        return None
    return _mask_code(text) if answer is StoreAnswer.REFUSED else _mask_words(text, private)


def _mask_words(text: str, private: Sequence[str]) -> str | None:
    """Return a partner's reason. Once the customer is erased, only a code: nothing tells what words repeat."""
    return mask_text(text, private) if private or _CODE.fullmatch(text) else HIDDEN


def mask_text(text: str | None, private: Sequence[str]) -> str | None:
    """Return a partner's words, or `***` if they repeat one of the private texts."""
    if text is None:
        return None
    words = _words(text)
    run = words.replace(" ", "")
    for one in private:
        short = one.replace(" ", "")
        is_run = len(short) >= _MIN_RUN or not short.isascii()
        if f" {one} " in f" {words} " or (is_run and short in run):
            return HIDDEN
    return text


def private_texts(
    customer: Customer | None, client_context: ClientContext | None, fulfillment: Fulfillment
) -> tuple[str, ...]:
    """Return what an order says of its customer, as words in lower case; nothing once the customer is erased."""
    delivery = fulfillment if isinstance(fulfillment, DeliveryFulfillment) else None
    names = [] if customer is None else f"{customer.first_name} {customer.last_name}".split()
    said = [
        customer,
        client_context,
        delivery and delivery.address,
        delivery and delivery.instructions,
        names,
    ]
    found = dict.fromkeys(_words(text) for text in _texts(msgspec.to_builtins(said)))
    return tuple(text for text in found if len(text) >= _MIN_LENGTH or not text.isascii())


def without_address(fulfillment: Fulfillment) -> Fulfillment:
    """Return how the order is handed over, without where."""
    if isinstance(fulfillment, DeliveryFulfillment):
        return replace(fulfillment, address=None, instructions=None)
    return fulfillment


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case float():
            yield str(value)
        case dict():
            for below in value.values():
                yield from _texts(below)
        case list():
            for below in value:
                yield from _texts(below)
        case _:
            pass
