"""The board: a store's open orders in columns, for a tablet at the counter, and the ticket that is printed.

A script waits at `board/changes` and then reads the orders anew: the session is checked again before each of them is
shown. Without it the page reloads itself.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta

from mercato.console.screen import MERCHANTS, Done, Field, Page, Question, Screens, Visit
from mercato.features.events.cursors import CursorExpired
from mercato.features.orders import board
from mercato.features.orders.board import Card, Column
from mercato.features.orders.errors import InvalidStatusTransition, OrderClosed, OrderNotFound
from mercato.features.orders.sentences import facts_of, sentence_of
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.operators import StoreFilter, list_stores
from mercato.platform.errors import Conflict, InvalidCursor
from mercato_contract.clock import local_time
from mercato_contract.feeds import EventsQuery
from mercato_contract.money import to_text
from mercato_contract.orders import (
    CancellationDecision,
    OrderState,
    OrderStatus,
    OrderStatusUpdate,
)
from mercato_contract.placements import DeliveryFulfillment
from mercato_contract.texts import trimmed
from mercato_contract.wire import Instant, Wire, rfc3339

screens: Final = Screens(MERCHANTS)

WAIT_SECONDS: Final = 25
"""How long a request waits for a change of the board."""

PER_SESSION: Final = 4
"""Requests of one session that wait at a time in a process: one for each of its tabs. Others are answered at once."""

MAX_STORES: Final = 200
"""Stores to choose a board from: the newest ones."""

MINUTES: Final = (10, 20, 30)
"""The times that an order is accepted with by one press."""

OTHER_MINUTES: Final = 15

MAX_MINUTES: Final = 24 * 60

REASONS: Final = {
    "TOO_BUSY": "Too much to do",
    "ITEM_UNAVAILABLE": "Something is sold out",
    "STORE_CLOSED": "The store is closing",
    "ADDRESS_OUT_OF_RANGE": "Too far to deliver",
    "OTHER": "Another reason",
}
"""The cancelReason of an order that is refused, and what people read."""

_MINUTE: Final = timedelta(minutes=1)
_HOURS_FROM: Final = 100
_DAYS_FROM: Final = 48 * 60


class BoardQuery(Wire):
    """Whose board: of one store, or of all that the session sees."""

    store_id: UUID | None = None


@screens.get("board", needs=Permission.CHANGE_ORDERS)
async def show_board(visit: Visit) -> Page:
    store_id = visit.store_id or visit.filters(BoardQuery).store_id
    return await _page(visit, store_id)


async def _page(
    visit: Visit,
    store_id: UUID | None,
    *,
    said: str | None = None,
    refused: str | None = None,
    status: int = 200,
) -> Page:
    """Return the board, or for its script only the orders. `said` is what was done, `refused` why nothing was."""
    caller, now = visit.caller(Surface.COMMERCE), visit.app.clock()
    is_part = b"hx-request" in visit.head.headers
    if store_id is not None:
        await visit.app.stores.get(caller, store_id)
    async with visit.app.db.read() as tx:
        # Before the orders: what is committed between the two is after the cursor.
        cursor = await visit.app.feeds.find_end(tx, caller)
        cards, has_more = await board.list_cards(tx, caller, store_id=store_id, now=now)
        wanted = StoreFilter(partner_id=caller.partner_id, store_id=visit.store_id)
        stores = [] if is_part else await list_stores(tx, wanted, limit=MAX_STORES, now=now)
    values = {
        "columns": [(one, [card for card in cards if card.column is one]) for one in Column],
        "cursor": cursor,
        "has_more": has_more,
        # Where the page reloads itself without a script: not at a button's address.
        "here": visit.head.path_prefix + _board_of(visit, BoardQuery(store_id)),
        "most": board.MAX_CARDS,
        "minutes": MINUTES,
        "other_minutes": OTHER_MINUTES,
        "max_minutes": MAX_MINUTES,
        "refused": refused,
        "said": said,
        # What a session of one store has is its own without saying so.
        "chosen": None if visit.store_id else store_id,
        "store_id": store_id,
        "stores": sorted(((one.id, one.name) for one in stores), key=lambda store: store[1].casefold()),
        **_times(now),
    }
    return Page("board_orders.html" if is_part else "board.html", "Board", values, status)


def _times(now: datetime) -> Mapping[str, Any]:
    """Return the instant of the page, and what its template shows times with."""
    return {
        "now": now,
        "age": lambda at: show_age(now - at),
        "at": lambda at, timezone: show_time(at, timezone, now),
        "instant_of": rfc3339,
    }


def show_age(age: timedelta) -> str:
    """Return how old an order is, in minutes as long as people count in them. `board.js` does the same."""
    minutes = max(0, age // _MINUTE)
    if minutes < _HOURS_FROM:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < _DAYS_FROM else f"{minutes // (24 * 60)} d"


def show_time(at: datetime, timezone: str, now: datetime) -> str:
    """Return the time of day in the store's zone, with the day unless it is today's."""
    local = local_time(at, timezone)
    day = "" if local.date() == local_time(now, timezone).date() else f"{local:%a} {local.day} {local:%b} "
    return f"{day}{local:%H:%M}"


class ChangesQuery(BoardQuery, kw_only=True):
    """What the script has seen: everything up to the cursor."""

    after: Annotated[str, Meta(max_length=200)]


@screens.get("board/changes", needs=Permission.CHANGE_ORDERS)
async def wait_for_changes(visit: Visit) -> Page:
    """Say whether the board has changed, without what has: until then the session may have ended."""
    query = visit.filters(ChangesQuery)
    wanted = EventsQuery(
        after=query.after, store_id=visit.store_id or query.store_id, wait=WAIT_SECONDS, limit=1
    )
    try:
        has_changed = await visit.app.feeds.has_events(
            visit.caller(Surface.COMMERCE), wanted, reader=visit.session.id, most=PER_SESSION
        )
    except (CursorExpired, InvalidCursor):
        # A tablet that was away for a month, or the keys were rotated: it reads everything anew.
        has_changed = True
    return Page("board_changes.html", "Board", {"has_changed": has_changed})


# --- what people do ------------------------------------------------------------------------------------


class ActionForm(BoardQuery):
    """The board that the button is on."""


_Minutes = Annotated[int, Meta(ge=1, le=MAX_MINUTES)]


class AcceptForm(BoardQuery):
    """When an order will be ready: in so many minutes, or at the time that the customer has chosen.

    The minutes of a button come before those in the field beside it, `other`.
    """

    minutes: _Minutes | None = None
    other: _Minutes | None = None
    ready_at: Instant | None = None


@screens.post("board/{order}/accept", needs=Permission.CHANGE_ORDERS)
async def accept_order(visit: Visit) -> Done | Page:
    card, form = await _card(visit), visit.fields(AcceptForm)
    ready_at = form.ready_at
    minutes = form.minutes or form.other
    if minutes is not None:
        # To the minute, as people say it; so two who press the same button at once mean the same.
        ready = visit.app.clock() + minutes * _MINUTE
        ready_at = rfc3339(ready.replace(second=0, microsecond=0) + _MINUTE)
    update = OrderStatusUpdate(status=OrderStatus.CONFIRMED, estimated_ready_at=ready_at)
    return await _act(visit, card, form, update, "Order {} is accepted.", seen=OrderStatus.PENDING)


async def _ask_to_refuse(visit: Visit) -> Question:
    card = await _card(visit)
    query = visit.filters(BoardQuery)
    return Question(
        f"Refuse order {card.number}?",
        "The order is cancelled, which can't be undone. The storefront reads the reason.",
        back=_board_of(visit, query),
        otherwise="Back to the board",
        fields=(
            Field(name="reason", label="Reason", options=REASONS),
            Field(name="words", label="In other words (optional)"),
            Field(name="storeId", value=str(query.store_id or "")),
        ),
    )


class RefuseForm(BoardQuery):
    """Why an order is refused. Other words go before the reason that was chosen."""

    reason: Annotated[str, Meta(max_length=64)] = "OTHER"
    words: Annotated[str, Meta(max_length=255)] | None = None


@screens.post("board/{order}/refuse", needs=Permission.CHANGE_ORDERS, ask=_ask_to_refuse)
async def refuse_order(visit: Visit) -> Done | Page:
    card, form = await _card(visit), visit.fields(RefuseForm)
    reason = trimmed(form.words) or form.reason
    update = OrderStatusUpdate(state=OrderState.CANCELLED, cancel_reason=reason)
    return await _act(visit, card, form, update, "Order {} is refused.", seen=OrderStatus.PENDING)


@screens.post("board/{order}/ready", needs=Permission.CHANGE_ORDERS)
async def make_ready(visit: Visit) -> Done | Page:
    update = OrderStatusUpdate(status=OrderStatus.READY)
    return await _act(visit, await _card(visit), visit.fields(ActionForm), update, "Order {} is ready.")


@screens.post("board/{order}/hand-over", needs=Permission.CHANGE_ORDERS)
async def hand_over(visit: Visit) -> Done | Page:
    update = OrderStatusUpdate(state=OrderState.COMPLETED)
    return await _act(visit, await _card(visit), visit.fields(ActionForm), update, "Order {} is handed over.")


class CancellationForm(BoardQuery, kw_only=True):
    """Whether the order is cancelled, as its storefront asks."""

    accepted: bool


@screens.post("board/{order}/cancellation", needs=Permission.CHANGE_ORDERS)
async def decide_cancellation(visit: Visit) -> Done | Page:
    card, form = await _card(visit), visit.fields(CancellationForm)
    update = OrderStatusUpdate(cancellation=CancellationDecision(accepted=form.accepted))
    return await _act(
        visit, card, form, update, "Order {} is cancelled." if form.accepted else "Order {} goes on."
    )


async def _act(
    visit: Visit,
    card: Card,
    form: BoardQuery,
    update: OrderStatusUpdate,
    done: str,
    *,
    seen: OrderStatus | None = None,
) -> Done | Page:
    """Update the order as a merchant's system does. The board says what happened if somebody else was first."""
    caller = visit.caller(Surface.COMMERCE)
    store_id = visit.store_id or form.store_id
    if store_id is not None:
        # Before anything is done: a person who reads that there is no such board must not have accepted an order.
        await visit.app.stores.get(caller, store_id)
    try:
        await visit.app.orders.update(caller, card.id, update, seen=seen)
    except (OrderClosed, InvalidStatusTransition, Conflict) as problem:
        # Not the page of a problem: two people on two tablets are nothing unusual, and the next order waits.
        return await _page(visit, store_id, refused=await _explain(visit, card), status=problem.status)
    said = done.format(card.number)
    if b"hx-request" in visit.head.headers:
        return await _page(visit, store_id, said=said)
    return Done(said, to=_board_of(visit, form))


async def _explain(visit: Visit, seen: Card) -> str:
    """Return in a sentence what has become of an order that somebody wanted to change."""
    caller = visit.caller(Surface.COMMERCE)
    row = await visit.app.orders.get(caller, seen.id)
    entries = (await visit.app.orders.timeline(caller, seen.id)).entries
    facts = facts_of(
        row, entries, store=seen.store or "the store", timezone=seen.timezone, now=visit.app.clock()
    )
    return f"Order {seen.number}: nothing was done, because it has changed. {sentence_of(facts)}"


async def _card(visit: Visit) -> Card:
    """Return the order as a card. Raises OrderNotFound."""
    order_id = visit.ids["order"]
    async with visit.app.db.read() as tx:
        card = await board.get_card(tx, visit.caller(Surface.COMMERCE), order_id)
    visit.check_store(card.order.store_id, OrderNotFound(order_id))
    return card


def _board_of(visit: Visit, query: BoardQuery) -> str:
    is_chosen = query.store_id is not None and visit.store_id is None
    return f"/console/board?storeId={query.store_id}" if is_chosen else "/console/board"


# --- the ticket -------------------------------------------------------------------------------------


@screens.get("orders/{order}/ticket", needs=Permission.CHANGE_ORDERS)
async def show_ticket(visit: Visit) -> Page:
    card = await _card(visit)
    fulfillment = card.order.fulfillment
    values = {
        "card": card,
        "order": card.order,
        "delivery": fulfillment if isinstance(fulfillment, DeliveryFulfillment) else None,
        # What is to be paid now.
        "total": to_text(card.order.total_after_adjustments, card.order.currency),
        **_times(visit.app.clock()),
    }
    return Page("ticket.html", f"Ticket {card.number}", values)
