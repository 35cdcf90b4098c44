"""What follows from attempts: those that succeeded are written down together, every other by itself."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from mercato import crash
from mercato.clock import Clock
from mercato.db.audit import audit
from mercato.db.engine import Database, Write
from mercato.jobs import Job, enqueue, finish, finish_all
from mercato.webhooks import queries, sending
from mercato.webhooks.deliveries import KIND
from mercato.webhooks.model import (
    DeliverJob,
    Delivery,
    DeliveryStatus,
    GiveUp,
    Outcome,
    Retry,
    Succeeded,
    Verdict,
)

MOST: Final = 64
"""Attempts of one transaction: on SQLite the event loop waits for its statements, for one to two milliseconds."""

GATHERING: Final = 0.02
"""Seconds that a success may wait for others to be written down with, while nobody waits for it."""


class Ended(Struct, frozen=True, kw_only=True):
    """An attempt that was made `at` an instant."""

    job: Job[DeliverJob]
    delivery: Delivery
    outcome: Outcome
    verdict: Verdict
    at: datetime


class Settling:
    """Writes down what came of attempts, each with the end of its job in one transaction."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._waiting: deque[tuple[Ended, asyncio.Future[None]]] = deque()
        self._at_work: asyncio.Task[None] | None = None
        self._now: list[tuple[Ended, asyncio.Future[None]]] = []
        self._later: asyncio.TimerHandle | None = None

    async def settle(self, ended: Ended) -> None:
        """Return once it is written down. Raises JobLost, Unwritten, and what the database raises."""
        if not isinstance(ended.verdict, Succeeded):
            # Not before those that are ahead of it in its line.
            await self._settled()
            await self._alone(ended)
            return
        await self.begin(ended)

    def begin(self, ended: Ended, *, soon: bool = False) -> asyncio.Future[None]:
        """Write down a success; with `soon` not at once, but with others that come within `GATHERING` seconds."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((ended, future))
        if not soon or len(self._waiting) >= MOST:
            self._start()
        elif self._later is None:
            self._later = loop.call_later(GATHERING, self._start)
        return future

    async def find_failing_since(self, delivery: Delivery) -> datetime | None:
        """Return since when the endpoint fails, once those that succeeded until now are written down."""
        await self._settled()
        async with self._db.read() as tx:
            return await queries.find_failing_since(tx, delivery.partner_id, delivery.url)

    async def _settled(self) -> None:
        """Return when all that wait now have been settled, one way or the other."""
        if self._waiting:
            self._start()
        before = [future for _, future in (*self._now, *self._waiting)]
        if before:
            await asyncio.wait(before)

    def _start(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._at_work is None:
            self._at_work = asyncio.create_task(self._work(), name="webhooks settled")

    async def _work(self) -> None:
        """Settle who waits, as many at a time as have come while the last were written."""
        try:
            while self._waiting:
                some = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
                self._now = [one for one in some if not one[1].done()]
                await self._some(self._now)
                self._now = []
        finally:
            self._at_work = None
            self._now = []
            while self._waiting:
                self._waiting.popleft()[1].cancel()

    async def _some(self, some: list[tuple[Ended, asyncio.Future[None]]]) -> None:
        try:
            await self._together([ended for ended, _ in some])
        except Exception:  # noqa: BLE001  # each meets it again, or does not, by itself
            # First those whose hold may be among the others.
            for ahead in (True, False):
                its = [one for one in some if (one[0].job.held_by is not None) is ahead]
                await asyncio.gather(*(self._told(ended, future) for ended, future in its))
            return
        except BaseException:
            for _, future in some:
                future.cancel()
            raise
        for _, future in some:
            if not future.done():
                future.set_result(None)

    async def _told(self, ended: Ended, future: asyncio.Future[None]) -> None:
        try:
            await self._alone(ended)
        except Exception as error:  # noqa: BLE001  # told to who asked
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(None)

    async def _together(self, some: list[Ended]) -> None:
        if not some:
            return
        if len(some) == 1:
            await self._alone(some[0])
            return
        now = self._clock()

        async def settle(tx: Write) -> None:
            made = [one.delivery for one in some]
            if any(_is_unwritten(one.job.ahead) for one in some):
                raise Apart
            if not await finish_all(tx, [one.job for one in some]):
                raise Apart
            if not await sending.move_succeeded(tx, made, now=now):
                raise Apart
            await sending.insert_attempts(tx, [(one.delivery, one.outcome, one.at) for one in some])
            # By the integers of ids: a UUID's own hash is Python code.
            working = {(one.partner_id.int, one.url): one.partner_id for one in made}
            await queries.forget_failures(tx, [(partner, url) for (_, url), partner in working.items()])

        await self._written(settle)

    async def _alone(self, ended: Ended) -> None:
        now = self._clock()

        async def settle(tx: Write) -> None:
            if _is_unwritten(ended.job.ahead):
                raise Unwritten
            await finish(tx, ended.job)
            delivery, verdict, outcome = ended.delivery, ended.verdict, ended.outcome
            number = delivery.attempts + 1
            moved = await sending.move_delivery(
                tx, delivery, now=now, attempts=number, **_columns(verdict, outcome)
            )
            # Not moved: a redelivery has begun a new round in between, and its attempts are the ones that count.
            if moved:
                await sending.insert_attempt(tx, delivery.id, number, outcome, at=ended.at)
                await _settle_endpoint(tx, delivery, verdict, ended.at, now)
                if isinstance(verdict, Retry):
                    await _enqueue_next(tx, delivery, verdict.at - now)

        await self._written(settle)

    async def _written(self, settle: Callable[[Write], Coroutine[Any, Any, None]]) -> None:
        async with self._db.write() as tx:
            await settle(tx)
            crash.point("webhook.written")


class Apart(Exception):  # noqa: N818  # a verdict: nothing is wrong with the most of them
    """Of those that were to be written down together one is no longer its run's, or was moved by somebody else."""


class Unwritten(Exception):  # noqa: N818  # a verdict: nothing is wrong with this one
    """One ahead of it in its line could not be written down, and is lost with this one's job.

    It would be sent again and again with whatever comes behind it, and nobody would count how often.
    """


def _is_unwritten(ahead: Sequence[asyncio.Future[None]]) -> bool:
    return any(one.done() and (one.cancelled() or one.exception() is not None) for one in ahead)


def failed(reason: str) -> dict[str, object]:
    """Return the columns of a delivery that is not tried again."""
    return {"status": DeliveryStatus.FAILED, "error": reason, "next_attempt_at": None}


def _columns(verdict: Verdict, outcome: Outcome) -> dict[str, object]:
    match verdict:
        case Succeeded():
            return {"status": DeliveryStatus.SUCCEEDED, "error": None, "next_attempt_at": None}
        case Retry(at=at):
            return {"status": DeliveryStatus.PENDING, "error": outcome.error, "next_attempt_at": at}
        case GiveUp(reason=reason):
            return failed(reason)


async def _settle_endpoint(
    tx: Write, delivery: Delivery, verdict: Verdict, at: datetime, now: datetime
) -> None:
    partner, url = delivery.partner_id, delivery.url
    if isinstance(verdict, Succeeded):
        await queries.forget_failures(tx, {(partner, url)})
        return
    await queries.insert_failing(tx, partner, url, since=at)
    if not isinstance(verdict, GiveUp) or not verdict.disable:
        return
    if await queries.disable(tx, partner, url, reason=verdict.reason, now=now):
        detail = {"enabled": False, "deliveryId": delivery.id}
        await audit(tx, "endpoint", partner_id=partner, detail=detail)


async def _enqueue_next(tx: Write, delivery: Delivery, wait: timedelta) -> None:
    """Write the next attempt down as a job of its own, in the transaction that ends this one.

    Were it the same job put back, a crash between the two transactions would run it again at once.
    """
    job = DeliverJob(delivery_id=delivery.id, round=delivery.round, attempts=delivery.attempts + 1)
    await enqueue(
        tx, KIND, job, run_at=wait, lane=delivery.lane, dedup=job.key, group=delivery.partner_id.hex
    )
