"""`make prove`: the crash proof, with a PostgreSQL of the tests' own unless MERCATO_TEST_POSTGRES_URL names one."""

import asyncio
import sys

from tests import databases

from mercato.prove.command import main


def postgresql_url() -> str:
    return asyncio.run(databases.postgresql_server())


if __name__ == "__main__":
    databases.pytest_configure()
    try:
        sys.exit(main(sys.argv[1:], postgresql_url=postgresql_url))
    finally:
        databases.pytest_unconfigure()
