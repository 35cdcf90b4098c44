"""The service's real processes: started, killed, and started again."""

import asyncio
import json
import os
import random
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.forks import Running, start
from tests.prove.points import POINTS

from mercato.platform import processes

START_SECONDS: Final = 60.0
"""How long a process may take to start on a busy machine."""

MOST_ODD_ENDS: Final = 10
"""Processes that may end by themselves before the round is aborted."""

ARMED: Final = 0.6
"""The share of starts that kill themselves at a named point."""


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with these settings of Mercato and no others."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MERCATO_")}
    return clean | dict(settings)


async def ask(settings: Mapping[str, str], *arguments: str) -> Any:
    """Run a command that prints JSON; return its value."""
    process = await start(*arguments, env=environment(settings), stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"mercato {' '.join(arguments)} ended with {process.returncode}")
    return json.loads(out)


@dataclass(slots=True, kw_only=True)
class Program:
    """One process of the service, with its successors."""

    name: str
    role: str
    settings: Mapping[str, str]
    log: Path
    process: Running | None = None
    base: str | None = None
    """Its address; None while it is down, and always for a worker."""

    async def start(self, *, crash_at: str | None = None) -> None:
        """Start it, without waiting until it is ready."""
        extra = {} if crash_at is None else {processes.CRASH_VARIABLE: crash_at}
        arguments = ["serve", "--port", "0"] if self.role == "serve" else ["worker"]
        with self.log.open("ab") as log:
            self.process = await start(
                *arguments,
                env=environment({**self.settings, **extra}),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )

    async def listen(self) -> None:
        """Return once it is ready or has ended."""
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self.process.stdout.readline()
        if line.startswith(b"listening on "):
            self.base = line.split()[-1].decode()

    async def end(self) -> int:
        """Return the exit code once it has ended; a signal's number is negative."""
        assert self.process is not None
        code = await self.process.wait()
        self.base = None
        return code

    def kill(self) -> None:
        """End it as a power failure would."""
        if self.process is not None and self.process.returncode is None:
            # Not by the `kill` of asyncio's processes, which looks first whether it has ended. One that has just died
            # at a named place would have its exit code taken by that look, and asyncio could only say 255.
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)


@dataclass(slots=True)
class Fleet:
    """All processes of a round. While `chaos` is on, ended processes are restarted after a moment."""

    programs: list[Program]
    rng: random.Random
    kills: int = 0
    at_points: int = 0
    chaos: bool = True
    odd_ends: list[str] = field(default_factory=list)
    """Processes that ended without being killed."""
    _asked: set[str] = field(default_factory=set)

    async def keep(self, program: Program) -> None:
        """Keep a program running: restart it whenever it ends."""
        while True:
            armed = self._point()
            await program.start(crash_at=armed)
            await program.listen()
            code = await program.end()
            if code != -signal.SIGKILL:
                self._note_odd_end(program, code)
            else:
                self.kills += 1
                self.at_points += program.name not in self._asked
            self._asked.discard(program.name)
            await asyncio.sleep(self.rng.uniform(0, 0.5) if self.chaos else 0)

    def _note_odd_end(self, program: Program, code: int) -> None:
        self.odd_ends.append(f"{program.name} ended with {code}: {program.log}")
        if len(self.odd_ends) > MOST_ODD_ENDS:
            raise RuntimeError(f"{program.name} keeps ending: see {program.log}")

    def kill_one(self) -> None:
        """Kill a random process."""
        running = [one for one in self.programs if one.process is not None and one.process.returncode is None]
        if running:
            victim = self.rng.choice(running)
            self._asked.add(victim.name)
            victim.kill()

    async def base(self) -> str:
        """Return the address of a running server; wait while there is none."""
        while True:
            there = [one.base for one in self.programs if one.base is not None]
            if there:
                return self.rng.choice(there)
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Kill all running processes, and wait for them."""
        for program in self.programs:
            program.kill()
        for program in self.programs:
            if program.process is not None:
                await program.process.wait()

    def _point(self) -> str | None:
        if self.chaos and self.rng.random() < ARMED:
            return self.rng.choice(POINTS)
        return None
