"""What `mercato catalog diff` prints."""

from collections.abc import Iterator

from mercato.catalog.model import CatalogDiff, DiffList, PartDiff
from mercato.cli.carts import CartChange
from mercato.cli.plain import folded, harmless, say
from mercato.wire import Wire


class Difference(Wire):
    """What the new catalog changes, and what carts would cost."""

    catalog: CatalogDiff
    carts: list[CartChange]


def print_difference(found: Difference) -> None:
    """Print it for people."""
    say(*_catalog(found.catalog))
    for one in found.carts:
        say(*_cart(one))


def _catalog(found: CatalogDiff) -> Iterator[str]:
    if found.identical:
        yield "Nothing that pricing or browsing would notice is different."
        return
    if found.currency is not None:
        yield f"Currency: {found.currency.before} before, {found.currency.after} after"
    items = found.items
    yield from _listed("Items added", "+", items.added)
    yield from _listed("Items removed", "-", items.removed)
    if items.repriced.count:
        yield f"Items repriced: {items.repriced.count:,}"
        for one in items.repriced.entries:
            prices = f"{one.before or 'no price'} → {one.after or 'no price'}"
            yield from folded(f"{one.name or 'no name'} ({one.id})", first=f"  {prices}  ", indent="      ")
        yield from _more(items.repriced.count - len(items.repriced.entries))
    yield from _listed("Items with other options", "~", items.reoptioned)
    yield from _listed("Items with another name, availability, maximum or partnerItemId", "~", items.changed)
    yield from _part("Modifier groups", found.modifier_groups)
    yield from _part("Sections", found.sections)
    yield from _part("Catalogs", found.catalogs)


def _part(noun: str, part: PartDiff) -> Iterator[str]:
    yield from _listed(f"{noun} added", "+", part.added)
    yield from _listed(f"{noun} removed", "-", part.removed)
    yield from _listed(f"{noun} changed", "~", part.changed)


def _listed(title: str, mark: str, found: DiffList) -> Iterator[str]:
    if not found.count:
        return
    yield f"{title}: {found.count:,}"
    for entry in found.entries:
        yield from folded(f"{entry.name or 'no name'} ({entry.id})", first=f"  {mark} ", indent="    ")
    yield from _more(found.count - len(found.entries))


def _more(count: int) -> Iterator[str]:
    if count:
        yield f"  and {count:,} more"


def _cart(one: CartChange) -> Iterator[str]:
    name = harmless(one.file)
    if one.before == one.after:
        yield f"Cart {name}: {'cannot be priced by either' if one.after is None else one.after + ', as before'}"
    elif one.before is not None and one.after is not None:
        yield f"Cart {name}: {one.before} → {one.after}"
    elif one.after is None:
        yield f"Cart {name}: {one.before} before, and now it fails:"
    else:
        yield f"Cart {name}: could not be priced before, {one.after} now"
    for fault in one.errors:
        yield from folded(f"{fault.code} at {fault.pointer}: {fault.message}", indent="    ", first="  - ")
