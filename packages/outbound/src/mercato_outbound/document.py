"""Documents of partners while they are read and checked: small ones in memory, others in a temporary file."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import IO, Final, Self, TypeVar

IN_MEMORY: Final = 256 * 1024
"""Bytes of a document that are held in memory; whenever there are more, they are written to its file."""

PIECE: Final = 1024 * 1024
"""Bytes of a piece of a document."""

T = TypeVar("T")

_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="mercato-documents")
"""Decompresses documents, and writes and frees their files. It is one thread, so that many documents at once leave the
other processors to requests, and no byte is written before the files that were closed earlier are freed."""


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Return the function's result, which the documents' thread makes."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, function, *arguments)


SPACE: Final = 512 * 1024 * 1024
"""Bytes of all files of one process: four of the largest documents."""


class DocumentSpace:
    """Bounds the bytes that the documents of a process have in files.

    A document reserves space before it grows, and waits if there is none. The oldest document never waits, so that at
    least one can finish; it may exceed the bound by up to its own limit.
    """

    def __init__(self, total: int = SPACE) -> None:
        self._total = total
        self._reserved: dict[Document, int] = {}  # the oldest first
        self._released = asyncio.Event()

    @property
    def reserved(self) -> int:
        """The bytes that are reserved now."""
        return sum(self._reserved.values())

    def document(self) -> "Document":
        """Return an empty document."""
        document = Document(self)
        self._reserved[document] = 0
        return document

    async def reserve(self, document: "Document", size: int) -> None:
        """Wait until there is space for a document of that size, and reserve what it hasn't reserved yet."""
        more = size - self._reserved[document]
        if more <= 0:
            return
        while self.reserved + more > self._total and next(iter(self._reserved)) is not document:
            await self._released.wait()
        self._reserved[document] += more

    def release(self, document: "Document") -> None:
        """Release the document's reservation and its place in the order."""
        if self._reserved.pop(document, None) is not None:
            # Wakes the tasks that wait now; later ones wait for the next event.
            self._released.set()
            self._released = asyncio.Event()


class Document:
    """Bytes that arrive in pieces. `close` it, or use it in `with`. Without a space it stays in memory."""

    def __init__(self, space: DocumentSpace | None = None) -> None:
        self._space = space
        self._memory = BytesIO()
        self._file: IO[bytes] | None = None
        self.size = 0

    @classmethod
    def of(cls, content: bytes) -> "Document":
        """Return a document in memory."""
        document = cls()
        document._memory.write(content)
        document.size = len(content)
        return document

    async def write(self, piece: bytes) -> None:
        """Append bytes. Raises OSError when the disk is full."""
        self._memory.write(piece)
        self.size += len(piece)
        if self._space is not None and self._memory.tell() > IN_MEMORY:
            await self._space.reserve(self, self.size)
            await self._spill()

    async def read(self) -> bytes:
        """Return all bytes."""
        if self._file is None:
            return self._memory.getvalue()
        file = await self.file()
        return await in_thread(file.read)

    def content(self) -> bytes:
        """Return all bytes of a document in memory."""
        assert self._file is None, "a document in a file is read in a thread"
        return self._memory.getvalue()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield all bytes, a megabyte at a time if there are more."""
        if self.size <= PIECE:
            yield await self.read()
            return
        file = await self.file()
        while piece := await in_thread(file.read, PIECE):
            yield piece

    async def file(self) -> IO[bytes]:
        """Return a file with all bytes, positioned at its start. It is closed with the document."""
        await self._spill()
        assert self._file is not None
        await in_thread(_rewind, self._file)
        return self._file

    def clear(self) -> None:
        """Drop all bytes, for another attempt, which gets their reservation."""
        self._memory = BytesIO()
        self.size = 0
        self._close_file()

    def close(self) -> None:
        """Release memory, file and reservation."""
        self._memory = BytesIO()
        self._close_file()
        if self._space is not None:
            self._space.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_file(self) -> None:
        if self._file is not None:
            # The system frees the blocks of a file without a name when it is closed. On a busy disk that takes half a
            # second for 128 MiB, and the limit of many bombs is reached at the same time.
            _THREAD.submit(self._file.close)
            self._file = None

    async def _spill(self) -> None:
        # In a thread: a slow disk must not block the event loop.
        memory, self._memory = self._memory, BytesIO()
        if self._file is None:
            self._file = await in_thread(_open)
        await in_thread(self._file.write, memory.getbuffer())


NewDocument = Callable[[], Document]


def _open() -> IO[bytes]:
    """Return a file without a name: a killed process leaves none behind."""
    return tempfile.TemporaryFile(prefix="mercato-")


def _rewind(file: IO[bytes]) -> None:
    file.flush()  # `seek` alone may stay within the buffer, and another process may read the file
    file.seek(0)
