"""A fresh database for every test: a copy of a template file, or of a template on one shared server."""

import fcntl
import inspect
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

import asyncpg
import pytest
from tests.sessions import forget, keep, keeping

from mercato.features.schema import SCHEMA
from mercato.platform.db.engine import Database
from mercato.platform.db.migrate import migrate
from mercato.platform.db.url import sqlalchemy_url

KINDS = ("sqlite", "postgresql")

only_sqlite = pytest.mark.parametrize("database_kind", ["sqlite"])
only_postgresql = pytest.mark.parametrize("database_kind", ["postgresql"])

first_on_postgresql = pytest.mark.first_on_postgresql
"""All examples of a test's sentence run on SQLite, and the first one on PostgreSQL; `make test-long` runs the others.

For examples that differ before they reach SQL: what is sent to the database is the same, or nothing.
"""

mostly_sqlite = pytest.mark.mostly_sqlite
"""The tests of a module run on SQLite, and on PostgreSQL with `make test-long` or `--database postgresql`.

For rules that are decided before SQL: other tests send the same statements to PostgreSQL each time. A test of the
module that sends one that no other sends, or is about what happens at once, runs `on_both`.
"""

on_both = pytest.mark.on_both
"""A test of a module that is `mostly_sqlite` which runs on PostgreSQL, too, each time."""

# Inherited by xdist's workers, so that they all share one server and one set of templates.
_DIRECTORY = "MERCATO_TEST_DIRECTORY"
_OWNER = "MERCATO_TEST_OWNER"

_SCHEMA = os.environ.get("MERCATO_TEST_SCHEMA", "")
"""A schema of PostgreSQL, in which all tests then run instead of `public`."""

_PREFIX = "mercato-tests-"

_ROOM = 2 * 1024**3

_numbers = count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--database", choices=KINDS, help="run the tests on this database only")


def pytest_configure(config: pytest.Config) -> None:
    directory = make_directory()
    if directory is not None:
        # For every other temporary file, too: a commit takes seconds on a disk that others keep busy.
        os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
        config.option.basetemp = config.option.basetemp or directory / "tmp"


def make_directory() -> Path | None:
    """Make the directory of this run, in memory if there is room; return it, or None if another process has made it."""
    if _DIRECTORY in os.environ:
        return None
    memory = _in_memory()
    _sweep(memory or Path(tempfile.gettempdir()))
    directory = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=memory)
    os.environ[_DIRECTORY], os.environ[_OWNER] = directory, str(os.getpid())
    return Path(directory)


def _in_memory() -> Path | None:
    """Where files live in memory, if there is room: a copy of a database takes a tenth of the time there."""
    memory = Path("/dev/shm")  # noqa: S108  # a directory of our own is made in it
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM
    return memory if roomy else None


def _sweep(parent: Path) -> None:
    """Remove the files of killed runs."""
    for directory in parent.glob(f"{_PREFIX}*"):
        owner = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(directory, ignore_errors=True)


def pytest_unconfigure() -> None:
    if os.environ.get(_OWNER) != str(os.getpid()):
        return
    directory = Path(os.environ.pop(_DIRECTORY))
    _stop_server(directory)
    shutil.rmtree(directory, ignore_errors=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that need a database on both kinds, unless the test names one."""
    named = [
        mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args[0] == "database_kind"
    ]
    if "database_kind" in metafunc.fixturenames and not named:
        metafunc.parametrize("database_kind", KINDS)


# Before tests are chosen by their marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.getoption("--database")
    if chosen is None:
        _mark_long(items)
        return
    unwanted = {item for item in items if _kind_of(item) not in {None, chosen}}
    if unwanted:
        config.hook.pytest_deselected(items=list(unwanted))
        items[:] = [item for item in items if item not in unwanted]


def _mark_long(items: list[pytest.Item]) -> None:
    """On PostgreSQL, leave what is `mostly_sqlite`, and further `first_on_postgresql` examples, to `make test-long`."""
    begun: set[tuple[Path, str]] = set()
    for item in items:
        if _kind_of(item) != "postgresql":
            continue
        is_further = False
        if item.get_closest_marker(first_on_postgresql.name):
            test = (item.path, getattr(item, "originalname", item.name))
            is_further = test in begun
            begun.add(test)
        is_mostly_sqlite = item.get_closest_marker(mostly_sqlite.name) and not item.get_closest_marker(
            on_both.name
        )
        if is_further or is_mostly_sqlite:
            item.add_marker(pytest.mark.long)


def _kind_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("database_kind")


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database_kind: str) -> str:
    """The URL of a new database with the whole schema and no rows."""
    # A service, or `db`, in the loop that all tests share can take the sessions of the one before.
    keeps = (
        database_kind == "postgresql"
        and not {"mercato", "db"}.isdisjoint(request.fixturenames)
        and inspect.iscoroutinefunction(getattr(request.node, "function", None))
    )
    url: str = request.getfixturevalue("database_with_sessions" if keeps else "fresh_database")
    return url


@pytest.fixture
async def fresh_database(database_kind: str) -> AsyncIterator[str]:
    async with new_database(database_kind) as url:
        yield url


@pytest.fixture(scope="session")
async def kept_sessions() -> AsyncIterator[None]:
    async with keeping():
        yield


@pytest.fixture
async def database_with_sessions(kept_sessions: None) -> AsyncIterator[str]:
    server = await postgresql_server()
    url = _kept.pop() if _kept else await _create(server)
    kept = keep(url, _plain(url))
    yield url
    if await _emptied(await kept.emptying(), sessions=kept.sessions):
        _kept.append(url)
    else:
        await forget(url)
        await _drop(server, url)


@asynccontextmanager
async def new_database(kind: str) -> AsyncIterator[str]:
    """Make a database with the whole schema and no rows; it is there while the block runs."""
    if kind == "sqlite":
        name = f"test_{os.getpid()}_{next(_numbers)}"
        with tempfile.TemporaryDirectory(prefix=name, dir=os.environ[_DIRECTORY]) as directory:
            path = Path(directory) / "mercato.db"
            shutil.copyfile(await sqlite_template(), path)
            yield f"sqlite:///{path}"
        return
    server = await postgresql_server()
    url = _clean.pop() if _clean else await _create(server)
    yield url
    if await _emptied_by_itself(url):
        _clean.append(url)
    else:
        await _drop(server, url)


async def _create(server: str) -> str:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    await run(server, f"CREATE DATABASE {name} TEMPLATE template_mercato STRATEGY wal_log")
    return with_database(server, name)


async def _drop(server: str, url: str) -> None:
    await run(server, f"DROP DATABASE {sqlalchemy_url(url).database} WITH (FORCE)")


_clean: list[str] = []
"""The URLs of emptied databases of this process: emptying one takes a sixth of the time of a copy."""

_kept: list[str] = []
"""Those of emptied databases with open sessions."""

_SHAPE = """
SELECT md5(string_agg(fact, ';' ORDER BY fact)) FROM (
    SELECT concat_ws(' ', c.relname, a.attnum, a.attname, a.atttypid, a.attnotnull) AS fact
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
    UNION ALL SELECT concat_ws(' ', conrelid, pg_get_constraintdef(oid)) FROM pg_constraint
        WHERE connamespace = quote_ident(current_schema())::regnamespace
    UNION ALL SELECT concat_ws(' ', nspname, nspacl) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'
    UNION ALL SELECT concat_ws(' ', tgrelid, tgname, tgenabled) FROM pg_trigger
    UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace
    UNION ALL SELECT version_num FROM alembic_version
    UNION ALL SELECT 'analyzed ' || starelid FROM pg_statistic WHERE starelid >= 16384
    UNION ALL SELECT concat_ws(' ', setconfig) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase
        WHERE d.datname = current_database()
) AS facts
"""
_FILLED = """
SELECT oid::regclass::text AS name, pg_relation_size(oid) AS bytes FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
    AND pg_relation_size(oid) > 0
"""
_SEQUENCES = """
SELECT setval(quote_ident(sequencename)::regclass, start_value, false) FROM pg_sequences
WHERE schemaname = current_schema() AND last_value IS NOT NULL
"""
_BLOATED = 2**20


async def _emptied_by_itself(url: str) -> bool:
    connection = await asyncpg.connect(_plain(url))
    try:
        return await _emptied(connection, sessions=0)
    finally:
        await connection.close()


async def _emptied(connection: asyncpg.Connection, *, sessions: int) -> bool:
    """Empty a database that has its original schema and no users; return whether it was emptied.

    `sessions` are open beside the connection and idle.
    """
    shape = (Path(os.environ[_DIRECTORY]) / "shape").read_text()
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    if await connection.fetchval(others) > sessions or await connection.fetchval(_SHAPE) != shape:
        return False
    filled = await connection.fetch(_FILLED)
    if any(table["bytes"] > _BLOATED for table in filled):
        return False
    # A replica's role fires no triggers, foreign keys among them, so that any order will do.
    await connection.execute("SET session_replication_role = replica")
    for table in filled:
        await connection.execute(f"DELETE FROM {table['name']}")  # noqa: S608  # a name of our own
    await connection.execute(_SEQUENCES)
    return True


async def _ask(url: str, query: str) -> str:
    connection = await asyncpg.connect(_plain(url))
    try:
        return str(await connection.fetchval(query))
    finally:
        await connection.close()


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    async with Database.open(database_url) as database:
        yield database


async def sqlite_template() -> Path:
    path = Path(os.environ[_DIRECTORY]) / "template.db"
    with _locked("sqlite"):
        if not path.exists():
            unfinished = path.with_suffix(".new")
            await migrate(f"sqlite:///{unfinished}", SCHEMA)
            unfinished.rename(path)
    return path


async def postgresql_server() -> str:
    """Return the URL of the server's own database, with the template beside it; start what is missing."""
    directory = Path(os.environ[_DIRECTORY])
    done = directory / "template-postgresql"
    if done.exists():
        return done.read_text()
    with _locked("postgresql"):
        if not done.exists():
            url = os.environ.get("MERCATO_TEST_POSTGRES_URL") or _start_server(directory)
            await run(url, "DROP DATABASE IF EXISTS template_mercato")
            await migrate(await create_database(url, "template_mercato"), SCHEMA)
            # Kept, because nothing may be connected to a template while it is copied.
            (directory / "shape").write_text(await _ask(with_database(url, "template_mercato"), _SHAPE))
            done.write_text(url)
    return done.read_text()


async def create_database(server: str, name: str) -> str:
    """Make an empty database and return its URL."""
    await run(server, f"CREATE DATABASE {name}")
    url = with_database(server, name)
    if _SCHEMA:
        await run(url, f"CREATE SCHEMA {_SCHEMA}")
    return url


def with_database(url: str, name: str) -> str:
    """Return the URL of another database of the server, in the tests' schema if they have one of their own."""
    own = {"options": f"-csearch_path={_SCHEMA}"} if _SCHEMA else {}
    return sqlalchemy_url(url).set(database=name).update_query_dict(own).render_as_string(hide_password=False)


def _plain(url: str) -> str:
    return sqlalchemy_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


async def run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(_plain(url))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _start_server(directory: Path) -> str:
    home = directory / "postgresql"
    home.mkdir()
    script = Path(__file__).with_name("postgres_server.py")
    server = subprocess.Popen([sys.executable, script, home, os.environ[_OWNER]], start_new_session=True)
    (directory / "server.pid").write_text(str(server.pid))
    until = time.monotonic() + 60
    while not (home / "ready").exists():
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"PostgreSQL did not start:\n{(home / 'log').read_text()}")
        time.sleep(0.05)
    # It belongs to the run, so this worker doesn't wait for it.
    server.returncode = 0
    return f"postgresql://postgres@/postgres?host={home}"


def _stop_server(directory: Path) -> None:
    note = directory / "server.pid"
    if not note.exists():
        return
    process = int(note.read_text())
    for _ in range(100):
        if not Path(f"/proc/{process}").exists() or _is_zombie(process):
            return
        os.kill(process, signal.SIGTERM)
        time.sleep(0.05)


def _is_zombie(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Hold a lock that all workers of this run share; its holder may await, because it is alone in its process."""
    with (Path(os.environ[_DIRECTORY]) / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


__all__ = ["database_url", "db", "only_postgresql", "only_sqlite"]
