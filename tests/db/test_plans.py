"""A statement is prepared while a network is new and empty, and its plan stays when the tables have grown."""

import re
from importlib import import_module
from pkgutil import walk_packages

from sqlalchemy import Executable, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.exc import DBAPIError
from tests.databases import only_postgresql

import mercato.features
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.statements import Compiler, _prepared

READS_WHOLE_TABLES = re.compile(r"(Hash|Merge) (\w+ )*Join")


@only_postgresql
async def test_no_join_that_a_transaction_plans_on_an_empty_database_reads_whole_tables(db: Database):
    for module in walk_packages(mercato.features.__path__, "mercato.features."):
        if not module.name.startswith("mercato.features.schema"):
            import_module(module.name)
    async with db.write() as tx:
        await tx.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
        plans = [await explain(tx, statement) for statement in _prepared]
    known = [plan for plan in plans if plan is not None]
    assert len(known) > 90, "most are PostgreSQL's, too"
    wrong = [plan for plan in known if READS_WHOLE_TABLES.search(plan)]
    assert not wrong, "\n\n".join(wrong)


async def explain(tx: Write, statement: Executable) -> str | None:
    """Return the statement with its plan for any values; None if it is only for SQLite."""
    if isinstance(statement, sqlite.Insert):
        return None
    sql = Compiler(asyncpg.dialect()).compile(statement, {}).sql
    values = ", ".join(["NULL"] * len(set(re.findall(r"\$\d+", sql))))
    await tx.execute(text("SAVEPOINT before"))
    try:
        await tx.execute(text(f"PREPARE explained AS {sql}".replace(":", "\\:")))
    except DBAPIError:
        await tx.execute(text("ROLLBACK TO before"))
        return None
    plan = await tx.all(text(f"EXPLAIN EXECUTE explained {f'({values})' if values else ''}"))
    await tx.execute(text("DEALLOCATE explained"))
    return "\n".join([sql, *(row[0] for row in plan)])
