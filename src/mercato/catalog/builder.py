"""Where catalogs are built: a process of its own for large documents, so that no cart waits for one.

A thread would hold the interpreter's lock through a 5 MB decode, and everybody's p99 with it.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Final
from uuid import UUID

import msgspec

from mercato.catalog.built import Built, Result
from mercato.outbound.document import Document
from mercato.processes import exit_with_parent, limit_memory

SMALL: Final = 64 * 1024
"""Bytes up to which a document is built in place: in a few milliseconds, and in a tenth of a second if it was made to
take as long as it can, of the emptiest sections one after the other."""

LARGE: Final = 8 * 1024 * 1024
"""Bytes beyond which a document has a process to itself: starting one takes a fraction of building it, and all memory
that it took goes with it."""

BUILD_SECONDS: Final = 60.0
"""How long one document may take; the largest that may be pulled takes a fraction of it."""

IDLE_SECONDS: Final = 60.0
"""How long an unused process is kept."""

MEMORY: Final = 448 * 1024 * 1024
"""Bytes that the building process may write to. With them the service as a whole stays below 600 MB."""

NO_MEMORY: Final = 3
"""The exit code of a process whose document needs more memory than it may take."""

_OUT_OF_MEMORY: Final = frozenset({NO_MEMORY, -signal.SIGSEGV, -signal.SIGABRT})
"""How such a process ends: a decoder in C that is given no memory may crash."""

_LARGE_BUILD: Final = "from mercato.catalog.large import main; main()"


class BuildOverrunError(Exception):
    """The document took too long, or too much memory: building it again would do the same."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def too_slow() -> BuildOverrunError:
    """Return the error of a document that takes too long."""
    return BuildOverrunError("The document took too long to check. Make it smaller, or nest it less deeply.")


def too_hungry(memory: int) -> BuildOverrunError:
    """Return the error of a document that takes too much memory."""
    return BuildOverrunError(
        f"Checking the document takes more than the {memory >> 20} MiB of memory that there are for it. "
        "Make it smaller: shorten its texts, or leave out what storefronts don't show."
    )


class LargeBuild(msgspec.Struct, frozen=True):
    """What a process is told of its document. Without `serves` only what a dry run shows is made."""

    parent: int
    memory: int
    onboarding_id: UUID
    catalog_set_id: UUID
    store_id: UUID
    default_currency: str
    previous_hash: str | None
    serves: bool


class Builder:
    """Builds and compresses. One process at a time, started on first use, stopped when idle."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._pool: ProcessPoolExecutor | None = None
        self._lock = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    async def build(
        self,
        document: Document,
        *,
        onboarding_id: UUID,
        catalog_set_id: UUID,
        store_id: UUID,
        default_currency: str,
        previous_hash: str | None,
        serves: bool = True,
    ) -> Result:
        """Return what became of the document. Raises BuildOverrunError.

        A dry run, which `serves` nothing, spares a large document the compression of what would be served.
        """
        told = LargeBuild(
            parent=os.getpid(),
            memory=self._memory,
            onboarding_id=onboarding_id,
            catalog_set_id=catalog_set_id,
            store_id=store_id,
            default_currency=default_currency,
            previous_hash=previous_hash,
            serves=serves,
        )
        if document.size <= SMALL:
            return (await self._work(document, told))()
        async with self._lock:
            if document.size > LARGE:
                # It goes first: two processes would take the memory of both.
                self._stop()
                return await self._alone(document, told)
            return await self._apart(await self._work(document, told))

    async def compress(self, built: Built) -> dict[str, bytes]:
        """Return the served bytes in each coding."""
        if built.bodies is not None:
            return built.bodies
        from mercato.catalog.compress import compress

        return await asyncio.to_thread(compress, built.body)

    async def close(self) -> None:
        """Stop the process."""
        self._stop()

    async def _work(self, document: Document, told: LargeBuild) -> Callable[[], Result]:
        # What builds is imported by the first document, not by the start of the service.
        from mercato.catalog.build import build

        return partial(
            build,
            await document.read(),
            onboarding_id=told.onboarding_id,
            catalog_set_id=told.catalog_set_id,
            store_id=told.store_id,
            default_currency=told.default_currency,
            previous_hash=told.previous_hash,
        )

    async def _alone(self, document: Document, told: LargeBuild) -> Result:
        """Build in a process that gets the document as its standard input, and ends with it."""
        try:
            async with asyncio.timeout(BUILD_SECONDS):
                code, output = await _run(document, told)
                if code == -signal.SIGKILL:
                    # Somebody killed the process, which is not the document's fault: once more in a new one.
                    code, output = await _run(document, told)
        except TimeoutError:
            raise too_slow() from None
        if code in _OUT_OF_MEMORY:
            raise too_hungry(self._memory)
        if code:
            raise RuntimeError(f"the process that builds a document ended with {code}")
        result: Result = msgspec.msgpack.decode(output, type=Result)
        return result

    async def _apart(self, work: Callable[[], Result]) -> Result:
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(BUILD_SECONDS):
                try:
                    return await loop.run_in_executor(self._running(), work)
                except BrokenProcessPool:
                    # Somebody killed the process, which is not the document's fault: once more in a new one.
                    self._stop(kill=True)
                    return await loop.run_in_executor(self._running(), work)
        except TimeoutError:
            self._stop(kill=True)
            raise too_slow() from None
        except MemoryError:
            self._stop(kill=True)
            raise too_hungry(self._memory) from None
        except BaseException:
            # A process that breaks twice is a fault of ours: the job is tried again later, and ends after a few times.
            # And where nobody waits any more, the next document must not: its own time has begun.
            self._stop(kill=True)
            raise
        finally:
            self._idle = loop.call_later(IDLE_SECONDS, self._stop)

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_settle_in,
                initargs=(os.getpid(), self._memory),
                max_tasks_per_child=100,
            )
        return self._pool

    def _stop(self, *, kill: bool = False) -> None:
        pool, self._pool = self._pool, None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if pool is None:
            return
        if kill:
            for process in list((pool._processes or {}).values()):  # noqa: SLF001  # 3.11 has no public way
                process.kill()
        pool.shutdown(wait=False, cancel_futures=True)


async def _run(document: Document, told: LargeBuild) -> tuple[int, bytes]:
    """Return the exit code of a process that builds the document, and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _LARGE_BUILD,
        msgspec.json.encode(told).decode(),
        stdin=await document.file(),
        stdout=PIPE,
        # A Ctrl-C is the service's to hear.
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        await _kill(process)
        raise
    assert process.returncode is not None
    return process.returncode, output


async def _kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def _settle_in(parent: int, memory: int) -> None:
    """Bound the process's memory, and let it die with the one that started it: kill -9 leaves nobody behind."""
    limit_memory(memory)
    exit_with_parent(parent)
