"""Finds orders, stores, partners and webhooks by names, numbers, ids, and the beginnings and ends of ids.

`find_all` is for the text of the search field, `find_ids` for one kind of thing. A reader finds what
its account can see, and doesn't learn whether there is anything else.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Column, ColumnElement, and_, exists, false, func, literal, or_, select
from sqlalchemy import text as sql

from mercato.features.catalogs.tables import catalog_runs
from mercato.features.discovery.index import name_key_of
from mercato.features.discovery.tables import store_search
from mercato.features.discovery.text import render_query, text_query_of
from mercato.features.orders.board import NUMBER_LENGTH
from mercato.features.orders.search import (
    ContactKeys,
    find_orders,
    find_orders_named,
    list_countries,
    may_be_phone,
    plain_candidates,
)
from mercato.features.orders.tables import idempotency_keys, orders
from mercato.features.partners.credentials import get_key
from mercato.features.partners.model import Surface, UnknownAccountError
from mercato.features.partners.queries import find_partners_named
from mercato.features.partners.tables import partners
from mercato.features.requests.tables import refused_requests
from mercato.features.stores.tables import stores
from mercato.features.webhooks.queries import ids_of_webhook
from mercato.features.webhooks.tables import deliveries
from mercato.platform.db.engine import Read
from mercato.platform.db.search import ESCAPE, MIN_SHOWN, list_ids, list_ids_ending, pattern_of
from mercato_catalog.words import MIN_PREFIX, keys_of
from mercato_contract.wire import parse_uuid

MAX_MATCHES: Final = 10
"""Things of one kind that are found."""

MAX_NAMES: Final = 2_000
"""The newest partners whose names are compared in their normal form."""

MAX_TEXT: Final = 400
"""Characters of a text that is searched for."""

MAX_NUMBERED: Final = 2_000
"""The newest orders among which one is looked for by the number that the board and the ticket have."""

_AMBIGUOUS: Final = 2

_TICKET: Final = re.compile(rf"#?([0-9a-f]{{{NUMBER_LENGTH}}})", re.IGNORECASE)
_DIGITS: Final = re.compile(rf"[0-9a-f]{{{MIN_SHOWN},32}}")
_IDS: Final[dict[str, Column[UUID]]] = {
    "order": orders.c.id,
    "store": stores.c.id,
    "partner": partners.c.id,
    "run": catalog_runs.c.id,
    "delivery": deliveries.c.id,
    "request": refused_requests.c.id,
}
_ENDS: Final = ("store", "partner", "run", "delivery")
"""What is found by the ends of its ids with an index. Orders have theirs in `order_search`."""


class Scope(Struct, frozen=True, kw_only=True):
    """What may be found: everything, or what these sides of a partner see, and of that only what concerns one store.

    A storefront finds every store, unless its merchant is suspended. With `customers`, orders are found by the phone
    number and the e-mail address of their customer, and with `names` by the name.
    """

    partner_id: UUID | None = None
    surfaces: tuple[Surface, ...] = ()
    store_id: UUID | None = None
    customers: bool = False
    names: bool = False

    @property
    def only_own_stores(self) -> bool:
        return self.partner_id is not None and Surface.MARKETFRONT not in self.surfaces

    def conditions(self, kind: str) -> list[ColumnElement[bool]]:
        """Return the conditions of the rows of a kind of thing."""
        found: list[ColumnElement[bool]] = []
        if self.partner_id is not None:
            found += self._of_partner(kind, self.partner_id)
        if self.store_id is not None:
            found += [column == self.store_id for column in _STORE_OF[kind]]
        return found

    def _of_partner(self, kind: str, partner_id: UUID) -> list[ColumnElement[bool]]:
        match kind:
            case "order":
                sides = {Surface.COMMERCE: orders.c.partner_id, Surface.MARKETFRONT: orders.c.storefront_id}
                return [or_(*(sides[surface] == partner_id for surface in self.surfaces))]
            case "store":
                return [stores.c.partner_id == partner_id if self.only_own_stores else ~_IS_SUSPENDED]
            case "partner":
                return [partners.c.id == partner_id]
            case "run":
                return [
                    catalog_runs.c.partner_id == partner_id if Surface.COMMERCE in self.surfaces else false()
                ]
            case _:
                table = _TABLES[kind]
                return [table.c.partner_id == partner_id, table.c.surface.in_(self.surfaces)]


_IS_SUSPENDED: Final = exists().where(
    partners.c.id == stores.c.partner_id, partners.c.suspended_at.is_not(None)
)
_TABLES: Final = {"delivery": deliveries, "request": refused_requests}

_STORE_OF: Final[dict[str, tuple[Column[UUID], ...]]] = {
    "order": (orders.c.store_id,),
    "store": (stores.c.id,),
    "partner": (),
    "run": (catalog_runs.c.store_id,),
    "delivery": (deliveries.c.store_id,),
    "request": (refused_requests.c.store_id,),
}


class Found(Struct, frozen=True, kw_only=True):
    """The ids of what was found, at most `MAX_MATCHES` of each kind, the best matches or the newest first."""

    orders: Sequence[UUID] = ()
    stores: Sequence[UUID] = ()
    partners: Sequence[UUID] = ()
    runs: Sequence[UUID] = ()
    deliveries: Sequence[UUID] = ()
    requests: Sequence[UUID] = ()


async def find_all(tx: Read, words: str, scope: Scope, contacts: ContactKeys) -> Found:
    """Return what the text stands for.

    An order's number, also that of its ticket, and its customer's phone number, e-mail address or name; the name or a
    merchant's id of a store; the name or the key of a partner, for operators; a webhook-id; the id of a refused
    request; any id, or 8 digits or more of its beginning; and the last 8 digits of an id, which lists show.
    """
    words = _cleaned(words)
    if not words:
        return Found()
    by_id = {kind: await _find_by_id(tx, kind, words, scope, limit=MAX_MATCHES) for kind in _IDS}
    by_end = {kind: await _find_by_end(tx, kind, words, scope, limit=MAX_MATCHES) for kind in _ENDS}
    return Found(
        orders=_first(await _find_orders(tx, words, scope, contacts), by_id["order"]),
        stores=_first(
            by_id["store"], by_end["store"], await find_stores(tx, words, scope, limit=MAX_MATCHES)
        ),
        partners=_first(by_id["partner"], by_end["partner"], await _find_partners(tx, words, scope)),
        runs=_first(by_id["run"], by_end["run"]),
        deliveries=_first(by_id["delivery"], by_end["delivery"], await _find_webhooks(tx, words, scope)),
        requests=_first(by_id["request"], await _find_requests(tx, words, scope)),
    )


async def find_ids(tx: Read, kind: str, words: str, scope: Scope) -> list[UUID]:
    """Return at most two ids of the orders, stores or partners that the text stands for.

    An id, 8 digits or more of its beginning, or its last 8; the name of a partner or store in any letter case, a
    merchant's own id of its store, or a store's number of its order.
    """
    named: list[UUID] = []
    if kind == "partner":
        named = [partner.id for partner in await find_partners_named(tx, words, limit=_AMBIGUOUS)]
    elif kind == "store":
        named = await _find_stores_named(tx, words, scope, limit=_AMBIGUOUS)
    elif kind == "order":
        wanted, visible = plain_candidates(words), scope.conditions("order")
        named = await find_orders(tx, wanted, visible=visible, limit=_AMBIGUOUS)
    if kind in _ENDS:
        named = named or await _find_by_end(tx, kind, words, scope, limit=_AMBIGUOUS)
    return named or await _find_by_id(tx, kind, words, scope, limit=_AMBIGUOUS)


def _cleaned(words: str) -> str:
    """Return the text without what nobody sees, such as the marks of direction around a copied phone number."""
    shown = "".join(letter if letter.isprintable() else " " * letter.isspace() for letter in words[:MAX_TEXT])
    return " ".join(shown.split())


def _first(*lists: Sequence[UUID]) -> list[UUID]:
    return list(dict.fromkeys(id_ for ids in lists for id_ in ids))[:MAX_MATCHES]


async def _find_by_id(tx: Read, kind: str, words: str, scope: Scope, *, limit: int) -> list[UUID]:
    digits = words.lower().replace("-", "")
    if not _is_id(kind, digits, scope):
        return []
    return await list_ids(tx, _IDS[kind], digits, *scope.conditions(kind), limit=limit)


def _is_id(kind: str, digits: str, scope: Scope) -> bool:
    """Return whether the text can be, in part, an id of something that may be found: partners find no partner."""
    return _DIGITS.fullmatch(digits) is not None and (kind != "partner" or scope.partner_id is None)


async def _find_by_end(tx: Read, kind: str, words: str, scope: Scope, *, limit: int) -> list[UUID]:
    """Return things whose ids end with the digits that lists show of them."""
    digits = words.lower()
    if len(digits) != MIN_SHOWN or not _is_id(kind, digits, scope):
        return []
    return await list_ids_ending(tx, _IDS[kind], digits, *scope.conditions(kind), limit=limit)


# --- orders ---------------------------------------------------------------------------------------


async def _find_orders(tx: Read, words: str, scope: Scope, contacts: ContactKeys) -> list[UUID]:
    wanted = list(plain_candidates(words))
    if scope.customers:
        countries: list[str] = []
        if may_be_phone(words) and not words.startswith("+"):
            countries = await list_countries(tx, *scope.conditions("store"))
        wanted += contacts.candidates(words, countries)
    visible = scope.conditions("order")
    found = await find_orders(tx, wanted, visible=visible, limit=MAX_MATCHES)
    found = found or await _find_by_key(tx, words, scope)
    found = _first(found, await _find_by_ticket(tx, words, scope))
    if not scope.names:
        return found
    named = contacts.name_candidates(words)
    return _first(found, await find_orders_named(tx, named, visible=visible, limit=MAX_MATCHES))


async def _find_by_ticket(tx: Read, words: str, scope: Scope) -> list[UUID]:
    """Return orders without a number of their store's by the one that their ticket has: the end of their id."""
    number = _TICKET.fullmatch(words)
    if number is None:
        return []
    # Of one side at a time, or of one store: only so an index has the newest.
    sides = [replace(scope, surfaces=(surface,)).conditions("order") for surface in scope.surfaces] or [[]]
    if scope.store_id is not None:
        sides = [[orders.c.store_id == scope.store_id]]
    found: list[UUID] = []
    for side in sides:
        newest = select(orders.c.id).where(*side).order_by(orders.c.id.desc()).limit(MAX_NUMBERED)
        found += [row.id for row in await tx.all(newest) if row.id.hex.endswith(number[1].lower())]
    c = orders.c
    taken = c.id.in_(found), c.handling.is_not(None), c.partner_order_id.is_(None)
    query = select(c.id).where(*taken, *scope.conditions("order")).order_by(c.id.desc()).limit(MAX_MATCHES)
    return [row.id for row in await tx.all(query)] if found else []


async def _find_by_key(tx: Read, words: str, scope: Scope) -> list[UUID]:
    """Return the order that a storefront placed with the Idempotency-Key, which may be its own number of it."""
    if scope.partner_id is None or Surface.MARKETFRONT not in scope.surfaces:
        return []
    c = idempotency_keys.c
    found = select(orders.c.id).join(idempotency_keys, c.order_id == orders.c.id)
    own = found.where(c.partner_id == scope.partner_id, c.key == words, *scope.conditions("order"))
    return [row.id for row in await tx.all(own)]


# --- stores ---------------------------------------------------------------------------------------


async def find_stores(tx: Read, words: str, scope: Scope, *, limit: int) -> list[UUID]:
    """Return the stores whose names have the words, those of exactly this name or merchant's id first."""
    exact = await _find_stores_named(tx, words, scope, limit=limit)
    if scope.only_own_stores or scope.store_id is not None:
        # The few stores of a merchant, also those that searches don't find.
        alike = func.lower(stores.c.name).like(f"%{pattern_of(words)}%", escape=ESCAPE)
        part = select(stores.c.id, stores.c.name).where(*scope.conditions("store"), alike)
        rows = await tx.all(part.order_by(stores.c.id).limit(limit))
        written = [row.id for row in rows if words.casefold() in row.name.casefold()]
        return _first(exact, written, await _find_stores_with_words(tx, words, scope, limit=limit))
    return _first(exact, await _find_in_index(tx, words, limit=limit))


async def _find_stores_with_words(tx: Read, words: str, scope: Scope, *, limit: int) -> list[UUID]:
    """Return live stores with the words in their names, written as people type them: `kfc` for K.F.C."""
    wanted = name_key_of(words).split()
    if not wanted:
        return []
    key = store_search.c.name_key
    # Normalized words have no wildcards.
    fits = and_(*((literal(" ") + key + " ").contains(part) for part in _parts_of(wanted)))
    run = "".join(wanted)
    if len(run) >= MIN_PREFIX:
        fits = or_(fits, func.replace(key, " ", "").contains(run))
    found = select(stores.c.id).join(store_search, store_search.c.store_id == stores.c.id)
    rows = await tx.all(found.where(*scope.conditions("store"), fits).order_by(stores.c.id).limit(limit))
    return [row.id for row in rows]


def _parts_of(words: Sequence[str]) -> list[str]:
    """Return what a name of words between blanks has if it has the words, or longer ones that begin so."""
    return [f" {word}" if len(word) >= MIN_PREFIX else f" {word} " for word in words]


async def _find_stores_named(tx: Read, words: str, scope: Scope, *, limit: int) -> list[UUID]:
    """Return the stores of a name, by the index of the search for stores, or of a merchant's own id."""
    visible = scope.conditions("store")
    key = name_key_of(words)
    named = (
        select(stores.c.id)
        .join(store_search, store_search.c.store_id == stores.c.id)
        .where(store_search.c.name_key == key, *visible)
    )
    found = [row.id for row in await tx.all(named.limit(limit))] if key else []
    if scope.partner_id is not None and Surface.COMMERCE not in scope.surfaces:
        return found
    own: list[ColumnElement[bool]] = [stores.c.partner_store_id == words, *visible]
    if scope.partner_id is not None:
        own.append(stores.c.partner_id == scope.partner_id)
    return _first(found, [row.id for row in await tx.all(select(stores.c.id).where(*own).limit(limit))])


_IN_INDEX: Final = {
    "sqlite": sql(
        "SELECT s.store_id AS id FROM store_words w CROSS JOIN store_search s ON s.number = w.rowid "
        "WHERE w.store_words MATCH :query ORDER BY w.rowid LIMIT :limit"
    ),
    "postgresql": sql(
        "SELECT s.store_id AS id FROM store_search s WHERE s.words @@ CAST(:query AS tsquery) "
        "ORDER BY s.number + 0 LIMIT :limit"
    ),
}


async def _find_in_index(tx: Read, words: str, *, limit: int) -> list[UUID]:
    """Return live stores of any merchant that have all the words in their names; the last one may be incomplete."""
    query = text_query_of(words, (), mode=None, circle=None)
    if query is None:
        return []
    wanted = render_query(tx.dialect, query.best)
    rows = await tx.all(_IN_INDEX[tx.dialect].bindparams(query=wanted, limit=limit))
    return [row.id if isinstance(row.id, UUID) else UUID(row.id) for row in rows]


# --- partners, webhooks and requests --------------------------------------------------------------


async def _find_partners(tx: Read, words: str, scope: Scope) -> list[UUID]:
    """Return the partner of a key, and partners by name; nothing for partners."""
    if scope.partner_id is not None:
        return []
    try:
        return [(await get_key(tx, words)).partner_id]
    except UnknownAccountError:
        pass
    exact = [partner.id for partner in await find_partners_named(tx, words, limit=MAX_MATCHES)]
    alike = func.lower(partners.c.name).like(f"%{pattern_of(words)}%", escape=ESCAPE)
    part = select(partners.c.id, partners.c.name).where(alike).order_by(partners.c.id).limit(MAX_MATCHES)
    rows: Sequence[Any] = await tx.all(part)
    written = [row.id for row in rows if words.casefold() in row.name.casefold()]
    return _first(exact, written, await _find_partners_with_words(tx, words))


async def _find_partners_with_words(tx: Read, words: str) -> list[UUID]:
    """Return those of the newest `MAX_NAMES` partners that have the words in their names, as stores are found."""
    wanted = name_key_of(words).split()
    if not wanted:
        return []
    newest = select(partners.c.id, partners.c.name).order_by(partners.c.id.desc()).limit(MAX_NAMES)
    rows = await tx.all(newest)
    parts, run = _parts_of(wanted), "".join(wanted)
    return [
        row.id
        for row, key in zip(rows, keys_of([row.name for row in rows]), strict=True)
        if all(part in f" {key} " for part in parts)
        or (len(run) >= MIN_PREFIX and run in key.replace(" ", ""))
    ]


async def _find_webhooks(tx: Read, words: str, scope: Scope) -> list[UUID]:
    webhook_id = parse_uuid(words)
    if webhook_id is None:
        return []
    found = ids_of_webhook(webhook_id, *scope.conditions("delivery"), limit=MAX_MATCHES)
    return [row.id for row in await tx.all(found)]


async def _find_requests(tx: Read, words: str, scope: Scope) -> list[UUID]:
    """Return the refused requests of the id that their answers named. Clients choose it: several may have the same."""
    c = refused_requests.c
    newest = select(c.id).where(c.request_id == words, *scope.conditions("request"))
    return [row.id for row in await tx.all(newest.order_by(c.id.desc()).limit(MAX_MATCHES))]
