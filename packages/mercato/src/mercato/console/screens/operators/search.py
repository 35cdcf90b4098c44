"""Search: from anything that has an id to its page. The field is on every page of operators.

It is a form that is posted: what is pasted may be a key, which belongs in no address.
"""

from typing import Annotated, Final

from msgspec import Meta

from mercato.console.screen import OPERATORS, Done, Page, Screens, Visit
from mercato.features.lookup import Match, find_all
from mercato.features.requests.log import without_secrets
from mercato_contract.wire import Wire, redacted

screens: Final = Screens(OPERATORS)

_PATHS: Final = {
    "order": "orders",
    "store": "stores",
    "partner": "partners",
    "delivery": "deliveries",
    "request": "requests",
}


@redacted("text")
class SearchForm(Wire):
    """What was pasted."""

    text: Annotated[str, Meta(max_length=400)] = ""


@screens.get("search")
async def show_search(visit: Visit) -> Page:
    assert visit.is_operator
    return Page("search.html", "Search", {"matches": None})


@screens.post("search", changes=False)
async def search(visit: Visit) -> Done | Page:
    text = visit.fields(SearchForm).text
    async with visit.app.db.read() as tx:
        matches = await find_all(tx, text)
    if len(matches) == 1:
        return Done(f"Found this {matches[0].kind}.", to=_path(matches[0]))
    # A page repeats no key.
    values = {"matches": [(one, _path(one)) for one in matches], "searched": without_secrets(text)}
    return Page("search.html", "Search", values)


def _path(match: Match) -> str:
    return f"/console/{_PATHS[match.kind]}/{match.id}"
