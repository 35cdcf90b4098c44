"""The amounts of an order: those that its store sets, and the proof that they are what its CatalogSet says.

Minor units inside, decimal strings on the wire. Pure: no database, no network.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import astuple, replace

from mercato.features.carts.lines import check_bounds
from mercato.features.carts.pricing import Priced, price
from mercato.features.catalogs.model import CompiledCatalog
from mercato.features.orders.errors import ItemPriceChanged
from mercato.platform.clock import new_id
from mercato.platform.wire.decode import Member, decoded, one_line
from mercato_contract.carts import (
    MAX_LINES,
    CartAmounts,
    CartModifierGroup,
    LineItem,
    LineItemAmounts,
    PricedLineItem,
    Quantity,
)
from mercato_contract.money import (
    MAX_MINOR,
    MIN_MINOR,
    MoneyError,
    decimal_to_minor,
    get_scale,
    minor_to_decimal,
    number_to_minor,
    quote,
    to_minor,
    to_text,
)
from mercato_contract.orders import MAX_ADJUSTMENTS, AdjustmentType, OrderAmounts
from mercato_contract.placements import AmountDetail, Amounts
from mercato_contract.problems import OrderError
from mercato_contract.wire import MAX_ENTRIES, Wire

MAX_DETAILS: Final = 100
"""Entries of one list in a store's reply."""

MAX_DESCRIPTION_BYTES: Final = 32 * 1024
"""Bytes of all descriptions of an order in UTF-8: a validatedOrderToken carries them."""

DESCRIPTION_LENGTH: Final = 255


class AmountEntry(Struct, frozen=True, array_like=True):
    """One entry of an amount's description."""

    amount: int
    description: str


AmountEntries = tuple[AmountEntry, ...]


class Extras(Struct, frozen=True, array_like=True):
    """The amounts that a store may set, as the entries that add up to each."""

    fees: AmountEntries = ()
    taxes: AmountEntries = ()
    promotions: AmountEntries = ()
    adjustments: AmountEntries = ()


EXTRAS: Final = Extras.__struct_fields__


class Sums(Struct, frozen=True, array_like=True):
    """An order's amounts in minor units of `scale` decimals. A token carries them as the array of the members."""

    currency: str
    scale: int
    sub_total: int
    extras: Extras = field(default_factory=Extras)
    tip: int = 0

    @property
    def total(self) -> int:
        """SubTotal + fees - promotions + taxes + adjustments + tip."""
        extras, total = self.extras, self.sub_total + self.tip
        for detail in extras.fees + extras.taxes + extras.adjustments:
            total += detail.amount
        for detail in extras.promotions:
            total -= detail.amount
        return total


class StoreAmounts(Wire):
    """Amounts as a store sent them. Each is still raw JSON, so that no number passes through a float."""

    currency: Member = UNSET
    sub_total: Member = UNSET
    fees: Member = UNSET
    fees_description: Member = UNSET
    taxes: Member = UNSET
    taxes_description: Member = UNSET
    promotions: Member = UNSET
    promotions_description: Member = UNSET
    adjustments: Member = UNSET
    adjustments_description: Member = UNSET
    total: Member = UNSET


class _StoreDetail(msgspec.Struct, frozen=True):
    amount: Member = UNSET
    description: Member = UNSET


class InvalidAmountsError(ValueError):
    """A store's amounts can't be applied. The message is for the merchant, who reads it in the delivery log."""


class PriceChangedError(Exception):
    """The store's subTotal differs from the catalog's."""

    def __init__(self, error: OrderError) -> None:
        super().__init__(error.message)
        self.error = error


def wire(sums: Sums) -> Amounts:
    """Return the amounts on the wire: decimal strings at scale, each with a list that adds up to it."""
    scale, members = sums.scale, dict[str, Any]()
    tips = (AmountEntry(sums.tip, "Tip"),) if sums.tip else ()
    zero = minor_to_decimal(0, scale)
    for name, details in (*zip(EXTRAS, astuple(sums.extras), strict=True), ("tip", tips)):
        members[name], members[f"{name}_description"] = zero, ()
        if details:
            members[name] = minor_to_decimal(_sum(details), scale)
            members[f"{name}_description"] = tuple(
                AmountDetail(amount=minor_to_decimal(detail.amount, scale), description=detail.description)
                for detail in details
            )
    return Amounts(
        currency=sums.currency,
        sub_total=minor_to_decimal(sums.sub_total, scale),
        total=minor_to_decimal(sums.total, scale),
        **members,
    )


def sums_of(amounts: Amounts) -> Sums:
    """Return a stored order's amounts in minor units."""
    scale = get_scale(amounts.currency)
    lists = (getattr(amounts, f"{name}_description") for name in EXTRAS)
    return Sums(
        currency=amounts.currency,
        scale=scale,
        sub_total=decimal_to_minor(amounts.sub_total, scale),
        extras=Extras(
            *(
                tuple(AmountEntry(decimal_to_minor(part.amount, scale), part.description) for part in parts)
                for parts in lists
            )
        ),
        tip=decimal_to_minor(amounts.tip, scale),
    )


def apply_store_amounts(sums: Sums, sent: StoreAmounts | None) -> Sums:
    """Return the sums with the amounts that the store set. The others stay, and so does the customer's tip.

    Raises InvalidAmountsError, PriceChangedError.
    """
    return sums if sent is None else _StoreAmountsReader(sums).apply(sent)


def explain_ignored_amounts(sums: Sums, sent: StoreAmounts | None) -> str | None:
    """Return how amounts that come too late to be applied differ from the order's, or None if they don't.

    The text quotes nothing that the store sent, because the store has seen the payment.
    """
    try:
        total = apply_store_amounts(sums, sent).total
    except InvalidAmountsError:
        return "The store's amounts can't be read, or don't add up."
    except PriceChangedError as changed:
        return changed.error.message
    if total == sums.total:
        return None
    sent_total, placed_total = minor_to_decimal(total, sums.scale), minor_to_decimal(sums.total, sums.scale)
    return (
        f"The store's amounts come to {sent_total} {sums.currency}; the order was placed for {placed_total}."
    )


class _StoreAmountsReader:
    """Reads one reply's amounts for an order with these sums."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    def apply(self, raw: StoreAmounts) -> Sums:
        ours = self._sums
        self._check_currency(raw.currency)
        sub_total, total = self._amount(raw.sub_total, "subTotal"), self._amount(raw.total, "total")
        extras = Extras(**{name: self._extra(name, raw, getattr(ours.extras, name)) for name in EXTRAS})
        if sub_total is not None and sub_total != ours.sub_total:
            message = (
                f"The store's subTotal is {self._text(sub_total)} {ours.currency}, the catalog's prices make "
                f"{self._text(ours.sub_total)}."
            )
            error = OrderError(code=ItemPriceChanged.code, message=message, pointer="/cart/lineItems")
            raise PriceChangedError(error)
        found = replace(ours, extras=extras)
        self._check_total(found, total)
        return found

    def _check_currency(self, raw: Member) -> None:
        try:
            currency = decoded(raw, str)
        except msgspec.ValidationError:
            raise InvalidAmountsError("amounts.currency must be a string.") from None
        if currency is not None and currency.upper() != self._sums.currency:
            raise InvalidAmountsError(f"amounts.currency isn't the order's, {self._sums.currency}.")

    def _check_total(self, found: Sums, sent: int | None) -> None:
        total = found.total
        if not fits(total):
            raise InvalidAmountsError("The order's total is out of range with the store's amounts.")
        if total < 0:
            raise InvalidAmountsError(f"The store's amounts make a negative total: {self._text(total)}.")
        if sent is not None and sent not in (total, total - found.tip):
            raise InvalidAmountsError(
                f"amounts.total is {self._text(sent)}, but the amounts add up to {self._text(total)} with the tip "
                f"and {self._text(total - found.tip)} without."
            )
        size = sum(len(part.description.encode()) for parts in astuple(found.extras) for part in parts)
        if size > MAX_DESCRIPTION_BYTES:
            raise InvalidAmountsError(
                f"The descriptions of the amounts have more than {MAX_DESCRIPTION_BYTES} bytes together."
            )

    def _extra(self, name: str, raw: StoreAmounts, before: AmountEntries) -> AmountEntries:
        """Return an amount's entries: those of the reply, or `before` if the reply has none."""
        amount = self._amount(getattr(raw, name), name)
        details = self._details(getattr(raw, f"{name}_description"), name)
        if details is None and amount is None:
            return before
        if not details:
            # An empty list beside an amount means the same as no list.
            return (AmountEntry(amount, name.capitalize()),) if amount else ()
        listed = _sum(details)
        if not fits(listed):
            raise InvalidAmountsError(f"amounts.{name} is out of range.")
        if amount is not None and listed != amount:
            raise InvalidAmountsError(
                f"amounts.{name}Description sums to {self._text(listed)}, but amounts.{name} is "
                f"{self._text(amount)}."
            )
        return details

    def _details(self, raw: Member, name: str) -> AmountEntries | None:
        at = f"amounts.{name}Description"
        try:
            entries = decoded(raw, list[_StoreDetail])
            if entries is None:
                return None
            if len(entries) > MAX_DETAILS:
                raise InvalidAmountsError(f"{at} has more than {MAX_DETAILS} entries.")
            return tuple(
                self._detail(entry, f"{at}[{index}]", name.capitalize())
                for index, entry in enumerate(entries)
            )
        except msgspec.ValidationError:
            raise InvalidAmountsError(
                f"{at} must be a list of objects with amount and description."
            ) from None

    def _detail(self, entry: _StoreDetail, at: str, default: str) -> AmountEntry:
        amount = self._amount(entry.amount, f"{at}.amount", prefix="")
        if amount is None:
            raise InvalidAmountsError(f"{at}.amount is missing.")
        description = one_line(decoded(entry.description, str) or "", DESCRIPTION_LENGTH)
        return AmountEntry(amount, description or default)

    def _amount(self, raw: Member, name: str, *, prefix: str = "amounts.") -> int | None:
        if raw is UNSET:
            return None
        text = bytes(raw).strip()
        if text == b"null":
            return None
        sent = ""
        try:
            if text.startswith(b'"'):
                sent = decoded(raw, str)
                return decimal_to_minor(sent, self._sums.scale)
            sent = text.decode()
            return number_to_minor(sent, self._sums.scale)
        except MoneyError as fault:
            # Operators read the message, too: it doesn't repeat the store's text, which may be anything.
            raise InvalidAmountsError(f"{prefix}{name}{str(fault).removeprefix(quote(sent))}") from None
        except (msgspec.ValidationError, UnicodeDecodeError):
            raise InvalidAmountsError(f"{prefix}{name} must be a decimal string.") from None

    def _text(self, minor: int) -> str:
        return minor_to_decimal(minor, self._sums.scale)


def _sum(details: AmountEntries) -> int:
    return sum(detail.amount for detail in details)


def fits(minor: int) -> bool:
    """Return whether int64 minor units hold the amount."""
    return MIN_MINOR <= minor <= MAX_MINOR


# --- the proof of a price -------------------------------------------------------------------------


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


class ProofOrder(Wire):
    """An order of either surface, or of a webhook. Only what its price depends on is read."""

    cart: ProofCart
    amounts: OrderAmounts
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


def verify_prices(order: ProofOrder, catalog: CompiledCatalog) -> PriceProof:
    """Compare every amount of the order with the one that the catalog and the order's own entries give.

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
            sum(to_minor(one.amount, currency) for one in entries) if entries else to_minor(amount, currency)
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


def _compare(path: str, order: str | None, recomputed: str | None) -> Iterator[PriceDifference]:
    if order != recomputed:
        has = "no amount" if order is None else order
        message = f"The order has {has}, the CatalogSet gives {recomputed or 'no amount'}."
        yield PriceDifference(path=path, order=order, recomputed=recomputed, message=message)
