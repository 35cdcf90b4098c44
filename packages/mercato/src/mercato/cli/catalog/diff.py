"""What `mercato catalog diff` prints: the changes of a new catalog, and what sample carts would cost."""

from collections.abc import Iterable, Iterator
from typing import Final

from mercato.cli import UnusableError
from mercato.cli.inputs import read_file
from mercato.cli.output import sanitize, say, wrap
from mercato.features.carts.lines import check_bounds
from mercato.features.carts.pricing import price
from mercato.features.catalogs.model import CompiledCatalog
from mercato.platform.clock import new_id
from mercato.platform.errors import Problem
from mercato.platform.wire import Decoder
from mercato.settings import MiB
from mercato_contract.carts import LineItem
from mercato_contract.catalogs import CatalogDiff, DiffList
from mercato_contract.money import minor_to_decimal
from mercato_contract.problems import OrderError
from mercato_contract.wire import Wire


class SampleCart(Wire):
    """A cart as a storefront sends or receives it; only its lines are read."""

    line_items: list[LineItem]


class CartChange(Wire):
    """A cart's price before and after; null where it can't be priced, with the errors."""

    file: str
    before: str | None
    after: str | None
    errors: list[OrderError]

    @property
    def breaks(self) -> bool:
        """Return whether the old catalog prices it and the new one doesn't."""
        return self.before is not None and self.after is None


class Difference(Wire):
    """The changes of the new catalog, and the prices of the sample carts."""

    catalog: CatalogDiff
    carts: list[CartChange]


_decode: Final = Decoder(SampleCart)


def compare_carts(files: Iterable[str], before: CompiledCatalog, after: CompiledCatalog) -> list[CartChange]:
    """Return each cart's price by both catalogs. Raises UnusableError for a file that isn't a cart."""
    return [_compare(file, before, after) for file in files]


def _compare(file: str, before: CompiledCatalog, after: CompiledCatalog) -> CartChange:
    try:
        lines = _decode(read_file(file, max_bytes=MiB)).line_items
        check_bounds(lines)
    except Problem as problem:
        raise UnusableError(f"{file} isn't a cart: {problem.detail}") from None
    old, _ = _price(lines, before)
    new, faults = _price(lines, after)
    return CartChange(file=file, before=old, after=new, errors=faults)


def _price(lines: list[LineItem], catalog: CompiledCatalog) -> tuple[str | None, list[OrderError]]:
    priced = price(lines, catalog=catalog, sold_out=(), new_id=new_id)
    faults = [fault.error() for fault in (*priced.faults, *priced.overflows)]
    if faults or priced.total is None:
        return None, faults
    return f"{minor_to_decimal(priced.total, catalog.scale)} {catalog.currency}", []


def print_difference(found: Difference) -> None:
    """Print it for people."""
    say(*_catalog(found.catalog))
    for change in found.carts:
        say(*_cart(change))


def _catalog(found: CatalogDiff) -> Iterator[str]:
    if found.identical:
        yield "No difference that pricing or browsing would show."
        return
    if found.currency is not None:
        yield f"Currency: {found.currency.before} before, {found.currency.after} after"
    items = found.items
    yield from _listed("Items added", "+", items.added)
    yield from _listed("Items removed", "-", items.removed)
    if items.repriced.count:
        yield f"Items repriced: {items.repriced.count:,}"
        for repriced in items.repriced.entries:
            prices = f"{repriced.before or 'no price'} → {repriced.after or 'no price'}"
            yield from wrap(
                f"{repriced.name or 'no name'} ({repriced.id})", first=f"  {prices}  ", indent="      "
            )
        yield from _more(items.repriced.count - len(items.repriced.entries))
    yield from _listed("Items with other options", "~", items.reoptioned)
    yield from _listed("Items with another name, availability, maximum or partnerItemId", "~", items.changed)
    parts = {
        "Modifier groups": found.modifier_groups,
        "Sections": found.sections,
        "Catalogs": found.catalogs,
    }
    for noun, part in parts.items():
        yield from _listed(f"{noun} added", "+", part.added)
        yield from _listed(f"{noun} removed", "-", part.removed)
        yield from _listed(f"{noun} changed", "~", part.changed)


def _listed(title: str, mark: str, found: DiffList) -> Iterator[str]:
    if found.count:
        yield f"{title}: {found.count:,}"
        for entry in found.entries:
            yield from wrap(f"{entry.name or 'no name'} ({entry.id})", first=f"  {mark} ", indent="    ")
        yield from _more(found.count - len(found.entries))


def _more(count: int) -> Iterator[str]:
    if count:
        yield f"  and {count:,} more"


def _cart(change: CartChange) -> Iterator[str]:
    name = f"Cart {sanitize(change.file)}"
    if change.before == change.after:
        yield f"{name}: {'cannot be priced by either' if change.after is None else f'{change.after}, as before'}"
    elif change.after is None:
        yield f"{name}: {change.before} before, and now it fails:"
    elif change.before is None:
        yield f"{name}: could not be priced before, {change.after} now"
    else:
        yield f"{name}: {change.before} → {change.after}"
    for fault in change.errors:
        yield from wrap(f"{fault.code} at {fault.pointer}: {fault.message}", indent="    ", first="  - ")
