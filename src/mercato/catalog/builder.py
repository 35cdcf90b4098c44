"""Where catalogs are built: a process of its own for large documents, so that no cart waits for one.

A thread would hold the interpreter's lock through a 5 MB decode, and everybody's p99 with it.
"""

import asyncio
import multiprocessing
import os
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Final
from uuid import UUID

from mercato.catalog.built import BuildFailed, Built, Unchanged
from mercato.processes import die_with

SMALL: Final = 64 * 1024
"""Bytes up to which a document is built in place: in a few milliseconds, and in a tenth of a second if it was made to
take as long as it can, of the emptiest sections one after the other."""

BUILD_SECONDS: Final = 60.0
"""How long one document may take; the largest that may be pulled takes a fraction of it."""

IDLE_SECONDS: Final = 60.0
"""How long an unused process is kept."""

MEMORY: Final = 4 * 1024 * 1024 * 1024
"""Bytes of address space the process may have: 12 times the largest document, and the interpreter."""

Result = Built | BuildFailed | Unchanged


class BuildOverrunError(Exception):
    """The document took too long, or too much memory: building it again would do the same."""


class Builder:
    """Builds and compresses. One process at a time, started on first use, stopped when idle."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._lock = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    async def build(
        self,
        document: bytes,
        *,
        onboarding_id: UUID,
        catalog_set_id: UUID,
        store_id: UUID,
        default_currency: str,
        previous_hash: str | None,
    ) -> Result:
        """Return what became of the document. Raises BuildOverrunError."""
        # What builds is imported by the first document, not by the start of the service.
        from mercato.catalog.build import build

        work = partial(
            build,
            document,
            onboarding_id=onboarding_id,
            catalog_set_id=catalog_set_id,
            store_id=store_id,
            default_currency=default_currency,
            previous_hash=previous_hash,
        )
        if len(document) <= SMALL:
            return work()
        async with self._lock:
            return await self._apart(work)

    async def compress(self, built: Built) -> dict[str, bytes]:
        """Return the served bytes in each coding."""
        from mercato.catalog.compress import compress

        return await asyncio.to_thread(compress, built.body)

    async def close(self) -> None:
        """Stop the process."""
        self._stop()

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
        except (TimeoutError, MemoryError):
            self._stop(kill=True)
            raise BuildOverrunError from None
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
                initargs=(os.getpid(),),
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


def _settle_in(parent: int) -> None:
    """Bound the process's memory, and let it die with the one that started it: kill -9 leaves nobody behind."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    die_with(parent)
