"""What `mercato sandbox storefront` does: its customers buy one after the other, and a table says what came of it."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mercato.cli import FAILED
from mercato.cli.plain import harmless
from mercato.testing.caller import ServiceError
from mercato.testing.purchase import Purchase
from mercato.testing.storefront import StorefrontDouble

LOOKS: Final = 20
LOOK_SECONDS: Final = 0.5

AT_ONCE: Final = 20
"""Customers that are served at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What the command was asked for: how many orders, how far apart, and how long each is followed."""

    orders: int
    every: float
    follow: float
    store: str | None
    asked: dict[str, Any]


async def buy(double: StorefrontDouble, asked: Round, say: Callable[[str], object]) -> int:
    """Let the customers buy, and return the exit code: 1 if one was not answered, or not rightly."""
    room = asyncio.Semaphore(AT_ONCE)
    failed = 0

    async def one(number: int) -> None:
        nonlocal failed
        async with room:
            try:
                purchase = await double.buy(number, store_id=asked.store, follow=asked.follow, **asked.asked)
            except ServiceError as error:
                failed += 1
                say(f"Order {number}: {error}")
            else:
                failed += not purchase.outcome.is_answer
                say(words_of(purchase))

    if asked.store is None:
        await _opened(double, asked, say)
    async with asyncio.TaskGroup() as customers:
        for number in range(1, asked.orders + 1):
            if asked.every:
                customers.create_task(one(number))
                await asyncio.sleep(asked.every if number < asked.orders else 0)
            else:
                await one(number)
    counts = Counter(str(purchase.outcome) for purchase in double.purchases)
    counts["failed"] = asked.orders - counts.total()
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    say(f"{asked.orders} customers: {told}.")
    return FAILED if failed else 0


async def _opened(double: StorefrontDouble, asked: Round, say: Callable[[str], object]) -> None:
    """Wait a moment for a store that is open: its merchant may have been started just before."""
    for look in range(LOOKS):
        if any(store["isOpen"] for store in await double.discover(**asked.asked)):
            return
        if not look:
            say(f"No store is open yet. That is waited for, {LOOKS * LOOK_SECONDS:g} s at most.")
        await asyncio.sleep(LOOK_SECONDS)


def words_of(one: Purchase) -> str:
    """Return what became of a purchase, in a sentence."""
    facts = [f"Order {one.number} at {one.store}: {one.outcome}"]
    facts += [f"total {one.total}"] if one.total else []
    facts += [f"{one.attempts} attempts"] if one.attempts > 1 else []
    facts += [", ".join(one.codes)] if one.codes else []
    facts += [one.order_id] if one.order_id else []
    return harmless("; ".join(facts))
