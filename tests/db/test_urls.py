import asyncio
from pathlib import Path
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import make_url, text
from tests.databases import only_postgresql
from tests.waiting import PATIENCE

from mercato.platform.db import postgresql
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import UnusableUrl
from mercato.platform.db.url import driver_url, is_postgresql, sqlalchemy_url

# The scheme's own names are what a careless rewrite of the scheme finds in other parts.
NAMES = st.sampled_from(["postgres", "postgresql", "postgres:", "ssl"]) | st.text(min_size=1, max_size=12)
PORTS = st.none() | st.integers(1, 65535)
HOSTS = st.one_of(
    st.sampled_from(
        ["postgres", "postgresql", "127.0.0.1", "[::1]", "[fe80::1%25eth0]", "%2Frun%2Fpostgres"]
    ),
    st.from_regex(r"[a-z][a-z0-9-]{0,10}(\.[a-z]{2,5})?", fullmatch=True),
)
HOST_LISTS = st.lists(st.sampled_from(["postgres", "a:5433", "/run/postgres:", "[::1]:1"]), max_size=3)
OPTIONS = st.dictionaries(
    st.sampled_from(["application_name", "options", "sslrootcert", "target_session_attrs", "postgres"]),
    st.sampled_from(["-csearch_path=x -cgeqo=off", "read-write", "postgres:"])
    | st.text(min_size=1, max_size=12),
)


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


@given(
    scheme=st.sampled_from(["postgres", "postgresql", "postgresql+asyncpg"]),
    user=NAMES,
    password=st.none() | NAMES,
    host=HOSTS,
    port=PORTS,
    name=NAMES,
    hosts=HOST_LISTS,
    options=OPTIONS,
)
@example("postgresql", "postgres", "x", "h", None, "m", [], {})
@example("postgresql", "u", "x", "postgres", 5432, "m", [], {})
@example("postgres", "u", "postgres:", "h", 5432, "m", ["postgres:1", "b:2"], {"options": "-csearch_path=x"})
def test_only_the_scheme_of_a_url_is_rewritten(
    scheme: str,
    user: str,
    password: str | None,
    host: str,
    port: int | None,
    name: str,
    hosts: list[str],
    options: dict[str, str],
) -> None:
    login = quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}")
    address = host if port is None else f"{host}:{port}"
    pairs = [("host", one) for one in hosts] + list(options.items())
    query = "&".join(f"{key}={quote_plus(value)}" for key, value in pairs)
    written = f"{scheme}://{login}@{address}/{quote(name, safe='')}{'?' if query else ''}{query}"
    assert is_postgresql(written)

    # As asyncpg and libpq read it.
    read = urlsplit(driver_url(written))
    read_login, _, read_address = read.netloc.partition("@")
    read_user, colon, read_password = read_login.partition(":")
    assert read.scheme == "postgresql"
    assert (unquote(read_user), unquote(read_password) if colon else None) == (user, password)
    assert (read_address, unquote(read.path)) == (address, f"/{name}")
    expected = {"host": ",".join(hosts), **options} if hosts else options
    assert dict(parse_qsl(read.query, strict_parsing=bool(query))) == expected

    parsed = sqlalchemy_url(written)
    assert (parsed.username, parsed.password, parsed.port) == (user, password, port)
    assert (parsed.host, parsed.database) == (host.strip("[]"), name)


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
