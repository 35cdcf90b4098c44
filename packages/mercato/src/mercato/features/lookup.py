"""Ids of what people write: names, ids, and the beginnings of ids.

`find_all` is for whatever an operator pastes, `find_ids` for one kind of thing that the reader may see.
"""

import re
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import Column, ColumnElement, select

from mercato.features.discovery.index import name_key_of
from mercato.features.discovery.tables import store_search
from mercato.features.orders.tables import orders
from mercato.features.partners.accounts import get_partner_named
from mercato.features.partners.credentials import get_key
from mercato.features.partners.model import Caller, Surface, UnknownAccountError
from mercato.features.partners.queries import find_partners_named
from mercato.features.partners.tables import partners
from mercato.features.requests.tables import refused_requests
from mercato.features.stores.tables import stores
from mercato.features.webhooks.operators import find_row
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Read
from mercato.platform.db.prefixes import MIN_SHOWN, list_ids
from mercato_contract.wire import parse_uuid

MAX_MATCHES: Final = 10
"""Things of one kind that are found."""

_AMBIGUOUS: Final = 2

_DIGITS: Final = re.compile(rf"[0-9a-f]{{{MIN_SHOWN},32}}")
_IDS: Final[dict[str, Column[UUID]]] = {
    "order": orders.c.id,
    "store": stores.c.id,
    "partner": partners.c.id,
    "delivery": deliveries.c.id,
    "request": refused_requests.c.id,
}


class Match(Struct, frozen=True):
    """A thing that was found: its kind, such as order, and its id."""

    kind: str
    id: UUID


class Scope(Struct, frozen=True):
    """What may be found: everything, or what concerns a partner, and of that only what concerns one store.

    A storefront finds every store by its name.
    """

    caller: Caller | None = None
    store_id: UUID | None = None


async def find_ids(tx: Read, kind: str, text: str, scope: Scope) -> list[UUID]:
    """Return at most two ids of the orders, stores or partners that the text stands for.

    An id or 8 digits or more of its beginning, the name of a partner or store in any letter case, or a merchant's own
    id of its store.
    """
    digits = text.lower().replace("-", "")
    named: list[UUID] = []
    if kind == "partner":
        named = [one.id for one in await find_partners_named(tx, text, limit=_AMBIGUOUS)]
    elif kind == "store":
        named = await _find_stores(tx, text, scope)
    if named or _DIGITS.fullmatch(digits) is None:
        return named
    column = _IDS[kind]
    first, last = (UUID(digits.ljust(32, filler)) for filler in "0f")
    found = select(column).where(column.between(first, last), *_visible(kind, scope)).order_by(column)
    return [row[0] for row in await tx.all(found.limit(_AMBIGUOUS))]


async def _find_stores(tx: Read, text: str, scope: Scope) -> list[UUID]:
    """Return the stores of a name, by the index of the search for stores, or of a merchant's own id."""
    named = (
        select(stores.c.id)
        .join(store_search, store_search.c.store_id == stores.c.id)
        .where(store_search.c.name_key == name_key_of(text), *_visible("store", scope))
    )
    found = [row[0] for row in await tx.all(named.limit(_AMBIGUOUS))]
    if found or scope.caller is None or scope.caller.surface is not Surface.COMMERCE:
        return found
    own = select(stores.c.id).where(stores.c.partner_store_id == text, *_visible("store", scope))
    return [row[0] for row in await tx.all(own.limit(_AMBIGUOUS))]


def _visible(kind: str, scope: Scope) -> list[ColumnElement[bool]]:
    caller, found = scope.caller, []
    if caller is not None and kind == "order":
        is_merchant = caller.surface is Surface.COMMERCE
        found.append((orders.c.partner_id if is_merchant else orders.c.storefront_id) == caller.partner_id)
    if caller is not None and kind == "store" and caller.surface is Surface.COMMERCE:
        found.append(stores.c.partner_id == caller.partner_id)
    if scope.store_id is not None:
        found.append((orders.c.store_id if kind == "order" else stores.c.id) == scope.store_id)
    return found


async def find_all(tx: Read, text: str) -> list[Match]:
    """Return what the text stands for: an id or 8 digits or more of its beginning, a webhook-id, the id of a refused
    request, a key (its partner), or a partner's name.
    """  # fmt: skip
    text = text.strip()
    matches = [*await _find_ids(tx, text), *await _find_requests(tx, text), *await _find_partner(tx, text)]
    return list(dict.fromkeys(matches))


async def _find_ids(tx: Read, text: str) -> list[Match]:
    digits = text.lower().replace("-", "")
    if _DIGITS.fullmatch(digits) is None:
        return []
    found = [
        Match(kind, id_)
        for kind, column in _IDS.items()
        for id_ in await list_ids(tx, column, digits, limit=MAX_MATCHES)
    ]
    webhook_id = parse_uuid(text)
    if not found and webhook_id is not None:
        delivery = await find_row(tx, webhook_id)
        return [] if delivery is None else [Match("delivery", delivery.id)]
    return found


async def _find_requests(tx: Read, text: str) -> list[Match]:
    """Return the refused requests of the id that their answers named. Clients choose it: several may have the same."""
    c = refused_requests.c
    newest = select(c.id).where(c.request_id == text).order_by(c.id.desc()).limit(MAX_MATCHES)
    return [Match("request", row.id) for row in await tx.all(newest)]


async def _find_partner(tx: Read, text: str) -> list[Match]:
    try:
        return [Match("partner", (await get_key(tx, text)).partner_id)]
    except UnknownAccountError:
        pass
    try:
        return [Match("partner", (await get_partner_named(tx, text)).id)]
    except UnknownAccountError:
        return []
