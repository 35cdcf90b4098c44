"""One round: a new database, trade under kills, an idle phase, and the comparison of the records."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Final

import aiohttp
from tests.prove import reading
from tests.prove.buying import Buying
from tests.prove.calls import Calls, Partner
from tests.prove.compare import compare
from tests.prove.doubles import FaultyMerchant, FaultyStorefront
from tests.prove.model import Counts, Violation
from tests.prove.processes import Fleet, Program, ask
from tests.prove.pulling import Pulling
from tests.prove.records import MerchantRecords, Records, ServiceRecords, Shop, StorefrontRecords
from tests.prove.selling import Selling

from mercato.platform.db.engine import Database

SHOPS: Final = ("a-1", "a-2", "b-1", "b-2")
BY_HAND: Final = "b-2"
"""The store whose orders people accept."""
CUSTOMERS: Final = 8
AGENTS: Final = 3
"""The customers that order with the key of one agent."""
LIMITS: Final = ("--currency", "USD", "--maximum-order", "40.00", "--maximum-day", "150.00")
"""What that agent may spend: some of its orders don't fit."""

SETTINGS: Final = {
    "MERCATO_ALLOW_PRIVATE_NETWORKS": "true",
    "MERCATO_RATE_LIMITS": "off",
    "MERCATO_PLACE_SECONDS": "1.5",
    "MERCATO_PLACE_RESEND_SECONDS": "8",
    "MERCATO_VALIDATE_SECONDS": "2",
    "MERCATO_WEBHOOK_SECONDS": "5",
    "MERCATO_LOG_FORMAT": "json",
    "MERCATO_LOG_LEVEL": "info",
}
"""Short waits, so that everything ends within the round; all other settings are the defaults."""

REST_SECONDS: Final = 120.0
"""How long the service may take to finish everything after the last kill."""

MOST_BETWEEN: Final = 40
"""The most answers to partners between two kills."""

ROUND_SECONDS: Final = 3600.0
"""The time limit of a round on a busy machine."""

AT_ONCE: Final = 0.2
"""The share of kills that follow the previous one at once, so that starting processes are killed, too."""

LONGEST_GAP: Final = 20.0
"""The most seconds between two kills, however few answers there were."""

PROGRAMS: Final = {"sqlite": ("serve", "worker"), "postgresql": ("serve", "serve", "worker", "worker")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a round."""

    database: str
    url: str | None
    """Of the round's own empty database; None for SQLite in the directory."""
    seed: int
    kills: int
    directory: Path


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a round."""

    counts: Counts
    violations: list[Violation]


async def run(plan: Plan, disturb: "Callable[[Day], Awaitable[None]] | None" = None) -> Result:
    """Run a round and return its result. Its directory keeps the processes' logs.

    `disturb` does something else during the trade than killing the service's processes.
    """
    began = monotonic()
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        day = Day(plan, session)
        stack.push_async_callback(day.fleet.stop)
        await day.prepare(stack)
        url = plan.url or f"sqlite:///{plan.directory / 'data' / 'mercato.db'}"
        db = await stack.enter_async_context(Database.open(url))
        async with asyncio.timeout(ROUND_SECONDS), asyncio.TaskGroup() as group:
            keepers = [group.create_task(day.fleet.keep(one)) for one in day.fleet.programs]
            tablets = group.create_task(day.pulling.run(day.selling.partners["ab".index(BY_HAND[0])]))
            await day.trade(group, disturb or Day.kill)
            await day.rest(db)
            await day.ask_again(db)
            day.pulling.finish()
            await tablets
            service = await day.read(db)
            for keeper in keepers:
                keeper.cancel()
        return day.result(service, seconds=monotonic() - began)


class Day:
    """All participants of a round."""

    def __init__(self, plan: Plan, session: aiohttp.ClientSession) -> None:
        self.plan = plan
        self.settings = SETTINGS | {"MERCATO_DATA_DIR": str(plan.directory / "data")}
        if plan.url is not None:
            self.settings |= {"MERCATO_DATABASE_URL": plan.url}
        self.closing = asyncio.Event()
        self.fleet = Fleet(self._programs(), self._chance("kills"), chaos=plan.kills > 0)
        self.calls = Calls(self.fleet, session)
        self.merchants = MerchantRecords(
            {name: Shop(name, "ab".index(name[0]), by_hand=name == BY_HAND) for name in SHOPS}
        )
        self.shops = list(self.merchants.shops.values())
        self.doubles = [
            FaultyMerchant(self.merchants, self._chance(f"merchant {name}"), self._taken) for name in "ab"
        ]
        self.storefront = FaultyStorefront(StorefrontRecords(), self._chance("storefront"))
        self.selling = Selling(self.merchants, self.doubles, [], self.closing)
        self.pulling = Pulling(self.merchants.pulled, self.selling.odd)
        self.buying = Buying(self.storefront.records, self.shops, self.closing)
        self.front_key = ""
        self.stuck: list[str] = []
        """Work that wasn't finished by the service itself."""

    def _chance(self, whose: str) -> random.Random:
        return random.Random(f"{self.plan.seed} {whose}")  # it has to be repeatable

    def _programs(self) -> list[Program]:
        return [
            Program(
                name=f"{role}-{number}",
                role=role,
                settings=self.settings,
                log=self.plan.directory / f"{role}-{number}.log",
            )
            for number, role in enumerate(PROGRAMS[self.plan.database], 1)
        ]

    def _taken(self, order_id: str) -> None:
        self.selling.taken(order_id)

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Run the partners' servers and create the partners."""
        for double in (*self.doubles, self.storefront):
            await stack.enter_async_context(double)
        url = self.storefront.event_url
        # The first one creates the database.
        makes = [await self._partner("a", "commerce", "--webhook-token", "t")]
        makes += await asyncio.gather(
            self._partner("b", "commerce", "--webhook-token", "t"),
            self._partner("front", "marketfront", "--event-url", url),
        )
        for double, made in zip((*self.doubles, self.storefront), makes, strict=True):
            double.trust(made["signingSecret"])
        for name, made in zip("ab", makes[:2], strict=True):
            self.selling.partners.append(Partner(self.calls, made["commerceKey"], self._chance(name)))
        self.front_key = makes[2]["marketfrontKey"]
        made = await ask(self.settings, "key", "create", "front", "--agent", "prove", *LIMITS, "--json")
        self.buying.agent_key = made["key"]

    async def _partner(self, name: str, kind: str, *options: str) -> dict[str, str]:
        made: dict[str, str] = await ask(
            self.settings, "partner", "create", name, "--kind", kind, *options, "--json"
        )
        return made

    def customer(self, name: str) -> Partner:
        """Return a customer of the storefront."""
        return Partner(self.calls, self.front_key, self._chance(name))

    async def trade(self, group: asyncio.TaskGroup, disturb: "Callable[[Day], Awaitable[None]]") -> None:
        """Trade during the disturbance, then finish everything."""
        at_work = [group.create_task(self.selling.run(shop)) for shop in self.shops]
        customers = [self.customer(f"customer {number}") for number in range(CUSTOMERS)]
        customers[:AGENTS] = [replace(one, key=self.buying.agent_key) for one in customers[:AGENTS]]
        at_work += [group.create_task(self.buying.run(customer)) for customer in customers]
        await self.live()
        await disturb(self)
        for double in (*self.doubles, self.storefront):
            double.heal()
        self.closing.set()
        try:
            async with asyncio.timeout(REST_SECONDS):
                await asyncio.wait(at_work)
        except TimeoutError:
            for task in at_work:
                task.cancel()

    async def kill(self) -> None:
        """Kill at random instants. Time is counted in answers, so that a slow machine gets as far as a fast one."""
        rng = self._chance("gaps")
        while self.fleet.kills < self.plan.kills:
            await asyncio.sleep(rng.uniform(0, 0.2))
            if rng.random() > AT_ONCE:
                await self._answered(rng.randint(1, MOST_BETWEEN))
            self.fleet.kill_one()
        self.fleet.chaos = False

    async def _answered(self, more: int) -> None:
        """Return after so many more answers, or after a time without."""
        until, latest = self.calls.answered + more, monotonic() + LONGEST_GAP
        while self.calls.answered < until and monotonic() < latest:  # many count it up
            await asyncio.sleep(0.01)

    async def live(self) -> None:
        """Return once the first store is live: before that nothing can be lost."""
        while all(shop.store_id is None for shop in self.shops):  # for a moment
            await asyncio.sleep(0.05)

    async def rest(self, db: Database) -> None:
        """Return once no work is left, without any further request; what remains after a while is stuck."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                # Work of other processes, for which there is no event.
                while self.selling.cooking or self.pulling.acting or await reading.count_unfinished(db):
                    await asyncio.sleep(0.3)
        self.stuck += await reading.list_unfinished(db, keys=False)

    async def ask_again(self, db: Database) -> None:
        """Repeat the request of every key, abandoned ones included, and finish what that starts."""
        me = self.customer("last")
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                for key in self.storefront.records.keys:
                    await self.buying.settle(me, key)
                    await self.buying.ask_once(me, key)
                for key in self.storefront.records.cancellations:
                    await self.buying.settle_cancel(me, key)
                    await self.buying.cancel_once(me, key)
        await self.rest(db)

    async def read(self, db: Database) -> ServiceRecords:
        """Return the service's records."""
        async with asyncio.timeout(REST_SECONDS):
            return await reading.read_records(
                db, merchants=self.selling.partners, front=self.customer("reader"), shops=self.shops
            )

    def result(self, service: ServiceRecords, *, seconds: float) -> Result:
        """Return the counts and all violations."""
        noticed = [Violation("differs", "an unexpected answer", odd) for odd in self.selling.odd]
        noticed += [Violation("differs", "an unexpected answer", odd) for odd in self.calls.odd]
        noticed += [
            Violation("stuck", "was not finished by the service itself", stuck) for stuck in self.stuck
        ]
        noticed += [Violation("differs", "a process ended by itself", odd) for odd in self.fleet.odd_ends]
        records = Records(
            service=service, merchants=self.merchants, storefront=self.storefront.records, noticed=noticed
        )
        orders = service.orders.values()
        counts = Counts(
            rounds=1,
            kills=self.fleet.kills,
            at_points=self.fleet.at_points,
            operations=self.calls.sent,
            orders=len(orders),
            cancelled=sum(order.state == "cancelled" for order in orders),
            cancellations=len(self.storefront.records.cancellations),
            webhooks=sum(one.inbox.received for one in (*self.doubles, self.storefront)),
            runs=len(service.runs),
            seconds=seconds,
        )
        return Result(counts, compare(records))
