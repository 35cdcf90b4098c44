"""The difference between a new set and the current one: counted in full, listed up to a limit."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar
from uuid import UUID

import msgspec

from mercato_catalog.model import CompiledCatalog, CompiledItem, Key
from mercato_contract.catalogs import (
    CatalogDiff,
    CurrencyChange,
    DiffEntry,
    DiffList,
    EntityDiff,
    ItemDiff,
    PriceChange,
    PriceChanges,
)
from mercato_contract.money import minor_to_decimal

MAX_LISTED: Final = 100
"""Entries listed of each kind of change."""

K = TypeVar("K", Key, str)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def diff(before: CompiledCatalog, after: CompiledCatalog) -> CatalogDiff:
    """Return what `after` changes. Entities are compared by id."""
    catalogs_before = {catalog.catalog_id: catalog for catalog in before.catalogs}
    catalogs_after = {catalog.catalog_id: catalog for catalog in after.catalogs}
    found = CatalogDiff(
        identical=False,
        currency=_currency(before, after),
        items=_items(before, after),
        modifier_groups=_parts(before.groups, after.groups),
        sections=_parts(before.sections, after.sections),
        catalogs=_parts(catalogs_before, catalogs_after),
    )
    return msgspec.structs.replace(found, identical=_is_nothing(found))


def _currency(before: CompiledCatalog, after: CompiledCatalog) -> CurrencyChange | None:
    if before.currency == after.currency:
        return None
    return CurrencyChange(before=before.currency, after=after.currency)


def _items(before: CompiledCatalog, after: CompiledCatalog) -> ItemDiff:
    kept = [(key, before.items[key], item) for key, item in after.items.items() if key in before.items]

    def differing(attribute: Callable[[CompiledItem], object]) -> DiffList:
        return _listed((key, new) for key, old, new in kept if attribute(old) != attribute(new))

    return ItemDiff(
        added=_listed((key, item) for key, item in after.items.items() if key not in before.items),
        removed=_listed((key, item) for key, item in before.items.items() if key not in after.items),
        repriced=_repriced(kept, before, after),
        reoptioned=differing(lambda item: item.groups),
        changed=differing(_rest),
    )


def _rest(item: CompiledItem) -> object:
    return item.name, item.available, item.maximum_quantity, item.partner_item_id


def _repriced(
    kept: Iterable[tuple[Key, CompiledItem, CompiledItem]], before: CompiledCatalog, after: CompiledCatalog
) -> PriceChanges:
    # Minor units of two currencies can't be compared: 100 JPY isn't 100 USD cents.
    same = before.currency == after.currency
    changes = [(key, old, new) for key, old, new in kept if not same or old.price != new.price]
    return PriceChanges(
        count=len(changes),
        entries=tuple(
            PriceChange(
                id=_id(key), name=new.name, before=_text(old.price, before), after=_text(new.price, after)
            )
            for key, old, new in changes[:MAX_LISTED]
        ),
    )


def _parts(before: Mapping[K, N], after: Mapping[K, N]) -> EntityDiff:
    return EntityDiff(
        added=_listed((key, part) for key, part in after.items() if key not in before),
        removed=_listed((key, part) for key, part in before.items() if key not in after),
        changed=_listed((key, part) for key, part in after.items() if key in before and part != before[key]),
    )


def _listed(found: Iterable[tuple[Key | str, _Named]]) -> DiffList:
    pairs = list(found)
    entries = tuple(DiffEntry(id=_id(key), name=part.name) for key, part in pairs[:MAX_LISTED])
    return DiffList(count=len(pairs), entries=entries)


def _id(key: Key | str) -> str:
    return key if isinstance(key, str) else str(UUID(int=key))


def _text(price: int | None, catalog: CompiledCatalog) -> str | None:
    return None if price is None else minor_to_decimal(price, catalog.scale)


def _is_nothing(found: CatalogDiff) -> bool:
    items, parts = found.items, (found.modifier_groups, found.sections, found.catalogs)
    lists = [items.added, items.removed, items.reoptioned, items.changed]
    lists += [entities for part in parts for entities in (part.added, part.removed, part.changed)]
    return (
        found.currency is None and not items.repriced.count and not any(entities.count for entities in lists)
    )
