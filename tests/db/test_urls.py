import asyncio
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from tests.databases import only_postgresql
from tests.waiting import PATIENCE

from mercato.kernel.db import postgresql
from mercato.kernel.db.engine import Database
from mercato.kernel.db.errors import UnusableUrl


@pytest.mark.parametrize("url", ["mysql://somewhere/x", "http:///x"])
def test_a_url_of_another_database_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///"):
        Database.open(url)


def test_a_path_is_a_sqlite_file(tmp_path: Path) -> None:
    assert Database.open(str(tmp_path / "x.db")).url == f"sqlite:///{tmp_path / 'x.db'}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mercato:hun@ter2:4x@host/d",
        "postgresql://mercato:hunter2@host:hunter2/d",
        "postgresql://mercato:hunter2@[::1/d",
        "postgresql:hunter2",
    ],
)
def test_a_malformed_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UnusableUrl) as caught:
        Database.open(url)
    assert not {"ter2", "hunter2", "4x"} & set(str(caught.value).replace(":", " ").replace("@", " ").split())
    assert caught.value.__suppress_context__


@only_postgresql
@pytest.mark.parametrize("mode", ["sslmode", "ssl"])
async def test_a_url_may_have_the_options_of_libpq(database_url: str, mode: str) -> None:
    received = asyncio.Event()
    url = f"{database_url}{'&' if '?' in database_url else '?'}{mode}=prefer&application_name=shop"
    async with Database.open(url) as db, db.read() as tx:
        assert await tx.scalar(text("SELECT 1")) == 1
    listening = asyncio.create_task(postgresql.listen(url, "news", lambda _: received.set()))
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(
            {listening, asyncio.ensure_future(received.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
    assert received.is_set()
    listening.cancel()


@pytest.mark.parametrize("query", ["host=/nowhere&host={}", "host={}&host=/nowhere", "host=/nowhere,{}"])
@only_postgresql
async def test_each_of_several_hosts_is_tried(database_url: str, query: str) -> None:
    whole = make_url(database_url)
    home = whole.query.get("host")
    if home is None:
        pytest.skip("the server is not on a socket")
    url = whole.set(query={}).render_as_string(hide_password=False)
    async with Database.open(f"{url}?{query.format(home)}") as db, db.read() as tx:
        assert await tx.scalar(text("SELECT 1")) == 1


@pytest.mark.parametrize("url", ["postgresql://u:hunter2@127.0.0.1:1/d?sslmode=perhaps"])
async def test_an_unknown_option_of_the_driver_is_refused(url: str) -> None:
    async with Database.open(url) as db:
        with pytest.raises(UnusableUrl, match="sslmode") as caught:
            async with db.read() as tx:
                await tx.scalar(text("SELECT 1"))
    assert "hunter2" not in str(caught.value)
