"""The database's clock, so that many processes agree on what is due and who has lost his lease."""

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class now_ms(FunctionElement[int]):  # noqa: N801  # it is written as the function that it is
    """Milliseconds since 1970 as the statement begins: on PostgreSQL the server's, on SQLite this machine's.

    Compares with an `Instant` column and adds up with integers: `now_ms() + 15_000`.
    """

    type = BigInteger()
    inherit_cache = True
    name = "now_ms"


@compiles(now_ms, "sqlite")
def _on_sqlite(_element: now_ms, _compiler: Any, **_options: Any) -> str:
    # julianday and not unixepoch('subsec'), which SQLite learnt in 3.42. A double holds it to 0.04 ms.
    return "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"


@compiles(now_ms, "postgresql")
def _on_postgresql(_element: now_ms, _compiler: Any, **_options: Any) -> str:
    # statement_timestamp is STABLE, so an index on an instant can be searched with it.
    return "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
