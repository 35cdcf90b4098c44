"""Lines that agents order by name: what each is and costs, or every fault with what can be sent instead.

An answer has an entry for each line that was sent. What doesn't fit an answer is left out in steps, the least needed
first: never an entry, and never the first fault of a line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from mercato.agents.tools import ENVELOPE, MOST_OF_JSON, READS, SMALL, ExplainedError, ToolCall, Tools
from mercato.api.carts import carts
from mercato.features.partners.model import Surface
from mercato.features.stores.model import StoreNotFound
from mercato.http.calls import operation_of
from mercato.services import Services
from mercato_catalog.carts.errors import ItemUnavailable
from mercato_catalog.carts.ordering import Resolution, resolve
from mercato_contract.carts import CartAmounts
from mercato_contract.ordering import Candidate, LineFault, NamedLine, ResolvedChoice, ResolvedLine
from mercato_contract.problems import OrderError
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire, as_json, uuid_text

tools: Final = Tools(Surface.MARKETFRONT)

MAX_LINES: Final = 100
"""Lines of a call, without their choices: an answer has room for an entry of each."""

_ADD: Final = operation_of(carts, "addCartItem")

Lines = Annotated[list[NamedLine], Meta(max_length=MAX_LINES)]


async def resolve_lines(
    app: Services, store_id: UUID, lines: Sequence[NamedLine], *, in_force: bool = False
) -> Resolution:
    """Return what the lines are in the store's current CatalogSet.

    `in_force`: with every change of the store that any process had committed before this call.
    Raises StoreNotFound, ValidationFailed for too many lines or levels, and ExplainedError with all faults.
    """
    store = await (app.cache.find_in_force(store_id) if in_force else app.cache.find(store_id))
    if store is None:
        raise StoreNotFound(store_id)
    menu = await app.menu_indexes.get(store.catalog_set_id)
    found = resolve(
        lines,
        names=menu.named,
        store_id=store.id,
        catalog_set_id=store.catalog_set_id,
        sold_out=frozenset(store.unavailable_at(app.clock())) if store.sold_out else frozenset(),
    )
    if found.amounts is None:
        raise _refusal_of(found, lines)
    return found


# --- prices ---------------------------------------------------------------------------------------


class PriceCart(Wire, forbid_unknown_fields=True):
    """The arguments of price_cart."""

    store_id: UUID
    lines: Lines


class PricedChoice(Wire, gc=False):
    """A choice. `price` is that of one unit, before free units; `choices` are of the same form."""

    group: str
    option: str
    option_id: UUID
    quantity: int
    price: str
    choices: list[Any] | UnsetType = UNSET


class PricedLine(Wire, kw_only=True, gc=False):
    """A line without a fault. What of it the agent has sent itself is left out of an answer that has no room for it."""

    item_id: UUID
    name: str | UnsetType = UNSET
    quantity: int | UnsetType = UNSET
    choices: list[PricedChoice] | UnsetType = UNSET
    unit_price: str | UnsetType = UNSET
    total: str
    faults: Annotated[tuple[str, ...], Meta(max_length=0)] = ()


class PricedLines(Wire):
    """An entry for each line, in order, and what they cost together."""

    lines: list[PricedLine]
    amounts: CartAmounts


def render_lines(priced: PricedLines) -> str:
    """Return the lines as text; without those that an answer has no room for."""
    amounts = priced.amounts
    total = f"{amounts.total} {amounts.currency}, before fees, taxes and tip."
    if priced.lines and priced.lines[0].name is UNSET:  # then none has one
        return f"{total} {count_of(len(priced.lines), 'line')}."
    return "\n".join([total, *map(render_line, priced.lines)])


def render_line(line: PricedLine) -> str:
    """Return a line as text, with its choices below."""
    choices = [f"\n  {_text_of_choice(choice)}" for choice in line.choices or ()]
    return f"- {line.quantity} x {line.name} [{uuid_text(line.item_id)}] {line.total}{''.join(choices)}"


def _text_of_choice(choice: PricedChoice) -> str:
    units = "" if choice.quantity == 1 else f"{choice.quantity} x "
    below = f" ({'; '.join(map(_text_of_choice, choice.choices))})" if choice.choices else ""
    return f"{choice.group}: {units}{choice.option} {choice.price}{below}"


def priced_lines(found: Resolution, *, most: int = SMALL) -> PricedLines:
    """Return lines without faults, with as much of each as an answer of this size has room for."""
    assert found.amounts is not None
    whole = PricedLines(lines=list(map(_priced, found.lines)), amounts=found.amounts)
    if ENVELOPE + MOST_OF_JSON * len(as_json(whole)) <= most or _fits(whole, most):
        return whole
    made = whole
    for members in _LEFT_OUT:
        made = replace(made, lines=[replace(line, **members) for line in made.lines])
        if _fits(made, most):
            break
    return made


_LEFT_OUT: Final[tuple[Mapping[str, UnsetType], ...]] = (
    {"choices": UNSET},
    {"name": UNSET, "unit_price": UNSET},
    {"quantity": UNSET},
)
"""What is left out of every line first, until an answer has room. Without all of it there is room for MAX_LINES."""


def _fits(priced: PricedLines, most: int) -> bool:
    return _size(priced, render_lines(priced)) <= most


def _priced(line: ResolvedLine) -> PricedLine:
    assert line.item_id is not None
    assert line.total is not None
    return PricedLine(
        item_id=line.item_id,
        name=line.name or "",
        quantity=line.quantity,
        choices=_priced_choices(line.choices),
        unit_price=line.unit_price or UNSET,
        total=line.total,
    )


def _priced_choices(choices: Sequence[ResolvedChoice]) -> list[PricedChoice]:
    priced = []
    for choice in choices:
        assert choice.option_id is not None
        below = _priced_choices(choice.choices) if choice.choices else UNSET
        # By position: names would double the cost of making one.
        group, option, price = choice.group or "", choice.option or "", choice.price or ""
        priced.append(PricedChoice(group, option, choice.option_id, choice.quantity, price, below))
    return priced


@tools.declare(title="Price a cart", calls=[_ADD], hints=READS, render=render_lines)
async def price_cart(call: ToolCall[PriceCart]) -> PricedLines:
    """Price lines of one store, without ordering. item, group and option are ids or names of the menu. Every line is
    answered; a fault lists what can be sent instead. Wishes such as "no onions" are a note.
    """
    found = await resolve_lines(call.app, call.body.store_id, call.body.lines)
    call.app.activity.carts += 1
    return priced_lines(found)


# --- faults ---------------------------------------------------------------------------------------


class _Room(Struct, frozen=True):
    """How much of a refusal is written. `errors` are the faults as the API lists them."""

    candidates: int
    options: int
    faults: int
    has_errors: bool
    has_choices: bool = False
    has_names: bool = True
    has_messages: bool = True
    has_pointers: bool = True


_ROOMS: Final = (
    _Room(candidates=20, options=50, faults=100, has_errors=True, has_choices=True),
    _Room(candidates=10, options=20, faults=100, has_errors=True),
    _Room(candidates=5, options=10, faults=20, has_errors=False),
    _Room(candidates=3, options=3, faults=5, has_errors=False),
    _Room(candidates=3, options=0, faults=1, has_errors=False, has_names=False),
    _Room(candidates=0, options=0, faults=1, has_errors=False, has_names=False, has_messages=False),
    _Room(
        candidates=0,
        options=0,
        faults=1,
        has_errors=False,
        has_names=False,
        has_messages=False,
        has_pointers=False,
    ),
)
"""What is left out first, until an answer has room. With the last one it has room for MAX_LINES entries."""

_PROBLEM: Final = 1_200
"""Bytes of a problem beside what stands here."""


def _refusal_of(found: Resolution, sent: Sequence[NamedLine]) -> ExplainedError:
    """Return the refusal of lines with faults: 400 if something is unavailable, else 422, as carts are refused."""
    faults = [*(fault for line in found.lines for fault in line.faults), *found.faults]
    errors = [_error_of(fault) for fault in faults]
    counted = f"{count_of(len(faults), 'fault')} in {count_of(len(sent), 'line')}: see lines."
    detail = faults[0].message if len(faults) == 1 else counted
    unavailable = any(fault.code == ItemUnavailable.code for fault in faults)
    for room in _ROOMS:
        members = _members(found, room)
        text = _text_of_refusal(found, detail, room)
        if not room.has_errors:
            # The problem itself has all of them for the request log.
            members["errors"] = []
        if _PROBLEM + _size(members, text) + (len(as_json(errors)) if room.has_errors else 0) <= SMALL:
            break
    kind = ItemUnavailable if unavailable else ValidationFailed
    return ExplainedError(kind(detail, errors=errors), members, text)


def _error_of(fault: LineFault) -> OrderError:
    return OrderError(
        code=fault.code,
        message=fault.message,
        pointer=fault.pointer,
        item_id=fault.item_id,
        modifier_group_id=fault.modifier_group_id,
        minimum=fault.minimum,
        maximum=fault.maximum,
    )


def _members(found: Resolution, room: _Room) -> dict[str, Any]:
    members: dict[str, Any] = {"lines": [_entry(line, room) for line in found.lines]}
    if found.faults:
        members["faults"] = found.faults
    return members


def _entry(line: ResolvedLine, room: _Room) -> Mapping[str, Any]:
    """Return a line with its faults, as far as there is room."""
    entry: dict[str, Any] = {"itemId": line.item_id}
    if room.has_names:
        entry |= {"name": line.name, "quantity": line.quantity}
    if room.has_choices:
        entry["choices"] = line.choices
    if line.total is not None:
        entry["total"] = line.total
    entry["faults"] = [_within(fault, room) for fault in line.faults[: room.faults]]
    if len(line.faults) > room.faults and room.has_pointers:
        entry["more"] = len(line.faults) - room.faults
    return entry


def _within(fault: LineFault, room: _Room) -> LineFault | Mapping[str, str]:
    """Return a fault with as many candidates and options as there is room for."""
    if not room.has_messages:
        return {"code": fault.code} | ({"pointer": fault.pointer} if room.has_pointers else {})
    candidates, options = fault.candidates or (), fault.options or ()
    left = max(len(candidates) - room.candidates, 0) + max(len(options) - room.options, 0)
    if not left:
        return fault
    return replace(
        fault,
        candidates=candidates[: room.candidates] or UNSET,
        options=options[: room.options] or UNSET,
        more=left + (fault.more or 0),
    )


def _text_of_refusal(found: Resolution, detail: str, room: _Room) -> str:
    lines = [
        f"Not priced: {detail}" if room.has_messages else f"Not priced: {detail} Fix some and ask again."
    ]
    if room.has_messages:
        for number, line in enumerate(found.lines):
            lines += _texts_of_line(line, number, room)
        lines += [f"- {fault.code}: {fault.message}" for fault in found.faults]
    return "\n".join(lines)


def _texts_of_line(line: ResolvedLine, number: int, room: _Room) -> Iterator[str]:
    if not line.faults:
        if room.has_names:
            yield f"{number}. {line.quantity} x {line.name} [{line.item_id}] {line.total}"
        return
    yield f"{number}." if line.name is None else f"{number}. {line.name} [{line.item_id}]"
    for fault in line.faults[: room.faults]:
        yield f"  {fault.code} at {fault.pointer}: {fault.message}"
        listed = (fault.candidates or fault.options or ())[
            : room.candidates if fault.candidates else room.options
        ]
        if listed:
            more = len(fault.candidates or fault.options or ()) - len(listed) + (fault.more or 0)
            yield f"    {'; '.join(map(_text_of_candidate, listed))}{f'; and {more} more' if more else ''}"
    if len(line.faults) > room.faults:
        yield f"  and {count_of(len(line.faults) - room.faults, 'more fault')}"


def _text_of_candidate(candidate: Candidate) -> str:
    notes = [
        "" if candidate.price is UNSET else candidate.price,
        "" if candidate.section is UNSET else f"in {candidate.section}",
        "" if candidate.rule is UNSET else candidate.rule,
        "SOLD OUT" if candidate.sold_out else "",
    ]
    return " ".join([f"{candidate.name} [{candidate.id}]", *(note for note in notes if note)])


def _size(value: object, text: str) -> int:
    return ENVELOPE + len(as_json(value)) + len(as_json(text))


# --- where a fault is -----------------------------------------------------------------------------

_POINTERS: Final = (
    (re.compile(r"/cart/lineItems/(\d+)(?:/.*)?"), r"/lines/\1"),
    (re.compile(r"/cart/lineItems"), "/lines"),
    (re.compile(r"/amounts/(tip|total)"), r"/\1"),
    (re.compile(r"/fulfillment/scheduledTime"), "/scheduledTime"),
    (re.compile(r"/validatedOrderToken"), "/quoteId"),
)
"""Where a fault of an order is in an agent's arguments; other members have the same place."""


@contextmanager
def pointing_into_arguments() -> Iterator[None]:
    """Have the faults of a problem of an order point to what the agent wrote: to the lines that it quoted."""
    try:
        yield
    except Problem as problem:
        problem.errors = tuple(in_arguments(problem.errors))
        raise


def in_arguments(faults: Iterable[OrderError]) -> Iterator[OrderError]:
    """Yield the faults of an order with pointers into the agent's arguments."""
    for fault in faults:
        found = ((kind, place) for kind, place in _POINTERS if kind.fullmatch(fault.pointer or ""))
        kind, place = next(found, (None, ""))
        yield fault if kind is None else replace(fault, pointer=kind.sub(place, fault.pointer or ""))
