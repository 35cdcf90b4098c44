"""How a storefront buys when nothing goes wrong: its requests, its carts, its orders."""

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from http import HTTPStatus
from typing import Any, Final

from mercato.local.storefront.context import StorefrontContext, after, body, lines_of, member
from mercato.local.storefront.members import members_known
from mercato.local.storefront.proxy import DROPPED, Call
from mercato.local.storefront.scenarios import ScenarioResult
from mercato_catalog.carts.errors import ItemUnavailable
from mercato_catalog.carts.lines import choice_of
from mercato_catalog.carts.pricing import price
from mercato_contract import clock
from mercato_contract.texts import count_of
from mercato_tools.certify.suite import Failed, Run, Skipped

MIN_KEY: Final = 16
"""Characters of an Idempotency-Key, half of a UUID: shorter ones collide."""

MAX_READS: Final = 16
"""Requests for an order in a second: 1,000 in a minute are allowed."""


def placed(context: StorefrontContext, result: ScenarioResult) -> str:
    """Return that an order was placed. Raises Failed when none was."""
    context.show(result.of("validate", "place") or result.calls)
    if not result.placed:
        raise Failed(f"No order was placed. {result.end.message}".strip())
    return "placed"


# --- what was validated, and what was placed ------------------------------------------------------


def _validated(result: ScenarioResult) -> tuple[Call, Call] | None:
    """Return the last validation before the first placement, and that placement; None if it wasn't validated."""
    place = result.of("place")[0]
    before = [call for call in result.of("validate") if call.ended <= place.began]
    return (before[-1], place) if before else None


Compare = Callable[[Call, Call], str | None]
"""Returns what is wrong with a placement after a validation."""


def _items_differ(validate: Call, place: Call) -> str | None:
    before, after_ = body(validate), body(place)
    if _choices(before) != _choices(after_):
        return "It places other items than it validated."
    if member(before, "fulfillment", "mode") != member(after_, "fulfillment", "mode"):
        return "It places another mode of fulfillment than it validated."
    return None


def _choices(document: dict[str, Any]) -> list[Any]:
    return sorted((line.quantity, repr(choice_of(line))) for line in lines_of(document))


def _amount_differs(name: str, default: str | None) -> Compare:
    """Compare an amount; the placement may omit it, and then it counts as the default."""

    def compare(validate: Call, place: Call) -> str | None:
        expected = member(validate.answer(), "order", "amounts", name)
        sent = member(body(place), "amounts", name) or default
        if expected is None or sent is None or is_amount(sent, expected):
            return None
        return f"`amounts.{name}` is {sent!r}; the validation's was {expected!r}."

    return compare


def is_amount(text: Any, expected: str) -> bool:
    """Return whether a value is a decimal string of that amount."""
    try:
        return isinstance(text, str) and Decimal(text) == Decimal(expected)
    except InvalidOperation:
        return False


def _token_differs(validate: Call, place: Call) -> str | None:
    expected = member(validate.answer(), "validatedOrderToken")
    same = member(body(place), "validatedOrderToken") == expected
    return None if same else "`validatedOrderToken` isn't the one of the validation."


_total_differs, _tip_differs = _amount_differs("total", None), _amount_differs("tip", "0")


def _same(compare: Compare, success: str) -> Run[StorefrontContext]:
    """Return a check that the placement has what the validation had."""

    def judge(context: StorefrontContext, result: ScenarioResult) -> str:
        pair = _validated(result)
        assert pair is not None, "it was validated first"
        context.show(pair)
        fault = compare(*pair)
        if fault is not None:
            raise Failed(fault)
        return success

    return after("plain", judge)


# --- orders ---------------------------------------------------------------------------------------


def _sent(context: StorefrontContext, result: ScenarioResult) -> str:
    context.show(result.calls)
    if not result.of("place"):
        last = result.calls[-1:]
        what = (
            f"the last response was {last[0].status} to {last[0].path}" if last else "nothing was requested"
        )
        raise Failed(f"It sent no order: {what}. {result.end.message}".strip())
    return f"after {len(result.calls) - len(result.of('place'))} other requests"


def _placed(context: StorefrontContext, result: ScenarioResult) -> str:
    """Judge the last response, unless another check reports its cause."""
    context.show(result.of("validate", "place"))
    if result.placed:
        return "201"
    pair = _validated(result)
    causes = {"same-order": _items_differ, "total": _total_differs, "tip": _tip_differs}
    for name, compare in causes.items():
        if pair is not None and compare(*pair) is not None:
            raise Skipped(f"It needs storefront.order.{name} to pass first.")
    last = result.of("place")[-1]
    if not last.headers.get("idempotency-key"):
        raise Skipped("It needs storefront.order.key to pass first.")
    raise Failed(f"The last response was {last.status}. {result.end.message}".strip())


def _patient(context: StorefrontContext, result: ScenarioResult) -> str:
    calls = result.of("place")
    context.show(calls)
    if not calls:
        raise Failed("It sent no order.")
    if any(call.began < calls[0].ended for call in calls[1:]) or calls[0].status == DROPPED:
        raise Failed(f"It sent the order {len(calls)} times and did not wait for the response.")
    return f"waited {calls[0].ended - calls[0].began:.1f} s"


def _validated_first(context: StorefrontContext, result: ScenarioResult) -> str:
    if _validated(result) is None:
        context.fail("It placed the order without a validation.", result.of("place"))
    return "validated, then placed"


def _once(context: StorefrontContext, result: ScenarioResult) -> str:
    calls = result.of("place")
    if len(calls) > 1:
        context.fail(f"It sent the order {len(calls)} times, although the first response arrived.", calls)
    return "sent once"


def _key(context: StorefrontContext, result: ScenarioResult) -> str:
    call = result.of("place")[0]
    context.show([call])
    return key_length(call)


def key_length(call: Call) -> str:
    """Return how long a request's key is. Raises Failed if that is too short."""
    key = call.headers.get("idempotency-key", "")
    length = count_of(len(key), "character")
    if len(key) < MIN_KEY:
        raise Failed(f"The key has {length}: too few to be unique.")
    return length


async def _new_key(context: StorefrontContext) -> str:
    scenarios = [await context.result(name) for name in ("plain", "later", "again")]
    calls = [call for result in scenarios for call in result.placed]
    keys = list({call.response: call.headers.get("idempotency-key", "") for call in calls}.values())
    if len(set(keys)) != len(keys):
        context.fail(f"{len(keys)} orders had {len(set(keys))} keys.", calls)
    return f"{len(keys)} orders, as many keys"


ORDER: Final[Mapping[str, Run[StorefrontContext]]] = {
    "sent": after("plain", _sent),
    "placed": after("plain", _placed),
    "patient": after("slow", _patient),
    "validated-first": after("plain", _validated_first),
    "same-order": _same(_items_differ, "the same items and mode of fulfillment"),
    "total": _same(_total_differs, "as validated, or left out"),
    "tip": _same(_tip_differs, "as validated"),
    "token": _same(_token_differs, "the same token"),
    "once": after("plain", _once),
    "key": after("plain", _key),
    "new-key": _new_key,
    "three-decimals": after("dinars", placed),
    "no-decimals": after("yen", placed),
}


# --- requests -------------------------------------------------------------------------------------


def _none(
    is_bad: Callable[[Call, ScenarioResult], bool],
    message: Callable[[list[Call], ScenarioResult], str],
    success: str,
) -> Run[StorefrontContext]:
    """Return a check that no request of a plain purchase is bad."""

    def judge(context: StorefrontContext, result: ScenarioResult) -> str:
        bad = [call for call in result.calls if is_bad(call, result)]
        if bad:
            context.fail(message(bad, result), bad)
        return success

    return after("plain", judge)


def _has_status(*statuses: HTTPStatus) -> Callable[[Call, ScenarioResult], bool]:
    return lambda call, _: call.status in statuses


def _first_answer(bad: list[Call], _played: ScenarioResult) -> str:
    return f"{bad[0].method} {bad[0].path} was answered with {bad[0].status}."


def _is_other_media(call: Call, _played: ScenarioResult) -> bool:
    media = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    return bool(call.body) and call.method not in {"GET", "HEAD"} and media != "application/json"


def _follow_pace(context: StorefrontContext, result: ScenarioResult) -> str:
    calls = result.of("order", "timeline")
    for index, call in enumerate(calls):
        near = [one for one in calls[index:] if one.began - call.began < 1.0]
        if len(near) > MAX_READS:
            context.fail(f"{len(near)} requests in a second; 1,000 in a minute are allowed.", near)
    return count_of(len(calls), "request") if calls else "no request for the order"


REQUEST: Final[Mapping[str, Run[StorefrontContext]]] = {
    "bearer": _none(
        _has_status(HTTPStatus.UNAUTHORIZED),
        lambda bad, result: f"{len(bad)} of {len(result.calls)} requests had no key, or a wrong one.",
        "every request has the key",
    ),
    "key-not-in-url": _none(
        lambda call, result: result.key in call.path or result.key.encode() in call.body,
        lambda bad, _: f"The URL or the body of {count_of(len(bad), 'request')} has the key.",
        "in the header alone",
    ),
    "known": _none(
        _has_status(HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED), _first_answer, "every path exists"
    ),
    "well-formed": _none(
        _has_status(
            HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY
        ),
        _first_answer,
        "every body is well-formed",
    ),
    "media-type": _none(
        _is_other_media,
        lambda bad, _: f"The body of {bad[0].path} is {bad[0].headers.get('content-type', 'untyped')}.",
        "every body is JSON",
    ),
    "members-known": after("plain", members_known),
    "later-version": after("later", placed),
    "follow-pace": after("plain", _follow_pace),
}


def _current_set(context: StorefrontContext, result: ScenarioResult) -> str:
    store = result.stores[0].store
    for call in result.of("validate", "place"):
        named = tuple(member(body(call), "cart", name) for name in ("storeId", "catalogSetId"))
        if named != (str(store.id), str(store.catalog_set_id)):
            context.fail(f"The cart names the set {named[1]} of the store {named[0]}.", [call])
    return "the current one"


def _no_faults(scenario: str, *, unavailable: bool) -> Run[StorefrontContext]:
    """Return a check that prices all carts and orders, and finds no fault of that kind."""

    def judge(context: StorefrontContext, result: ScenarioResult) -> str:
        sample = result.stores[0]
        sold_out = set(sample.store.sold_out)
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


async def _catalog_once(context: StorefrontContext) -> str:
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


def _pages(context: StorefrontContext, result: ScenarioResult) -> str:
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


CART: Final[Mapping[str, Run[StorefrontContext]]] = {
    "current-set": after("plain", _current_set),
    "to-be-had": _no_faults("unavailable", unavailable=True),
    "modifier-rules": _no_faults("choices", unavailable=False),
    "catalog-once": _catalog_once,
    "pages": after("many-stores", _pages),
}
