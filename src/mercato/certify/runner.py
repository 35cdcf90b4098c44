"""Runs checks: several at a time, those first that others rest on, and never longer than there is time."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from mercato.certify.model import Check, Exchange, Failed, Outcome, Skipped, Verdict, outcome_of

AT_ONCE: Final = 4
"""Checks at a time: an implementation has to take more calls than that."""

_NO_TIME: Final = "There was no time left for it."
_TOO_SLOW: Final = (
    "Answers take so long that the checks do not end in time. See what makes them slow, or look at one group "
    "at a time with --only."
)


class Bench(Protocol):
    """What a check works with; it keeps what was sent and received."""

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """Return what was sent and received so far."""


B = TypeVar("B", bound=Bench)

Told = Callable[[Outcome], None]


class Runner(Generic[B]):
    """One run of a selection of checks."""

    def __init__(
        self, checks: Sequence[Check[B]], *, bench: Callable[[], B], seconds: float, at_once: int = AT_ONCE
    ) -> None:
        """`bench` makes the bench of one check; `seconds` are there for all of them together."""
        self._checks = checks
        self._bench = bench
        self._seconds = seconds
        self._places = asyncio.Semaphore(at_once)
        self._ends: dict[str, asyncio.Future[Outcome]] = {}

    async def run(self, told: Told) -> tuple[Outcome, ...]:
        """Return what came of the checks, in their order; each is told as soon as those before it are."""
        loop = asyncio.get_running_loop()
        self._ends = {check.id: loop.create_future() for check in self._checks}
        tasks = [asyncio.create_task(self._one(check)) for check in self._checks]
        timer = loop.call_later(self._seconds, self._stop, tasks)
        try:
            found: list[Outcome] = []
            for check, task in zip(self._checks, tasks, strict=True):
                await asyncio.wait([task])
                outcome = self._end_of(check, task)
                told(outcome)
                found.append(outcome)
            return tuple(found)
        finally:
            timer.cancel()
            self._stop(tasks)
            await asyncio.gather(*tasks, return_exceptions=True)

    def _stop(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()

    def _end_of(self, check: Check[B], task: asyncio.Task[Outcome]) -> Outcome:
        if task.cancelled():
            return outcome_of(check, Verdict.FAIL, _NO_TIME, (), advice=_TOO_SLOW)
        return task.result()

    async def _one(self, check: Check[B]) -> Outcome:
        end = self._ends[check.id]
        try:
            outcome = await self._outcome(check)
        except BaseException:
            end.cancel()
            raise
        end.set_result(outcome)
        return outcome

    async def _outcome(self, check: Check[B]) -> Outcome:
        for name in check.needs:
            before = await asyncio.shield(self._ends[name])
            if before.verdict is not Verdict.PASS:
                # The first of a chain is the cause of all that follow.
                failed = before.verdict is Verdict.FAIL
                why = f"It says nothing while {before.id} did not pass." if failed else before.seen
                return outcome_of(check, Verdict.SKIPPED, why, (), advice=before.advice)
        async with self._places:
            bench = self._bench()
            try:
                seen = await check.run(bench)
            except Failed as failure:
                return outcome_of(check, Verdict.FAIL, str(failure), tuple(bench.exchanges))
            except Skipped as why:
                return outcome_of(check, Verdict.SKIPPED, str(why), tuple(bench.exchanges), advice=str(why))
            return outcome_of(check, Verdict.PASS, seen, tuple(bench.exchanges))
