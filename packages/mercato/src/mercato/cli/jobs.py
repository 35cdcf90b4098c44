"""`mercato job`: dead jobs, and how to revive them."""

from collections.abc import Sequence
from typing import Final

from mercato.cli.options import MAX_LISTED, Limit
from mercato.cli.output import format_instant, members_of, print_objects
from mercato.cli.session import opened
from mercato.platform.jobs import (
    MAX_MEASURED,
    DeadJob,
    Revival,
    is_capped,
    list_dead,
    list_depths,
    revive_job,
)
from mercato.services import Core
from mercato_contract.texts import count_of
from mercato_tools.cli import FAILED, UnusableError
from mercato_tools.cli.options import DataDir, Json, group
from mercato_tools.cli.output import note, print_json, sanitize, say, wrap

job = group("job", "Background work: list, revive.")

PAGE: Final = 100
_SEE: Final = "List dead jobs: mercato job list"
_OUTCOMES: Final = {
    Revival.DUE: "Job {} is due again.",
    Revival.NOT_DEAD: f"Job {{}} isn't dead, or no longer exists. {_SEE}",
    Revival.INVALID: f"{{}} isn't a job number. {_SEE}",
    Revival.NOT_NEEDED: "Job {} isn't needed: another job for the same work is queued already.",
}
_COLUMNS: Final = {name.title(): name for name in ("kind", "ready", "waiting", "running", "dead")}


@job.command(name="list")
async def list_(
    *, kind: str | None = None, limit: Limit = PAGE, json: Json = False, data_dir: DataDir = None
) -> None:
    """List dead jobs with the reason for each, and count the jobs of each kind.

    Args:
        kind: Only jobs of this kind, such as webhook.deliver.
        limit: How many dead jobs to list (100; at most 1000).

    """
    async with opened(data_dir) as core, core.db.read() as tx:
        counted = await list_depths(tx, most=MAX_MEASURED)
        depths = [depth for depth in counted if kind in {None, depth.kind}]
        dead = await list_dead(tx, kind=kind, limit=limit)
    if is_capped(counted, most=MAX_MEASURED):
        note(f"There are more jobs: at most {MAX_MEASURED:,} of a kind and state are counted.")
    if json:
        jobs = [members_of(listed, without=("attempt",), attempts=listed.attempt) for listed in dead]
        print_json({"kinds": [members_of(depth, without=("oldest",)) for depth in depths], "dead": jobs})
        return
    print_objects(
        _COLUMNS,
        depths,
        empty="The queue is empty." if kind is None else f"No jobs of the kind {kind}.",
    )
    _print_dead(dead)
    if len(dead) == limit < sum(depth.dead for depth in depths):
        note("There are more: see --kind and --limit.")


@job.command(name="revive")
async def revive_(*numbers: int, kind: str | None = None, data_dir: DataDir = None) -> int:
    """Revive dead jobs as if they had never failed: by number, or all of a kind with --kind.

    Exit code 1: one of them isn't dead, or no longer exists.

    Args:
        numbers: The numbers of dead jobs, as the list shows them.
        kind: Only jobs of this kind, such as webhook.deliver.

    """
    if bool(numbers) == (kind is not None):
        raise UnusableError(
            "Give job numbers, which mercato job list shows, or --kind KIND for all of a kind."
        )
    async with opened(data_dir) as core:
        async with core.db.read() as tx:
            dead = [] if kind is None else await list_dead(tx, kind=kind, limit=MAX_LISTED)
        revived = [
            number
            for number in numbers or sorted(dead_job.id for dead_job in dead)
            if await _revive(core, number)
        ]
    if kind is not None:
        note(f"Due again: {count_of(len(revived), 'job')} of {kind}.")
        if len(dead) == MAX_LISTED:
            note("There may be more: run the command again.")
        return 0
    return 0 if len(revived) == len(numbers) else FAILED


async def _revive(core: Core, number: int) -> bool:
    found = await revive_job(core.db, number)
    note(_OUTCOMES[found].format(number))
    return found is Revival.DUE


def _print_dead(dead: Sequence[DeadJob]) -> None:
    if not dead:
        note("No dead jobs.")
        return
    for dead_job in dead:
        attempts = count_of(dead_job.attempt, "attempt")
        say(f"{format_instant(dead_job.died_at)}  {sanitize(dead_job.kind)}  {attempts}, job {dead_job.id}")
        say(*wrap(dead_job.reason, indent="  "), "")
    note("Once the cause is fixed: mercato job revive NUMBER…, or --kind KIND")
