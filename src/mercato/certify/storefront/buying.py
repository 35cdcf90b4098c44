"""How a storefront buys when nothing goes wrong: what it sends, in which order, and what it leaves alone."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from mercato.carts.lines import choice_of
from mercato.carts.model import LineItem
from mercato.carts.places import CART, in_cart
from mercato.carts.pricing import price
from mercato.certify.model import Failed, Skipped
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.network import DROPPED, Call
from mercato.certify.storefront.plays import Played
from mercato.certify.suite import Group
from mercato.errors import ItemUnavailable

SENT: Final = "storefront.order.sent"
PLACED: Final = "storefront.order.placed"
FIRST: Final = "storefront.order.validated-first"

_READ: Final = ("GET", "HEAD")

group: Final = Group[Bench](
    "storefront.order",
    heading="Orders: validated, then placed, once and unchanged",
    section="Specification 4; decisions 8",
    needs=PLACED,
)

asking: Final = Group[Bench](
    "storefront.request",
    heading="Requests: as the service reads them",
    section="Specification 5; decisions 1",
    needs=PLACED,
)

choosing: Final = Group[Bench](
    "storefront.cart",
    heading="Carts and catalogs: what can be had, from the current set",
    section="Specification 2.8; decisions 4, 7",
    needs=PLACED,
)


# --- orders ---------------------------------------------------------------------------------------


@group.check(
    "sent",
    "An order is sent",
    needs="",
    proves="discovery, catalog and cart fit together",
    advice="Follow what was asked and answered below; every refusal says what is wrong in `detail` and `errors`. With "
    "--command, the command has to place one order and end.",
)
async def sent(bench: Bench) -> str:
    """Buy once."""
    played = await bench.played("plain")
    bench.show(played.calls)
    if not played.of("place"):
        last = list(played.calls)[-1:]
        what = (
            f"the last answer was {last[0].status} to {last[0].path}" if last else "nothing was asked at all"
        )
        raise Failed(f"No order was sent: {what}. {played.ended.words}".strip())
    return f"after {len(played.calls) - len(played.of('place'))} other requests"


@group.check(
    "placed",
    "It is placed",
    needs=SENT,
    proves="an order that is sent is one that can be taken",
    advice="Read `errorCode`, `detail` and `errors` of the refusal.",
)
async def placed(bench: Bench) -> str:
    """Look whether the order was taken. What another check tells is not told again."""
    played = await bench.played("plain")
    bench.show(played.of("validate", "place"))
    if played.placed:
        return "201"
    for name, look in (("same-order", _other_items), ("total", _other_total), ("tip", _other_tip)):
        if look(played) is not None:
            raise Skipped(f"It says nothing while {group.name}.{name} did not pass.")
    last = played.of("place")[-1]
    if not last.headers.get("idempotency-key"):
        raise Skipped(f"It says nothing while {group.name}.key did not pass.")
    raise Failed(f"The last answer was {last.status}. {played.ended.words}".strip())


@group.check(
    "patient",
    "A slow answer is waited for",
    proves="an order that takes its time is not given up",
    advice="Wait for the answer to Place order for at least 15 s: the store's system may take that long. When you give "
    "up all the same, send the same request with the same key.",
)
async def patient(bench: Bench) -> str:
    """Buy where placing takes long."""
    played = await bench.played("slow")
    calls = played.of("place")
    bench.show(calls)
    if not calls:
        raise Failed("No order was sent.")
    if any(one.began < calls[0].ended for one in calls[1:]) or calls[0].status == DROPPED:
        raise Failed(f"It was sent {len(calls)} times: the answer was not waited for.")
    return f"waited {calls[0].ended - calls[0].began:.1f} s"


@group.check(
    "validated-first",
    "It is validated before it is placed",
    needs=SENT,
    proves="the customer sees what it costs before paying",
    advice="Send the order to Validate order first, and place it with the token of the answer.",
)
async def validated_first(bench: Bench) -> str:
    """Look at the order of calls."""
    played = await bench.played("plain")
    if _before(played) is None:
        bench.show(played.of("place"))
        raise Failed("The order was placed without having been validated.")
    return "validated, then placed"


@group.check(
    "same-order",
    "What is placed is what was validated",
    needs=FIRST,
    proves="nothing is added on the way to the till",
    advice="Place the cart and the fulfilment that were validated. After any change, validate again.",
)
async def same_order(bench: Bench) -> str:
    """Compare carts and fulfilment."""
    return await _compared(bench, _other_items, "the same items, handed over in the same way")


@group.check(
    "total",
    "The total is the one that was validated",
    needs=FIRST,
    proves="amounts are passed on, not computed anew",
    advice="Send `amounts.total` as validation answered it, or leave it out. A text stays a text: no number, no "
    "rounding.",
)
async def total(bench: Bench) -> str:
    """Compare what the order says that it costs."""
    return await _compared(bench, _other_total, "as validated, or left out")


@group.check(
    "tip",
    "The tip is the one that was validated",
    needs=FIRST,
    proves="a tip is not lost, nor added after the customer agreed",
    advice="Send the same `amounts.tip` to Validate order and to Place order.",
)
async def tip(bench: Bench) -> str:
    """Compare the tips."""
    return await _compared(bench, _other_tip, "as validated")


@group.check(
    "token",
    "The token of the validation is sent",
    needs=(FIRST, "storefront.order.same-order", "storefront.order.total", "storefront.order.tip"),
    proves="what was shown is what is ordered: the store is not asked anew",
    advice="Send `validatedOrderToken` of the answer that the customer has seen, unchanged.",
)
async def token(bench: Bench) -> str:
    """Compare the tokens."""
    return await _compared(bench, _other_token, "the same token")


@group.check(
    "once",
    "It is placed once",
    proves="an answer that came is believed",
    advice="Stop when 201 has come: the order is placed.",
)
async def once(bench: Bench) -> str:
    """Count the placements."""
    calls = (await bench.played("plain")).of("place")
    if len(calls) > 1:
        bench.show(calls)
        raise Failed(f"It was sent {len(calls)} times, though the first answer came.")
    return "sent once"


@group.check(
    "key",
    "Idempotency-Key is sent",
    needs=SENT,
    proves="a repeat can be told from a second order",
    advice="Send the header Idempotency-Key with Place order: a new UUID v4 for each order, kept until its "
    "answer came.",
)
async def key(bench: Bench) -> str:
    """Look at the header."""
    call = (await bench.played("plain")).of("place")[0]
    sent = call.headers.get("idempotency-key", "")
    bench.show([call])
    if len(sent) < 16:  # noqa: PLR2004  # half of a UUID: what is shorter will come twice
        raise Failed(f"The key has {len(sent)} characters: too few to be nobody else's.")
    return f"{len(sent)} characters"


@group.check(
    "new-key",
    "A new order has a new key",
    proves="the next customer gets a meal of their own",
    advice="Make a new Idempotency-Key for every order; only a repeat of the same request has the same one.",
)
async def new_key(bench: Bench) -> str:
    """Compare the keys of several purchases."""
    names = ("plain", "later", "again")
    calls = [call for name in names for call in (await bench.played(name)).placed]
    orders = {call.answer: call.headers.get("idempotency-key", "") for call in calls}
    keys = list(orders.values())
    if len(set(keys)) != len(keys):
        bench.show(calls)
        raise Failed(f"{len(keys)} orders had {len(set(keys))} keys.")
    return f"{len(keys)} orders, as many keys"


@group.check(
    "three-decimals",
    "Three decimals stay three decimals",
    section="Decisions 1",
    proves="amounts are texts at the currency's own scale",
    advice="Keep amounts as the texts that they came in; never round them to two decimals.",
)
async def three_decimals(bench: Bench) -> str:
    """Buy in dinars."""
    return await _bought(bench, "dinars")


@group.check(
    "no-decimals",
    "Yen have no decimals",
    section="Decisions 1",
    proves="amounts are texts at the currency's own scale",
    advice="Keep amounts as the texts that they came in; do not divide by 100.",
)
async def no_decimals(bench: Bench) -> str:
    """Buy in yen."""
    return await _bought(bench, "yen")


# --- requests -------------------------------------------------------------------------------------


@asking.check(
    "bearer",
    "Every request carries the key",
    section="Specification 5.2",
    proves="the service knows who asks",
    advice="Send `Authorization: Bearer KEY` with every request.",
)
async def bearer(bench: Bench) -> str:
    """Look at the headers."""
    calls = (await bench.played("plain")).calls
    bad = [one for one in calls if one.status == 401]  # noqa: PLR2004  # unauthenticated
    if bad:
        bench.show(bad)
        raise Failed(f"{len(bad)} of {len(calls)} requests had no key, or not the one that was given.")
    return f"{len(calls)} requests"


@asking.check(
    "key-not-in-url",
    "The key stands in no URL and no body",
    section="Specification 5.2",
    proves="logs and proxies do not learn the key",
    advice="Send the key in the Authorization header alone.",
)
async def key_not_in_url(bench: Bench) -> str:
    """Look for the key."""
    played = await bench.played("plain")
    bad = [one for one in played.calls if played.key in one.path or played.key.encode() in one.body]
    if bad:
        bench.show(bad)
        raise Failed("It does.")
    return "in the header alone"


@asking.check(
    "known",
    "Only what exists is asked for",
    section="Specification 4; decisions 2",
    proves="paths and methods are those of the reference",
    advice="Compare paths and methods with docs/reference/operations.md.",
)
async def known(bench: Bench) -> str:
    """Look for 404 and 405."""
    calls = (await bench.played("plain")).calls
    bad = [one for one in calls if one.status in {404, 405}]
    if bad:
        bench.show(bad)
        raise Failed(f"{bad[0].method} {bad[0].path} was answered with {bad[0].status}.")
    return "every path exists"


@asking.check(
    "well-formed",
    "Every body is what the operation reads",
    proves="members have their names, types and forms",
    advice="Read `errors` of the answer: it lists every fault with a pointer to its place.",
)
async def well_formed(bench: Bench) -> str:
    """Look for bodies that were refused."""
    calls = (await bench.played("plain")).calls
    bad = [one for one in calls if one.status in {400, 413, 422}]
    if bad:
        bench.show(bad)
        raise Failed(f"{bad[0].path} was answered with {bad[0].status}.")
    return "every body was read"


@asking.check(
    "media-type",
    "Bodies are sent as JSON",
    proves="bodies say what they are",
    advice="Send `Content-Type: application/json` with every body.",
)
async def media_type(bench: Bench) -> str:
    """Look at the content types of bodies."""
    calls = [one for one in (await bench.played("plain")).calls if one.body and one.method not in _READ]
    bad = [one for one in calls if not _is_json(one)]
    if bad:
        bench.show(bad)
        raise Failed(f"{bad[0].path} came as {bad[0].headers.get('content-type', 'nothing')}.")
    return f"{len(calls)} bodies"


@asking.check(
    "later-version",
    "Members that are new are passed over",
    section="Decisions 11",
    proves="the service can add to what it answers",
    advice="Read the members that you know and pass over all others: new ones may come at any time.",
)
async def later_version(bench: Bench) -> str:
    """Buy at a service that answers more than is known."""
    return await _bought(bench, "later")


@asking.check(
    "follow-pace",
    "An order is not asked for too often",
    section="Decisions 11",
    proves="following orders leaves the limits of requests alone",
    advice="Ask every few seconds, or better: register an event URL, and ask only when nothing comes.",
)
async def follow_pace(bench: Bench) -> str:
    """Count the looks at an order in any second."""
    calls = (await bench.played("plain")).of("order", "timeline")
    for first, call in enumerate(calls):
        near = [one for one in calls[first:] if one.began - call.began < 1.0]
        if len(near) > 16:  # noqa: PLR2004  # 1,000 reads a minute
            bench.show(near)
            raise Failed(f"{len(near)} requests in a second; 1,000 in a minute are allowed.")
    return f"{len(calls)} requests" if calls else "it was not asked for"


# --- carts and catalogs ---------------------------------------------------------------------------


@choosing.check(
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
        named = tuple(_member(_body(call), "cart", name) for name in ("storeId", "catalogSetId"))
        if named != (str(store.id), str(store.catalog_set_id)):
            bench.show([call])
            raise Failed(f"It names {named[1]} of the store {named[0]}.")
    return "the current one"


@choosing.check(
    "to-be-had",
    "Nothing that can't be had is ordered",
    proves="customers are not offered what is sold out",
    advice="Leave out items with `isAvailable` false, without `basePrice`, and those in the store's "
    "`unavailableItemIds`.",
)
async def to_be_had(bench: Bench) -> str:
    """Look at every order that was sent in any way."""
    return await _no_faults(bench, "traps", gone=True)


@choosing.check(
    "modifier-rules",
    "Modifier groups get what they ask for",
    proves="required choices are made, and limits kept",
    advice="Keep `minimumAllowed`, `maximumAllowed` and `maximumPerItem` of every group of an item.",
)
async def modifier_rules(bench: Bench) -> str:
    """Look at every order that was sent in any way."""
    return await _no_faults(bench, "choices", gone=False)


@choosing.check(
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


@choosing.check(
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
    if not calls or not any(one and one.get("hasMore") for one in said):
        raise Skipped("It searches no stores, or for fewer than have room on a page.")
    seen = 0
    for call, page in zip(calls, said, strict=True):
        offset = _body(call).get("offset") or 0
        if offset > seen:
            raise Failed(f"Between {seen} and {offset} stores were passed over.")
        seen = max(seen, offset + len(page["stores"]))
    if not played.placed and seen < said[0]["totalCount"]:
        raise Failed(f"It read {seen} of {said[0]['totalCount']} stores, and found none that is open.")
    return f"{len(calls)} pages"


# --- parts ----------------------------------------------------------------------------------------


async def _bought(bench: Bench, name: str) -> str:
    played = await bench.played(name)
    bench.show(played.of("validate", "place") or played.calls)
    if not played.placed:
        raise Failed(f"No order was placed. {played.ended.words}".strip())
    return "placed"


def _before(played: Played) -> tuple[Call, Call] | None:
    """Return the first placement and the last validation before it, None if there was none."""
    place = played.of("place")[0]
    before = [one for one in played.of("validate") if one.ended <= place.began]
    return (before[-1], place) if before else None


async def _compared(bench: Bench, look: Callable[[Played], str | None], words: str) -> str:
    played = await bench.played("plain")
    bench.show(_before(played) or ())
    fault = look(played)
    if fault is not None:
        raise Failed(fault)
    return words


def _other_items(played: Played) -> str | None:
    pair = _before(played)
    if pair is None:
        return None
    asked, sent = (_body(call) for call in pair)
    if _choices(asked) != _choices(sent):
        return "Other items are placed than were validated."
    if _member(asked, "fulfillment", "mode") != _member(sent, "fulfillment", "mode"):
        return "Another mode of fulfilment is placed than was validated."
    return None


def _other_total(played: Played) -> str | None:
    return _other_amount(played, "total", missing=None)


def _other_tip(played: Played) -> str | None:
    return _other_amount(played, "tip", missing="0")


def _other_amount(played: Played, name: str, *, missing: str | None) -> str | None:
    """Return what is wrong with an amount of the placement, which may be `missing` and then counts as that."""
    pair = _before(played)
    right = None if pair is None else _member(pair[0].said(), "order", "amounts", name)
    if pair is None or right is None:
        return None
    sent = _member(_body(pair[1]), "amounts", name) or missing
    if sent is None or _is_amount(sent, right):
        return None
    return f"`amounts.{name}` is {sent!r}, validation said {right!r}."


def _other_token(played: Played) -> str | None:
    pair = _before(played)
    assert pair is not None, "it was validated first"
    right = _member(pair[0].said(), "validatedOrderToken")
    same = _member(_body(pair[1]), "validatedOrderToken") == right
    return None if same else "`validatedOrderToken` is not the one that validation answered."


def _lines(document: Any) -> list[LineItem]:
    """Return the lines of an order, none if they can't be read: what is wrong with them is told by the service."""
    try:
        return msgspec.convert(document["cart"]["lineItems"], list[LineItem])
    except (KeyError, TypeError, msgspec.ValidationError):
        return []


def _body(call: Call) -> dict[str, Any]:
    """Return the body of a call, an empty one if it is no object."""
    value = call.json()
    return value if isinstance(value, dict) else {}


def _member(value: Any, *names: str) -> Any:
    """Return a member at any depth, None where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _is_amount(text: Any, right: str) -> bool:
    try:
        return isinstance(text, str) and Decimal(text) == Decimal(right)
    except InvalidOperation:
        return False


def _choices(document: Any) -> list[Any]:
    return sorted((line.quantity, repr(choice_of(line))) for line in _lines(document))


def _is_json(call: Call) -> bool:
    return call.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


async def _no_faults(bench: Bench, name: str, *, gone: bool) -> str:
    """Price all that was to go into a cart or an order, and look for faults of the one kind or the other."""
    played = await bench.played(name)
    shop = played.shop
    calls = played.of("cart", "validate", "place")
    for call in calls:
        lines = _lines(_body(call)) or _added(_body(call))
        found = price(
            lines,
            places=in_cart(lines),
            whole=CART,
            catalog=shop.catalog,
            sold_out={one.item_id for one in shop.store.sold_out},
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
    return _lines({"cart": {"lineItems": [document.get("item")]}})


def _orders(played: Played) -> list[Call]:
    return played.of("validate", "place")
