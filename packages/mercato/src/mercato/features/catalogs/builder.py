"""Builds catalogs: tiny documents in place, others in processes of their own, so that no cart waits for one.

A thread would hold the interpreter's lock while 5 MB are decoded, and delay every other request.
"""

import asyncio
import gc
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from mercato.platform.processes import exit_with_parent, limit_memory
from mercato_catalog.model import BuildRequest, Built, Result
from mercato_outbound.document import Document

TINY: Final = 4 * 1024
"""Bytes up to which a document is built in place. The worst take a millisecond for each KiB, and eight at once from
eight partners are built one after the other, without a request between them."""

SMALL: Final = 64 * 1024
"""Bytes up to which a document doesn't wait for larger ones, which may take seconds: these take a tenth at worst."""

LARGE: Final = 8 * 1024 * 1024
"""Bytes beyond which a document gets a separate process, which then ends and frees all its memory. Starting one takes
a fraction of the build."""

BUILD_SECONDS: Final = 60.0
"""The time limit of one document; the largest that can be pulled takes a fraction of it."""

IDLE_SECONDS: Final = 60.0
"""How long an idle process is kept."""

DOCUMENTS: Final = 100
"""Documents after which a process is replaced, because its memory is fragmented."""

MEMORY: Final = 448 * 1024 * 1024
"""Bytes of memory for the process that builds what isn't small. With them the whole service stays below 600 MB."""

SMALL_MEMORY: Final = 64 * 1024 * 1024
"""Bytes of memory for the process that builds small documents; the worst need 42."""

LENGTH: Final = 8
"""Bytes of the length before a message to the building process, and before its answer."""

NO_MEMORY: Final = 3
"""The exit code of a process whose document needs more memory than it may take."""

_OUT_OF_MEMORY: Final = frozenset({NO_MEMORY, -signal.SIGSEGV, -signal.SIGABRT})
"""Exit codes when the memory isn't enough: without it msgspec's encoders crash instead of raising MemoryError."""

_PIECE: Final = 1024 * 1024
_START: Final = "from mercato.features.catalogs.builder import main; main()"


class Task(msgspec.Struct, frozen=True):
    """Sent before a document of `size` bytes. Without `serves` only the results of a dry run are made."""

    size: int
    request: BuildRequest
    serves: bool


class BuildOverrunError(Exception):
    """The document takes too much time or memory. Building it again would fail too."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class _WorkerEndedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"The process that builds a document ended with {code}.")
        self.code = code


class Builder:
    """Builds and compresses. One process builds small documents and another the larger ones, each one at a time."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._small = BuildProcess(SMALL_MEMORY)
        self._larger = BuildProcess(memory)

    async def build(self, document: Document, request: BuildRequest, *, serves: bool = True) -> Result:
        """Return the document's result. Raises BuildOverrunError.

        A dry run, which `serves` nothing, doesn't compress a large document.
        """
        if document.size <= TINY:
            # Imported with the first document, not when the service starts.
            from mercato_catalog.building.build import build

            return build(await document.read(), request)
        process = self._small if document.size <= SMALL else self._larger
        return await process.build(document, Task(document.size, request, serves))

    async def compress(self, built: Built) -> dict[str, bytes]:
        """Return the served bytes in each coding."""
        if built.bodies is not None:
            return built.bodies
        from mercato.features.catalogs.codings import compress

        return await asyncio.to_thread(compress, built.body)

    async def close(self) -> None:
        """Kill the processes."""
        await asyncio.gather(self._small.close(), self._larger.close())


class BuildProcess:
    """A process that builds one document at a time: started on first use, stopped when idle."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._lock = asyncio.Lock()
        self._worker: Process | None = None
        self._documents = 0
        self._idle: asyncio.TimerHandle | None = None

    async def build(self, document: Document, task: Task) -> Result:
        """Return the document's result. Raises BuildOverrunError."""
        async with self._lock:
            return await self._build(document, task)

    async def close(self) -> None:
        """Kill the process."""
        worker = self._worker
        self._stop()
        if worker is not None:
            await worker.wait()

    async def _build(self, document: Document, task: Task) -> Result:
        if document.size > LARGE or self._documents >= DOCUMENTS:
            # The old process ends first, so that there is never the memory of two.
            await self.close()
        elif self._idle is not None:
            self._idle.cancel()
        try:
            async with asyncio.timeout(BUILD_SECONDS):
                try:
                    return await self._run(document, task)
                except _WorkerEndedError as ended:
                    if ended.code != -signal.SIGKILL:
                        raise
                    # Killed from outside, which isn't the document's fault: try once more in a new process.
                    return await self._run(document, task)
        except TimeoutError:
            message = "The document took too long to check. Make it smaller, or nest it less deeply."
            raise BuildOverrunError(message) from None
        except _WorkerEndedError as ended:
            if ended.code not in _OUT_OF_MEMORY:
                raise
            raise BuildOverrunError(
                f"Checking the document takes more than the available {self._memory >> 20} MiB of memory. "
                "Make it smaller: shorten its texts, or leave out what storefronts don't show."
            ) from None
        finally:
            if document.size > LARGE:
                await self.close()
            else:
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._stop)

    async def _run(self, document: Document, task: Task) -> Result:
        worker = self._worker or await self._start()
        self._documents += 1
        try:
            output = await _exchange(worker, document, task)
        except (asyncio.IncompleteReadError, ConnectionError):
            closed, self._worker = self._worker is not worker, None
            raise _WorkerEndedError(0 if closed else await worker.wait()) from None
        except BaseException:
            # Nothing waits for the document any more, so the next one must not wait for it either.
            await self.close()
            raise
        result: Result = msgspec.msgpack.decode(output, type=Result)
        return result

    async def _start(self) -> Process:
        self._documents = 0
        self._worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _START,
            str(os.getpid()),
            str(self._memory),
            stdin=PIPE,
            stdout=PIPE,
            limit=_PIECE,
            # A Ctrl-C is the service's to handle.
            start_new_session=True,
        )
        return self._worker

    def _stop(self) -> None:
        """Kill the process: it has nothing that anybody waits for, and its memory is needed."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        worker, self._worker = self._worker, None
        if worker is not None and worker.returncode is None:
            worker.kill()


async def _exchange(worker: Process, document: Document, task: Task) -> bytes:
    """Send the document; return the result's bytes. Raises IncompleteReadError or ConnectionError."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    head = msgspec.msgpack.encode(task)
    worker.stdin.write(len(head).to_bytes(LENGTH) + head)
    async for piece in _pieces(document):
        worker.stdin.write(piece)
        await worker.stdin.drain()
    length = await worker.stdout.readexactly(LENGTH)
    return await worker.stdout.readexactly(int.from_bytes(length))


async def _pieces(document: Document) -> AsyncIterator[bytes]:
    """Yield a large document from its file in pieces: the service never holds all of it."""
    if document.size <= LARGE:
        yield await document.read()
        return
    file = await document.file()
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece


# --- the process that builds ----------------------------------------------------------------------
#
# Tasks on standard input, results on standard output: the length of a message in 8 bytes and its MessagePack. A task's
# document follows it.


def main() -> None:
    """Build documents until the input ends. `Builder` starts it with its process id and the bytes of memory."""
    # Imported in the process that builds, and by the first tiny document, not when the service starts.
    from mercato_catalog.building.build import build_uncollected

    parent, memory = map(int, sys.argv[1:])
    exit_with_parent(parent)
    limit_memory(memory)
    gc.disable()
    read, output = sys.stdin.buffer.read, sys.stdout.buffer
    try:
        while length := read(LENGTH):
            task = msgspec.msgpack.decode(read(int.from_bytes(length)), type=Task)
            result = msgspec.msgpack.encode(
                _compressed(build_uncollected(read(task.size), task.request), task)
            )
            output.write(len(result).to_bytes(LENGTH))
            output.write(result)
            output.flush()
            del result
            gc.collect()
    except MemoryError:
        sys.exit(NO_MEMORY)


def _compressed(result: Result, task: Task) -> Result:
    if not isinstance(result, Built):
        return result
    from mercato.features.catalogs.codings import compress

    # In this process, which has the served bytes: the service never holds all of them.
    bodies = compress(result.body) if task.serves else {}
    return msgspec.structs.replace(result, body=b"", bodies=bodies)
