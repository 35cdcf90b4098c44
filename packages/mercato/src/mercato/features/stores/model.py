"""Stored onboardings and stores, their changes, and their refusals."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType, structs

from mercato.features.catalogs.runs import Run
from mercato_contract import problems
from mercato_contract.catalogs import CatalogFault, PartnerWarning, RunStatus
from mercato_contract.money import to_text
from mercato_contract.refusals import Problem
from mercato_contract.stores import (
    ACCEPT_WITHIN,
    Address,
    Charge,
    OnboardingState,
    OrderHandling,
)
from mercato_contract.texts import shown


class SoldOut(Struct, frozen=True):
    """An item that is sold out until an instant, or until further notice."""

    item_id: UUID
    until: datetime | None


class StoredCharges(Struct, frozen=True):
    """The taxes and fees of a store. Their amounts are in the currency that its catalog had when they were set."""

    currency: str
    charges: tuple[Charge, ...]


_Shape = TypeVar("_Shape", bound=Struct)


def fill(shape: type[_Shape], source: Struct, **own: Any) -> _Shape:
    """Return a shape with the members in `own`, and all others that the source has from there, by their names.

    An optional member of the shape is omitted where the source has None or an empty text.
    """
    for name, optional in _same_named(shape, type(source)):
        if name not in own:
            value = getattr(source, name)
            own[name] = UNSET if optional and (value is None or value == "") else value
    return shape(**own)


@cache
def _same_named(shape: type[Struct], source: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """Return the members that both have, and whether the shape may leave each of them out."""
    theirs = {field.name for field in structs.fields(source)}
    return tuple(
        (field.name, field.default is UNSET) for field in structs.fields(shape) if field.name in theirs
    )


# --- onboarding -----------------------------------------------------------------------------------


STATE_OF_RUN: Final = {
    RunStatus.QUEUED: OnboardingState.PENDING_CATALOG,
    RunStatus.PULLING: OnboardingState.CATALOG_INGESTING,
    RunStatus.PROCESSING: OnboardingState.CATALOG_INGESTING,
    RunStatus.SUCCEEDED: OnboardingState.READY_TO_ACTIVATE,
    RunStatus.FAILED: OnboardingState.CATALOG_FAILED,
}


class Onboarding(Struct, frozen=True):
    """An onboarding as it is stored."""

    id: UUID
    store_id: UUID
    partner_id: UUID
    partner_store_id: str
    name: str
    address: Address
    latitude: float | None
    longitude: float | None
    timezone: str
    timezone_given: bool
    catalog_callback_url: str
    webhook_url: str | None
    created_at: datetime
    activated_at: datetime | None
    cancelled_at: datetime | None
    holds_name: bool
    unknown_members: tuple[PartnerWarning, ...] | None = None
    order_handling: OrderHandling | None = None
    accept_within: int | None = None


class OnboardingChange(Struct, frozen=True, kw_only=True):
    """New values of an onboarding; what is UNSET stays."""

    catalog_callback_url: str | UnsetType = UNSET
    activated_at: datetime | UnsetType = UNSET
    cancelled_at: datetime | UnsetType = UNSET
    holds_name: bool | UnsetType = UNSET


def state_of(onboarding: Onboarding, newest: Run) -> OnboardingState:
    """Return the state. A later run never changes `active`."""
    return OnboardingState.ACTIVE if onboarding.activated_at is not None else STATE_OF_RUN[newest.status]


def first_error(faults: tuple[CatalogFault, ...]) -> str:
    """Return the first message and the number of others."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0].message}{more}" if faults else "The catalog could not be ingested."


# --- stores ---------------------------------------------------------------------------------------


class StoreRow(Struct, frozen=True):
    """A store as it is stored, with its current set.

    Nothing in it is older than `version`: a store with another version has changed since.
    """

    id: UUID
    onboarding_id: UUID
    partner_id: UUID
    partner_store_id: str
    name: str
    address: Address
    latitude: float | None
    longitude: float | None
    phone: str | None
    timezone: str
    timezone_given: bool
    logo_url: str | None
    description: str | None
    webhook_url: str | None
    categories: tuple[str, ...]
    delivery_allowed: bool
    pickup_allowed: bool
    minimum_order_amount: int | None
    minimum_order_currency: str | None
    paused: bool
    pause_reason: str | None
    resume_at: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int
    catalog_set_id: UUID
    currency: str
    sold_out: tuple[SoldOut, ...]
    unknown_members: tuple[PartnerWarning, ...] | None = None
    order_handling: OrderHandling | None = None
    accept_within: int | None = None
    charges: StoredCharges | None = None

    @property
    def idle_currency(self) -> str | None:
        """The currency of the charges of an amount that aren't added, because its catalog has another one now."""
        if self.charges is None or self.charges.currency == self.currency:
            return None
        return self.charges.currency if any(one.amount is not None for one in self.charges.charges) else None

    @property
    def charges_in_force(self) -> tuple[Charge, ...]:
        """What is added to an order: amounts of another currency than its catalog has now aren't."""
        if self.charges is None or self.orders_url is not None:
            return ()
        same = self.charges.currency == self.currency
        return tuple(charge for charge in self.charges.charges if same or charge.amount is None)

    @property
    def handling(self) -> OrderHandling:
        """Who accepts its orders now."""
        return handling_of(self.order_handling, self.webhook_url)

    @property
    def orders_url(self) -> str | None:
        """The URL that is called about its orders, None if nobody is."""
        return self.webhook_url if self.handling is OrderHandling.WEBHOOK else None

    @property
    def accept_minutes(self) -> int:
        """The minutes within which a person accepts an order."""
        return self.accept_within or ACCEPT_WITHIN

    @property
    def minimum_text(self) -> str | None:
        """The minimum order as a decimal at its own currency's scale."""
        if self.minimum_order_amount is None or self.minimum_order_currency is None:
            return None
        return to_text(self.minimum_order_amount, self.minimum_order_currency)

    def paused_at(self, now: datetime) -> bool:
        """Return whether the store is paused: an expired pause counts as online."""
        return self.paused and (self.resume_at is None or self.resume_at > now)

    def unavailable_at(self, now: datetime) -> tuple[UUID, ...]:
        """Return the items that are sold out at the instant."""
        if not self.sold_out:
            return ()
        return tuple(item.item_id for item in self.sold_out if item.until is None or item.until > now)


def handling_of(chosen: OrderHandling | None, webhook_url: str | None) -> OrderHandling:
    """Return who accepts the orders of a store that has chosen this, or nothing."""
    if chosen is not None:
        return OrderHandling(chosen)
    return OrderHandling.AUTOMATIC if webhook_url is None else OrderHandling.WEBHOOK


class StoreChange(Struct, frozen=True, kw_only=True):
    """New values of a store; what is UNSET stays."""

    name: str | UnsetType = UNSET
    address: Address | UnsetType = UNSET
    latitude: float | UnsetType | None = UNSET
    longitude: float | UnsetType | None = UNSET
    phone: str | UnsetType | None = UNSET
    timezone: str | UnsetType = UNSET
    timezone_given: bool | UnsetType = UNSET
    logo_url: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    webhook_url: str | UnsetType | None = UNSET
    categories: Sequence[str] | UnsetType = UNSET
    delivery_allowed: bool | UnsetType = UNSET
    pickup_allowed: bool | UnsetType = UNSET
    minimum_order_amount: int | UnsetType | None = UNSET
    minimum_order_currency: str | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    pause_reason: str | UnsetType | None = UNSET
    resume_at: datetime | UnsetType | None = UNSET
    unknown_members: tuple[PartnerWarning, ...] | UnsetType | None = UNSET
    order_handling: OrderHandling | UnsetType | None = UNSET
    accept_within: int | UnsetType | None = UNSET
    charges: StoredCharges | UnsetType | None = UNSET

    @property
    def members(self) -> list[str]:
        """The names of what changes."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not UNSET]


# --- refusals ------------------------------------------------------------------------------------------


class StoreNotFound(Problem):
    kind = problems.STORE_NOT_FOUND

    def __init__(self, store_id: object) -> None:
        super().__init__(f"This account has no store {shown(store_id)}. Check the storeId.")


class OnboardingNotFound(Problem):
    kind = problems.ONBOARDING_NOT_FOUND

    def __init__(self, onboarding_id: object) -> None:
        super().__init__(f"This account has no onboarding {shown(onboarding_id)}, or it was cancelled.")


class OnboardingNotReady(Problem):
    kind = problems.ONBOARDING_NOT_READY

    def __init__(self, state: str, *, store_id: UUID | None = None, is_typed: bool = False) -> None:
        """`store_id` is the store of an onboarding that is active. `is_typed`: a person registers it by hand."""
        self.store_id = store_id
        if is_typed:
            super().__init__(
                "A person registers this store, and has typed what this operation doesn't know, such as taxes. Let "
                "that person activate it, where it is registered."
            )
        elif store_id is None:
            super().__init__(
                f"The onboarding is {state}. It can be activated once its status is ready_to_activate."
            )
        else:
            super().__init__(
                f"The onboarding is {state} already: its store is live. Read the store by its storeId.",
                extensions={"storeId": str(store_id)},
            )


class OnboardingActive(Problem):
    kind = problems.ONBOARDING_ACTIVE

    def __init__(self) -> None:
        super().__init__("The store is live. Pause it with Set Store Status instead.")


class OnboardingNotFailed(Problem):
    kind = problems.ONBOARDING_NOT_FAILED

    def __init__(self, state: str) -> None:
        super().__init__(f"The onboarding is {state}. Only one that is catalog_failed can be retried.")


class StoreAlreadyRegistered(Problem):
    kind = problems.STORE_ALREADY_REGISTERED

    def __init__(self, onboarding_id: UUID, partner_store_id: str, *, location: str) -> None:
        super().__init__(
            f"partnerStoreId {partner_store_id!r} has an onboarding that is in progress or active. "
            "Read it at Location, or cancel it first.",
            location=location,
            extensions={"onboardingId": str(onboarding_id)},
        )
