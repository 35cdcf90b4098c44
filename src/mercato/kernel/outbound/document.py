"""Documents of partners while they are read and checked: in memory when small, else in a temporary file."""

import asyncio
import tempfile
from collections.abc import Callable
from io import BytesIO
from typing import IO, Final, Self

IN_MEMORY: Final = 256 * 1024
"""Bytes of a document that stay in memory. The rest of it, and of others, goes to a file each time so much is here."""

SPACE: Final = 512 * 1024 * 1024
"""Bytes that the files of one process have together: four of the largest documents."""


class DocumentSpace:
    """Bounds the bytes that the documents of a process have in files.

    A document takes room before it grows and waits for the others if there is none. The oldest never waits, so that
    one of them always ends; the bound is exceeded by what it takes, which its own limit bounds.
    """

    def __init__(self, total: int = SPACE) -> None:
        self._total = total
        self._taken: dict[Document, int] = {}  # the oldest first
        self._released = asyncio.Event()

    @property
    def taken(self) -> int:
        """The bytes that are in files now."""
        return sum(self._taken.values())

    def document(self) -> "Document":
        """Return an empty document."""
        made = Document(self)
        self._taken[made] = 0
        return made

    async def take(self, document: "Document", size: int) -> None:
        """Reserve bytes for the document, having waited until there is room."""
        while self.taken + size > self._total and next(iter(self._taken)) is not document:
            await self._released.wait()
        self._taken[document] += size

    def release(self, document: "Document") -> None:
        """Give back what the document has reserved, and its turn."""
        if self._taken.pop(document, None) is not None:
            # Tasks that wait now look again; later ones wait for the next event.
            self._released.set()
            self._released = asyncio.Event()


class Document:
    """Bytes that arrive in pieces. `close` it, or use it in `with`; without a space all of it stays in memory."""

    def __init__(self, space: DocumentSpace | None = None) -> None:
        self._space = space
        self._memory = BytesIO()
        self._file: IO[bytes] | None = None
        self.size = 0

    @classmethod
    def of(cls, content: bytes) -> "Document":
        """Return a document that is in memory."""
        made = cls()
        made._memory.write(content)
        made.size = len(content)
        return made

    async def write(self, piece: bytes) -> None:
        """Append bytes. Raises OSError when there is no room on the disk."""
        self._memory.write(piece)
        self.size += len(piece)
        if self._space is not None and self._memory.tell() > IN_MEMORY:
            await self._space.take(self, self._memory.tell())
            await self._spill()

    async def read(self) -> bytes:
        """Return all bytes."""
        if self._file is None:
            return self._memory.getvalue()
        file = await self.file()
        return await asyncio.to_thread(file.read)

    def content(self) -> bytes:
        """Return all bytes of a document that is in memory."""
        assert self._file is None, "a document in a file is read in a thread"
        return self._memory.getvalue()

    async def file(self) -> IO[bytes]:
        """Return a file with all bytes, at its beginning. It's the document's own, and closed with it."""
        await self._spill()
        assert self._file is not None
        await asyncio.to_thread(_rewind, self._file)
        return self._file

    def clear(self) -> None:
        """Forget all bytes, for another attempt. The room that they have reserved stays reserved."""
        self._memory = BytesIO()
        self.size = 0
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()

    def close(self) -> None:
        """Give everything back."""
        self._memory = BytesIO()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._space is not None:
            self._space.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _spill(self) -> None:
        # In a thread: a disk that is busy would hold up everybody else.
        waiting, self._memory = self._memory, BytesIO()
        if self._file is None:
            self._file = await asyncio.to_thread(_open)
        await asyncio.to_thread(self._file.write, waiting.getbuffer())


NewDocument = Callable[[], Document]


def _open() -> IO[bytes]:
    """Return a file that has no name, so that none is left behind by a process that is killed."""
    return tempfile.TemporaryFile(prefix="mercato-")


def _rewind(file: IO[bytes]) -> None:
    file.flush()  # `seek` alone stays within the buffer, and another process may read the file
    file.seek(0)
