"""The filters above a list: names or ids. A value that fits nothing is reported beside its field; the rest stays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from mercato.console.forms import decode_fields
from mercato.console.screen import Visit
from mercato.features import lookup
from mercato.features.lookup import Scope
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.engine import Read
from mercato.platform.errors import Problem, ValidationFailed
from mercato_contract.pages import MALFORMED
from mercato_contract.wire import parse_uuid

T = TypeVar("T")

_MAX_TEXT: Final = 200
_UNKNOWN: Final = "No {} has this {}."
_SEVERAL: Final = "Several {}s have this name. Use an id."


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


def read_filters(kind: type[T], texts: Mapping[str, str]) -> Filters[T]:
    """Return the filters of a query's or a form's fields. Raises ValidationFailed for the cursor."""
    known = {name: texts[name] for name in kind.__struct_encode_fields__ if name in texts}  # type: ignore[attr-defined]
    try:
        return Filters(decode_fields(kind, known), texts)
    except Problem:
        faults = {
            name: fault for name, text in known.items() if (fault := _fault(kind, name, text)) is not None
        }
    if "cursor" in faults:
        raise ValidationFailed.at(None, MALFORMED)
    fit = {name: text for name, text in known.items() if name not in faults}
    return Filters(decode_fields(kind, fit), texts, faults)


def _fault(kind: type[Any], name: str, text: str) -> str | None:
    try:
        decode_fields(kind, {name: text})
    except Problem as problem:
        return problem.detail
    return None


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
    customers = visit.may(Permission.FIND_CUSTOMERS)
    if visit.session.partner is None:
        return Scope(customers=customers)
    surfaces = visit.surfaces if side is None else (visit.caller_of(side).surface,)
    partner_id = visit.session.partner.id
    return Scope(partner_id=partner_id, surfaces=surfaces, store_id=visit.store_id, customers=customers)


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
