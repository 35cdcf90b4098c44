"""The work of simulated partners at a service: a merchant serves orders, a storefront's customers buy."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Never

from mercato_client.testing.caller import Caller, ServiceError, open_session
from mercato_client.testing.merchant import MerchantDouble
from mercato_client.testing.opening import Opening
from mercato_client.testing.order_simulator import OrderSimulator
from mercato_client.testing.shops import SHOPS
from mercato_client.testing.storefront import Purchase, StorefrontDouble
from mercato_client.testing.subscription import Subscription
from mercato_contract.texts import count_of
from mercato_tools.cli import FAILED
from mercato_tools.cli.output import sanitize

Say = Callable[[str], object]

ORDERS_AT_ONCE: Final = 20
"""Orders that the merchant works on at the same time."""

FILE_POLL_SECONDS: Final = 1.0
"""Seconds between two checks of the catalog's file."""

CUSTOMERS_AT_ONCE: Final = 20

OPEN_POLLS: Final = 20
OPEN_POLL_SECONDS: Final = 0.5


@asynccontextmanager
async def hearing(subscription: Subscription, *, endpoint: bool, feed: bool) -> AsyncIterator[None]:
    """Have a webhook endpoint, and read the feed from now on, while the block runs. Raises ServiceError."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        if endpoint:
            await stack.enter_async_context(subscription.endpoint())
        if feed:
            await subscription.skip()
        following = group.create_task(subscription.follow()) if feed else None
        yield
        if following is not None:
            following.cancel()
            await subscription.drain()
            gaps = count_of(subscription.gaps, "gap")
            subscription.say(f"The feed had {count_of(subscription.read, 'event')}, with {gaps}.")


async def trade(
    double: MerchantDouble,
    say: Say,
    *,
    service: tuple[str, str],
    shop: str,
    store: str | None,
    public: str,
    step: float,
    catalog: str | None,
    endpoint: bool = False,
    feed: bool = False,
) -> Never:
    """Go live at the service (its address and a key), and work until cancelled.

    Raises ServiceError when the store does not go live.
    """
    opened = SHOPS[shop] if store is None else replace(SHOPS[shop], partner_store_id=store)
    file = None if catalog in {None, "-"} else Path(str(catalog))
    published = None if file is None else _version(file)
    async with open_session() as session:
        caller = Caller(*service, session)
        opening = Opening(double, caller, say, public=public)
        await opening.open(opened)
        simulator = OrderSimulator(double, caller, step_seconds=step, say=say)
        subscription = Subscription(double, caller, "commerce", say, public)
        async with hearing(subscription, endpoint=endpoint, feed=feed), asyncio.TaskGroup() as work:
            work.create_task(simulator.run(workers=ORDERS_AT_ONCE))
            if file is not None:
                work.create_task(_follow(file, double, opening, published=published))
    raise AssertionError("the order simulator ended by itself")


async def _follow(
    file: Path, double: MerchantDouble, opening: Opening, *, published: tuple[int, int] | None
) -> None:
    """Publish the file again whenever it changes."""
    while True:
        await asyncio.sleep(FILE_POLL_SECONDS)
        version = _version(file)
        if version in {published, None}:
            continue
        try:
            document = _read(file)
        except OSError:
            continue  # an editor is replacing it: try again
        published = version
        double.host("/catalog.json", document)
        try:
            await opening.publish()
        except ServiceError as error:
            opening.say(f"{error} The next change publishes it again.")


def _read(file: Path) -> bytes:
    return file.read_bytes()


def _version(file: Path) -> tuple[int, int] | None:
    """Return a value that differs after every change; None while the file is missing, as during an editor's save."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


async def shop_and_listen(
    double: StorefrontDouble,
    say: Say,
    *,
    service: tuple[str, str],
    public: str,
    endpoint: bool,
    feed: bool,
    orders: int,
    **customers: Any,
) -> int:
    """Hear of events while the customers buy, or until cancelled without any; return the exit code of `buy`."""
    async with open_session() as session:
        subscription = Subscription(double, Caller(*service, session), "marketfront", say, public)
        async with hearing(subscription, endpoint=endpoint, feed=feed):
            if not orders:
                await asyncio.Event().wait()
            code = await buy(double, say, orders=orders, **customers)
    return code


async def buy(
    double: StorefrontDouble,
    say: Say,
    *,
    orders: int,
    every: float,
    follow: float,
    store: str | None,
    query: dict[str, Any],
) -> int:
    """Let the customers buy, `every` seconds apart, each followed for `follow` seconds.

    Returns the exit code: 1 if an order had no answer or a wrong one.
    """
    room = asyncio.Semaphore(CUSTOMERS_AT_ONCE)
    failed = 0

    async def place_order(number: int) -> None:
        nonlocal failed
        async with room:
            try:
                purchase = await double.buy(number, store_id=store, follow=follow, **query)
            except ServiceError as error:
                failed += 1
                say(f"Order {number}: {error}")
            else:
                failed += not purchase.outcome.is_answer
                say(_describe(purchase))

    if store is None:
        await _until_open(double, query, say)
    async with asyncio.TaskGroup() as customers:
        for number in range(1, orders + 1):
            if every:
                customers.create_task(place_order(number))
                await asyncio.sleep(every if number < orders else 0)
            else:
                await place_order(number)
    counts = Counter(str(purchase.outcome) for purchase in double.purchases)
    counts["failed"] = orders - counts.total()
    results = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    say(f"{orders} customers: {results}.")
    return FAILED if failed else 0


async def _until_open(double: StorefrontDouble, query: dict[str, Any], say: Say) -> None:
    """Wait for an open store: its merchant may have started just before."""
    for poll in range(OPEN_POLLS):
        if any(store["isOpen"] for store in await double.discover(**query)):
            return
        if not poll:
            say(f"No store is open yet. Waiting for one, {OPEN_POLLS * OPEN_POLL_SECONDS:g} s at most.")
        await asyncio.sleep(OPEN_POLL_SECONDS)


def _describe(purchase: Purchase) -> str:
    """Return the result of a purchase, in a sentence."""
    facts = [
        f"Order {purchase.number} at {purchase.store}: {purchase.outcome}",
        purchase.total and f"total {purchase.total}",
        f"{purchase.attempts} attempts" if purchase.attempts > 1 else None,
        ", ".join(purchase.codes),
        purchase.order_id,
    ]
    return sanitize("; ".join(filter(None, facts)))
