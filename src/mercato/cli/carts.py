"""Sample carts priced by two catalogs: what a new catalog would do to carts that are under way."""

from collections.abc import Iterable
from typing import Final

from mercato.carts.lines import check_bounds
from mercato.carts.model import LineItem
from mercato.carts.pricing import price
from mercato.catalog.model import CompiledCatalog
from mercato.catalog.money import scaled
from mercato.cli.failures import UnusableError
from mercato.cli.sources import read_file
from mercato.clock import new_id
from mercato.errors import OrderError, Problem
from mercato.settings import MiB
from mercato.wire import Decoder, Wire


class SampleCart(Wire):
    """A cart as a storefront sends or gets it; of it the lines alone count here."""

    line_items: list[LineItem]


class CartChange(Wire):
    """What a cart costs before and after; null where it cannot be priced, and then why."""

    file: str
    before: str | None
    after: str | None
    errors: list[OrderError]

    @property
    def breaks(self) -> bool:
        """Tell whether the new catalog alone cannot price it."""
        return self.before is not None and self.after is None


_read: Final = Decoder(SampleCart)


def compare_carts(files: Iterable[str], before: CompiledCatalog, after: CompiledCatalog) -> list[CartChange]:
    """Return what each cart costs by both catalogs. Raises UnusableError for a file that holds no cart."""
    return [_compared(file, before, after) for file in files]


def _compared(file: str, before: CompiledCatalog, after: CompiledCatalog) -> CartChange:
    try:
        lines = _read(read_file(file, most=MiB)).line_items
        check_bounds(lines)
    except Problem as problem:
        raise UnusableError(f"{file} holds no cart: {problem.detail}") from None
    old, _ = _priced(lines, before)
    new, faults = _priced(lines, after)
    return CartChange(file=file, before=old, after=new, errors=faults)


def _priced(lines: list[LineItem], catalog: CompiledCatalog) -> tuple[str | None, list[OrderError]]:
    priced = price(lines, catalog=catalog, sold_out=(), new_id=new_id)
    faults = [fault.error() for fault in (*priced.faults, *priced.overflows)]
    if faults or priced.total is None:
        return None, faults
    return f"{scaled(priced.total, catalog.scale)} {catalog.currency}", []
