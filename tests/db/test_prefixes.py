"""Ids are accepted in full or as an unambiguous prefix, and shortened only where that is unambiguous."""

from uuid import UUID

import pytest
from sqlalchemy import Column, insert

from mercato.platform.db.engine import Database
from mercato.platform.db.search import UnknownIdError, get_id, shorten
from mercato.platform.db.tables import write_probes

IDS: Column[UUID] = write_probes.c.id
FIRST = UUID("01963f5e-0000-7000-8000-000000000001")
SECOND = UUID("01963f5e-0000-7000-8000-000000000002")
OTHER = UUID("ff000000-0000-7000-8000-000000000000")


@pytest.fixture
async def stored(db: Database) -> Database:
    async with db.write() as tx:
        rows = [{"id": one, "filler": b""} for one in (FIRST, SECOND, OTHER)]
        await tx.execute(insert(write_probes), rows)
    return db


@pytest.mark.parametrize("text", [str(OTHER), OTHER.hex, "f", "FF00", "ff000000-0", " ff "])
async def test_an_id_is_found_by_its_whole_text_and_by_its_beginning(stored: Database, text: str):
    async with stored.read() as tx:
        assert await get_id(tx, IDS, text, noun="thing") == OTHER


@pytest.mark.parametrize(
    "text", ["", "-", "a", "ff1", str(FIRST)[:-1] + "3", f"{FIRST}0", "thing", "%", "f\0"]
)
async def test_a_text_that_no_id_begins_with_is_unknown(stored: Database, text: str):
    async with stored.read() as tx:
        with pytest.raises(UnknownIdError, match="There is no thing"):
            await get_id(tx, IDS, text, noun="thing")


async def test_a_beginning_that_several_ids_share_is_refused(stored: Database):
    async with stored.read() as tx:
        with pytest.raises(UnknownIdError, match="More than one thing fits 0196"):
            await get_id(tx, IDS, "0196", noun="thing")


async def test_ids_are_as_short_as_no_other_id_of_the_table_allows(stored: Database):
    async with stored.read() as tx:
        assert await shorten(tx, IDS, [OTHER]) == {OTHER: "ff000000"}
        assert await shorten(tx, IDS, [FIRST, OTHER]) == {FIRST: str(FIRST), OTHER: str(OTHER)}
        assert await shorten(tx, IDS, []) == {}


async def test_an_id_alone_is_short(db: Database):
    async with db.write() as tx:
        await tx.execute(insert(write_probes), [{"id": FIRST, "filler": b""}])
    async with db.read() as tx:
        assert await shorten(tx, IDS, [FIRST]) == {FIRST: "01963f5e"}
