"""Write the first revision anew from the tables: `python -m mercato.kernel.db.autogen`, then `make format`.

Only until the first release: from then on `0001` is history, and a change of the tables is a revision.
"""

from pathlib import Path
from typing import Any, Literal

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.autogenerate.api import AutogenContext
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from mercato.kernel.db.tables import metadata
from mercato.kernel.db.tables.discovery import WORDS_DDL
from mercato.kernel.db.types import Id, Instant, Json

_TARGET = Path(__file__).parent / "migrations" / "versions" / "0001_initial.py"

_PAGE = '''"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    {body}
    words = {words}
    for statement in words[op.get_bind().dialect.name]:
        op.execute(statement)
'''

# A revision never changes, so it names the database's own types and not ours, which may.
_PLAIN = {Instant: "sa.BigInteger()", Id: "sa.Uuid()", Json: "sa.Text()"}


def main() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"render_item": _render, "compare_type": True})
        operations = produce_migrations(context, metadata).upgrade_ops
    engine.dispose()
    assert operations is not None
    body = render_python_code(
        operations, sqlalchemy_module_prefix="sa.", alembic_module_prefix="op.", render_item=_render
    )
    body = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("# ###")).strip()
    _TARGET.write_text(_PAGE.format(body=body, words=WORDS_DDL), encoding="utf-8")


def _render(kind: str, value: Any, _context: AutogenContext) -> str | Literal[False]:
    return _PLAIN.get(type(value), False) if kind == "type" else False


if __name__ == "__main__":
    main()
