"""The columns that a request changes of a store, or all its faults, without database or network."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec
from msgspec import UNSET, UnsetType

from mercato.features.catalogs.model import CompiledCatalog
from mercato.features.stores.address import address_of
from mercato.features.stores.availability import SoldOut
from mercato.features.stores.model import StoreRow
from mercato.platform.geo.gazetteer import Location
from mercato.platform.wire.checks import refuse, uri_fault
from mercato.platform.wire.decode import refusal
from mercato.platform.wire.walk import FieldFault
from mercato_contract.money import MoneyError, to_minor
from mercato_contract.stores import (
    MINIMUM_NEGATIVE,
    AddressRequest,
    ItemAvailabilityEntry,
    ItemAvailabilityRequest,
    StoreStatusUpdate,
    StoreStatusValue,
    StoreUpdate,
    item_name_fault,
    timezone_fault,
    webhook_token_fault,
)
from mercato_contract.wire import as_json, parse_instant, parse_uuid

CLEARABLE: Final = ("phone", "logo_url", "description", "webhook_url", "minimum_order_amount")
"""Members of a StoreUpdate that null clears; for any other, null is the same as absent."""

REASON_LENGTH: Final = 1000


def update_values(request: StoreUpdate, row: StoreRow, *, found: Location) -> dict[str, Any]:
    """Return the columns to change; `found` is the location of the request's address.

    Raises ValidationFailed for every value that is not allowed.
    """
    changes = {
        name: value
        for name in StoreUpdate.__struct_fields__
        if name != "webhook_token"
        and (value := getattr(request, name)) is not UNSET
        and (value is not None or name in CLEARABLE)
    }
    url = changes.get("webhook_url", row.webhook_url)
    refuse([*_update_faults(changes, row), ("/webhookToken", token_fault(request.webhook_token, url))])
    if "timezone" in changes:
        changes["timezone_given"] = True
    if "address" in changes:
        changes = _address_columns(changes.pop("address"), row, found) | changes
    if "categories" in changes:
        changes["categories"] = as_json(changes["categories"]).decode()
    if "minimum_order_amount" in changes:
        text = changes["minimum_order_amount"]
        changes["minimum_order_amount"] = None if text is None else to_minor(text, row.currency)
        changes["minimum_order_currency"] = None if text is None else row.currency
    return changes


def _address_columns(sent: AddressRequest, row: StoreRow, found: Location) -> dict[str, Any]:
    """Return the columns of an address: with the coordinates that were sent, else, if it is new, those found.

    The time zone follows, unless the merchant set one or the address doesn't determine it.
    """
    address = address_of(sent)
    columns: dict[str, Any] = {"address": as_json(address).decode()}
    if sent.coordinates is not None:
        return columns | {"latitude": sent.coordinates.lat, "longitude": sent.coordinates.lng}
    if address == msgspec.structs.replace(row.address, coordinates=UNSET):
        return columns
    latitude, longitude = found.coordinates or (None, None)
    columns |= {"latitude": latitude, "longitude": longitude}
    follows = found.timezone is not None and not row.timezone_given
    return columns | {"timezone": found.timezone} if follows else columns


def token_fault(token: str | UnsetType | None, url: str | None) -> str | None:
    """Return why the token isn't valid with this webhookUrl, or None."""
    if token is UNSET or token is None:
        return None
    return webhook_token_fault(token) or ("webhookToken needs a webhookUrl." if url is None else None)


def _update_faults(changes: dict[str, Any], row: StoreRow) -> list[tuple[str, str | None]]:
    faults: list[tuple[str, str | None]] = [
        (f"/{wire}", uri_fault(changes[name], wire))
        for name, wire in (("logo_url", "logoUrl"), ("webhook_url", "webhookUrl"))
        if changes.get(name) is not None
    ]
    if "timezone" in changes:
        faults.append(("/timezone", timezone_fault(changes["timezone"])))
    if changes.get("minimum_order_amount") is not None:
        faults.append(("/minimumOrderAmount", _minimum_fault(changes["minimum_order_amount"], row.currency)))
    delivery = changes.get("delivery_allowed", row.delivery_allowed)
    if not delivery and not changes.get("pickup_allowed", row.pickup_allowed):
        at = "/deliveryAllowed" if "delivery_allowed" in changes else "/pickupAllowed"
        faults.append((at, "A store must allow delivery or pickup: at least one of the two stays true."))
    return faults


def _minimum_fault(text: str, currency: str) -> str | None:
    try:
        return MINIMUM_NEGATIVE if to_minor(text, currency) < 0 else None
    except MoneyError as fault:
        return f"minimumOrderAmount: {fault}"


def status_values(request: StoreStatusUpdate, now: datetime) -> dict[str, Any]:
    """Return the columns to set. With `online` the other members are ignored."""
    wanted = request.status.lower()
    if wanted == StoreStatusValue.ONLINE.value:
        return {"paused": False, "pause_reason": None, "resume_at": None}
    reason, resume = request.pause_reason, request.resume_at
    at = parse_instant(resume) if isinstance(resume, str) else None
    faults: list[FieldFault] = []
    if wanted != StoreStatusValue.PAUSED.value:
        faults.append(FieldFault("/status", "status must be online or paused.", form=False))
    for name, value in (("pauseReason", reason), ("resumeAt", resume)):
        # The decoder doesn't check them, because `status` decides whether they are read.
        if value is not None and not isinstance(value, str):
            faults.append(FieldFault(f"/{name}", f"{name} must be a string or null.", form=True))
    if isinstance(reason, str) and ("\x00" in reason or len(reason) > REASON_LENGTH):
        message = f"pauseReason may have at most {REASON_LENGTH} characters, and no NUL."
        faults.append(FieldFault("/pauseReason", message, form=False))
    if isinstance(resume, str) and (at is None or at <= now):
        message = "resumeAt must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."
        if at is not None:
            message = "resumeAt must be in the future. Leave it out to pause until further notice."
        faults.append(FieldFault("/resumeAt", message, form=False))
    if faults:
        raise refusal(faults)
    return {"paused": True, "pause_reason": reason, "resume_at": at}


def availability_changes(
    request: ItemAvailabilityRequest, row: StoreRow, catalog: CompiledCatalog, now: datetime
) -> tuple[list[SoldOut], list[UUID]]:
    """Return the items to mark as sold out and those to mark as available.

    An item that is sold out can be made available even when the current set lacks it. Raises ValidationFailed
    for unknown items, InvalidRequest for an entry that doesn't name one.
    """
    marked = {item.item_id for item in row.sold_out}
    sold_out: dict[UUID, SoldOut] = {}
    available: set[UUID] = set()
    faults: list[tuple[str, str | None]] = []
    _check_references(request)
    for index, entry in enumerate(request.items):
        name = "partnerItemId" if entry.item_id is None else "itemId"
        text = entry.item_id or entry.partner_item_id or ""
        # A partner's own id that isn't a UUID determines the served id.
        item_id = parse_uuid(text) or uuid5(row.onboarding_id, text)
        if item_id.int not in catalog.items and not (entry.available and item_id in marked):
            message = f"Item {text!r} is not in the store's current CatalogSet {row.catalog_set_id}."
            faults.append((f"/items/{index}/{name}", message))
        until = parse_instant(entry.until) if entry.until is not None else None
        faults.append((f"/items/{index}/until", _until_fault(entry, until, now)))
        # The last entry of an item counts.
        sold_out.pop(item_id, None)
        available.discard(item_id)
        if entry.available:
            available.add(item_id)
        else:
            sold_out[item_id] = SoldOut(item_id, until)
    refuse(faults)
    return list(sold_out.values()), list(available)


def _check_references(request: ItemAvailabilityRequest) -> None:
    """Raise a refusal of all entries that don't name exactly one item."""
    found = []
    for index, entry in enumerate(request.items):
        fault = item_name_fault({"itemId": entry.item_id, "partnerItemId": entry.partner_item_id})
        if fault is not None:
            pointer = f"/items/{index}{fault.below}"
            found.append(FieldFault(pointer=pointer, message=fault.message, form=fault.form))
    if found:
        raise refusal(found)


def _until_fault(entry: ItemAvailabilityEntry, until: datetime | None, now: datetime) -> str | None:
    if entry.until is None or entry.available:
        return None
    if until is None:
        return "until must be an RFC 3339 instant with an offset, like 2026-01-31T18:30:00Z."
    return None if until > now else "until must be in the future."
