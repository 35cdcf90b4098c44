import time

from tests.jobs.support import Log, Note, handler, working

from mercato.db.engine import Database
from mercato.jobs import enqueue


async def test_a_job_starts_within_milliseconds_of_the_commit(db: Database) -> None:
    log = Log()
    async with working(db, {"note": handler(log)}):
        async with db.write() as tx:
            await enqueue(tx, "note", Note("warm"))
        await log.wait_for(1)
        delays = []
        for number in range(50):
            async with db.write() as tx:
                await enqueue(tx, "note", Note(str(number)))
            committed = time.perf_counter()
            await log.wait_for(number + 2)
            delays.append(time.perf_counter() - committed)
    assert sorted(delays)[25] < 0.05
