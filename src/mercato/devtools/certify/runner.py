"""Runs checks: several at a time, each after those it needs, within a time limit for all."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from mercato.devtools.certify.suite import Check, Failed, Skipped
from mercato.domain.certification.report import Exchange, Outcome, Verdict

CONCURRENCY: Final = 4
"""Checks at a time: an implementation has to serve more requests than that."""

_OUT_OF_TIME: Final = "The certification ended before this check did."
_TOO_SLOW: Final = (
    "Responses take so long that the checks don't finish in time. Find out what makes them slow, or run one group at "
    "a time with --only."
)


class Context(Protocol):
    """What a check works with; it records what was sent and received."""

    @property
    def exchanges(self) -> Sequence[Exchange]: ...


C = TypeVar("C", bound=Context)

Report = Callable[[Outcome], None]


class Runner(Generic[C]):
    """One run of selected checks."""

    def __init__(
        self,
        checks: Sequence[Check[C]],
        *,
        context: Callable[[], C],
        seconds: float,
        concurrency: int = CONCURRENCY,
    ) -> None:
        """`context` makes the context of one check; `seconds` limit all of them together."""
        self._checks = checks
        self._context = context
        self._seconds = seconds
        self._slots = asyncio.Semaphore(concurrency)
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}

    async def run(self, report: Report) -> tuple[Outcome, ...]:
        """Return the outcomes in the order of the checks; each is reported as soon as those before it are."""
        self._tasks = {check.id: asyncio.create_task(self._run(check)) for check in self._checks}
        timer = asyncio.get_running_loop().call_later(self._seconds, self._cancel)
        outcomes: list[Outcome] = []
        try:
            for check in self._checks:
                task = self._tasks[check.id]
                await asyncio.wait([task])
                late = task.cancelled()
                outcome = _outcome(check, Verdict.FAIL, _OUT_OF_TIME, _TOO_SLOW) if late else task.result()
                report(outcome)
                outcomes.append(outcome)
            return tuple(outcomes)
        finally:
            timer.cancel()
            self._cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, check: Check[C]) -> Outcome:
        for name in check.needs or ():
            needed = await asyncio.shield(self._tasks[name])
            if needed.verdict is Verdict.FAIL:
                return _outcome(check, Verdict.SKIPPED, f"It needs {needed.id} to pass first.", needed.advice)
            if needed.verdict is Verdict.SKIPPED:
                # The first of a chain is the cause of all that follow.
                return _outcome(check, Verdict.SKIPPED, needed.seen, needed.advice)
        async with self._slots:
            context = self._context()
            try:
                verdict, seen, advice = Verdict.PASS, await check.run(context), None
            except Failed as failure:
                verdict, seen, advice = Verdict.FAIL, str(failure), check.advice
            except Skipped as why:
                verdict, seen, advice = Verdict.SKIPPED, str(why), str(why)
            return _outcome(check, verdict, seen, advice, tuple(context.exchanges))


def _outcome(
    check: Check[C], verdict: Verdict, seen: str, advice: str | None, exchanges: tuple[Exchange, ...] = ()
) -> Outcome:
    return Outcome(
        id=check.id,
        title=check.title,
        proves=check.proves,
        section=check.section,
        verdict=verdict,
        seen=seen,
        advice=advice,
        exchanges=exchanges,
    )
