"""The customers of orders: erased on request and after some time, and masked for operators.

Erasing takes the customer, its device, its address, its notes, its courier and the reasons of its adjustments; the rest
of the order stays, with all amounts, and so do its events in the feeds, without these. The order's webhook bodies and
pinned replies are deleted, because they contain the same. Operators see neither, nor what partners wrote of them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace
from sqlalchemy import and_, func, select, update

from mercato.features.events.log import rewrite_of_orders
from mercato.features.orders.record import (
    Notes,
    OrderRow,
    StoreAnswer,
    StoredAdjustment,
    StoredCancellation,
    with_notes,
)
from mercato.features.orders.search import (
    ContactKeys,
    find_countries,
    find_country_code,
    forget_customers,
    list_orders_having,
    may_be_phone,
    normal_email,
    normal_phone,
)
from mercato.features.orders.tables import idempotency_keys as keys
from mercato.features.orders.tables import orders
from mercato.features.webhooks.operators import HIDDEN
from mercato.features.webhooks.queries import delete_of_orders, delete_validations, list_validations
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Database, Read, Write
from mercato.platform.db.search import ESCAPE, pattern_of
from mercato.platform.db.write_behind import FLUSH_SECONDS
from mercato_contract.events import (
    Envelope,
    MerchantOrderData,
    OrderCancelledData,
    OrderEventData,
    WebhookOrder,
    find_payload,
)
from mercato_contract.orders import CommerceOrder, Order, TimelineEntry
from mercato_contract.placements import NO_CONTEXT, ClientContext, Customer, DeliveryFulfillment, Fulfillment
from mercato_contract.problems import ORDER_ERROR_CODES, OTHER, OrderError, default_message
from mercato_contract.texts import texts_in
from mercato_contract.wire import Wire, as_json

_O = TypeVar("_O", Order, CommerceOrder, WebhookOrder)
_P = TypeVar("_P", Order, CommerceOrder)

_WORD: Final = re.compile(r"[^\W_]+")
_CODE: Final = re.compile(r"[A-Z0-9_]+", re.ASCII)

_MIN_LENGTH: Final = 3
"""Letters and digits of a shorter text that others contain by chance, such as the two letters of a state."""

_MIN_RUN: Final = 6
"""Letters and digits of a text that is found in others whatever stands between them, as in a phone number."""

_MIN_PHONE: Final = 7
"""Digits of a phone number of which two tell little."""

_DOTS: Final = "\N{BULLET}\N{BULLET} \N{BULLET}\N{BULLET}\N{BULLET}"

_SHOWN: Final = frozenset(
    {
        *("total", "currency", "status", "state", "estimatedReadyAt", "estimatedDeliveryAt", "courier"),
        *("adjustment", "amount"),
        *("event", "to", "number", "ms", "succeeded", "error", "deliveryId", "agent"),
    }
)
"""Members of a timeline's entries whose texts are this service's, and the name of the agent that placed the order."""


# --- erasing --------------------------------------------------------------------------------------


class _Order(Wire):
    customer: Customer | None = None


class _Data(Wire):
    store_id: UUID
    order: _Order


class _ValidateBody(Wire):
    """The body of a validate webhook, as far as it names the customer."""

    data: _Data


_validate_body: Final = msgspec.json.Decoder(_ValidateBody)
_customer: Final = msgspec.json.Decoder(Customer | None)
_fulfillment: Final = msgspec.json.Decoder(Fulfillment)
_cancellation: Final = msgspec.json.Decoder(StoredCancellation)
_adjustments: Final = msgspec.json.Decoder(tuple[StoredAdjustment, ...])

BATCH: Final = 100
"""Orders per transaction: servers write in between."""

LOG_SECONDS: Final = 10.0
"""How long to wait for readers of the database. A server's take milliseconds."""

WRITTEN_SECONDS: Final = 2 * FLUSH_SECONDS
"""After this, servers have written the validations that they had in memory."""

_HAS_CUSTOMER: Final = orders.c.client_context.is_not(None)


class CustomerRecords(Struct, frozen=True):
    """What is stored of a customer: orders, and recorded validations."""

    orders: list[UUID]
    validations: int


async def find_all(db: Database, name: str, contacts: ContactKeys | None = None) -> CustomerRecords:
    """Return what `erase_all` would erase, read in batches."""
    found = await _find_all(db, find_orders, name)
    if contacts is not None:
        found += await _find_all(db, partial(find_orders_of_contact, contacts=contacts), name)
    validations = await _find_all(db, find_validations, name)
    return CustomerRecords(sorted(set(found)), len(validations))


async def erase_all(db: Database, name: str, contacts: ContactKeys | None = None) -> tuple[int, bool]:
    """Erase a customer in batches; return from how many orders, and whether the database's files forget it, too.

    With `contacts` also from the orders that the console finds by this e-mail address or phone number, however they
    were written. The files don't forget it as long as a reader, a backup perhaps, keeps SQLite's log in use: repeat the
    call when it has ended.
    """
    count = await _erase_all(db, erase_customer, name)
    if contacts is not None:
        count += await _erase_all(db, partial(erase_contact, contacts=contacts), name)
    await asyncio.sleep(WRITTEN_SECONDS)
    await _erase_all(db, erase_validations, name)
    return count, await db.empty_log(seconds=LOG_SECONDS)


async def _find_all(
    db: Database, find: Callable[..., Awaitable[tuple[list[UUID], UUID | None]]], name: str
) -> list[UUID]:
    found: list[UUID] = []
    after, more = None, True
    while more:
        async with db.read() as tx:
            part, after = await find(tx, name, after=after, limit=BATCH)
        found, more = found + part, after is not None
    return found


async def _erase_all(
    db: Database, erase: Callable[..., Awaitable[tuple[int, UUID | None]]], name: str
) -> int:
    found, after, more = 0, None, True
    while more:
        async with db.write() as tx:
            count, after = await erase(tx, name, after=after, limit=BATCH)
        found, more = found + count, after is not None
    return found


async def erase_before(tx: Write, *, before: datetime, limit: int) -> int:
    """Erase the customers of orders that were placed before an instant; return the number of orders."""
    rows = await tx.all(
        select(orders.c.id)
        .where(_HAS_CUSTOMER, orders.c.created_at < before)
        .order_by(orders.c.created_at, orders.c.id)
        .limit(limit)
    )
    await _erase(tx, [row.id for row in rows])
    return len(rows)


async def erase_customer(tx: Write, name: str, *, after: UUID | None, limit: int) -> tuple[int, UUID | None]:
    """Erase a customer, by e-mail address, phone number or `partnerUserId`, from one batch of orders.

    Return the number of orders, and the last order that was read; None after the last batch.
    """
    ids, last = await find_orders(tx, name, after=after, limit=limit)
    await _erase_on_request(tx, ids)
    return len(ids), last


async def erase_contact(
    tx: Write, name: str, *, contacts: ContactKeys, after: UUID | None, limit: int
) -> tuple[int, UUID | None]:
    """Erase a customer by an e-mail address or phone number that may be spelled otherwise; return the same."""
    ids, last = await find_orders_of_contact(tx, name, contacts=contacts, after=after, limit=limit)
    await _erase_on_request(tx, ids)
    return len(ids), last


async def _erase_on_request(tx: Write, ids: Sequence[UUID]) -> None:
    await _erase(tx, ids)
    for order_id in ids:
        # The audit log must not name the customer.
        await audit(tx, "order", order_id, detail={"customer": "erased"})


async def erase_validations(
    tx: Write, name: str, *, after: UUID | None, limit: int
) -> tuple[int, UUID | None]:
    """Delete the customer's recorded validations in one batch; return the same."""
    ids, last = await find_validations(tx, name, after=after, limit=limit)
    await delete_validations(tx, ids)
    return len(ids), last


async def find_orders(
    tx: Read, name: str, *, after: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the customer's orders in one batch, and the last order that was read; None after the last batch."""
    # The database finds the text in any member, as JSON and without LIKE's wildcards.
    pattern = f"%{pattern_of(as_json(name)[1:-1].decode())}%"
    query = select(orders.c.id, orders.c.customer).where(
        _HAS_CUSTOMER, func.lower(orders.c.customer).like(pattern, escape=ESCAPE)
    )
    if after is not None:
        query = query.where(orders.c.id > after)
    rows = await tx.all(query.order_by(orders.c.id).limit(limit))
    last = rows[-1].id if len(rows) == limit else None
    return [row.id for row in rows if is_customer(name, _customer.decode(row.customer))], last


async def find_orders_of_contact(
    tx: Read, name: str, *, contacts: ContactKeys, after: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the same by the search's entries of an e-mail address, or of a phone number with its country code.

    Without it, one number may be those of people in several countries.
    """
    ids = await list_orders_having(tx, contacts.candidates(name, ()), after=after, limit=limit)
    return ids, ids[-1] if len(ids) == limit else None


async def find_validations(
    tx: Read, name: str, *, after: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the same of recorded validations, however they spell an e-mail address or a phone number."""
    rows = await list_validations(tx, after=after, limit=limit)
    found = [(id_, _validate_body.decode(body).data) for id_, body in rows]
    countries = await find_countries(tx, {data.store_id for _, data in found})
    ids = [
        id_
        for id_, data in found
        if is_customer(name, data.order.customer, country=countries.get(data.store_id))
    ]
    return ids, rows[-1][0] if len(rows) == limit else None


def is_customer(name: str, customer: Customer | None, *, country: str | None = None) -> bool:
    """Return whether the name is the customer's e-mail address, phone number or `partnerUserId`.

    `country` is the one as in which the customer's number may be written, as in orders that the search finds.
    """
    if customer is None:
        return False
    members = (customer.email, customer.phone, customer.partner_user_id)
    if name.lower() in {text.lower() for text in members if text}:
        return True
    if "@" in name:
        return normal_email(name) == normal_email(customer.email)
    numbers = {normal_phone(customer.phone, where) for where in (None, country)}
    return may_be_phone(name) and normal_phone(name, None) in numbers


def _without_message(text: str | None) -> str | None:
    """Return a stored cancellation without the storefront's words."""
    if text is None:
        return None
    return as_json(replace(_cancellation.decode(text), message=None)).decode()


def _without_reasons(text: str | None) -> str | None:
    """Return stored adjustments without the merchant's words, which may name the customer. Their amounts stay."""
    if text is None:
        return None
    return as_json([replace(adjustment, reason=None) for adjustment in _adjustments.decode(text)]).decode()


_envelope: Final = msgspec.json.Decoder(Envelope)


def _event_without_customer(type_: str, body: bytes) -> bytes:
    """Return the body of an event that stays in the feed, so that its readers miss none."""
    event_body = _envelope.decode(body)
    kind = find_payload(type_, event_body.data)
    assert kind is not None, type_
    data: OrderCancelledData | OrderEventData | MerchantOrderData
    match msgspec.json.decode(event_body.data, type=kind):
        case OrderCancelledData() as about:
            data = replace(about, order=_order_without_customer(about.order))
        case OrderEventData() as event:
            data = replace(event, order=_placed_without_customer(event.order))
        case MerchantOrderData() as event:
            data = replace(event, order=_placed_without_customer(event.order))
        case other:
            raise AssertionError(type(other))
    return as_json(replace(event_body, data=msgspec.Raw(as_json(data))))


def _placed_without_customer(order: _P) -> _P:
    """Return a placed order without its customer, and without the words that partners wrote of the person."""
    order, cancellation = _order_without_customer(order), order.cancellation
    adjustments = tuple(replace(adjustment, reason=None) for adjustment in order.adjustments)
    order = replace(order, courier=None, adjustments=adjustments)
    if cancellation is None:
        return order
    return replace(order, cancellation=replace(cancellation, message=None))


def _order_without_customer(order: _O) -> _O:
    return replace(
        order,
        cart=with_notes(order.cart, None),
        note=None,
        customer=UNSET,
        client_context=NO_CONTEXT,
        fulfillment=without_address(order.fulfillment),
    )


async def _erase(tx: Write, ids: Sequence[UUID]) -> None:
    if not ids:
        return
    # Locked before they are read, so that no cancellation or adjustment in between is overwritten.
    rewritten = select(orders.c.id, orders.c.fulfillment, orders.c.cancellation, orders.c.adjustments)
    for row in await tx.all(rewritten.where(orders.c.id.in_(ids)).order_by(orders.c.id).with_for_update()):
        await tx.execute(
            update(orders)
            .where(orders.c.id == row.id)
            .values(
                customer=None,
                client_context=None,
                notes=None,
                courier=None,
                fulfillment=as_json(without_address(_fulfillment.decode(row.fulfillment))).decode(),
                cancellation=_without_message(row.cancellation),
                adjustments=_without_reasons(row.adjustments),
            )
        )
    await forget_customers(tx, ids)
    await delete_of_orders(tx, ids)
    await rewrite_of_orders(tx, ids, _event_without_customer)
    # The keys keep their orders: a repeat of the request gets the erased order.
    await tx.execute(
        update(keys)
        .where(and_(keys.c.order_id.in_(ids), keys.c.status.is_not(None)))
        .values(status=None, media_type=None, body=None, claimed_until=keys.c.created_at)
    )


# --- masking: what operators see -----------------------------------------------------------------


def without_customer(row: OrderRow) -> OrderRow:
    """Return the order without its customer and what it wrote. What partners wrote may repeat it: see mask_order."""
    return replace(
        row,
        cart=with_notes(row.cart, None),
        notes=None,
        courier=None,
        customer=None,
        client_context=None,
        fulfillment=without_address(row.fulfillment),
    )


def mask_order(row: OrderRow) -> OrderRow:
    """Return the order as those see it who see no customers: operators, and read-only sessions."""
    private = private_texts(row.customer, row.client_context, row.fulfillment, row.notes)
    return replace(
        without_customer(row),
        errors=tuple(map(_mask_error, row.errors)),
        partner_order_id=mask_text(row.partner_order_id, private),
        cancel_reason=mask_reason(row.cancel_reason, row.answer, private),
        cancellation=_mask_cancellation(row.cancellation, private),
        adjustments=_mask_adjustments(row.adjustments, private),
    )


def _mask_cancellation(
    cancellation: StoredCancellation | None, private: Sequence[str]
) -> StoredCancellation | None:
    if cancellation is None:
        return None
    reason, refusal = _mask_words(cancellation.reason, private), cancellation.refusal
    return replace(
        cancellation,
        reason=reason or HIDDEN,
        message=cancellation.message and HIDDEN,
        refusal=None if refusal is None else _mask_words(refusal, private),
    )


def _mask_adjustments(
    adjustments: Sequence[StoredAdjustment] | None, private: Sequence[str]
) -> tuple[StoredAdjustment, ...] | None:
    if adjustments is None:
        return None
    return tuple(
        replace(
            adjustment, reason=None if adjustment.reason is None else _mask_words(adjustment.reason, private)
        )
        for adjustment in adjustments
    )


def mask_all(row: OrderRow, entries: Sequence[TimelineEntry]) -> tuple[OrderRow, list[TimelineEntry]]:
    """Return the order and its timeline as the same see them."""
    private = private_texts(row.customer, row.client_context, row.fulfillment, row.notes)
    return mask_order(row), [_mask_entry(entry, private) for entry in entries]


def _mask_entry(entry: TimelineEntry, private: Sequence[str]) -> TimelineEntry:
    return replace(entry, detail={name: _mask_member(name, at, private) for name, at in entry.detail.items()})


def _mask_member(name: str, value: Any, private: Sequence[str]) -> Any:
    if name in _SHOWN:
        return value
    if name == "errors":
        reasons = map(_mask_error, msgspec.convert(value, list[OrderError]))
        return [{"code": reason.code, "message": reason.message} for reason in reasons]
    return _mask_words(value, private) if name in {"cancelReason", "reason"} else HIDDEN


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


def mask_phone(phone: str) -> str:
    """Return a phone number by which somebody can tell that it is theirs: its country code, and its last two digits."""
    digits = "".join(character for character in phone if character.isdigit() and character.isascii())
    if len(digits) < _MIN_PHONE:
        return _DOTS
    code = find_country_code(phone)
    return f"{'' if code is None else f'+{code} '}{_DOTS} {digits[-2:]}"


def mask_text(text: str | None, private: Sequence[str]) -> str | None:
    """Return a partner's words, or `***` if they repeat one of the private texts."""
    if text is None:
        return None
    words = _words(text)
    run = words.replace(" ", "")
    for private_text in private:
        short = private_text.replace(" ", "")
        is_run = len(short) >= _MIN_RUN or not short.isascii()
        if f" {private_text} " in f" {words} " or (is_run and short in run):
            return HIDDEN
    return text


def private_texts(
    customer: Customer | None,
    client_context: ClientContext | None,
    fulfillment: Fulfillment,
    notes: Notes | None,
) -> tuple[str, ...]:
    """Return what an order says of its customer, as words in lower case; nothing once the customer is erased."""
    delivery = fulfillment if isinstance(fulfillment, DeliveryFulfillment) else None
    names = [] if customer is None else f"{customer.first_name} {customer.last_name}".split()
    texts = [
        customer,
        client_context,
        delivery and delivery.address,
        delivery and delivery.instructions,
        names,
        None if notes is None else [notes.order, *notes.lines.values()],
    ]
    found = dict.fromkeys(_words(text) for text in texts_in(msgspec.to_builtins(texts)))
    return tuple(text for text in found if len(text) >= _MIN_LENGTH or not text.isascii())


def without_address(fulfillment: Fulfillment) -> Fulfillment:
    """Return how the order is handed over, without where."""
    if isinstance(fulfillment, DeliveryFulfillment):
        return replace(fulfillment, address=None, instructions=None)
    return fulfillment


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
