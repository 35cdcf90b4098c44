"""The proof of an order's price: its amounts are those that its CatalogSet and its own entries give. Pure."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato_catalog.carts.lines import check_bounds
from mercato_catalog.carts.pricing import Priced, price
from mercato_catalog.charges import apply_charges
from mercato_catalog.model import CompiledCatalog
from mercato_contract.amounts import Sums, wire
from mercato_contract.carts import (
    MAX_LINES,
    CartAmounts,
    CartModifierGroup,
    LineItem,
    LineItemAmounts,
    PricedLineItem,
    Quantity,
)
from mercato_contract.clock import new_id
from mercato_contract.money import (
    minor_to_decimal,
    to_minor,
    to_text,
)
from mercato_contract.orders import MAX_ADJUSTMENTS, AdjustmentType, OrderAmounts
from mercato_contract.placements import AmountDetail, Amounts
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import Charge, FulfillmentMode
from mercato_contract.wire import MAX_ENTRIES, Wire


class ProofLine(Wire):
    """A line with the amounts that the order has for it. Orders of earlier releases have none for modifiers."""

    item_id: UUID
    modifier_groups: Annotated[list["ProofGroup"], Meta(max_length=MAX_ENTRIES)]
    quantity: Quantity
    line_item_id: UUID | None = None
    amounts: LineItemAmounts | UnsetType = UNSET
    free_quantity: int | UnsetType = UNSET


class ProofGroup(Wire):
    """The choices from one modifier group."""

    modifier_group_id: UUID
    line_items: Annotated[list[ProofLine], Meta(max_length=MAX_LINES)]


class ProofCart(Wire):
    """The cart of an order."""

    catalog_set_id: UUID
    line_items: Annotated[list[ProofLine], Meta(max_length=MAX_LINES)]
    amounts: CartAmounts | UnsetType = UNSET


class ProofAdjustment(Wire):
    """What the merchant changed of what the order costs, after it was placed."""

    type: AdjustmentType
    amount: str


class ProofFulfillment(Wire):
    """How the order is handed over: a charge may be for one mode alone."""

    mode: FulfillmentMode


class ProofOrder(Wire):
    """An order of either surface, or of a webhook. Only what its price depends on is read."""

    cart: ProofCart
    amounts: OrderAmounts
    fulfillment: ProofFulfillment | UnsetType = UNSET
    adjustments: Annotated[tuple[ProofAdjustment, ...], Meta(max_length=MAX_ADJUSTMENTS)] = ()


class PriceDifference(Wire):
    """An amount of the order that isn't the recomputed one. `recomputed` is null if the set has no price for it."""

    path: Annotated[str, Meta(description="RFC 6901 pointer into the order.")]
    order: str | None
    recomputed: str | None
    message: str


class PriceProof(Wire):
    """All differences; an order without one costs what its CatalogSet says."""

    equal: bool
    catalog_set_id: UUID
    total: str
    currency: str
    differences: tuple[PriceDifference, ...]


def verify_prices(
    order: ProofOrder, catalog: CompiledCatalog, charges: Sequence[Charge] | None = None
) -> PriceProof:
    """Compare every amount of the order with the one that the catalog and the order's own entries give.

    With `charges`, the taxes and fees that the order's store had when it was placed, these are recomputed, too.

    Fees, taxes, promotions, adjustments and tip are the store's and the customer's: their entries are summed, not
    recomputed. So are the adjustments after the order was placed. What is summed is what was recomputed before, so that
    one changed amount is one difference. Raises ValidationFailed for a cart out of bounds, and
    MoneyError for an amount that isn't a decimal of an ISO 4217 currency.
    """
    lines = _line_items(order.cart.line_items)
    check_bounds(lines)
    priced = price(lines, catalog=catalog, sold_out=(), new_id=new_id, itemized=True)
    sub_total = None if priced.total is None else minor_to_decimal(priced.total, catalog.scale)
    comparable = order.amounts.currency == catalog.currency
    total = _total(order.amounts, sub_total if comparable else None)
    differences = (
        *_cart_differences(order, priced, sub_total),
        *_amount_differences(order.amounts, catalog.currency, total),
        *_charge_differences(order, priced.total, catalog, charges),
        *_adjustment_differences(order, total),
    )
    return PriceProof(
        equal=not differences,
        catalog_set_id=order.cart.catalog_set_id,
        total=order.amounts.total,
        currency=order.amounts.currency,
        differences=differences,
    )


def _line_items(lines: Sequence[ProofLine]) -> list[LineItem]:
    """Return the lines as a cart has them."""
    return [
        LineItem(
            item_id=line.item_id,
            quantity=line.quantity,
            line_item_id=line.line_item_id,
            modifier_groups=[
                CartModifierGroup(
                    modifier_group_id=group.modifier_group_id, line_items=_line_items(group.line_items)
                )
                for group in line.modifier_groups
            ],
        )
        for line in lines
    ]


def _line_differences(
    lines: Sequence[ProofLine], priced: Sequence[PricedLineItem], path: str, *, top: bool = True
) -> Iterator[PriceDifference]:
    for index, (line, recomputed) in enumerate(zip(lines, priced, strict=True)):
        at, stored, found = f"{path}/{index}", line.amounts or None, recomputed.amounts or None
        if stored or top:
            unit_price, total = stored and stored.unit_price, stored and stored.total
            yield from _compare(f"{at}/amounts/unitPrice", unit_price, found and found.unit_price)
            yield from _compare(f"{at}/amounts/total", total, found and found.total)
            free = (str(line.free_quantity or 0), str(recomputed.free_quantity or 0))
            yield from _compare(f"{at}/freeQuantity", *free)
        for number, (group, below) in enumerate(
            zip(line.modifier_groups, recomputed.modifier_groups, strict=True)
        ):
            under = f"{at}/modifierGroups/{number}/lineItems"
            yield from _line_differences(group.line_items, below.line_items, under, top=False)


def _total(amounts: Amounts, sub_total: str | None) -> int:
    """Return the sum of the amounts in minor units: of the recomputed subTotal, and of the entries of the others."""
    currency = amounts.currency
    total = to_minor(amounts.sub_total if sub_total is None else sub_total, currency)
    for name, (amount, entries) in _extras(amounts).items():
        # A tip has one entry or none; a store may give an amount without entries.
        minor = (
            sum(to_minor(entry.amount, currency) for entry in entries)
            if entries
            else to_minor(amount, currency)
        )
        total += -minor if name == "promotions" else minor
    return total


def _extras(amounts: Amounts) -> dict[str, tuple[str, Sequence[AmountDetail]]]:
    return {
        "fees": (amounts.fees, amounts.fees_description),
        "taxes": (amounts.taxes, amounts.taxes_description),
        "promotions": (amounts.promotions, amounts.promotions_description),
        "adjustments": (amounts.adjustments, amounts.adjustments_description),
        "tip": (amounts.tip, amounts.tip_description),
    }


def _cart_differences(order: ProofOrder, priced: Priced, sub_total: str | None) -> Iterator[PriceDifference]:
    yield from _line_differences(order.cart.line_items, priced.lines, "/cart/lineItems")
    for fault in (*priced.faults, *priced.overflows):
        error = fault.error()
        yield PriceDifference(path=error.pointer or "", order=None, recomputed=None, message=error.message)
    if order.cart.amounts:
        yield from _compare("/cart/amounts/subTotal", order.cart.amounts.sub_total, sub_total)
        yield from _compare("/cart/amounts/total", order.cart.amounts.total, sub_total)
    yield from _compare("/amounts/subTotal", order.amounts.sub_total, sub_total)


def _amount_differences(amounts: Amounts, currency: str, total: int) -> Iterator[PriceDifference]:
    """Compare each amount with the sum of its entries, and the total with the sum of the amounts."""
    yield from _compare("/amounts/currency", amounts.currency, currency)
    for name, (amount, entries) in _extras(amounts).items():
        if entries:
            summed = sum(to_minor(entry.amount, amounts.currency) for entry in entries)
            yield from _compare(f"/amounts/{name}", amount, to_text(summed, amounts.currency))
    yield from _compare("/amounts/total", amounts.total, to_text(total, amounts.currency))


def _charge_differences(
    order: ProofOrder, sub_total: int | None, catalog: CompiledCatalog, charges: Sequence[Charge] | None
) -> Iterator[PriceDifference]:
    """Compare fees and taxes with those that the store's charges make of the recomputed subTotal."""
    if charges is None or sub_total is None:
        return
    if order.fulfillment is UNSET:
        raise ValidationFailed.at("/fulfillment", "The order has no fulfillment, on which charges depend.")
    sums = Sums(currency=catalog.currency, scale=catalog.scale, sub_total=sub_total)
    charged = wire(apply_charges(sums, charges, mode=order.fulfillment.mode))
    for name in ("fees", "taxes"):
        entries = getattr(order.amounts, f"{name}_description"), getattr(charged, f"{name}_description")
        if not any(entries):
            # With entries, these or their sum tell.
            minor = to_minor(getattr(order.amounts, name), order.amounts.currency)
            text = to_text(minor, order.amounts.currency)
            yield from _compare(f"/amounts/{name}", text, getattr(charged, name), by=_CHARGES)
        for index, (stored, found) in enumerate(zip_longest(*entries)):
            at = f"/amounts/{name}Description/{index}"
            yield from _compare(at, _entry(stored), _entry(found), by=_CHARGES)


def _entry(entry: AmountDetail | None) -> str | None:
    return None if entry is None else f"{entry.amount} ({entry.description})"


def _adjustment_differences(order: ProofOrder, total: int) -> Iterator[PriceDifference]:
    """Compare what the order costs now with its total and the sum of its adjustments."""
    currency = order.amounts.currency
    if order.amounts.total_after_adjustments is UNSET and not order.adjustments:
        # A webhook to a store, or an order of an earlier release.
        return
    for one in order.adjustments:
        minor = to_minor(one.amount, currency)
        total += -minor if one.type is AdjustmentType.REFUND else minor
    stored = order.amounts.total_after_adjustments or None
    yield from _compare("/amounts/totalAfterAdjustments", stored, to_text(total, currency))


_CHARGES: Final = "store's charges give"


def _compare(
    path: str, order: str | None, recomputed: str | None, *, by: str = "CatalogSet gives"
) -> Iterator[PriceDifference]:
    if order != recomputed:
        has = "no amount" if order is None else order
        message = f"The order has {has}, the {by} {recomputed or 'no amount'}."
        yield PriceDifference(path=path, order=order, recomputed=recomputed, message=message)
