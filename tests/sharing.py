"""One service for each worker and kind of database, which tests share as partners of a network do.

A test makes partners and has a merchant of its own, and looks at what is theirs. One that changes settings or the
clock, stops a service, erases people, reads everybody's rows or the log needs its own: it isn't marked `shared`.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from tests.api.trade import Time
from tests.databases import new_database
from tests.service import Mall, MerchantServer, Service, mall, merchant, service
from tests.waiting import PATIENCE

from mercato.features.events import sequencer
from mercato.features.orders import resubmission

shared = pytest.mark.service(shared=True)
"""The fixture `mercato` of these tests is the service that others have, too, unless they ask for its clock."""


def own(**settings: Any) -> pytest.MarkDecorator:
    """Let `mercato` be a service of the test's own with these settings, although its module shares."""
    return pytest.mark.service(shared=False, **settings)


PATIENT: Final = {"validate_seconds": PATIENCE, "place_seconds": PATIENCE}
"""Stores have all the time that a busy machine needs."""


class Services:
    """The services of this worker, each started for the first test that needs it.

    Of those with settings one runs at a time: what an idle service polls in a run of the tests costs more than to
    start another.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = count()
        self._running: dict[tuple[Any, ...], tuple[Service, AsyncExitStack]] = {}

    async def of(self, kind: str, **settings: Any) -> Service:
        """Return the service on this kind of database with these settings."""
        wanted = (kind, *sorted(settings.items()))
        if wanted not in self._running:
            if settings:
                await self._end([other for other in self._running if len(other) > 1])
            async with AsyncExitStack() as stack:
                url = await stack.enter_async_context(new_database(kind))
                data = self._directory / str(next(self._numbers))
                running = await stack.enter_async_context(_seldom_polling(url, data, **PATIENT | settings))
                self._running[wanted] = running, stack.pop_all()
        return self._running[wanted][0]

    async def close(self) -> None:
        await self._end(list(self._running))

    async def _end(self, ended: list[tuple[Any, ...]]) -> None:
        for one in ended:
            await self._running.pop(one)[1].aclose()


@asynccontextmanager
async def _seldom_polling(url: str, data: Path, **settings: Any) -> AsyncIterator[Service]:
    """Run a service that seldom looks for what other processes have left: it is alone on its database."""
    async with AsyncExitStack() as stack:
        with patch.object(sequencer, "POLL_SECONDS", 2.0), patch.object(resubmission, "POLL_SECONDS", 8.0):
            running = await stack.enter_async_context(service(url, data, **settings))
        yield running


@pytest.fixture(scope="session")
async def merchants() -> AsyncIterator[Mall]:
    async with mall() as here:
        yield here


@pytest.fixture(scope="session")
async def services(merchants: Mall, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    # The merchants outlive the services, so that the last calls end at once rather than time out.
    assert merchants.base
    made = Services(tmp_path_factory.mktemp("services"))
    yield made
    await made.close()


@pytest.fixture
def shop(request: pytest.FixtureRequest) -> MerchantServer:
    """A merchant's web server."""
    chosen: MerchantServer = request.getfixturevalue("shared_shop" if _shares(request) else "own_shop")
    return chosen


@pytest.fixture
def shared_shop(merchants: Mall) -> Iterator[MerchantServer]:
    with merchants.merchant() as here:
        yield here


@pytest.fixture
async def own_shop() -> AsyncIterator[MerchantServer]:
    async with merchant() as here:
        yield here


@pytest.fixture
async def shared_service(services: Services, database_kind: str) -> Service:
    return await services.of(database_kind)


_OWNED = {"time", "clock_ahead", "database_url"}
"""Fixtures that belong to a service of the test's own."""


@pytest.fixture
def time() -> Time:
    """The clock of the test's own service."""
    return Time()


@pytest.fixture
async def own_service(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path, shop: MerchantServer, time: Time
) -> AsyncIterator[Service]:
    # The merchant outlives the service, so that the last pulls end at once rather than time out.
    assert shop.base
    mark = request.node.get_closest_marker("service")
    settings = {} if mark is None else PATIENT | mark.kwargs
    settings.pop("shared", None)
    async with service(database_url, tmp_path / "data", now=time, **settings) as running:
        yield running


@pytest.fixture
def mercato(request: pytest.FixtureRequest, database_kind: str) -> Service:
    """A running service with background work."""
    chosen: Service = request.getfixturevalue("shared_service" if _shares(request) else "own_service")
    return chosen


def _shares(request: pytest.FixtureRequest) -> bool:
    mark = request.node.get_closest_marker("service")
    return mark is not None and mark.kwargs["shared"] and not _OWNED & set(request.fixturenames)
