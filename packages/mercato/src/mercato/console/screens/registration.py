"""`Register store`: step by step from nothing to a live store, kept as it is typed and taken up again at any time.

Registering and activating are the operations of the API. What they refuse is said beside the field it is about.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato.console import hours_form, menu_upload, registration_form, store_forms
from mercato.console.filters import Filters, read_filters
from mercato.console.menu_upload import MENU, NO_FILE, MenuFields, group_losses
from mercato.console.registration_form import NEW, STEPS, Draft, Faults
from mercato.console.screen import MERCHANTS, Done, Page, Question, Screens, Visit
from mercato.console.store_forms import FormView, Texts
from mercato.console.times import timezones
from mercato.features.catalogs.codings import compress_as
from mercato.features.catalogs.menu_files import SheetMenu
from mercato.features.partners.model import Caller, Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores import menu_hours, places, registrations
from mercato.features.stores.model import OnboardingNotFound, OnboardingNotReady, StoreAlreadyRegistered
from mercato.features.stores.onboarding import new_menu
from mercato.features.stores.registrations import (
    MAX_DOCUMENT,
    RegisteredMenu,
    Registration,
    RegistrationNotFound,
)
from mercato.platform.telemetry import tracing
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import OnboardingState, OnboardingStatus
from mercato_contract.wire import Wire, parse_uuid

screens: Final = Screens(MERCHANTS, whole_account=True)

PATH: Final = "/console/stores/register"
TITLE: Final = "Register store"

_TAKEN: Final = "Another store of this account has it. Enter another one."
_TOO_LARGE: Final = "The menu is too large to be kept here. Let a system of the store send it with the API."
_MAX_NAME: Final = 120
_ORDER: Final = tuple(STEPS)


class _Sent(Struct, frozen=True):
    """A step that was sent: its fields, and where to go then. `copies` the hours of one day to the others."""

    step: str
    fields: Texts
    to: str | None
    copies: bool


@screens.get("stores/register", needs=Permission.MANAGE_STORES)
async def begin_registration(visit: Visit) -> Page:
    return _page(visit, NEW, "store", {})


@screens.post("stores/register", needs=Permission.MANAGE_STORES)
async def start_registration(visit: Visit) -> Done | Page:
    partner_id, sent = visit.caller(Surface.COMMERCE).partner_id, _sent(visit)
    new_id, now = visit.app.new_id(), visit.app.clock()
    async with visit.app.db.write() as tx:
        await registrations.insert_registration(tx, partner_id, new_id, {"store": sent.fields}, now=now)
        kept = await registrations.get_registration(tx, partner_id, new_id)
    return await _go_on(visit, kept, sent)


@screens.get("stores/register/{registration}", needs=Permission.MANAGE_STORES)
async def show_registration(visit: Visit) -> Page:
    kept = await _get(visit)
    draft = await _draft(kept)
    wanted = visit.filters(_StepQuery).step
    first = next(iter(draft.missing), "live")
    step = wanted if wanted in STEPS else first
    # A step that nobody has sent yet has nothing wrong in it, only everything missing.
    faults = draft.faults(step) if step in draft.steps else {}
    return await _show(visit, kept, draft, step, faults)


@screens.post("stores/register/{registration}", needs=Permission.MANAGE_STORES)
async def save_registration(visit: Visit) -> Done | Page:
    kept = await _get(visit)
    sent = _sent(visit)
    kept = await _withdraw(visit, kept)
    async with visit.app.db.write() as tx:
        kept = await registrations.lock_unregistered(tx, kept)
        await registrations.save_step(tx, kept, sent.step, sent.fields, now=visit.app.clock())
        kept = await registrations.get_registration(tx, kept.partner_id, kept.id)
    return await _go_on(visit, kept, sent)


@screens.post(
    "stores/register/{registration}/menu", needs=Permission.MANAGE_STORES, max_upload=menu_upload.MAX_UPLOAD
)
async def upload_menu(visit: Visit) -> Page:
    kept = await _get(visit)
    draft = await _draft(kept)
    async with visit.parts() as parts:
        sent = {name: await part.text() for name, part in parts.items() if part.filename is None}
        fields = read_filters(visit, MenuFields, sent)
        if MENU not in parts:
            fields.faults[MENU] = NO_FILE
        if fields.faults:
            return _menu_page(visit, kept, draft, fields, status=422)
        made = await menu_upload.read_menu(
            visit.app,
            parts,
            fields.query,
            partner_id=kept.partner_id,
            default_currency=visit.app.settings.default_currency,
        )
        name = parts[MENU].filename
    if made.document is None or made.summary is None:
        return _menu_page(visit, kept, draft, fields, made, status=422)
    document = await asyncio.to_thread(compress_as, made.document, "zstd")
    if len(document) > MAX_DOCUMENT:
        fields.faults[MENU] = _TOO_LARGE
        return _menu_page(visit, kept, draft, fields, status=422)
    read = made.summary
    menu = RegisteredMenu(
        file=(name or "menu")[:_MAX_NAME], items=read.items, sections=read.sections, currency=read.currency
    )
    await _withdraw(visit, kept)
    async with visit.app.db.write() as tx:
        kept = await registrations.lock_unregistered(tx, kept)
        await registrations.save_menu(tx, kept, menu, document, now=visit.app.clock())
        kept = await registrations.get_registration(tx, kept.partner_id, kept.id)
    return _menu_page(visit, kept, registration_form.draft_of(kept, draft.location), fields, made)


@screens.post("stores/register/{registration}/submit", needs=Permission.MANAGE_STORES)
async def register_store(visit: Visit) -> Done | Page:
    kept = await _get(visit)
    status = await _status(visit, kept)
    if status is not None and status.status is not OnboardingState.CATALOG_FAILED:
        return _registered(kept)
    kept = await _withdraw(visit, kept)
    draft = await _draft(kept)
    async with visit.app.db.read() as tx:
        stored = await registrations.find_document(tx, kept.id)
    if draft.missing or stored is None:
        return await _show(visit, kept, draft, "live", {})
    trace = tracing.current(visit.head.child())
    menu = await new_menu(kept, stored, lambda document: menu_hours.with_hours(document, draft.windows))
    request = registration_form.onboarding_request(draft)
    try:
        await visit.app.onboardings.register_in_console(_caller(visit), request, menu, trace=trace)
    except ValidationFailed as refusal:
        return await _refused(visit, kept, draft, store_forms.faults_of(refusal, registration_form.FIELDS))
    except StoreAlreadyRegistered:
        if (await _get(visit)).onboarding_id is not None:
            return _registered(kept)  # the same form, sent twice
        return await _refused(visit, kept, draft, {"partnerStoreId": _TAKEN})
    return _registered(kept)


@screens.post("stores/register/{registration}/activate", needs=Permission.MANAGE_STORES)
async def activate_store(visit: Visit) -> Done | Page:
    try:
        kept = await _get(visit)
    except RegistrationNotFound:
        return await _activated(visit)
    draft = await _draft(kept)
    if kept.onboarding_id is None or draft.missing:
        return await _show(visit, kept, draft, "live", {})
    details, fields = registration_form.details(draft)
    try:
        store = await visit.app.onboardings.activate(_caller(visit), kept.onboarding_id, details=details)
    except ValidationFailed as refusal:
        return await _refused(visit, kept, draft, store_forms.faults_of(refusal, fields))
    except OnboardingNotReady as refusal:
        if refusal.store_id is None:
            raise
        return await _live(visit, refusal.store_id)
    return _is_live(store.id, store.name)


async def _activated(visit: Visit) -> Done:
    """Lead to the store of a registration that is gone: its button was pressed twice. Raises RegistrationNotFound."""
    onboarding_id = parse_uuid(visit.texts().get("onboardingId", ""))
    if onboarding_id is not None:
        with suppress(OnboardingNotFound):
            status = await visit.app.onboardings.get(_caller(visit), onboarding_id)
            if status.store_id is not UNSET:
                return await _live(visit, status.store_id)
    raise RegistrationNotFound


async def _live(visit: Visit, store_id: UUID) -> Done:
    return _is_live(store_id, (await visit.app.stores.get(_caller(visit), store_id)).name)


def _is_live(store_id: UUID, name: str) -> Done:
    return Done(
        f"{name} is live: storefronts find it, and it takes orders.", to=f"/console/stores/{store_id}"
    )


async def _ask_to_delete(visit: Visit) -> Question:
    kept = await _get(visit)
    name = kept.steps.get("store", {}).get("name", "without a name")
    return Question(
        "Delete this registration?",
        "Everything that was typed is deleted, and the menu that was uploaded. No store is live yet.",
        back=_path(kept.id),
        names=(name,),
    )


@screens.post("stores/register/{registration}/delete", needs=Permission.MANAGE_STORES, ask=_ask_to_delete)
async def delete_registration(visit: Visit) -> Done:
    kept = await _withdraw(visit, await _get(visit))
    async with visit.app.db.write() as tx:
        await registrations.lock_unregistered(tx, kept)
        await registrations.delete_registration(tx, kept.partner_id, kept.id)
    return Done("The registration is deleted.", to="/console/stores")


# --- what was typed ---------------------------------------------------------------------------------------


def _sent(visit: Visit) -> _Sent:
    """Return the step that was sent. Raises ValidationFailed for one that has no fields."""
    texts = visit.texts()
    step = texts.pop("step", "")
    if step not in registration_form.TYPED:
        raise ValidationFailed.at(
            None, "The form isn't a step of this registration. Open it again from the page Stores."
        )
    to = texts.pop("to", None)
    made = None if texts.pop("copy", None) is None else hours_form.copied(texts)
    return _Sent(step, texts if made is None else made, to if to in STEPS else None, made is not None)


class _StepQuery(Wire):
    step: str | None = None


async def _get(visit: Visit) -> Registration:
    """Return the partner's registration of the path. Raises RegistrationNotFound."""
    async with visit.app.db.read() as tx:
        return await registrations.get_registration(tx, _caller(visit).partner_id, visit.ids["registration"])


def _caller(visit: Visit) -> Caller:
    return visit.caller(Surface.COMMERCE)


async def _draft(kept: Registration) -> Draft:
    location = await places.find(registration_form.address_in(kept.steps))
    return registration_form.draft_of(kept, location)


async def _status(visit: Visit, kept: Registration) -> OnboardingStatus | None:
    """Return the state of the onboarding that was made of it, None if there is none, or if it was cancelled."""
    if kept.onboarding_id is None:
        return None
    try:
        return await visit.app.onboardings.get(_caller(visit), kept.onboarding_id)
    except OnboardingNotFound:
        return None


def _registered(kept: Registration) -> Done:
    return Done("The store is registered, and its menu is being checked.", to=_path(kept.id, "live"))


async def _withdraw(visit: Visit, kept: Registration) -> Registration:
    """Cancel the onboarding that was made of what is about to change. Raises OnboardingActive."""
    if kept.onboarding_id is not None:
        with suppress(OnboardingNotFound):  # it was cancelled already, here or with the API
            await visit.app.onboardings.cancel(_caller(visit), kept.onboarding_id)
    return kept


async def _go_on(visit: Visit, kept: Registration, sent: _Sent) -> Done | Page:
    """Go to the step that was asked for, or to the next one if nothing is wrong with the one that was sent."""
    draft = await _draft(kept)
    faults = draft.faults(sent.step)
    if sent.to is not None:
        return Done("What you entered is saved.", to=_path(kept.id, sent.to))
    if sent.copies:
        return Done("The hours are on every day without its own.", to=_path(kept.id, sent.step))
    if faults:
        return await _show(visit, kept, draft, sent.step, faults)
    following = _ORDER[min(_ORDER.index(sent.step) + 1, len(_ORDER) - 1)]
    return Done(f"{STEPS[sent.step]}: saved.", to=_path(kept.id, following))


async def _refused(visit: Visit, kept: Registration, draft: Draft, faults: Faults) -> Page:
    """Show the first step that has one of the faults that a service found."""
    step, own = next(iter(registration_form.steps_of(faults).items()))
    return await _show(visit, kept, draft, step, own)


def _path(registration_id: UUID, step: str | None = None) -> str:
    return f"{PATH}/{registration_id}" + ("" if step is None else f"?step={step}")


# --- the page ---------------------------------------------------------------------------------------------


async def _show(visit: Visit, kept: Registration, draft: Draft, step: str, faults: Faults) -> Page:
    status = await _status(visit, kept) if step == "live" else None
    return _page(visit, draft, step, faults, kept=kept, status=status)


def _menu_page(
    visit: Visit,
    kept: Registration,
    draft: Draft,
    fields: Filters[MenuFields],
    made: SheetMenu | None = None,
    *,
    status: int = 200,
) -> Page:
    """Return the step of the menu with what was read of a file that was just sent."""
    page = _page(visit, draft, "menu", {}, kept=kept)
    shown = {"search": fields, "made": made, "losses": () if made is None else group_losses(made)}
    return replace(page, values={**page.values, **shown}, status=status)


def _page(
    visit: Visit,
    draft: Draft,
    step: str,
    faults: Faults,
    *,
    kept: Registration | None = None,
    status: OnboardingStatus | None = None,
) -> Page:
    texts: Mapping[str, str] = draft.texts(step)
    if step == "orders" and step not in draft.steps:
        texts = {"orderHandling": "manual", "acceptWithin": store_forms.DEFAULT_MINUTES, "pickup": "true"}
    place = _ORDER.index(step)
    values: dict[str, Any] = {
        "form": FormView(texts, faults, store_forms.choices()),
        "action": PATH if kept is None else _path(kept.id),
        "kept": kept,
        "draft": draft,
        "step": step,
        "steps": STEPS,
        "place": place,
        "before": None if place == 0 else _ORDER[place - 1],
        "missing": draft.missing,
        "labels": registration_form.LABELS,
        "own_id": registration_form.own_id(draft),
        "onboarding": status,
        "week": hours_form.WEEK,
        "hours": hours_form,
        "zones": timezones(),
        "search": Filters(MenuFields(), {}),
        "made": None,
        "losses": (),
        "chosen": menu_upload.CHOSEN,
        "words": menu_upload.WORDS,
        "max_items": menu_upload.MAX_ITEMS,
    }
    return Page("register.html", TITLE, values, status=422 if faults and visit.head.method == "POST" else 200)
