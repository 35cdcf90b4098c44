"""`mercato job`: background work that was given up, and once more."""

from collections.abc import Sequence
from typing import Annotated, Final

from cyclopts import App, Parameter

from mercato.cli import FAILED
from mercato.cli.console import note, print_json, print_table
from mercato.cli.failures import UnusableError
from mercato.cli.options import DataDir, Json, check_limit
from mercato.cli.plain import folded, harmless, say
from mercato.cli.session import Session, opened
from mercato.db.audit import audit
from mercato.db.errors import is_unique_violation
from mercato.db.tables import jobs_dedup
from mercato.jobs import DeadJob, list_dead, list_gauges, revive
from mercato.plurals import count_of
from mercato.wire import Instant, Wire, instant

job = App(name="job", help="Background work: list, revive.")

PAGE: Final = 100
MOST: Final = 1000
"""Jobs that one command revives."""

MOST_NUMBER: Final = 2**63 - 1
_SEE: Final = "See those that are dead: mercato job list"

OfKind = Annotated[str | None, Parameter(help="Only this kind's, as webhook.deliver.")]


class Kind(Wire):
    """One kind of work, counted."""

    kind: str
    ready: int
    waiting: int
    running: int
    dead: int


class Dead(Wire):
    """A job that was given up. What it is about stays in the database: it may be a customer's."""

    id: int
    kind: str
    attempts: int
    reason: str
    enqueued_at: Instant | None
    died_at: Instant | None


class Backlog(Wire):
    """All kinds that have work, and the dead, those that died last first."""

    kinds: list[Kind]
    dead: list[Dead]


@job.command(name="list")
async def list_(
    *,
    kind: OfKind = None,
    limit: Annotated[int, Parameter(help=f"Dead jobs at most ({PAGE}; no more than {MOST}).")] = PAGE,
    json: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the dead jobs, with why each was given up, and how much of each kind waits."""
    check_limit(limit, MOST)
    async with opened(data_dir) as session, session.db.read() as tx:
        gauges = [one for one in await list_gauges(tx) if kind in {None, one.kind}]
        dead = await list_dead(tx, kind=kind, limit=limit)
    if json:
        kinds = [
            Kind(kind=one.kind, ready=one.ready, waiting=one.waiting, running=one.running, dead=one.dead)
            for one in gauges
        ]
        print_json(Backlog(kinds=kinds, dead=[_dead(one) for one in dead]))
        return
    rows = [(one.kind, one.ready, one.waiting, one.running, one.dead) for one in gauges]
    print_table(("Kind", "Ready", "Waiting", "Running", "Dead"), rows, empty="No work waits.")
    _print_dead(dead)
    if len(dead) == limit < sum(one.dead for one in gauges):
        note("There are more: see --kind and --limit.")


@job.command(name="revive")
async def revive_(
    *numbers: Annotated[int, Parameter(help="The numbers of dead jobs, as the list shows them.")],
    kind: OfKind = None,
    data_dir: DataDir = None,
) -> int:
    """Make dead jobs due at once, as if they had never failed: by number, or all of a kind with --kind.

    Exit code 1: one of them is not dead (any more).
    """
    if bool(numbers) == (kind is not None):
        raise UnusableError(
            "Say which: numbers as mercato job list shows them, or --kind KIND for all of one."
        )
    async with opened(data_dir) as session:
        async with session.db.read() as tx:
            dead = {one.id: one for one in await list_dead(tx, kind=kind, limit=MOST)}
        revived = [number for number in numbers or sorted(dead) if await _revived(session, number, dead)]
    if kind is not None:
        note(f"Due again: {count_of(len(revived), 'job')} of {kind}.")
        if len(dead) == MOST:
            note("There may be more: say it again.")
        return 0
    return 0 if len(revived) == len(numbers) else FAILED


async def _revived(session: Session, number: int, dead: dict[int, DeadJob]) -> bool:
    if not 0 < number <= MOST_NUMBER:
        # A database would not take it as a number at all.
        note(f"{number} is no job's number. {_SEE}")
        return False
    try:
        async with session.db.write() as tx:
            done = await revive(tx, number)
            if done:
                kind = dead[number].kind if number in dead else None
                await audit(tx, "job", detail={"job": number} | ({"kind": kind} if kind else {}))
    except Exception as error:
        if not is_unique_violation(error, jobs_dedup):
            raise
        note(f"Job {number} is not needed: the same work waits already.")
        return False
    note(f"Job {number} is due again." if done else f"Job {number} is not dead, or gone. {_SEE}")
    return done


def _print_dead(dead: Sequence[DeadJob]) -> None:
    if not dead:
        note("None is dead.")
        return
    for one in dead:
        died = (instant(one.died_at) or "")[:19].replace("T", " ")
        say(f"{died}  {harmless(one.kind)}  {count_of(one.attempt, 'attempt')}, job {one.id}")
        say(*folded(one.reason, indent="  "), "")
    note("Once the cause is mended: mercato job revive NUMBER…, or --kind KIND")


def _dead(one: DeadJob) -> Dead:
    return Dead(
        id=one.id,
        kind=one.kind,
        attempts=one.attempt,
        reason=one.reason,
        enqueued_at=instant(one.enqueued_at),
        died_at=instant(one.died_at),
    )
