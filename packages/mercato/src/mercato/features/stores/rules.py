"""What a request changes of a store, or all its faults, without database or network."""

from collections.abc import Iterator
from datetime import datetime
from types import NoneType
from typing import Annotated, Final, get_args
from uuid import UUID, uuid5

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType, structs

from mercato.features.stores.model import SoldOut, StoreChange, StoredCharges, StoreRow, handling_of
from mercato.platform.gazetteer import Location
from mercato_catalog.model import CompiledCatalog
from mercato_contract.decoding.checks import refuse, uri_fault
from mercato_contract.decoding.decode import refusal
from mercato_contract.decoding.walk import FieldFault, read_shallow
from mercato_contract.money import MoneyError, to_minor
from mercato_contract.pages import MAX_UPDATES
from mercato_contract.stores import (
    MINIMUM_NEGATIVE,
    Address,
    AddressRequest,
    ItemAvailabilityEntry,
    ItemAvailabilityRequest,
    OrderHandling,
    StoreStatusBatch,
    StoreStatusEntry,
    StoreStatusUpdate,
    StoreStatusValue,
    StoreUpdate,
    categories_fault,
    charge_fault,
    item_name_fault,
    timezone_fault,
    webhook_token_fault,
)
from mercato_contract.texts import name_fault
from mercato_contract.wire import Wire, instant_fault, parse_instant, parse_uuid
from mercato_outbound.guard import AddressPolicy, call_fault

NULL: Final = Raw(b"null")


class _SentStatus(Wire):
    status: Annotated[str, Meta(min_length=1)]
    pause_reason: Raw = NULL
    resume_at: Raw = NULL


class _SentEntry(_SentStatus, kw_only=True):
    store_id: UUID


class _SentBatch(Wire):
    updates: Annotated[list[_SentEntry], Meta(max_length=MAX_UPDATES)]


_read_batch: Final = msgspec.json.Decoder(_SentBatch).decode
_read_status: Final = msgspec.json.Decoder(_SentStatus).decode


def read_status_update(body: bytes) -> StoreStatusUpdate:
    """Decode like msgspec, but of a list or an object in place of a text read only its type.

    With `online` these members may hold anything, and msgspec takes a second for 1 MiB of floats.
    """
    sent = _read_status(body)
    return StoreStatusUpdate(
        status=sent.status,
        pause_reason=read_shallow(bytes(sent.pause_reason)),
        resume_at=read_shallow(bytes(sent.resume_at)),
    )


def read_status_batch(body: bytes) -> StoreStatusBatch:
    """Decode many as `read_status_update` does one."""
    entries = [
        StoreStatusEntry(
            store_id=sent.store_id,
            status=sent.status,
            pause_reason=read_shallow(bytes(sent.pause_reason)),
            resume_at=read_shallow(bytes(sent.resume_at)),
        )
        for sent in _read_batch(body).updates
    ]
    return StoreStatusBatch(updates=entries)


def address_of(sent: AddressRequest) -> Address:
    return Address(
        street=sent.street or sent.address1 or UNSET,
        address2=sent.address2 or UNSET,
        city=sent.city or UNSET,
        state=sent.state or UNSET,
        postal_code=sent.postal_code or UNSET,
        country=sent.country or UNSET,
        coordinates=sent.coordinates or UNSET,
    )


REASON_LENGTH: Final = 1000

_CLEARABLE: Final = {field.name for field in structs.fields(StoreChange) if NoneType in get_args(field.type)}
"""Members that null clears; for any other, null is the same as absent."""

_COPIED: Final = {*StoreUpdate.__struct_fields__} & {*StoreChange.__struct_fields__} - {
    "address",
    "minimum_order_amount",
    "charges",
}
"""Members that are stored as they are sent."""


def change_of(request: StoreUpdate, row: StoreRow, *, found: Location, policy: AddressPolicy) -> StoreChange:
    """Return what the request changes; `found` is the location of its address, `policy` which addresses may be called.

    Raises ValidationFailed for every value that is not allowed.
    """
    url = row.webhook_url if request.webhook_url is UNSET else request.webhook_url
    faults = [
        *_update_faults(request, row, policy),
        ("/webhookToken", token_fault(request.webhook_token, url)),
        _handling_fault(request, row, url),
        *_charge_faults(request, row, url),
    ]
    refuse(faults)
    sent = {name: getattr(request, name) for name in _COPIED}
    change = StoreChange(
        **{name: value for name, value in sent.items() if value is not None or name in _CLEARABLE}
    )
    if change.timezone is not UNSET:
        change = structs.replace(change, timezone_given=True)
    if isinstance(request.address, AddressRequest):
        change = _with_address(change, request.address, row, found)
    text = request.minimum_order_amount
    if text is None:
        change = structs.replace(change, minimum_order_amount=None, minimum_order_currency=None)
    elif text is not UNSET:
        amount = to_minor(text, row.currency)
        change = structs.replace(change, minimum_order_amount=amount, minimum_order_currency=row.currency)
    if request.charges is not UNSET:
        charges = StoredCharges(row.currency, tuple(request.charges)) if request.charges else None
        change = structs.replace(change, charges=charges)
    return change


def _with_address(change: StoreChange, sent: AddressRequest, row: StoreRow, found: Location) -> StoreChange:
    """Return the change with an address: with the coordinates that were sent, else, if it is new, those found.

    The time zone follows, unless the merchant set one or the address doesn't determine it.
    """
    address = address_of(sent)
    change = structs.replace(change, address=address)
    if sent.coordinates is not None:
        return structs.replace(change, latitude=sent.coordinates.lat, longitude=sent.coordinates.lng)
    if address == structs.replace(row.address, coordinates=UNSET):
        return change
    latitude, longitude = found.coordinates or (None, None)
    change = structs.replace(change, latitude=latitude, longitude=longitude)
    if found.timezone is None or row.timezone_given or change.timezone is not UNSET:
        return change
    return structs.replace(change, timezone=found.timezone)


def token_fault(token: str | UnsetType | None, url: str | None) -> str | None:
    """Return why the token isn't valid with this webhookUrl, or None."""
    if token is UNSET or token is None:
        return None
    return webhook_token_fault(token) or ("webhookToken needs a webhookUrl." if url is None else None)


def handling_fault(chosen: OrderHandling | None, url: str | None) -> str | None:
    """Return why a store with this webhookUrl can't have this orderHandling, or None."""
    if chosen is not OrderHandling.WEBHOOK or url is not None:
        return None
    return "orderHandling webhook needs a webhookUrl. Send it too, or choose manual, automatic or null."


def _handling_fault(request: StoreUpdate, row: StoreRow, url: str | None) -> tuple[str, str | None]:
    sent = request.order_handling
    if sent is not UNSET:
        return "/orderHandling", handling_fault(sent, url)
    return "/webhookUrl", handling_fault(row.order_handling, url)


_CHARGES_UNUSED: Final = (
    "charges are for stores that aren't called: this store's system sets taxes and fees in its answers. Leave them "
    "out, or choose orderHandling manual or automatic."
)


def _charge_faults(request: StoreUpdate, row: StoreRow, url: str | None) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with charges that were decoded without a fault."""
    sent = request.charges or []
    chosen = row.order_handling if request.order_handling is UNSET else request.order_handling
    if sent and handling_of(chosen, url) is OrderHandling.WEBHOOK:
        yield "/charges", _CHARGES_UNUSED
    for index, charge in enumerate(sent):
        fault = charge_fault(msgspec.to_builtins(charge))
        if fault is not None:
            yield f"/charges/{index}{fault.below}", fault.message
        elif charge.amount is not None:
            try:
                to_minor(charge.amount, row.currency)
            except MoneyError as error:
                yield f"/charges/{index}/amount", f"amount: {error}"


def _update_faults(
    request: StoreUpdate, row: StoreRow, policy: AddressPolicy
) -> list[tuple[str, str | None]]:
    faults: list[tuple[str, str | None]] = []
    if isinstance(request.name, str):
        faults.append(("/name", name_fault(request.name)))
    if isinstance(request.logo_url, str):
        faults.append(("/logoUrl", uri_fault(request.logo_url, "logoUrl")))
    url, name = request.webhook_url, "webhookUrl"
    if isinstance(url, str):
        fault = uri_fault(url, name)
        if fault is None and url != row.webhook_url:
            # The stored URL may be sent back with other changes, even if the settings no longer allow it.
            fault = call_fault(url, name, policy)
        faults.append((f"/{name}", fault))
    if isinstance(request.timezone, str):
        faults.append(("/timezone", timezone_fault(request.timezone)))
    if isinstance(request.categories, list):
        faults.append(("/categories", categories_fault(request.categories)))
    if isinstance(request.minimum_order_amount, str):
        faults.append(("/minimumOrderAmount", _minimum_fault(request.minimum_order_amount, row.currency)))
    delivery, pickup = request.delivery_allowed, request.pickup_allowed
    modes = (
        delivery if isinstance(delivery, bool) else row.delivery_allowed,
        pickup if isinstance(pickup, bool) else row.pickup_allowed,
    )
    if not any(modes):
        at = "/deliveryAllowed" if isinstance(delivery, bool) else "/pickupAllowed"
        faults.append((at, "A store must allow delivery or pickup: at least one of the two stays true."))
    return faults


def _minimum_fault(text: str, currency: str) -> str | None:
    try:
        return MINIMUM_NEGATIVE if to_minor(text, currency) < 0 else None
    except MoneyError as fault:
        return f"minimumOrderAmount: {fault}"


def status_change_of(request: StoreStatusUpdate, now: datetime) -> StoreChange:
    """Return what the request changes. With `online` its other members are ignored."""
    wanted = request.status.lower()
    if wanted == StoreStatusValue.ONLINE.value:
        return StoreChange(paused=False, pause_reason=None, resume_at=None)
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
        message = instant_fault("resumeAt", resume)
        if at is not None:
            message = "resumeAt must be in the future. Leave it out to pause until further notice."
        faults.append(FieldFault("/resumeAt", message, form=False))
    if faults:
        raise refusal(faults)
    return StoreChange(paused=True, pause_reason=reason, resume_at=at)


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
        item_id = served_id(text, row)
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


def served_id(text: str, row: StoreRow) -> UUID:
    """Return the served id of an item of the store, of either of its ids: a partner's own determines it."""
    return parse_uuid(text) or uuid5(row.onboarding_id, text)


MAX_ABSENT: Final = 1_000
"""Sold-out items that a store keeps although its current set lacks them: they may come back with the next one."""


def forgotten_items(row: StoreRow, catalog: CompiledCatalog) -> list[UUID]:
    """Return which sold-out items the store forgets as it marks others: those that its set lacks, if they are too many.

    There may be MAX_ABSENT, or as many as the set has items. Without a bound, every new set with new ids would leave
    its own behind for ever, and each costs time wherever the store is read.
    """
    absent = [item.item_id for item in row.sold_out if item.item_id.int not in catalog.items]
    return absent if len(absent) > max(MAX_ABSENT, len(catalog.items)) else []


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
        return instant_fault("until", entry.until)
    return None if until > now else "until must be in the future."
