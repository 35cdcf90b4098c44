"""A store's menu as an object: carts, prices, hours and differences, from its document alone."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Final
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from mercato_catalog.building.build import build as build_document
from mercato_catalog.building.packed import unpack
from mercato_catalog.carts.lines import MakeId, check_bounds
from mercato_catalog.carts.names import Names, names_of, sections_of
from mercato_catalog.carts.ordering import Resolution, resolve
from mercato_catalog.carts.pricing import price
from mercato_catalog.carts.rules import StoreMenu, add_item, get_catalog_ref, remove_item, update_item
from mercato_catalog.diff import diff
from mercato_catalog.hours import edges_of, next_change
from mercato_catalog.model import NO_ONBOARDING, BuildFailed, BuildRequest, Built, Finding, is_uuid
from mercato_catalog.validation.findings import Findings
from mercato_catalog.validation.validate import validate as validate_document
from mercato_catalog.words import unpack_search
from mercato_contract.carts import (
    AddCartItemRequest,
    Cart,
    LineItem,
    PricedCart,
    RemoveCartItemRequest,
    UpdateCartItemRequest,
)
from mercato_contract.catalogs import CatalogDiff, CatalogSummary
from mercato_contract.ordering import NamedLine
from mercato_contract.wire import Wire

DEFAULT_CURRENCY: Final = "USD"
"""The currency of a document without one, where a network has no other default."""


class InvalidDocument(Exception):  # noqa: N818  # the state of the document, as the specification calls it
    """The document can't be served. `faults` say why, each with a pointer (RFC 6901) into it."""

    def __init__(self, faults: tuple[Finding, ...]) -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(faults[0].message + more)
        self.faults = faults


class Availability(Struct, frozen=True):
    """Whether some catalog of the menu is available, and until when: at most one of the instants is set."""

    is_open: bool
    opens_at: datetime | None
    closes_at: datetime | None


class Catalog:
    """A menu to price carts with, by the rules of the service's cart helpers. Nothing here changes its arguments.

    Amounts are decimal strings in the currency's own scale; inside they are integers of minor units. Prices and stock
    can change, so let the service validate an order before it is placed.
    """

    def __init__(self, built: Built, *, store_id: UUID, catalog_set_id: UUID, new_id: MakeId) -> None:
        """For `build`, which has the document."""
        self.compiled = unpack(built.compiled)
        self._spans = unpack_search(built.search).spans
        self._body = built.body
        self._store_id, self._catalog_set_id, self._new_id = store_id, catalog_set_id, new_id
        self.summary: CatalogSummary = built.summary
        self.warnings: tuple[Finding, ...] = built.warnings

    def add(self, cart: Cart | None, line: LineItem, *, sold_out: Collection[UUID] = ()) -> PricedCart:
        """Return the cart with the line added: to the line with the same choices and note, or as a new one.

        Raises `ItemUnavailable` (400) if something isn't sold, else `ValidationFailed` (422); `errors` has every fault.
        """
        request = AddCartItemRequest(
            item=line, cart=cart, catalog_set_id=self._catalog_set_id, store_id=self._store_id
        )
        get_catalog_ref(request)
        return add_item(request, self._menu(sold_out), self._new_id)

    def remove(self, cart: Cart, line_item_id: UUID, *, sold_out: Collection[UUID] = ()) -> PricedCart:
        """Return the cart without a line or modifier; `errors` of it are the faults of the rest.

        Raises `LineItemNotFound` (404).
        """
        request = RemoveCartItemRequest(cart=cart, line_item_id=line_item_id)
        get_catalog_ref(request)
        return remove_item(request, self._menu(sold_out), self._new_id)

    def update(
        self, cart: Cart, line_item_id: UUID, quantity: int, *, sold_out: Collection[UUID] = ()
    ) -> PricedCart:
        """Return the cart with another quantity of a line or modifier; 0 removes it.

        Raises `LineItemNotFound` (404), and what `add` raises.
        """
        request = UpdateCartItemRequest(cart=cart, line_item_id=line_item_id, quantity=quantity)
        get_catalog_ref(request)
        return update_item(request, self._menu(sold_out), self._new_id)

    def price(self, cart: Cart, *, sold_out: Collection[UUID] = ()) -> PricedCart:
        """Return the cart priced; `errors` of it are what prevents an order, each with a pointer into one.

        `amounts` are absent if something has no price. Raises `ValidationFailed` for more than 200 lines or 8 levels.
        """
        check_bounds(cart.line_items)
        found = price(
            cart.line_items, catalog=self.compiled, sold_out=frozenset(sold_out), new_id=self._new_id
        )
        return PricedCart(
            catalog_set_id=self._catalog_set_id,
            line_items=found.lines,
            store_id=self._store_id,
            amounts=found.amounts,
            errors=tuple(fault.error() for fault in (*found.faults, *found.overflows)),
        )

    def resolve(self, lines: Sequence[NamedLine], *, sold_out: Collection[UUID] = ()) -> Resolution:
        """Return what lines are whose items, groups and options are ids or names: the priced cart, or every fault.

        A name that fits several or none is a fault with what can be sent instead. Raises `ValidationFailed` for more
        than 200 lines, choices included, or 8 levels.
        """
        return resolve(
            lines,
            names=self._names,
            store_id=self._store_id,
            catalog_set_id=self._catalog_set_id,
            sold_out=frozenset(sold_out),
            new_id=self._new_id,
        )

    def availability(self, at: datetime, timezone: tzinfo) -> Availability:
        """Return whether the menu is available at an instant, in the store's time zone, and when that changes.

        Raises ValueError if `at` has no offset: the machine's own time zone isn't the store's.
        """
        if at.utcoffset() is None:
            raise ValueError(f"{at.isoformat()} is no instant: give it a time zone, as in datetime.now(UTC).")
        change = next_change(at, timezone, edges_of(self._spans), since=at)
        is_open = self.compiled.is_open(at.astimezone(timezone))
        return Availability(is_open, change.opens_at, change.closes_at)

    def diff(self, after: "Catalog") -> CatalogDiff:
        """Return what another menu changes of this one. Entities are compared by id."""
        return diff(self.compiled, after.compiled)

    @cached_property
    def _names(self) -> Names:
        return names_of(self.compiled, sections_of(self._body))

    def _menu(self, sold_out: Collection[UUID]) -> StoreMenu:
        return StoreMenu(self._store_id, self._catalog_set_id, self.compiled, frozenset(sold_out))


def validate(
    document: bytes | str | Mapping[str, object], *, default_currency: str = DEFAULT_CURRENCY
) -> Findings:
    """Return the faults and warnings of a CatalogSet document (JSON): those of the service's ingest. Raises nothing.

    An object that is read already is checked as `json.dumps` writes it. What it had twice is lost, so it isn't found.
    """
    _, findings = validate_document(
        _bytes_of(document), onboarding_id=NO_ONBOARDING, default_currency=default_currency
    )
    return findings


def build(
    document: bytes | str | Mapping[str, object],
    *,
    default_currency: str = DEFAULT_CURRENCY,
    onboarding_id: UUID = NO_ONBOARDING,
    new_id: MakeId = uuid4,
) -> Catalog:
    """Return the menu of a CatalogSet document: the served copy, or a merchant's own. Raises InvalidDocument.

    `storeId` and `catalogSetId` are those of the served copy. An id that isn't a UUID is replaced by one that is
    derived from it and the `onboarding_id`, as the service does. `new_id` makes the ids of lines that have none.
    """
    document = _bytes_of(document)
    ids = _ids_of(document)
    request = BuildRequest(onboarding_id, ids.catalog_set_id, ids.store_id, default_currency)
    made = build_document(document, request)
    if isinstance(made, BuildFailed):
        raise InvalidDocument(made.faults)
    assert isinstance(made, Built), "nothing was built before"
    return Catalog(made, store_id=ids.store_id, catalog_set_id=ids.catalog_set_id, new_id=new_id)


def _bytes_of(document: bytes | str | Mapping[str, object]) -> bytes:
    """Return the document as it is sent. Half of a surrogate pair, which UTF-8 lacks, is for `validate` to find."""
    if isinstance(document, Mapping):
        document = json.dumps(dict(document), ensure_ascii=False)
    return document.encode(errors="surrogatepass") if isinstance(document, str) else document


class _Ids(Struct, frozen=True):
    catalog_set_id: UUID = NO_ONBOARDING
    store_id: UUID = NO_ONBOARDING


class _ServedIds(Wire):
    catalog_set_id: msgspec.Raw = msgspec.Raw()
    store_id: msgspec.Raw = msgspec.Raw()


def _ids_of(document: bytes) -> _Ids:
    """Return the ids of a served copy. What a merchant's own document has there is anything, and ignored."""
    try:
        served = msgspec.json.decode(document, type=_ServedIds)
    except msgspec.MsgspecError:
        return _Ids()  # `build` says what is wrong
    return _Ids(_uuid(served.catalog_set_id), _uuid(served.store_id))


def _uuid(value: msgspec.Raw) -> UUID:
    text = bytes(value).decode("utf-8", "replace").strip('"')
    return UUID(text) if is_uuid(text) else NO_ONBOARDING
