from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, Table, insert, select, text

from mercato.platform.db.engine import Database
from mercato.platform.db.types import Id, Instant, now_ms
from mercato_contract.clock import from_ms, new_id, to_ms
from mercato_contract.wire import truncated

from_1_to_9999 = st.datetimes(timezones=st.timezones())


things = Table(
    "things",
    MetaData(),
    Column("id", Id, primary_key=True),
    Column("at", Instant),
)


@pytest.fixture
async def tabled(db: Database) -> Database:
    columns = "id UUID PRIMARY KEY" if db.dialect == "postgresql" else "id CHAR(32) PRIMARY KEY"
    async with db.write() as tx:
        await tx.execute(text(f"CREATE TABLE things ({columns}, at BIGINT)"))
    return db


@given(from_1_to_9999)
def test_an_instant_keeps_its_milliseconds(instant: datetime) -> None:
    try:
        whole = truncated(instant)
    except OverflowError:
        return
    assert from_ms(to_ms(instant)) == whole


def test_an_instant_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset"):
        to_ms(datetime(2026, 1, 1))  # noqa: DTZ001  # the fault under test


async def test_written_values_are_read_back(tabled: Database) -> None:
    at = datetime(2026, 1, 31, 23, 59, 59, 123000, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    row = {"id": new_id(), "at": at}
    async with tabled.write() as tx:
        await tx.execute(insert(things).values(row))
        read = await tx.first(select(things))
    assert read is not None
    assert read._asdict() == row
    assert read.at.tzinfo is UTC


async def test_null_is_read_back_as_none(tabled: Database) -> None:
    async with tabled.write() as tx:
        await tx.execute(insert(things).values(id=new_id()))
        read = await tx.first(select(things.c.at))
    assert read == (None,)


async def test_ids_sort_by_the_time_they_were_made(tabled: Database) -> None:
    made = [UUID(int=(milliseconds << 80) | (7 << 76) | 5) for milliseconds in (1, 10, 255, 256, 1 << 40)]
    async with tabled.write() as tx:
        await tx.execute(insert(things), [{"id": one} for one in reversed(made)])
        assert [row.id for row in await tx.all(select(things.c.id).order_by(things.c.id))] == made
        assert (
            await tx.scalar(select(things.c.id).where(things.c.id > made[2]).order_by(things.c.id)) == made[3]
        )


async def test_the_databases_clock_compares_with_instants(tabled: Database) -> None:
    before = datetime.now(UTC)
    async with tabled.write() as tx:
        await tx.execute(insert(things).values(id=new_id(), at=now_ms()))
        assert await tx.scalar(select(things.c.at)) - before < timedelta(seconds=2)
        for by, found in ((-5_000, 0), (5_000, 1)):
            assert len(await tx.all(select(things).where(things.c.at < now_ms() + by))) == found
        at = await tx.scalar(select(things.c.at))
        assert len(await tx.all(select(things).where(things.c.at == at))) == 1
