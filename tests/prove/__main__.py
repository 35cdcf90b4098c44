"""`make prove`, the crash proof: real processes, killed at any instant, and records that must agree at the end.

It talks to the service as partners do, over HTTP and the command line. Only the service's own records are read from its
database, after the last kill. PostgreSQL is the tests' own unless MERCATO_TEST_POSTGRES_URL names one.
"""

import asyncio
import sys

from tests import databases
from tests.prove.command import main


def postgresql_url() -> str:
    return asyncio.run(databases.postgresql_server())


if __name__ == "__main__":
    databases.make_directory()
    try:
        sys.exit(main(sys.argv[1:], postgresql_url=postgresql_url))
    finally:
        databases.pytest_unconfigure()
