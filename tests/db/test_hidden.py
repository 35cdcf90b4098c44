"""Customers' data and secrets never appear in logs, nor in the message of a database error."""

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from mercato.platform.db.engine import Database
from mercato.platform.db.tables import changes


async def test_a_database_errors_message_contains_no_value_of_a_row(db: Database):
    with pytest.raises(IntegrityError) as caught:
        async with db.write() as tx:
            await tx.execute(insert(changes).values(topic=None, key="secret-value", at=None))
    assert "secret-value" not in str(caught.value).split("DETAIL")[0]
