"""Search: finds pages by names, numbers and ids. The field is on every page.

It is a form that is posted: what is typed may be a customer's phone number or a key, which belong in no address.
"""

from typing import Any, Final

from mercato.console.filters import headlines_of, scope_of
from mercato.console.screen import EVERYBODY, Page, Screens, Visit
from mercato.console.store_states import calls_shown, find_states
from mercato.features.catalogs.operators import RunFilter, list_runs
from mercato.features.lookup import MAX_MATCHES, MAX_TEXT, Found, find_all
from mercato.features.orders.board import NUMBER_LENGTH
from mercato.features.orders.operators import list_orders_of
from mercato.features.orders.search import MAX_NAMED
from mercato.features.partners.queries import find_names
from mercato.features.requests.queries import Filter, find_refused
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.operators import list_stores_of
from mercato.features.webhooks.operators import list_rows_of
from mercato.platform.db.engine import Read
from mercato_contract.texts import without_secrets
from mercato_contract.wire import Wire, redacted

screens: Final = Screens(EVERYBODY)

MAX_FORM: Final = 128 * 1024
"""Bytes of the form: a text of 10 kB, with every character escaped, is searched for and not refused."""


@redacted("text")
class SearchForm(Wire):
    """What was typed."""

    text: str = ""


@screens.get("search")
async def show_search(visit: Visit) -> Page:
    return _page(visit, "", None, {})


@screens.post("search", needs=Permission.SEE, max_form=MAX_FORM)
async def search(visit: Visit) -> Page:
    text = visit.fields(SearchForm).text
    async with visit.app.db.read() as tx:
        found = await find_all(tx, text, scope_of(visit, None), visit.app.placements.contacts)
        rows = await _rows(tx, visit, found)
    return _page(visit, text, found, rows)


def _page(visit: Visit, text: str, found: Found | None, rows: dict[str, Any]) -> Page:
    scope = scope_of(visit, None)
    values = {
        "found": found,
        # A page repeats no key.
        "searched": without_secrets(text[:MAX_TEXT]),
        "is_cut": len(text) > MAX_TEXT,
        "max_text": MAX_TEXT,
        "most": MAX_MATCHES,
        "max_named": MAX_NAMED,
        "ticket_length": NUMBER_LENGTH,
        "customers": scope.customers,
        "names": scope.names,
    }
    return Page("search.html", "Search", values | rows)


async def _rows(tx: Read, visit: Visit, found: Found) -> dict[str, Any]:
    now = visit.app.clock()
    stores = await list_stores_of(tx, found.stores, now=now)
    requests = [await find_refused(tx, Filter(), request_id) for request_id in found.requests]
    orders = await list_orders_of(tx, found.orders)
    return {
        "orders": orders,
        "headlines": await headlines_of(tx, visit, orders),
        "stores": stores,
        "states": await find_states(tx, stores, now, shows_calls_of=calls_shown(visit)),
        "partners": await find_names(tx, found.partners),
        "runs": await list_runs(tx, RunFilter(ids=found.runs), limit=MAX_MATCHES) if found.runs else (),
        "deliveries": await list_rows_of(tx, found.deliveries),
        "requests": [request for request in requests if request is not None],
    }
