"""What a merchant decides about a store: how its orders are accepted, their taxes and fees, and when it is open."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mercato.console import hours_form, store_forms
from mercato.console.screen import MERCHANTS, Done, Page, Screens, Visit
from mercato.console.store_forms import GENERAL, FormView, Texts
from mercato.features.catalogs.errors import AnotherMenu
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.catalogs import IDENTITY
from mercato.features.stores.menu_hours import with_document_ids, with_hours
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.features.stores.views import spans_of, windows_in
from mercato.platform.telemetry import tracing
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import OrderHandling

screens: Final = Screens(MERCHANTS)

_NEWER_MENU: Final = "The store has got another menu meanwhile. Look at the hours again, then save them."
_MENU_COMES: Final = (
    "The store is getting another menu just now, so nothing was saved. Open the hours again in some seconds."
)


@screens.get("stores/{store}/handling", needs=Permission.MANAGE_STORES)
async def show_handling(visit: Visit) -> Page:
    store = await _store(visit)
    return _page("handling", store, store_forms.handling_texts(store), {})


@screens.post("stores/{store}/handling", needs=Permission.MANAGE_STORES)
async def set_handling(visit: Visit) -> Done | Page:
    store, texts = await _store(visit), visit.texts()
    members = store_forms.handling_members(texts)
    return await _update(visit, store, "handling", texts, members, store_forms.HANDLING_FIELDS)


@screens.get("stores/{store}/charges", needs=Permission.MANAGE_STORES)
async def show_charges(visit: Visit) -> Page:
    store = await _store(visit)
    stored = () if store.charges is None else store.charges.charges
    return _page("charges", store, store_forms.charge_texts(stored), {})


@screens.post("stores/{store}/charges", needs=Permission.MANAGE_STORES)
async def set_charges(visit: Visit) -> Done | Page:
    store, texts = await _store(visit), visit.texts()
    members, fields = store_forms.charge_members(texts)
    return await _update(visit, store, "charges", texts, members, fields)


@screens.get("stores/{store}/hours", needs=Permission.MANAGE_STORES)
async def show_hours(visit: Visit) -> Page:
    store = await _store(visit)
    return _hours_page(store, await _hours_of(visit, store), {})


@screens.post("stores/{store}/hours", needs=Permission.MANAGE_STORES)
async def set_hours(visit: Visit) -> Done | Page:
    """Send the store's own menu once more, with other hours, as Replace Catalog does."""
    store, texts = await _store(visit), visit.texts()
    seen = texts.pop("catalogSetId", None)
    if await _hours_of(visit, store) is None:
        return _hours_page(store, None, {})
    filled = None if texts.pop("copy", None) is None else hours_form.copied(texts)
    if filled is not None:
        return _hours_page(store, filled, {})
    windows, faults = hours_form.read_hours(texts)
    if seen != str(store.catalog_set_id):
        faults = {GENERAL: _NEWER_MENU} | faults
    if faults:
        return _hours_page(store, texts, faults)
    caller = visit.caller(Surface.COMMERCE)
    body = await visit.app.bodies.get_own(caller, store.catalog_set_id, IDENTITY)
    catalog = await visit.app.compiled.get(store.catalog_set_id)

    def made() -> bytes:
        return with_hours(with_document_ids(body.content, catalog), windows)

    document = await asyncio.to_thread(made)

    async def receive(write: Callable[[bytes], Awaitable[None]]) -> None:
        await write(document)

    trace = tracing.current(visit.head.child())
    try:
        await visit.app.stores.replace_catalog(
            caller, store.id, receive, activate_at=None, trace=trace, based_on=store.catalog_set_id
        )
    except AnotherMenu:
        return _hours_page(store, texts, {GENERAL: _MENU_COMES})
    return Done(
        "The hours are being published. They hold in a few seconds.", to=f"/console/stores/{store.id}"
    )


async def _hours_of(visit: Visit, store: StoreRow) -> dict[str, str] | None:
    """Return the texts of a store's hours; None if one table can't say those of all its catalogs."""
    catalog = await visit.app.compiled.get(store.catalog_set_id)
    if len({one.windows for one in catalog.catalogs}) > 1:
        return None
    return hours_form.texts_of(windows_in(spans_of(catalog)))


def _hours_page(store: StoreRow, texts: Texts | None, faults: Mapping[str, str]) -> Page:
    form = None if texts is None else FormView(texts, faults, store_forms.choices())
    values = {
        "store": store,
        "form": form,
        "part": "hours",
        "week": hours_form.WEEK,
        "most": hours_form.SPANS,
    }
    return Page("store_form.html", "Hours", values, status=422 if faults else 200, timezone=store.timezone)


async def _store(visit: Visit) -> StoreRow:
    """Return the merchant's store. Raises StoreNotFound, also for another partner's."""
    store_id = visit.ids["store"]
    visit.check_store(store_id, StoreNotFound(store_id))
    return await visit.app.cache.get_own(visit.caller(Surface.COMMERCE), store_id)


_TITLES: Final = {"handling": "Handling of orders", "charges": "Taxes and fees"}


def _page(part: str, store: StoreRow, texts: Texts, faults: Mapping[str, str]) -> Page:
    form = FormView(texts, store_forms.with_hints(faults, texts), store_forms.choices())
    values = {"store": store, "form": form, "part": part}
    return Page("store_form.html", _TITLES[part], values, status=422 if faults else 200)


async def _update(
    visit: Visit, store: StoreRow, part: str, texts: Texts, members: Mapping[str, object], fields: Texts
) -> Done | Page:
    """Change the store as Update Store does, or show the form again with what is wrong beside its fields."""
    request, faults = store_forms.read_update(members, fields)
    if request is None:
        return _page(part, store, texts, faults)
    trace = tracing.current(visit.head.child())
    try:
        after = await visit.app.stores.update(visit.caller(Surface.COMMERCE), store.id, request, trace=trace)
    except ValidationFailed as refusal:
        return _page(part, store, texts, store_forms.faults_of(refusal, fields))
    if part == "charges":
        said = "The taxes and fees are saved: orders have them from now on."
    elif after.order_handling is OrderHandling.MANUAL:
        said = f"A person accepts each order from now on, within {after.accept_within} minutes."
    else:
        said = "The handling of orders is saved: it holds for orders from now on."
    return Done(said, to=f"/console/stores/{store.id}")
