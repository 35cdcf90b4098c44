"""The command: rounds until there were enough kills, a table, and every violation with its seed."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg
from tests.prove import round as rounds
from tests.prove.round import PROGRAMS, Plan, Result
from tests.prove.state import State, load, save, table

from mercato.platform.db.url import sqlalchemy_url
from mercato_contract.texts import count_of

BROKEN: Final = 1


def main(arguments: Sequence[str], *, postgresql_url: Callable[[], str]) -> int:
    """Run the proof and return the exit code: 1 after a violation. Ctrl-C keeps the results so far."""
    options = _options(arguments)
    state = load(options.state, seed=options.seed)
    try:
        server = "" if options.database == "sqlite" else postgresql_url()
        asyncio.run(_prove(options, state, server))
    except KeyboardInterrupt:
        print("\nInterrupted: the round is not counted; the others are.")
    print(f"\n{table(state)}")
    broken = [(name, one) for name, tally in state.tallies.items() for one in tally.broken]
    for name, one in broken:
        said = one.violation
        print(f"{name}, seed {one.seed}: {said.kind}: {said.what}: {said.ids}")
    return BROKEN if broken else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make prove ARGS=…", description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=100, help="on each database, earlier ones in the state included"
    )
    parser.add_argument("--kills-per-round", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further one adds 1")
    parser.add_argument("--state", type=Path, help="a file with the results so far, to continue later")
    parser.add_argument("--database", choices=(*PROGRAMS, "both"), default="both")
    return parser.parse_args(arguments)


async def _prove(options: argparse.Namespace, state: State, server: str) -> None:
    databases = list(PROGRAMS) if options.database == "both" else [options.database]
    while waiting := [one for one in databases if state.tally(one).counts.kills < options.kills]:
        for database in waiting:
            tally, seed = state.tally(database), state.next_seed
            kills = min(options.kills_per_round, options.kills - tally.counts.kills)
            result = await prove_once(database, server, seed=seed, kills=kills)
            tally.add(seed, result.counts, result.violations)
            state.next_seed += 1
            save(options.state, state)
            _report(database, seed, result, total=tally.counts.kills, of=options.kills)


def _report(database: str, seed: int, result: Result, *, total: int, of: int) -> None:
    said = result.counts
    print(
        f"{database}, seed {seed}: {count_of(said.kills, 'kill')} ({total:,} of {of:,}), "
        f"{count_of(said.orders, 'order')}, {count_of(said.runs, 'run')}, "
        f"{count_of(len(result.violations), 'violation')}, {said.seconds:.0f} s",
        flush=True,
    )
    for violation in result.violations:
        print(f"  {violation.kind}: {violation.what}: {violation.ids}", flush=True)


async def prove_once(database: str, server: str, *, seed: int, kills: int) -> Result:
    """Run one round on a new database. The logs of a round with a violation, or one that failed, are kept."""
    directory = Path(tempfile.mkdtemp(prefix=f"mercato-prove-{database}-{seed}-"))
    async with AsyncExitStack() as stack:
        url = None
        if database == "postgresql":
            url = await stack.enter_async_context(_new_database(server, f"mercato_prove_{seed}"))
        try:
            result = await rounds.run(
                Plan(database=database, url=url, seed=seed, kills=kills, directory=directory)
            )
        except asyncio.CancelledError:
            shutil.rmtree(directory)
            raise
    if result.violations:
        print(f"  logs: {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory)
    return result


@asynccontextmanager
async def _new_database(server: str, name: str) -> AsyncIterator[str]:
    await _run(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await _run(server, f"CREATE DATABASE {name}")
    try:
        yield sqlalchemy_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        await _run(server, f"DROP DATABASE {name} WITH (FORCE)")


async def _run(url: str, statement: str) -> None:
    plain = sqlalchemy_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    connection = await asyncpg.connect(plain)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
