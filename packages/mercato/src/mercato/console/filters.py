"""Names and ids: the filters above a list take both, and lists show who did something by name.

A value that fits nothing is reported beside its field; the rest stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from mercato.console.forms import decode_fields, read_query
from mercato.console.screen import Visit
from mercato.features import lookup
from mercato.features.lookup import Scope
from mercato.features.orders.headlines import OrderHeadline, list_headlines
from mercato.features.orders.operators import OrderSummary
from mercato.features.partners.model import Surface
from mercato.features.partners.queries import find_prefixes
from mercato.features.sign_in import passkeys
from mercato.features.sign_in.model import ACTOR, PERSON
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.engine import Read
from mercato.platform.telemetry.context import SERVICE
from mercato_contract.clock import first_id
from mercato_contract.decoding.decode import read_cursor
from mercato_contract.pages import MALFORMED, Cursor
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.wire import Wire, parse_instant, parse_uuid

T = TypeVar("T")

_MAX_TEXT: Final = 200
_UNKNOWN: Final = "No {} has this {}."
_SEVERAL: Final = "Several {}s have this name. Use an id."


class PageOf(Wire):
    """The page of a list without filters."""

    cursor: Cursor | None = None


@dataclass(slots=True)
class Filters(Generic[T]):
    """What was sent: the fields that can be read as a struct, all of them as texts, and what is wrong with some.

    Nothing is listed if there are `faults` when the list is read. `doubts` are of ids that exist no more, perhaps: they
    become faults if nothing is found.
    """

    query: T
    texts: Mapping[str, str]
    faults: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)

    def listed(self, rows: Sequence[Any], next_cursor: str | None = None) -> None:
        """Report the values that may be why nothing is listed."""
        if not rows and next_cursor is None:
            self.faults |= self.doubts

    def check(self) -> None:
        """Raise ValidationFailed for the first fault, where something is done to all that fits."""
        for message in self.faults.values():
            raise ValidationFailed.at(None, f"{message} Nothing was done.")


def read_filters(visit: Visit, kind: type[T], sent: Mapping[str, str] | None = None) -> Filters[T]:
    """Return the filters of the page's query, or of a form's fields. Raises ValidationFailed for the cursor."""
    texts = read_query(visit.head.query) if sent is None else sent
    known = {name: texts[name] for name in kind.__struct_encode_fields__ if name in texts}  # type: ignore[attr-defined]
    try:
        return Filters(decode_fields(kind, known, timezone=visit.timezone), texts)
    except Problem:
        faults = {
            name: fault for name, text in known.items() if (fault := _fault(kind, name, text)) is not None
        }
    if "cursor" in faults:
        raise ValidationFailed.at(None, MALFORMED)
    fit = {name: text for name, text in known.items() if name not in faults}
    return Filters(decode_fields(kind, fit, timezone=visit.timezone), texts, faults)


def _fault(kind: type[Any], name: str, text: str) -> str | None:
    try:
        decode_fields(kind, {name: text})
    except Problem as problem:
        return problem.detail
    return None


def before_of(cursor: str | None, until: str | None) -> UUID | None:
    """Return the id before which a list begins: the cursor's, or the time's first. Raises ValidationFailed."""
    at = None if until is None else parse_instant(until)
    ends = [id_ for id_ in (read_cursor(cursor), None if at is None else first_id(at)) if id_ is not None]
    return min(ends, default=None)


async def partner_of(tx: Read, visit: Visit, filters: Filters[Any]) -> UUID | None:
    """Return whose things are listed: the partner's own, or for operators those of the partner in the field, or all."""
    partner = visit.session.partner
    if partner is not None:
        return partner.id
    return await _id_of(tx, filters, "partner", "partner", Scope(), "name or id")


async def store_of(tx: Read, visit: Visit, filters: Filters[Any], side: Surface | None = None) -> UUID | None:
    """Return the store of the session, or of the field."""
    if visit.store_id is not None:
        return visit.store_id
    return await _id_of(tx, filters, "storeId", "store", scope_of(visit, side), "name or id")


async def order_of(tx: Read, visit: Visit, filters: Filters[Any], side: Surface | None = None) -> UUID | None:
    """Return the order of the field."""
    return await _id_of(tx, filters, "orderId", "order", scope_of(visit, side), "number or id")


def scope_of(visit: Visit, side: Surface | None) -> Scope:
    """Return what may be found, with all sides of the account or one: an operator finds all."""
    customers, names = visit.may(Permission.FIND_CUSTOMERS), visit.may(Permission.SEE_CUSTOMERS)
    if visit.session.partner is None:
        return Scope(customers=customers, names=names)
    surfaces = visit.surfaces if side is None else (visit.caller_of(side).surface,)
    partner_id = visit.session.partner.id
    return Scope(
        partner_id=partner_id,
        surfaces=surfaces,
        store_id=visit.store_id,
        customers=customers,
        names=names,
    )


async def _id_of(
    tx: Read, filters: Filters[Any], name: str, noun: str, scope: Scope, known_by: str
) -> UUID | None:
    text = filters.texts.get(name, "").strip()[:_MAX_TEXT]
    if not text or name in filters.faults:
        return None
    found = await lookup.find_ids(tx, noun, text, scope) if text.isprintable() else []
    if len(found) == 1:
        return found[0]
    message = _SEVERAL.format(noun) if found else _UNKNOWN.format(noun, known_by)
    whole = parse_uuid(text)
    (filters.faults if whole is None else filters.doubts)[name] = message
    return whole


_CONSOLE: Final = "console:"
_KEY: Final = "key:"
_PASSKEY: Final = "passkey:"


async def name_actors(tx: Read, actors: Iterable[str]) -> Mapping[str, str]:
    """Return what people read in place of each actor: a person's name, or the beginning of a key."""
    texts = {actor: actor.removeprefix(_CONSOLE) for actor in actors}
    ids = {
        text: parse_uuid(text.partition(":")[2])
        for text in texts.values()
        if text.startswith((_KEY, _PASSKEY))
    }
    keys = {one for text, one in ids.items() if one is not None and text.startswith(_KEY)}
    prefixes = await find_prefixes(tx, keys) if keys else {}
    has_passkeys = any(text.startswith(_PASSKEY) for text in ids)
    names = (
        {passkey.id: passkey.name for passkey in await passkeys.list_all(tx, None)} if has_passkeys else {}
    )

    def words(text: str) -> str:
        known = ids.get(text)
        if known in prefixes:
            return f"key {prefixes[known]}\N{HORIZONTAL ELLIPSIS}"
        if known in names:
            return f"passkey {names[known]}"
        if text.startswith(ACTOR):
            return text.removeprefix(ACTOR).partition(" ")[0]
        return text.removeprefix(PERSON)

    return {actor: named if (named := words(text)) != text else actor for actor, text in texts.items()}


def actor_of(text: str) -> str:
    """Return the actor that a person's name stands for."""
    return text if ":" in text or text == SERVICE else f"{_CONSOLE}{PERSON}{text}"


async def headlines_of(tx: Read, visit: Visit, rows: Iterable[OrderSummary]) -> Mapping[UUID, OrderHeadline]:
    """Return what people call the orders of a list, by their ids.

    Customers are named to the sides of an order, but not in lists of operators, which have those of the whole network.
    """
    names_customers = not visit.is_operator and visit.may(Permission.SEE_CUSTOMERS)
    return await list_headlines(tx, [row.id for row in rows], with_customers=names_customers)
