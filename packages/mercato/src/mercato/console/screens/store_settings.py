"""What a merchant decides about a store: how its orders are accepted, and which taxes and fees are added to them."""

from collections.abc import Mapping
from typing import Final

from mercato.console import store_forms
from mercato.console.screen import MERCHANTS, Done, Page, Screens, Visit
from mercato.console.store_forms import FormView, Texts
from mercato.features.partners.model import Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.platform.telemetry import tracing
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import OrderHandling

screens: Final = Screens(MERCHANTS)


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


async def _store(visit: Visit) -> StoreRow:
    """Return the merchant's store. Raises StoreNotFound, also for another partner's."""
    store_id = visit.ids["store"]
    visit.check_store(store_id, StoreNotFound(store_id))
    return await visit.app.cache.get_own(visit.caller(Surface.COMMERCE), store_id)


_TITLES: Final = {"handling": "Handling of orders", "charges": "Taxes and fees"}


def _page(part: str, store: StoreRow, texts: Texts, faults: Mapping[str, str]) -> Page:
    form = FormView(texts, faults, store_forms.choices())
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
