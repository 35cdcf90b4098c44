"""What an order costs. Integers of minor units inside; texts only where they come from and go to."""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, field
from msgspec.structs import astuple, replace

from mercato.domain.catalog.money import (
    MAX_MINOR,
    MIN_MINOR,
    MoneyError,
    decimal_to_minor,
    get_scale,
    number_to_minor,
    scaled,
)
from mercato.domain.orders import model
from mercato.domain.orders.request import TIP_NEGATIVE
from mercato.kernel.errors import ItemPriceChanged, OrderError, ValidationFailed
from mercato.kernel.wire import Wire
from mercato.kernel.wire.decode import Member, decoded, readable

MOST_DETAILS: Final = 100
"""Entries of one list of a store's reply."""

MOST_WORDS: Final = 32 * 1024
"""Bytes of all descriptions of an order together: a validatedOrderToken carries them."""

DESCRIPTION_LENGTH: Final = 255


class Detail(Struct, frozen=True, array_like=True):
    """A part of an amount, and what it is for."""

    amount: int
    description: str


Details = tuple[Detail, ...]


class Extras(Struct, frozen=True, array_like=True):
    """What a store may set of an order's amounts; each list sums to its amount."""

    fees: Details = ()
    taxes: Details = ()
    promotions: Details = ()
    adjustments: Details = ()


EXTRAS: Final = Extras.__struct_fields__


class Sums(Struct, frozen=True, array_like=True):
    """What an order costs, in minor units of `scale` decimals. A token carries it as the array of its members."""

    currency: str
    scale: int
    sub_total: int
    extras: Extras = field(default_factory=Extras)
    tip: int = 0

    @property
    def total(self) -> int:
        """What the customer pays: subTotal + fees - promotions + taxes + adjustments + tip."""
        extras, total = self.extras, self.sub_total + self.tip
        for detail in extras.fees + extras.taxes + extras.adjustments:
            total += detail.amount
        for detail in extras.promotions:
            total -= detail.amount
        return total

    def check_range(self) -> None:
        """Refuse a total that int64 minor units can't hold. Raises ValidationFailed."""
        if not _fits(self.total):
            raise ValidationFailed.at("/amounts/tip", "The order's total is out of range with this tip.")


class StoreAmounts(Wire):
    """Amounts as a store sent them, each still as its text: a number is not to pass through a float."""

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


class StoreFault(Struct, frozen=True):
    """The store's amounts can't be used; the words are for the merchant, who reads the delivery log."""

    words: str


class PriceChanged(Struct, frozen=True):
    """The store has another subTotal than the catalog."""

    error: OrderError


class _StoreDetail(msgspec.Struct, frozen=True):
    amount: Member = UNSET
    description: Member = UNSET


class _FaultyError(Exception):
    """Some part of the store's amounts can't be used."""


def wire(sums: Sums) -> model.Amounts:
    """Return the amounts as they are sent: decimal strings at scale, each with a list that sums to it."""
    scale, members = sums.scale, dict[str, Any]()
    tips = (Detail(sums.tip, "Tip"),) if sums.tip else ()
    zero = scaled(0, scale)
    for name, details in (*zip(EXTRAS, astuple(sums.extras), strict=True), ("tip", tips)):
        members[name], members[f"{name}_description"] = zero, ()
        if details:
            members[name] = scaled(_sum(details), scale)
            members[f"{name}_description"] = tuple(
                model.AmountDetail(amount=scaled(detail.amount, scale), description=detail.description)
                for detail in details
            )
    return model.Amounts(
        currency=sums.currency,
        sub_total=scaled(sums.sub_total, scale),
        total=scaled(sums.total, scale),
        **members,
    )


def sums_of(amounts: model.Amounts) -> Sums:
    """Return the amounts of a stored order as integers again."""
    scale = get_scale(amounts.currency)
    lists = (getattr(amounts, f"{name}_description") for name in EXTRAS)
    return Sums(
        currency=amounts.currency,
        scale=scale,
        sub_total=decimal_to_minor(amounts.sub_total, scale),
        extras=Extras(
            *(
                tuple(Detail(decimal_to_minor(part.amount, scale), part.description) for part in parts)
                for parts in lists
            )
        ),
        tip=decimal_to_minor(amounts.tip, scale),
    )


def read_tip(text: str | None, scale: int) -> int:
    """Return the tip of a request in minor units, absent being none. Raises ValidationFailed."""
    tip = _read("tip", text, scale) or 0
    if tip < 0:
        raise ValidationFailed.at("/amounts/tip", TIP_NEGATIVE)
    return tip


def read_total(text: str | None, scale: int) -> int | None:
    """Return the total that a request claims in minor units, if it does. Raises ValidationFailed."""
    return _read("total", text, scale)


def _read(member: str, text: str | None, scale: int) -> int | None:
    try:
        return None if text is None else decimal_to_minor(text, scale)
    except MoneyError as fault:
        raise ValidationFailed.at(f"/amounts/{member}", f"{member}: {fault}") from None


def apply_store_amounts(sums: Sums, sent: StoreAmounts | None) -> Sums | StoreFault | PriceChanged:
    """Return the sums with what the store set of them, or why its amounts can't be applied.

    What it does not return stays as it is; the tip is the caller's and stays in any case.
    """
    if sent is None:
        return sums
    try:
        return _Reading(sums).apply(sent)
    except _FaultyError as fault:
        return StoreFault(str(fault))


def remark(sums: Sums, sent: StoreAmounts | None) -> str | None:
    """Return what is odd about amounts that come too late to be applied, in words for a log; or None.

    They repeat nothing that the store sent: it has seen the payment.
    """
    match apply_store_amounts(sums, sent):
        case StoreFault():
            return "The store's amounts can't be read, or don't add up."
        case PriceChanged(error):
            return error.message
        case Sums() as said if said.total != sums.total:
            was, now = (scaled(one.total, sums.scale) for one in (sums, said))
            return f"The store's amounts come to {now} {sums.currency}; the order was placed for {was}."
        case _:
            return None


class _Reading:
    """One reading of a store's amounts."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    def apply(self, raw: StoreAmounts) -> Sums | PriceChanged:
        ours = self._sums
        self._check_currency(raw.currency)
        sub_total, total = self._amount(raw.sub_total, "subTotal"), self._amount(raw.total, "total")
        extras = Extras(**{name: self._extra(name, raw, getattr(ours.extras, name)) for name in EXTRAS})
        if sub_total is not None and sub_total != ours.sub_total:
            return PriceChanged(self._changed(sub_total))
        found = replace(ours, extras=extras)
        self._check_total(found, total)
        return found

    def _changed(self, sub_total: int) -> OrderError:
        theirs, ours = self._text(sub_total), self._text(self._sums.sub_total)
        message = f"The store's subTotal is {theirs} {self._sums.currency}, the catalog's prices make {ours}."
        return OrderError(code=ItemPriceChanged.code, message=message, pointer="/cart/lineItems")

    def _check_currency(self, raw: Member) -> None:
        try:
            currency = decoded(raw, str)
        except msgspec.ValidationError:
            raise _FaultyError("amounts.currency must be a string.") from None
        if currency is not None and currency.upper() != self._sums.currency:
            shown = readable(currency, 8)
            raise _FaultyError(f"amounts.currency is {shown!r}, the order's is {self._sums.currency}.")

    def _check_total(self, found: Sums, said: int | None) -> None:
        total = found.total
        if not _fits(total):
            raise _FaultyError("The order's total is out of range with the store's amounts.")
        if total < 0:
            raise _FaultyError(f"The store's amounts make a negative total: {self._text(total)}.")
        if said is not None and said not in (total, total - found.tip):
            raise _FaultyError(
                f"amounts.total is {self._text(said)}, but the amounts add up to {self._text(total)} with the tip "
                f"and {self._text(total - found.tip)} without."
            )
        words = sum(len(part.description.encode()) for parts in astuple(found.extras) for part in parts)
        if words > MOST_WORDS:
            raise _FaultyError(f"The descriptions of the amounts have more than {MOST_WORDS} bytes together.")

    def _extra(self, name: str, raw: StoreAmounts, before: Details) -> Details:
        """Return the entries of an amount that the store may set, those from before if it says nothing."""
        amount = self._amount(getattr(raw, name), name)
        details = self._details(getattr(raw, f"{name}_description"), name)
        if details is None and amount is None:
            return before
        if not details:
            # An empty list beside an amount is a store that has no details to tell, like no list at all.
            return (Detail(amount, name.capitalize()),) if amount else ()
        listed = _sum(details)
        if not _fits(listed):
            raise _FaultyError(f"amounts.{name} is out of range.")
        if amount is not None and listed != amount:
            raise _FaultyError(
                f"amounts.{name}Description sums to {self._text(listed)}, but amounts.{name} is "
                f"{self._text(amount)}."
            )
        return details

    def _details(self, raw: Member, name: str) -> Details | None:
        at = f"amounts.{name}Description"
        try:
            entries = decoded(raw, list[_StoreDetail])
            if entries is None:
                return None
            if len(entries) > MOST_DETAILS:
                raise _FaultyError(f"{at} has more than {MOST_DETAILS} entries.")
            return tuple(
                self._detail(entry, f"{at}[{index}]", name.capitalize())
                for index, entry in enumerate(entries)
            )
        except msgspec.ValidationError:
            raise _FaultyError(f"{at} must be a list of objects with amount and description.") from None

    def _detail(self, entry: _StoreDetail, at: str, words: str) -> Detail:
        amount = self._amount(entry.amount, f"{at}.amount", prefix="")
        if amount is None:
            raise _FaultyError(f"{at}.amount is missing.")
        description = readable(decoded(entry.description, str) or "", DESCRIPTION_LENGTH)
        return Detail(amount, description or words)

    def _amount(self, raw: Member, name: str, *, prefix: str = "amounts.") -> int | None:
        if raw is UNSET:
            return None
        text = bytes(raw).strip()
        if text == b"null":
            return None
        try:
            if text.startswith(b'"'):
                return decimal_to_minor(decoded(raw, str), self._sums.scale)
            return number_to_minor(text.decode(), self._sums.scale)
        except MoneyError as fault:
            raise _FaultyError(f"{prefix}{name}: {fault}") from None
        except (msgspec.ValidationError, UnicodeDecodeError):
            raise _FaultyError(f"{prefix}{name} must be a decimal string.") from None

    def _text(self, minor: int) -> str:
        return scaled(minor, self._sums.scale)


def _sum(details: Details) -> int:
    return sum(detail.amount for detail in details)


def _fits(minor: int) -> bool:
    return MIN_MINOR <= minor <= MAX_MINOR
