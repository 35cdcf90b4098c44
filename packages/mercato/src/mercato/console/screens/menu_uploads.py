"""A store's menu as a spreadsheet: uploaded, looked at beside the one that is served, and published."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from mercato.console import menu_upload
from mercato.console.catalog_changes import changes_of
from mercato.console.filters import Filters, read_filters, store_of
from mercato.console.menu_upload import (
    MAX_ITEMS,
    MAX_UPLOAD,
    MENU,
    NO_FILE,
    LossGroup,
    MenuFields,
    group_losses,
)
from mercato.console.screen import MERCHANTS, Done, Page, Screens, Visit
from mercato.features.catalogs.dry_run import Subject
from mercato.features.catalogs.menu_files import SheetMenu, known_items
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.catalogs import IDENTITY
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.platform.telemetry import tracing
from mercato_catalog.validation.findings import Rule
from mercato_contract.catalogs import CatalogValidation
from mercato_contract.wire import Wire

screens: Final = Screens(MERCHANTS)

MAX_STORES: Final = 50
"""Stores that can be chosen from a list; of more, one is named."""

MAX_NAME: Final = 80

_HOURS_DIFFER: Final = "The store's catalogs have different hours now. This menu is available at all times."
_CHARGES_STAY: Final = (
    "The store has taxes or fees of an amount in {}, and this menu is in {}: such an amount won't be added to orders "
    "until you save the store's taxes and fees again."
)
_NO_STORE: Final = "Choose the store whose menu it is, by its name or id."


class UploadFields(MenuFields):
    """The form: the menu's fields, and the store's name or id."""

    store_id: str | None = None


class PublishForm(Wire):
    """The store that the menu is for, and the set that it was compared with."""

    store_id: UUID
    catalog_set_id: UUID | None = None


@screens.get("catalogs/upload", needs=Permission.CHANGE_CATALOGS)
async def show_upload(visit: Visit) -> Page:
    return await _page(visit, read_filters(visit, UploadFields))


@screens.post("catalogs/upload", needs=Permission.CHANGE_CATALOGS, max_upload=MAX_UPLOAD)
async def read_upload(visit: Visit) -> Page:
    caller, app = visit.caller(Surface.COMMERCE), visit.app
    async with visit.parts() as parts:
        sent = {name: await part.text() for name, part in parts.items() if part.filename is None}
        fields = read_filters(visit, UploadFields, sent)
        store = await _find_store(visit, fields)
        if MENU not in parts:
            fields.faults[MENU] = NO_FILE
        if store is None or fields.faults:
            return await _page(visit, fields, status=422)
        served = await app.compiled.get(store.catalog_set_id)
        body = await app.bodies.get_own(caller, store.catalog_set_id, IDENTITY)
        # A spreadsheet says no hours: the menu keeps those that the store's catalogs have in common.
        spans = {one.windows for one in served.catalogs or ()}
        made = await menu_upload.read_menu(
            app,
            parts,
            fields.query,
            partner_id=caller.partner_id,
            default_currency=served.currency,
            hours=next(iter(spans)) if len(spans) == 1 else None,
            previous=await asyncio.to_thread(known_items, body.content, served),
        )
        name = parts[MENU].filename
    losses = group_losses(made)
    if len(spans) > 1:
        losses.append(LossGroup(_HOURS_DIFFER, 1, ()))
    if made.summary is not None and (charged := _idle_charges(store, made.summary.currency)):
        losses.append(LossGroup(_CHARGES_STAY.format(charged, made.summary.currency), 1, ()))
    values: dict[str, Any] = {"made": made, "store": store, "file": name, "losses": losses}
    if made.document is None:
        return await _page(visit, fields, values, status=422)
    checked = await _check(visit, store, made)
    if not checked.valid:
        return await _page(visit, fields, values | {"checked": checked}, status=422)
    changes = None if checked.diff is None else list(changes_of(checked.diff))
    values |= {
        "checked": checked,
        "changes": changes,
        # Ids that were kept of another system's menu: who has a spreadsheet has none, and nothing to check.
        "warnings": [one for one in checked.warnings if one.code != Rule.ID_NOT_UUID.id],
        "draft_id": await app.stores.keep_menu(caller, made.document),
    }
    return await _page(visit, fields, values)


@screens.post("catalogs/uploads/{upload}/publish", needs=Permission.CHANGE_CATALOGS)
async def publish_upload(visit: Visit) -> Done:
    form = visit.fields(PublishForm)
    store_id = form.store_id
    visit.check_store(store_id, StoreNotFound(store_id))
    run = await visit.app.stores.publish_menu(
        visit.caller(Surface.COMMERCE),
        store_id,
        visit.ids["upload"],
        trace=tracing.current(visit.head.child()),
        based_on=form.catalog_set_id,
    )
    return Done(
        "The menu is being published. The run ends in a few seconds.", to=f"/console/catalogs/{run.id}"
    )


async def _find_store(visit: Visit, fields: Filters[UploadFields]) -> StoreRow | None:
    """Return the store of the session or of the form; None, with the fault beside the field."""
    async with visit.app.db.read() as tx:
        store_id = await store_of(tx, visit, fields, Surface.COMMERCE)
    if store_id is None:
        fields.faults.setdefault("storeId", _NO_STORE)
        return None
    try:
        return await visit.app.cache.get_own(visit.caller(Surface.COMMERCE), store_id)
    except StoreNotFound as refusal:
        # Another partner's is refused as one that doesn't exist.
        fields.faults["storeId"] = refusal.detail
        return None


def _idle_charges(store: StoreRow, currency: str) -> str | None:
    """Return the currency of charges of an amount that aren't added to a menu in this one, if there are any."""
    return None if store.orders_url is not None else replace(store, currency=currency).idle_currency


async def _stores(visit: Visit) -> Mapping[str, str] | None:
    """Return the names of the account's stores by their ids; None if there are too many to choose from."""
    if visit.store_id is not None:
        return None
    page = await visit.app.stores.list(
        visit.caller(Surface.COMMERCE), before=None, limit=MAX_STORES + 1, status=None, partner_store_id=None
    )
    if len(page.stores) > MAX_STORES:
        return None
    return {str(store.store_id): (store.name or store.partner_store_id)[:MAX_NAME] for store in page.stores}


async def _check(visit: Visit, store: StoreRow, made: SheetMenu) -> CatalogValidation:
    document = made.document
    assert document is not None

    async def receive(write: Any) -> None:
        await write(document)

    subject = Subject(store.onboarding_id, store.id, store.catalog_set_id)
    return await visit.app.dry_runs.check(receive, partner_id=store.partner_id, subject=subject)


async def _page(
    visit: Visit, fields: Filters[UploadFields], values: Mapping[str, Any] | None = None, *, status: int = 200
) -> Page:
    known = {
        "stores": await _stores(visit),
        "search": fields,
        "made": None,
        "chosen": menu_upload.CHOSEN,
        "words": menu_upload.WORDS,
        "max_items": MAX_ITEMS,
        "max_places": menu_upload.MAX_PLACES,
    }
    return Page("menu_uploads.html", "Upload a menu", known | dict(values or {}), status=status)
