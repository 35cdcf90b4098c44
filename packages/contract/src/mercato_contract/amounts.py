"""The amounts of an order, with those that its store sets.

Minor units inside, decimal strings on the wire.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, field
from msgspec.structs import astuple, replace

from mercato_contract.decoding.decode import Member, decoded, one_line
from mercato_contract.money import (
    MAX_MINOR,
    MIN_MINOR,
    MoneyError,
    decimal_to_minor,
    get_scale,
    minor_to_decimal,
    number_to_minor,
    quote,
)
from mercato_contract.placements import AmountDetail, Amounts
from mercato_contract.problems import ITEM_PRICE_CHANGED, OrderError
from mercato_contract.wire import Wire

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
            error = OrderError(code=ITEM_PRICE_CHANGED.code, message=message, pointer="/cart/lineItems")
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
