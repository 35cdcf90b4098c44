"""What a database error means: the database is unavailable, a constraint refused the row, or it is a bug.

Endless work on the database goes on after each of them: an outage is one line in the log, and longer pauses.
"""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Constraint, Index, exc
from sqlalchemy.sql.schema import ColumnCollectionConstraint

if TYPE_CHECKING:
    # Imported when it is used: a start on SQLite doesn't load it.
    import asyncpg

# SQLite: busy or locked by another process, disk full, unreadable, cannot be opened.
# Not READONLY: a write through a reader's handle raises it, which is a bug.
_SQLITE_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
}

# PostgreSQL, by class of SQLSTATE: connection lost, a transaction to be retried (serialisation, deadlock), out of disk,
# memory or connections, stopped by the operator or a timeout, a broken disk, a lock that is taken.
_POSTGRES_UNAVAILABLE = ("08", "40", "53", "57", "58", "55P03")

_READ_ONLY: Final = "25006"


class UnusableUrl(ValueError):  # noqa: N818  # a fault of the settings, shown as it is
    """The URL doesn't name a database that can be used here."""


class DatabaseUnavailable(Exception):  # noqa: N818  # a state of the world, as `Problem` is
    """The database could not be reached, or had no free connection."""


async def acquire(room: asyncio.Lock | asyncio.Semaphore, seconds: float) -> None:
    """Acquire the lock or semaphore. Raises DatabaseUnavailable if it isn't free within `seconds`."""
    if not room.locked():
        await room.acquire()
        return
    try:
        async with asyncio.timeout(seconds):
            await room.acquire()
    except TimeoutError:
        raise DatabaseUnavailable(f"no connection to the database was free within {seconds:g} s") from None


def no_connection(error: BaseException) -> DatabaseUnavailable:
    """Return the error for a connection that wasn't made; it says why, and a timeout has no text of its own."""
    reason = getattr(error, "strerror", None) or str(error)
    return DatabaseUnavailable(f"no connection to PostgreSQL: {reason or 'it did not answer in time'}")


def is_unavailable(error: BaseException) -> bool:
    """Return whether the database is busy, full or not reachable, so that the same request may succeed later."""
    if isinstance(error, DatabaseUnavailable):
        return True
    return any(_is_unavailable(cause) for cause in _chain(error))


def is_unique_violation(error: BaseException, constraint: Constraint | Index | None = None) -> bool:
    """Return whether a unique index or constraint refused the row: the given one, or any if none is given."""
    if not isinstance(error, exc.IntegrityError):
        return False
    return any(_refused_by(cause, constraint) for cause in _chain(error))


def is_read_only(error: BaseException) -> bool:
    """Return whether PostgreSQL refused a write: the server is a replica, or its administrator allows reads alone."""
    return any(getattr(cause, "sqlstate", None) == _READ_ONLY for cause in _chain(error))


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the errors that opening or using a connection may raise, asyncpg's own among them."""
    # Imported when something has failed: a start on SQLite doesn't load asyncpg.
    import asyncpg

    return (
        OSError,
        exc.SQLAlchemyError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        # One of them says that none of the servers is the primary.
        asyncpg.InternalClientError,
    )


def is_locked(error: sqlite3.Error) -> bool:
    """Return whether another process holds SQLite's lock."""
    return _primary_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code; 0 for an error of the driver's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def database_error(error: Exception, sql: str = "") -> exc.DBAPIError:
    """Return SQLAlchemy's error for a driver's, without the values of a row: an error's text goes into logs."""
    kind = next((kind for name, kind in _KINDS if _is_a(error, name)), exc.DBAPIError)
    return kind(sql, None, error, hide_parameters=True)


_KINDS: Final[tuple[tuple[str, type[exc.DBAPIError]], ...]] = (
    ("IntegrityError", exc.IntegrityError),
    ("IntegrityConstraintViolationError", exc.IntegrityError),
    ("OperationalError", exc.OperationalError),
    ("DataError", exc.DataError),
    ("ProgrammingError", exc.ProgrammingError),
    ("SyntaxOrAccessError", exc.ProgrammingError),
)
"""By the class names of `sqlite3` and asyncpg: asyncpg is imported only where it is used."""


def _is_a(error: Exception, name: str) -> bool:
    return any(base.__name__ == name for base in type(error).__mro__)


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, down to the driver's own."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 5:  # noqa: PLR2004  # SQLAlchemy wraps the driver's error twice
        chain.append(cause)
        cause = getattr(cause, "orig", None) or cause.__cause__
    return chain


def _is_unavailable(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return _primary_code(error) in _SQLITE_UNAVAILABLE
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_POSTGRES_UNAVAILABLE)
    if isinstance(error, asyncpg.InternalClientError):
        # The server ended the session between two messages: asyncpg does not expect that, and closes the connection.
        return True
    # asyncpg raises InterfaceError for wrong arguments, too; those are bugs.
    return isinstance(error, asyncpg.InterfaceError) and any(
        word in str(error) for word in ("closed", "released")
    )


def _refused_by(error: BaseException, constraint: Constraint | Index | None) -> bool:
    if isinstance(error, sqlite3.IntegrityError):
        return _sqlite_refused_by(str(error), constraint)
    import asyncpg

    if isinstance(error, asyncpg.UniqueViolationError):
        return constraint is None or _names(error, str(constraint.name))
    return False


def _names(error: "asyncpg.UniqueViolationError", constraint: str) -> bool:
    """Return whether the error names the constraint: a distributed database may do so in its message alone.

    There it is a shard's, with the shard's number: `uq_jobs_dedup_102030`.
    """
    if error.constraint_name is not None:
        return bool(error.constraint_name == constraint)
    return re.search(rf"(?<!\w){re.escape(constraint)}(_\d+)?(?!\w)", str(error)) is not None


def _sqlite_refused_by(message: str, constraint: Constraint | Index | None) -> bool:
    """SQLite names the columns (`UNIQUE constraint failed: t.a, t.b`), or an index of expressions."""
    kind, _, subject = message.partition(" constraint failed: ")
    if kind != "UNIQUE":
        return False
    if constraint is None or subject == f"index '{constraint.name}'":
        return True
    if not isinstance(constraint, Index | ColumnCollectionConstraint):
        return False
    return subject == ", ".join(f"{column.table.name}.{column.name}" for column in constraint.columns)


MAX_PAUSE: Final = 4.0
"""Greatest number of seconds between two attempts after failures, unless the usual pause is longer."""

MAX_DOUBLED: Final = 3
"""How often the pause is doubled after consecutive failures."""


async def repeat(
    action: Callable[[], Awaitable[None]],
    *,
    seconds: float,
    log: Any,
    unavailable: str,
    bug: str,
    pause: Callable[[float], Awaitable[bool | None]] = asyncio.sleep,
) -> None:
    """Repeat the action, with a pause of `seconds` after each run, until cancelled or until `pause` returns True.

    What the action raises doesn't end it. The first of consecutive failures is logged: a warning `unavailable` while
    the database doesn't answer, else the error `bug`.
    """
    failures = 0
    ended: bool | None = False
    while not ended:
        try:
            await action()
            failures = 0
        except Exception as error:  # logged; a loop that ends would stop what it does for ever
            failures += 1
            if failures > 1:
                pass
            elif is_unavailable(error) or isinstance(error, TimeoutError):
                log.warning(unavailable, error=type(error).__name__)
            else:
                log.exception(bug)
        ended = await pause(min(seconds * 2 ** min(failures, MAX_DOUBLED), max(seconds, MAX_PAUSE)))
