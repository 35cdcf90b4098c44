"""Reads menus of spreadsheets in a process of its own: bounded in time and memory, and no request waits for it.

The process ends with its file. What a hostile file does to the libraries that read it, it does there.
"""

import asyncio
import gc
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato.features.catalogs.builder import LENGTH, NO_MEMORY
from mercato.platform.processes import exit_with_parent, limit_cpu, limit_memory
from mercato.platform.slots import Slots
from mercato_outbound.document import Document
from mercato_tools.imports.spreadsheets.cells import SheetFault
from mercato_tools.imports.spreadsheets.ids import KnownItem, known_items
from mercato_tools.imports.spreadsheets.menu import SheetItem, SheetSummary
from mercato_tools.imports.spreadsheets.pages import MAX_FILE, SheetFile
from mercato_tools.imports.spreadsheets.prices import DecimalMark
from mercato_tools.imports.spreadsheets.read import SheetMenu, SheetOptions, read_menu, refused
from mercato_tools.imports.spreadsheets.text_files import Delimiter, Encoding

__all__ = [
    "MAX_FILE",
    "DecimalMark",
    "Delimiter",
    "Encoding",
    "KnownItem",
    "MenuFile",
    "MenuFiles",
    "SheetFault",
    "SheetItem",
    "SheetMenu",
    "SheetOptions",
    "SheetSummary",
    "known_items",
]

SMALL: Final = 1024 * 1024
"""Bytes up to which a file doesn't wait for larger ones. A workbook of 20,000 items has as many."""

SECONDS: Final = 120.0
"""The time limit of one file; 60,000 rows of a workbook take 6 s of CPU, at a low priority."""

CPU_SECONDS: Final = 30
"""The CPU time of one file. Python may try without end to report that there is no memory left; others wait for it."""

MEMORY: Final = 448 * 1024 * 1024
"""Bytes of memory for one file, as to build a large catalog; 60,000 rows of a workbook need half of them."""

MAX_DOCUMENT: Final = 32 * 1024 * 1024
"""Bytes of the CatalogSet that is made of a file."""

RETRY_AFTER: Final = 2
"""Seconds for Retry-After when a partner sends a file while another of its files is read."""

NICENESS: Final = 10
"""Requests and runs come first."""

_TOO_LONG: Final = "The file takes too long to read. Delete what isn't the menu, or save it as CSV UTF-8."
_START: Final = "from mercato.features.catalogs.menu_files import main; main()"


class MenuFile(Struct, frozen=True):
    """A file that was sent, as it is kept while it is read."""

    name: str
    content: Document


class _Task(Struct, frozen=True):
    """Sent before the files, whose names and sizes it has."""

    files: tuple[tuple[str, int], ...]
    options: SheetOptions


class MenuFiles:
    """Reads one small file and one large one at a time, and one of each partner."""

    def __init__(
        self, memory: int = MEMORY, seconds: float = SECONDS, cpu_seconds: int = CPU_SECONDS
    ) -> None:
        self._memory = memory
        self._seconds = seconds
        self._cpu_seconds = cpu_seconds
        self._small = asyncio.Lock()
        self._large = asyncio.Lock()
        self.slots = Slots(
            1,
            full="Another file of this account is being read. Wait until it has been, then send this one again.",
            retry_after=RETRY_AFTER,
        )

    async def read(
        self, menu: MenuFile, options: SheetOptions, *, partner_id: UUID, choices: MenuFile | None = None
    ) -> SheetMenu:
        """Return the menu with its CatalogSet, or with what is wrong in the file. Raises RateLimited."""
        files = (menu,) if choices is None else (menu, choices)
        size = sum(file.content.size for file in files)
        with self.slots.slot(partner_id):
            async with self._small if size <= SMALL else self._large:
                return await self._read(files, options)

    async def _read(self, files: Sequence[MenuFile], options: SheetOptions) -> SheetMenu:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _START,
            str(os.getpid()),
            str(self._memory),
            str(self._cpu_seconds),
            stdin=PIPE,
            stdout=PIPE,
            # A Ctrl-C is the service's to handle.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._seconds):
                answer = await _exchange(process, files, options)
        except TimeoutError:
            return refused(files[0].name, _TOO_LONG)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == -signal.SIGXCPU:
            return refused(files[0].name, _TOO_LONG)
        if process.returncode == 0:
            return await asyncio.to_thread(msgspec.msgpack.decode, answer, type=SheetMenu)
        return refused(
            files[0].name,
            f"The file takes more than {self._memory >> 20} MiB of memory to read, or is damaged. Delete what isn't "
            "the menu, or save it as CSV UTF-8.",
        )


async def _exchange(process: Process, files: Sequence[MenuFile], options: SheetOptions) -> bytes:
    """Send the files to a process, and return what it answers before it ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    task = _Task(tuple((file.name, file.content.size) for file in files), options)
    head = msgspec.msgpack.encode(task)
    # A process that has ended reads no more; why it has, its exit code says.
    with suppress(ConnectionError):
        process.stdin.write(len(head).to_bytes(LENGTH) + head)
        for file in files:
            async for piece in file.content.pieces():
                process.stdin.write(piece)
                await process.stdin.drain()
    process.stdin.close()
    answer = await process.stdout.read()
    await process.wait()
    return answer


# --- the process that reads -----------------------------------------------------------------------


def main() -> None:
    """Read the file on standard input, and write its menu to standard output, both as MessagePack."""
    parent, memory, cpu_seconds = map(int, sys.argv[1:])
    exit_with_parent(parent)
    limit_memory(memory)
    limit_cpu(cpu_seconds)
    os.nice(NICENESS)
    gc.disable()
    try:
        read = sys.stdin.buffer.read
        task = msgspec.msgpack.decode(read(int.from_bytes(read(LENGTH))), type=_Task)
        menu, *choices = [SheetFile(name, read(size)) for name, size in task.files]
        made = read_menu(menu, task.options, choices=choices[0] if choices else None)
        if made.document is not None and len(made.document) > MAX_DOCUMENT:
            made = refused(
                menu.name,
                f"The menu's catalog would have more than {MAX_DOCUMENT:,} bytes. Shorten its texts, or split it.",
            )
        sys.stdout.buffer.write(msgspec.msgpack.encode(made))
    except MemoryError:
        sys.exit(NO_MEMORY)
