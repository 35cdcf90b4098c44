"""What a storefront puts into carts: the current catalog, available items, complete modifiers."""

from collections.abc import Mapping
from typing import Final

from mercato.features.carts.errors import ItemUnavailable
from mercato.features.carts.pricing import price
from mercato.platform import clock
from mercato.tools.certify.storefront.context import StorefrontContext, after, body, lines_of, member
from mercato.tools.certify.storefront.scenarios import ScenarioResult
from mercato.tools.certify.suite import Failed, Run, Skipped

Context = StorefrontContext


def _current_set(context: Context, result: ScenarioResult) -> str:
    store = result.stores[0].store
    for call in result.of("validate", "place"):
        named = tuple(member(body(call), "cart", name) for name in ("storeId", "catalogSetId"))
        if named != (str(store.id), str(store.catalog_set_id)):
            context.fail(f"The cart names the set {named[1]} of the store {named[0]}.", [call])
    return "the current one"


def _no_faults(scenario: str, *, unavailable: bool) -> Run[Context]:
    """Return a check that prices all carts and orders, and finds no fault of that kind."""

    def judge(context: Context, result: ScenarioResult) -> str:
        sample = result.stores[0]
        sold_out = {one.item_id for one in sample.store.sold_out}
        calls = result.of("cart", "validate", "place")
        for call in calls:
            priced = price(
                lines_of(body(call)), catalog=sample.catalog, sold_out=sold_out, new_id=clock.new_id
            )
            for fault in priced.faults:
                if (fault.code == ItemUnavailable.code) is unavailable:
                    context.fail(f"{fault.message} ({fault.code})", [call])
        if not calls:
            raise Skipped(f"It put nothing into a cart. {result.end.message}".strip())
        return "no such fault"

    return after(scenario, judge)


async def _catalog_once(context: Context) -> str:
    again = await context.result("again")
    result = again if again.is_one_storefront else await context.result("plain")
    calls = [call for call in result.of("catalog") if call.method == "GET"]
    whole = [call.path for call in calls if "if-none-match" not in call.headers]
    context.show(calls)
    for path in set(whole):
        if whole.count(path) > 1:
            raise Failed(f"It read the same set {whole.count(path)} times, each time all of it.")
    if not calls:
        raise Skipped("It read no catalog.")
    return f"{len(whole)} of {len(calls)} whole"


def _pages(context: Context, result: ScenarioResult) -> str:
    calls = result.of("discover")
    context.show(calls)
    pages = [call.answer() for call in calls]
    if not any(member(page, "hasMore") for page in pages):
        raise Skipped("It doesn't search for stores, or asks for fewer than fit on a page.")
    seen = 0
    for call, page in zip(calls, pages, strict=True):
        if member(page, "stores") is not None:
            offset = body(call).get("offset") or 0
            if offset > seen:
                raise Failed(f"It skipped the stores from {seen} to {offset}.")
            seen = max(seen, offset + len(page["stores"]))
    total = member(pages[0], "totalCount") or 0
    if not result.placed and seen < total:
        raise Failed(f"It read {seen} of {total} stores, and found none that is open.")
    return f"{len(calls)} pages"


CART: Final[Mapping[str, Run[Context]]] = {
    "current-set": after("plain", _current_set),
    "to-be-had": _no_faults("unavailable", unavailable=True),
    "modifier-rules": _no_faults("choices", unavailable=False),
    "catalog-once": _catalog_once,
    "pages": after("many-stores", _pages),
}
