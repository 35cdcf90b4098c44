"""The versions of stores as they are committed now: what validations and refused placements wait for."""

import asyncio
from uuid import UUID

from mercato.db.engine import Database
from mercato.stores import queries


class Versions:
    """Reads versions. Those that are asked for while a read runs come together with the next one."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[UUID, asyncio.Future[int | None]] = {}
        self._at_work: asyncio.Task[None] | None = None

    async def find(self, store_id: UUID) -> int | None:
        """Return the store's version by a read that begins after this call; None if it is not there."""
        future = self._waiting.get(store_id)
        if future is None:
            future = self._waiting[store_id] = asyncio.get_running_loop().create_future()
            if self._at_work is None:
                self._at_work = asyncio.create_task(self._work(), name="versions")
        # Others may wait for the same.
        return await asyncio.shield(future)

    async def _work(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, {}
                await self._answer(asked)
        finally:
            self._at_work = None

    async def _answer(self, asked: dict[UUID, asyncio.Future[int | None]]) -> None:
        try:
            async with self._db.read() as tx:
                found = await queries.find_versions(tx, store_ids=list(asked))
        except Exception as error:  # noqa: BLE001  # raised where the version was asked for
            for future in asked.values():
                future.set_exception(error)
                future.exception()  # whoever asked may have left
            return
        for store_id, future in asked.items():
            future.set_result(found.get(store_id))
