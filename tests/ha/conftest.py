"""The tests of this directory need a cluster: `make test-ha` runs them, where one can be had."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.ha.cluster import Cluster, missing, running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.nodeid.startswith("tests/ha/")]
    if os.environ.get("MERCATO_TEST_HA") != "1":
        skip = pytest.mark.skip(reason="`make test-ha` kills the servers of a database")
    elif (needed := missing()) is not None:
        skip = pytest.mark.skip(reason=f"needs {needed}")
    else:
        return
    for item in here:
        item.add_marker(skip)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def cluster() -> AsyncIterator[Cluster]:
    """One for all tests: each leaves it whole, with synchronous commits."""
    async with running() as whole:
        yield whole
