"""Whether the database can be written: a full disk and a read-only server answer every read."""

import asyncio
from time import monotonic
from typing import Final

from sqlalchemy import delete, insert

from mercato.kernel.clock import new_id
from mercato.kernel.db.engine import Database
from mercato.kernel.db.errors import DatabaseAway, connection_errors
from mercato.kernel.db.tables import write_probes

EVERY_SECONDS: Final = 1.0
"""How long an answer holds: whoever asks more often costs no more writes."""

WRITE_SECONDS: Final = 5.0
"""How long one write may take, its wait for other writers included."""

FILLER: Final = bytes(8 * 1024)
"""More than a page of SQLite, so that the write needs room that is not there on a full disk."""


class WriteProbe:
    """Commits a small row when it is asked, at most once a second."""

    def __init__(self, db: Database, *, every: float = EVERY_SECONDS, seconds: float = WRITE_SECONDS) -> None:
        self._db = db
        self._every = every
        self._seconds = seconds
        self._probing = asyncio.Lock()
        self._until = 0.0
        self._failure: str | None = None

    async def check(self) -> None:
        """Return if the last write succeeded. Raises DatabaseAway."""
        async with self._probing:
            if monotonic() >= self._until:
                self._failure = await self._write()
                self._until = monotonic() + self._every
        if self._failure is not None:
            raise DatabaseAway(self._failure)

    async def _write(self) -> str | None:
        """Return why a row cannot be written, or None."""
        row_id = new_id()
        try:
            async with asyncio.timeout(self._seconds), self._db.write() as tx:
                await tx.execute(insert(write_probes).values(id=row_id, filler=FILLER))
                await tx.execute(delete(write_probes).where(write_probes.c.id != row_id))
        except TimeoutError:
            return "a write to the database did not end in time"
        except DatabaseAway as error:
            return str(error)
        except connection_errors() as error:
            return f"the database cannot be written: {error}"
        return None
