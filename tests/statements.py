"""Records which statements each test sends to PostgreSQL, and names those that no test sends any more.

    MERCATO_TEST_STATEMENTS=/tmp/before make test ARGS="-p tests.statements tests"
    python -m tests.statements /tmp/before /tmp/after

A module may only become `mostly_sqlite` if nothing is lost by it.
"""

import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

FILE: Final = "MERCATO_TEST_STATEMENTS"
"""The variable with the file, to which every worker appends."""

_NUMBERS: Final = re.compile(r"(?<=\$)\d+|(?<=[a-z]_)\d+")
_LISTS: Final = re.compile(r"\(\$[^(),]*(, *\$[^(),]*)+\)")


def form_of(sql: str) -> str:
    """Return a statement without what differs by how many values it has."""
    return _LISTS.sub("(…)", _NUMBERS.sub("", sql))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    from mercato.platform.db.postgresql import Connection

    sent: set[str] = set()
    call = Connection._call

    async def record(connection: Connection, sql: str, *arguments: Any) -> Any:
        sent.add(form_of(sql))
        return await call(connection, sql, *arguments)

    with patch.object(Connection, "_call", record):
        result = yield
    if sent:
        with Path(os.environ[FILE]).open("a") as file:
            file.write(json.dumps([item.nodeid, sorted(sent)]) + "\n")
    return result


def read(file: str) -> dict[str, list[str]]:
    """Return the tests that sent each statement."""
    senders: dict[str, list[str]] = defaultdict(list)
    for line in Path(file).read_text().splitlines():
        test, statements = json.loads(line)
        for statement in statements:
            senders[statement].append(test)
    return senders


if __name__ == "__main__":
    before, after = map(read, sys.argv[1:])
    for lost in before.keys() - after.keys():
        print(f"{lost}\n    was sent by {', '.join(before[lost][:3])}")  # noqa: T201
    sys.exit(bool(before.keys() - after.keys()))
