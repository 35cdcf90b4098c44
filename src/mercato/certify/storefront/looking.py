"""Parts that several checks of a storefront's purchases share."""

from collections.abc import Callable
from typing import Any

import msgspec

from mercato.carts.model import LineItem
from mercato.certify.model import Failed, Run
from mercato.certify.storefront.bench import Bench
from mercato.certify.storefront.network import Call
from mercato.certify.storefront.plays import Played


def after(name: str, look: Callable[[Bench, Played], str]) -> Run[Bench]:
    """Return a check that looks at what came of a staged purchase."""

    async def run(bench: Bench) -> str:
        return look(bench, await bench.played(name))

    return run


def bought(bench: Bench, played: Played) -> str:
    """Tell whether an order was placed. Raises Failed when none was."""
    bench.show(played.of("validate", "place") or played.calls)
    if not played.placed:
        raise Failed(f"No order was placed. {played.ended.words}".strip())
    return "placed"


def lines_of(document: Any) -> list[LineItem]:
    """Return the lines of an order, none if they can't be read: what is wrong with them is told by the service."""
    try:
        return msgspec.convert(document["cart"]["lineItems"], list[LineItem])
    except (KeyError, TypeError, msgspec.ValidationError):
        return []


def body_of(call: Call) -> dict[str, Any]:
    """Return the body of a call, an empty one if it is no object."""
    value = call.json()
    return value if isinstance(value, dict) else {}


def member(value: Any, *names: str) -> Any:
    """Return a member at any depth, None where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
