"""The database's clock, so that many processes agree on what is due and who has lost his lease."""

from typing import Any, Final, Literal

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

Dialect = Literal["sqlite", "postgresql"]


class now_ms(FunctionElement[int]):  # noqa: N801  # it is written as the function that it is
    """Milliseconds since 1970 as the statement begins: on PostgreSQL the server's, on SQLite this machine's.

    Compares with an `Instant` column and adds up with integers: `now_ms() + 15_000`.
    """

    type = BigInteger()
    inherit_cache = True
    name = "now_ms"


NOW: Final[dict[Dialect, str]] = {
    # julianday and not unixepoch('subsec'), which SQLite learnt in 3.42. A double holds it to 0.04 ms.
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    # statement_timestamp is STABLE, so an index on an instant can be searched with it.
    "postgresql": "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)",
}


@compiles(now_ms)
def _compile(_element: now_ms, compiler: Any, **_options: Any) -> str:
    return NOW[compiler.dialect.name]
