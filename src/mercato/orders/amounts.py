"""What an order costs. Integers of minor units inside; texts only where they come from and go to."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from mercato.catalog.money import (
    LEAST,
    MOST,
    MoneyError,
    decimal_to_minor,
    get_scale,
    number_to_minor,
    scaled,
)
from mercato.errors import ItemPriceChanged, OrderError, ValidationFailed
from mercato.orders import model
from mercato.wire import Wire

MOST_DETAILS: Final = 100
"""Entries of one list of a store's reply."""

MOST_WORDS: Final = 32 * 1024
"""Bytes of all descriptions of an order together: a validatedOrderToken carries them."""

DESCRIPTION_LENGTH: Final = 255

_CONTROLS: Final = re.compile(r"[\x00-\x20\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")


@dataclass(frozen=True, slots=True)
class Detail:
    """A part of an amount, and what it is for."""

    amount: int
    description: str


Details = tuple[Detail, ...]


@dataclass(frozen=True, slots=True)
class Extras:
    """What a store may set of an order's amounts; each list sums to its amount."""

    fees: Details = ()
    taxes: Details = ()
    promotions: Details = ()
    adjustments: Details = ()


@dataclass(frozen=True, slots=True)
class Sums:
    """What an order costs, in minor units of `scale` decimals."""

    currency: str
    scale: int
    sub_total: int
    extras: Extras = field(default_factory=Extras)
    tip: int = 0

    @property
    def total(self) -> int:
        """What the customer pays: subTotal + fees - promotions + taxes + adjustments + tip."""
        extras = self.extras
        return (
            self.sub_total
            + _sum(extras.fees)
            - _sum(extras.promotions)
            + _sum(extras.taxes)
            + _sum(extras.adjustments)
            + self.tip
        )

    def check_range(self) -> None:
        """Refuse a total that int64 minor units can't hold. Raises ValidationFailed."""
        if not _fits(self.total):
            raise ValidationFailed.at("/amounts/tip", "The order's total is out of range with this tip.")


class StoreAmounts(Wire):
    """Amounts as a store sent them, each still as its text: a number is not to pass through a float."""

    currency: msgspec.Raw | UnsetType = UNSET
    sub_total: msgspec.Raw | UnsetType = UNSET
    fees: msgspec.Raw | UnsetType = UNSET
    fees_description: msgspec.Raw | UnsetType = UNSET
    taxes: msgspec.Raw | UnsetType = UNSET
    taxes_description: msgspec.Raw | UnsetType = UNSET
    promotions: msgspec.Raw | UnsetType = UNSET
    promotions_description: msgspec.Raw | UnsetType = UNSET
    adjustments: msgspec.Raw | UnsetType = UNSET
    adjustments_description: msgspec.Raw | UnsetType = UNSET
    total: msgspec.Raw | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class StoreFault:
    """The store's amounts can't be used; the words are for the merchant, who reads the delivery log."""

    words: str


@dataclass(frozen=True, slots=True)
class PriceChanged:
    """The store has another subTotal than the catalog."""

    error: OrderError


class _StoreDetail(msgspec.Struct, frozen=True):
    amount: msgspec.Raw | UnsetType = UNSET
    description: msgspec.Raw | UnsetType = UNSET


class _FaultyError(Exception):
    """Some part of the store's amounts can't be used."""


def wire(sums: Sums) -> model.Amounts:
    """Return the amounts as they are sent: decimal strings at scale, lists without entries for what is nothing."""
    extras = sums.extras

    def text(minor: int) -> str:
        return scaled(minor, sums.scale)

    return model.Amounts(
        currency=sums.currency,
        sub_total=text(sums.sub_total),
        adjustments=text(_sum(extras.adjustments)),
        adjustments_description=_listed(extras.adjustments, text),
        fees=text(_sum(extras.fees)),
        fees_description=_listed(extras.fees, text),
        promotions=text(_sum(extras.promotions)),
        promotions_description=_listed(extras.promotions, text),
        taxes=text(_sum(extras.taxes)),
        taxes_description=_listed(extras.taxes, text),
        tip=text(sums.tip),
        tip_description=_listed((Detail(sums.tip, "Tip"),) if sums.tip else (), text),
        total=text(sums.total),
    )


def sums_of(amounts: model.Amounts) -> Sums:
    """Return the sums that `wire` made the amounts of."""
    scale = get_scale(amounts.currency)

    def read(details: tuple[model.AmountDetail, ...]) -> Details:
        return tuple(Detail(decimal_to_minor(one.amount, scale), one.description) for one in details)

    return Sums(
        currency=amounts.currency,
        scale=scale,
        sub_total=decimal_to_minor(amounts.sub_total, scale),
        extras=Extras(
            fees=read(amounts.fees_description),
            taxes=read(amounts.taxes_description),
            promotions=read(amounts.promotions_description),
            adjustments=read(amounts.adjustments_description),
        ),
        tip=decimal_to_minor(amounts.tip, scale),
    )


def read_tip(text: str | None, scale: int) -> int:
    """Return the tip of a request in minor units, absent being none. Raises ValidationFailed."""
    try:
        tip = 0 if text is None else decimal_to_minor(text, scale)
    except MoneyError as fault:
        raise ValidationFailed.at("/amounts/tip", f"tip: {fault}") from None
    if tip < 0:
        raise ValidationFailed.at("/amounts/tip", "tip must not be negative.")
    return tip


def read_total(text: str | None, scale: int) -> int | None:
    """Return the total that a request claims in minor units, if it does. Raises ValidationFailed."""
    try:
        return None if text is None else decimal_to_minor(text, scale)
    except MoneyError as fault:
        raise ValidationFailed.at("/amounts/total", f"total: {fault}") from None


def taken(sums: Sums, raw_amounts: StoreAmounts | None) -> Sums | StoreFault | PriceChanged:
    """Return the sums with what the store set of them, or why its amounts can't be taken.

    What it does not return stays as it is; the tip is the caller's and stays in any case.
    """
    if raw_amounts is None:
        return sums
    try:
        return _Reading(sums).taken(raw_amounts)
    except _FaultyError as fault:
        return StoreFault(str(fault))


def remark(sums: Sums, raw_amounts: StoreAmounts | None) -> str | None:
    """Return what is odd about amounts that are not to be taken over any more, in words for a log; or None."""
    match taken(sums, raw_amounts):
        case StoreFault(words):
            return words
        case PriceChanged(error):
            return error.message
        case Sums() as said if said.total != sums.total:
            was, now = (scaled(one.total, sums.scale) for one in (sums, said))
            return f"The store's amounts come to {now} {sums.currency}; the order was placed for {was}."
        case _:
            return None


def readable(text: str, most: int) -> str:
    """Return a text of somebody else's on one line, without control characters, cut to `most` characters."""
    return _CONTROLS.sub(" ", text[: 4 * most]).strip()[:most]


def decoded(raw: msgspec.Raw | UnsetType, kind: Any = Any) -> Any:
    """Return what a member holds, null being the same as absent. Raises msgspec.ValidationError, no other."""
    if raw is UNSET:
        return None
    try:
        return msgspec.json.decode(raw, type=kind | None if kind is not Any else Any)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise msgspec.ValidationError from fault


class _Reading:
    """One reading of a store's amounts."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    def taken(self, raw: StoreAmounts) -> Sums | PriceChanged:
        ours = self._sums
        self._check_currency(raw.currency)
        sub_total, total = self._amount(raw.sub_total, "subTotal"), self._amount(raw.total, "total")
        extras = Extras(
            fees=self._extra("fees", "Fees", raw.fees, raw.fees_description, ours.extras.fees),
            taxes=self._extra("taxes", "Taxes", raw.taxes, raw.taxes_description, ours.extras.taxes),
            promotions=self._extra(
                "promotions", "Promotions", raw.promotions, raw.promotions_description, ours.extras.promotions
            ),
            adjustments=self._extra(
                "adjustments",
                "Adjustments",
                raw.adjustments,
                raw.adjustments_description,
                ours.extras.adjustments,
            ),
        )
        if sub_total is not None and sub_total != ours.sub_total:
            return PriceChanged(self._changed(sub_total))
        found = replace(ours, extras=extras)
        self._check_total(found, total)
        return found

    def _changed(self, sub_total: int) -> OrderError:
        theirs, ours = self._text(sub_total), self._text(self._sums.sub_total)
        message = f"The store's subTotal is {theirs} {self._sums.currency}, the catalog's prices make {ours}."
        return OrderError(code=ItemPriceChanged.code, message=message, pointer="/cart/lineItems")

    def _check_currency(self, raw: msgspec.Raw | UnsetType) -> None:
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
        words = sum(
            len(one.description.encode())
            for details in (
                found.extras.fees,
                found.extras.taxes,
                found.extras.promotions,
                found.extras.adjustments,
            )
            for one in details
        )
        if words > MOST_WORDS:
            raise _FaultyError(f"The descriptions of the amounts have more than {MOST_WORDS} bytes together.")

    def _extra(
        self,
        name: str,
        words: str,
        raw: msgspec.Raw | UnsetType,
        raw_list: msgspec.Raw | UnsetType,
        before: Details,
    ) -> Details:
        """Return the entries of an amount that the store may set, those from before if it says nothing."""
        amount, details = self._amount(raw, name), self._details(raw_list, name, words)
        if details is None and amount is None:
            return before
        if not details:
            # An empty list beside an amount is a store that has no details to tell, like no list at all.
            return (Detail(amount, words),) if amount else ()
        listed = _sum(details)
        if not _fits(listed):
            raise _FaultyError(f"amounts.{name} is out of range.")
        if amount is not None and listed != amount:
            raise _FaultyError(
                f"amounts.{name}Description sums to {self._text(listed)}, but amounts.{name} is "
                f"{self._text(amount)}."
            )
        return details

    def _details(self, raw: msgspec.Raw | UnsetType, name: str, words: str) -> Details | None:
        at = f"amounts.{name}Description"
        try:
            entries = decoded(raw, list[_StoreDetail])
            if entries is None:
                return None
            if len(entries) > MOST_DETAILS:
                raise _FaultyError(f"{at} has more than {MOST_DETAILS} entries.")
            return tuple(self._detail(entry, f"{at}[{index}]", words) for index, entry in enumerate(entries))
        except msgspec.ValidationError:
            raise _FaultyError(f"{at} must be a list of objects with amount and description.") from None

    def _detail(self, entry: _StoreDetail, at: str, words: str) -> Detail:
        amount = self._amount(entry.amount, f"{at}.amount", prefix="")
        if amount is None:
            raise _FaultyError(f"{at}.amount is missing.")
        description = readable(decoded(entry.description, str) or "", DESCRIPTION_LENGTH)
        return Detail(amount, description or words)

    def _amount(self, raw: msgspec.Raw | UnsetType, name: str, *, prefix: str = "amounts.") -> int | None:
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
    return LEAST <= minor <= MOST


def _listed(details: Details, text: Callable[[int], str]) -> tuple[model.AmountDetail, ...]:
    return tuple(
        model.AmountDetail(amount=text(detail.amount), description=detail.description) for detail in details
    )
