"""What a storefront puts into its carts, and how it reads catalogs and searches stores."""

from typing import Any, Final

from mercato import clock
from mercato.carts.model import LineItem
from mercato.carts.pricing import price
from mercato.certify.model import Failed, Skipped
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.buying import PLACED
from mercato.certify.storefront.looking import body_of, lines_of, member
from mercato.certify.storefront.network import Call
from mercato.certify.storefront.plays import Played
from mercato.certify.suite import Group
from mercato.errors import ItemUnavailable

group: Final = Group[Bench](
    "storefront.cart",
    heading="Carts and catalogs: what can be had, from the current set",
    section="Specification 2.8; decisions 4, 7",
    needs=PLACED,
)


@group.check(
    "current-set",
    "The cart names the store's CatalogSet of now",
    proves="prices and items are those of now",
    advice="Take `catalogSetId` from the store, at the time of the order, and read that set.",
)
async def current_set(bench: Bench) -> str:
    """Compare the ids."""
    played = await bench.played("plain")
    store, calls = played.shop.store, _orders(played)
    for call in calls:
        named = tuple(member(body_of(call), "cart", name) for name in ("storeId", "catalogSetId"))
        if named != (str(store.id), str(store.catalog_set_id)):
            bench.show([call])
            raise Failed(f"It names {named[1]} of the store {named[0]}.")
    return "the current one"


@group.check(
    "to-be-had",
    "Nothing that can't be had is ordered",
    proves="customers are not offered what is sold out",
    advice="Leave out items with `isAvailable` false, without `basePrice`, and those in the store's "
    "`unavailableItemIds`.",
)
async def to_be_had(bench: Bench) -> str:
    """Look at every order that was sent in any way."""
    return await _no_faults(bench, "traps", gone=True)


@group.check(
    "modifier-rules",
    "Modifier groups get what they ask for",
    proves="required choices are made, and limits kept",
    advice="Keep `minimumAllowed`, `maximumAllowed` and `maximumPerItem` of every group of an item.",
)
async def modifier_rules(bench: Bench) -> str:
    """Look at every order that was sent in any way."""
    return await _no_faults(bench, "choices", gone=False)


@group.check(
    "catalog-once",
    "A CatalogSet is not read twice over",
    section="Decisions 2",
    proves="what never changes is kept: `Cache-Control: immutable`",
    advice="Keep a CatalogSet under its id: it never changes. Or ask with If-None-Match, and keep it at a 304.",
)
async def catalog_once(bench: Bench) -> str:
    """Count whole readings of the same set, within one purchase or by one storefront."""
    again = await bench.played("again")
    played = again if again.is_kept else await bench.played("plain")
    calls = [one for one in played.of("catalog") if one.method == "GET"]
    whole = [one for one in calls if "if-none-match" not in one.headers]
    bench.show(calls)
    for path in {one.path for one in whole}:
        times = sum(one.path == path for one in whole)
        if times > 1:
            raise Failed(f"The same set was read {times} times, each time all of it.")
    if not calls:
        raise Skipped("It read no catalog.")
    return f"{len(whole)} of {len(calls)} whole"


@group.check(
    "pages",
    "All pages of a search are read",
    section="Decisions 1, 2",
    proves="stores beyond the first page can be found",
    advice="While `hasMore` is true, ask again with `offset` grown by what came.",
)
async def pages(bench: Bench) -> str:
    """Search where the stores that are open come last."""
    played = await bench.played("street")
    calls = played.of("discover")
    bench.show(calls)
    said = [one.said() for one in calls]
    if not any(member(one, "hasMore") for one in said):
        raise Skipped("It searches no stores, or for fewer than have room on a page.")
    seen = 0
    for call, page in zip(calls, said, strict=True):
        if member(page, "stores") is not None:
            offset = body_of(call).get("offset") or 0
            if offset > seen:
                raise Failed(f"Between {seen} and {offset} stores were passed over.")
            seen = max(seen, offset + len(page["stores"]))
    if not played.placed and seen < said[0].get("totalCount", 0):
        raise Failed(f"It read {seen} of {said[0]['totalCount']} stores, and found none that is open.")
    return f"{len(calls)} pages"


async def _no_faults(bench: Bench, name: str, *, gone: bool) -> str:
    """Price all that was to go into a cart or an order, and look for faults of the one kind or the other."""
    played = await bench.played(name)
    shop = played.shop
    calls = played.of("cart", "validate", "place")
    for call in calls:
        lines = lines_of(body_of(call)) or _added(body_of(call))
        found = price(
            lines,
            catalog=shop.catalog,
            sold_out={one.item_id for one in shop.store.sold_out},
            new_id=clock.new_id,
        )
        faults = [one for one in found.faults if (one.code == ItemUnavailable.code) is gone]
        if faults:
            bench.show([call])
            raise Failed(f"{faults[0].message} ({faults[0].code})")
    if not calls:
        raise Skipped(f"It put nothing into a cart. {played.ended.words}".strip())
    return "nothing of the kind"


def _added(document: dict[str, Any]) -> list[LineItem]:
    """Return the line that is to be added to a cart."""
    return lines_of({"cart": {"lineItems": [document.get("item")]}})


def _orders(played: Played) -> list[Call]:
    return played.of("validate", "place")
