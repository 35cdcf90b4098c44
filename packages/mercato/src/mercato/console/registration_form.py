"""The steps of registering a store in the console: what each asks, what is missing or wrong, and the requests it makes.

Nothing here reads or writes. A step is checked by the decoders of the operations, and by the rules of their services;
what only a service can know it says when the store is registered, or activated.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.console import hours_form, store_forms
from mercato.console.store_forms import GENERAL, Texts
from mercato.features.stores.registrations import Registration
from mercato.features.stores.rules import handling_fault
from mercato.platform.gazetteer import Location
from mercato_contract.catalogs import AvailabilityWindow
from mercato_contract.decoding import Decoder
from mercato_contract.decoding.checks import uri_fault
from mercato_contract.money import MoneyError, decimal_fault, is_negative, to_minor
from mercato_contract.stores import Address, OnboardingRequest, OrderHandling, StoreUpdate, timezone_fault
from mercato_contract.texts import name_fault

STEPS: Final = {
    "store": "Store",
    "hours": "Hours",
    "orders": "Orders",
    "charges": "Taxes and fees",
    "menu": "Menu",
    "live": "Go live",
}
"""The steps in their order, with their names."""

NOT_YET: Final = "Not filled in yet."
FILL_IN: Final = "Fill this in."

_ADDRESS: Final = ("street", "address2", "city", "state", "postalCode", "country")
_NEEDED: Final = ("name", "street", "city", "country")
_PLACE: Final = ("lat", "lng")

LABELS: Final = {
    "name": "Name",
    "partnerStoreId": "Your number for it",
    "phone": "Phone",
    "description": "Description",
    "street": "Street and number",
    "address2": "More of the address",
    "city": "City",
    "state": "State or province",
    "postalCode": "Postal code",
    "country": "Country",
    "lat": "Latitude",
    "lng": "Longitude",
    "timezone": "Time zone",
    "orderHandling": "How orders are accepted",
    "acceptWithin": "Minutes to accept an order",
    "webhookUrl": "Address of your system",
    "pickup": "Pickup",
    "minimum": "Minimum order",
}
"""The fields' labels, where a fault is listed away from its field."""

FIELDS: Final = {
    "/name": "name",
    "/partnerStoreId": "partnerStoreId",
    "/phone": "phone",
    "/description": "description",
    **{f"/address/{name}": name for name in _ADDRESS},
    "/address/coordinates/lat": "lat",
    "/address/coordinates/lng": "lng",
    "/timezone": "timezone",
    "/orderHandling": "orderHandling",
    "/acceptWithin": "acceptWithin",
    "/webhookUrl": "webhookUrl",
    "/pickupAllowed": "pickup",
    "/deliveryAllowed": "pickup",
    "/minimumOrderAmount": "minimum",
}
"""The fields of both requests' members, by pointers."""

_STEP_OF: Final = {
    **dict.fromkeys(("name", "partnerStoreId", "phone", "description", *_ADDRESS, *_PLACE), "store"),
    "timezone": "hours",
    **dict.fromkeys(("orderHandling", "acceptWithin", "webhookUrl", "pickup", "minimum"), "orders"),
}

_NOT_IN_AN_ID: Final = re.compile(r"[^a-z0-9]+")
_UPLOADED: Final = "uploaded"

_read_onboarding: Final = Decoder(OnboardingRequest)

Faults = Mapping[str, str]


class Draft(Struct, frozen=True):
    """A registration with what its address says. `steps` are the fields of each step that was sent."""

    steps: Mapping[str, Texts]
    location: Location
    currency: str | None = None
    has_menu: bool = False
    registration_id: UUID | None = None

    def texts(self, step: str) -> Texts:
        """Return what was typed in a step."""
        return self.steps.get(step, {})

    @property
    def is_called(self) -> bool:
        """Whether a system of its own answers, which sets taxes and fees itself."""
        return self.texts("orders").get("orderHandling") == OrderHandling.WEBHOOK

    def faults(self, step: str) -> Faults:
        """Return what is missing or wrong in a step, beside its fields."""
        if step == "menu":
            return {} if self.has_menu else {"file": "Upload the menu."}
        if step == "charges" and self.is_called:
            return {}
        if step not in self.steps:
            return {GENERAL: NOT_YET}
        return store_forms.with_hints(_CHECKS[step](self, self.texts(step)), self.texts(step))

    @property
    def missing(self) -> dict[str, Faults]:
        """What is missing or wrong in each step that isn't complete, in their order."""
        found = {step: self.faults(step) for step in STEPS if step != "live"}
        return {step: faults for step, faults in found.items() if faults}

    @property
    def windows(self) -> tuple[AvailabilityWindow, ...]:
        """The hours of a draft that is complete."""
        return hours_form.read_hours(self.texts("hours"))[0]


def draft_of(kept: Registration, location: Location) -> Draft:
    """Return a registration as the form reads it."""
    currency = None if kept.menu is None else kept.menu.currency
    return Draft(kept.steps, location, currency, kept.menu is not None, kept.id)


NEW: Final = Draft({}, Location())
"""A draft in which nothing was typed yet."""


def address_in(steps: Mapping[str, Texts]) -> Address:
    """Return the address as it was typed, to look it up."""
    texts = steps.get("store", {})
    found = {name: texts[name] for name in _ADDRESS if name in texts}
    return Address(
        street=found.get("street", UNSET),
        city=found.get("city", UNSET),
        state=found.get("state", UNSET),
        postal_code=found.get("postalCode", UNSET),
        country=found.get("country", UNSET),
    )


# --- the steps --------------------------------------------------------------------------------------------


def _check_store(draft: Draft, texts: Texts) -> Faults:
    faults = {name: FILL_IN for name in _NEEDED if not texts.get(name, "").strip()}
    if ("lat" in texts) is not ("lng" in texts):
        faults["lng" if "lat" in texts else "lat"] = "Enter both, or none."
    _, wrong = store_forms.read(_read_onboarding, _registered(draft), FIELDS)
    _, details = store_forms.read_update(
        {"phone": texts.get("phone"), "description": texts.get("description")}, FIELDS
    )
    if (fault := name_fault(texts.get("name", ""))) is not None:
        wrong["name"] = store_forms.plain(fault, "/name")
    return _of_step("store", wrong | details) | faults


def _check_hours(draft: Draft, texts: Texts) -> Faults:
    _, faults = hours_form.read_hours(texts)
    if "timezone" not in texts and draft.location.timezone is None:
        faults["timezone"] = "Choose it: the address doesn't tell which it is."
    elif (fault := timezone_fault(texts.get("timezone", "UTC"))) is not None:
        faults["timezone"] = store_forms.plain(fault, "/timezone")
    return faults


def _check_orders(draft: Draft, texts: Texts) -> Faults:
    faults: dict[str, str] = {}
    _, wrong = store_forms.read(_read_onboarding, _registered(draft), FIELDS)
    faults |= _of_step("orders", wrong)
    chosen, url = texts.get("orderHandling"), texts.get("webhookUrl")
    if chosen is None:
        faults["orderHandling"] = "Choose one."
    elif chosen == OrderHandling.WEBHOOK and handling_fault(OrderHandling.WEBHOOK, url) is not None:
        faults["webhookUrl"] = "Enter the address of your system, or choose another way above."
    elif chosen == OrderHandling.WEBHOOK and url and uri_fault(url, "webhookUrl") is not None:
        faults["webhookUrl"] = "Enter a web address, like https://example.com/orders."
    if "pickup" not in texts and "delivery" not in texts:
        faults["pickup"] = "Choose one of the two at least."
    _, details = store_forms.read_update({"minimumOrderAmount": texts.get("minimum")}, FIELDS)
    if (fault := _amount_fault(texts.get("minimum"), draft.currency)) is not None:
        details["minimum"] = fault
    return details | faults


def _check_charges(draft: Draft, texts: Texts) -> Faults:
    members, fields = store_forms.charge_members(texts)
    _, faults = store_forms.read_update(members, fields)
    faults |= store_forms.faults_of_charges(members, fields)
    for row in store_forms.charge_rows(texts):
        name = f"value-{row}"
        if texts.get(f"unit-{row}") == store_forms.AMOUNT and name not in faults:
            fault = _amount_fault(texts.get(name), draft.currency)
            faults |= {} if fault is None else {name: fault}
    return faults


def _amount_fault(text: str | None, currency: str | None) -> str | None:
    """Return what is wrong with an amount: its decimals are known once the menu says the currency."""
    if text is None:
        return None
    fault = decimal_fault(text)
    if fault is not None:
        return fault[:1].upper() + fault[1:]
    if is_negative(text):
        return "It must not be negative."
    try:
        if currency is not None:
            to_minor(text, currency)
    except MoneyError as error:
        return str(error)
    return None


_CHECKS: Final[Mapping[str, Callable[[Draft, Texts], Faults]]] = {
    "store": _check_store,
    "hours": _check_hours,
    "orders": _check_orders,
    "charges": _check_charges,
}

TYPED: Final = frozenset(_CHECKS)
"""The steps that have fields. Of the others a menu is uploaded, and nothing is sent with the last."""


def _of_step(step: str, faults: Faults) -> dict[str, str]:
    return {name: fault for name, fault in faults.items() if _STEP_OF.get(name) == step}


def steps_of(faults: Faults) -> dict[str, Faults]:
    """Return the faults that a service found, by the steps that have their fields; without one, of the last step."""
    found: dict[str, dict[str, str]] = {}
    for name, fault in faults.items():
        step = "charges" if re.fullmatch(r"\w+-\d+", name) else _STEP_OF.get(name, "live")
        found.setdefault(step, {})[name] = fault
    return {step: found[step] for step in STEPS if step in found}


# --- the requests -----------------------------------------------------------------------------------------


def _registered(draft: Draft) -> dict[str, Any]:
    """Return the members of the registration, of whatever was typed."""
    store, orders = draft.texts("store"), draft.texts("orders")
    address: dict[str, Any] = {name: store[name] for name in _ADDRESS if name in store}
    if "lat" in store and "lng" in store:
        address["coordinates"] = {name: store_forms.decimal(store[name]) for name in _PLACE}
    is_called = orders.get("orderHandling") == OrderHandling.WEBHOOK
    return {
        "partnerStoreId": store.get("partnerStoreId") or own_id(draft),
        "name": store.get("name", " "),
        "address": address,
        "catalogCallbackUrl": _UPLOADED,
        "timezone": draft.texts("hours").get("timezone"),
        "webhookUrl": orders.get("webhookUrl") if is_called else None,
        **store_forms.handling_members(orders),
    }


def own_id(draft: Draft) -> str:
    """Return the merchant's id of the store where none was typed: its name in the letters of an address."""
    found = _NOT_IN_AN_ID.sub("-", draft.texts("store").get("name", "").casefold()).strip("-")[:200]
    return found or f"store-{str(draft.registration_id or '')[-8:]}"


def onboarding_request(draft: Draft) -> OnboardingRequest:
    """Return the registration of a draft that is complete."""
    read = store_forms.read(_read_onboarding, _registered(draft), FIELDS)
    assert read[0] is not None, read[1]
    return replace(read[0], catalog_callback_url="")


def details(draft: Draft) -> tuple[StoreUpdate, Texts]:
    """Return what registration doesn't take of a draft that is complete, and the fields of its pointers."""
    store, orders = draft.texts("store"), draft.texts("orders")
    charges, fields = ({}, {}) if draft.is_called else store_forms.charge_members(draft.texts("charges"))
    members = {
        "phone": store.get("phone"),
        "description": store.get("description"),
        "pickupAllowed": "pickup" in orders,
        "deliveryAllowed": "delivery" in orders,
        "minimumOrderAmount": orders.get("minimum"),
        **charges,
    }
    request, faults = store_forms.read_update(members, FIELDS | fields)
    assert request is not None, faults
    return request, FIELDS | fields
