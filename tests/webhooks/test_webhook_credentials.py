"""Decisions §9: what signs now, from memory; a rotation or a new token holds within a second everywhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.webhooks.house import TOKEN, House

from mercato.domain.partners import accounts
from mercato.domain.partners.credentials import TOPIC
from mercato.domain.partners.webhook_tokens import UNBOUND, set_webhook_token
from mercato.domain.webhooks import credentials
from mercato.domain.webhooks.credentials import Credentials, WebhookCredentials
from mercato.kernel.clock import new_id
from mercato.kernel.db.changes import ChangeFeed
from mercato.kernel.db.engine import Database
from mercato.kernel.db.errors import DatabaseUnavailable


def known(house: House, *, limit: int = 10) -> WebhookCredentials:
    return WebhookCredentials(house.db, ChangeFeed(house.db), house.vault, lambda: house.now, limit=limit)


async def rotate(house: House, overlap: timedelta = timedelta(hours=1)) -> str:
    async with house.db.write() as tx:
        return await accounts.rotate_signing_secret(
            tx, house.vault, house.partner.id, overlap=overlap, now=lambda: house.now
        )


class Away:
    """Keeps the database from being read, and counts who asks."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        monkeypatch.setattr(house.db, "read", self.read)

    def read(self) -> Any:
        self.asked += 1
        raise DatabaseUnavailable("it is not there")


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that moves when the test moves it."""
    time = [1_000.0]
    monkeypatch.setattr(credentials, "monotonic", lambda: time[0])
    return time


async def test_they_are_read_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = known(house)
    assert cache.cached(house.partner.id) is None
    first = await cache.get(house.partner.id)
    assert first == Credentials((house.partner.signing_secret,), {UNBOUND: TOKEN})
    Away(house, monkeypatch)
    assert await cache.get(house.partner.id) == cache.cached(house.partner.id) == first


async def test_many_that_ask_at_once_cost_one_reading(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, real, readings = known(house), house.db.read, 0

    def counted() -> Any:
        nonlocal readings
        readings += 1
        return real()

    monkeypatch.setattr(house.db, "read", counted)
    await asyncio.gather(*(cache.get(house.partner.id) for _ in range(50)))
    assert readings == 1


async def test_one_that_leaves_while_it_is_read_takes_nothing_from_the_others(house: House) -> None:
    cache = known(house)
    leaving = asyncio.create_task(cache.get(house.partner.id))
    staying = asyncio.create_task(cache.get(house.partner.id))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).tokens == {UNBOUND: TOKEN}


async def test_during_a_rotation_there_are_two_and_after_it_the_new_one_without_a_reading(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = known(house)
    new = await rotate(house)
    assert (await cache.get(house.partner.id)).secrets == (new, house.partner.signing_secret)
    Away(house, monkeypatch)
    house.now += timedelta(hours=1)
    assert (await cache.get(house.partner.id)).secrets == (new,)


async def test_a_change_holds_at_once_in_the_process_that_makes_it(house: House) -> None:
    cache = known(house)
    await cache.get(house.partner.id)
    new = await rotate(house, timedelta(0))
    assert cache.cached(house.partner.id) is None
    assert (await cache.get(house.partner.id)).secrets == (new,)
    async with house.db.write() as tx:
        await set_webhook_token(tx, house.vault, house.partner.id, None)
    assert (await cache.get(house.partner.id)).tokens == {}


@asynccontextmanager
async def another_process(
    house: House, database_url: str
) -> AsyncIterator[tuple[WebhookCredentials, asyncio.Event]]:
    async with Database.open(database_url) as elsewhere:
        feed, heard, ready = ChangeFeed(elsewhere), asyncio.Event(), asyncio.Event()
        cache = WebhookCredentials(elsewhere, feed, house.vault, lambda: house.now)
        feed.subscribe(TOPIC, lambda key: (ready if key is None else heard).set())
        running = asyncio.create_task(feed.run())
        await ready.wait()
        yield cache, heard
        feed.stop()
        await running


async def test_a_rotation_holds_in_another_process_within_a_second(house: House, database_url: str) -> None:
    async with another_process(house, database_url) as (there, heard):
        await there.get(house.partner.id)
        new = await rotate(house)
        async with asyncio.timeout(1):
            await heard.wait()
        assert there.cached(house.partner.id) is None
        assert (await there.get(house.partner.id)).secrets == (new, house.partner.signing_secret)


async def test_a_new_token_holds_in_another_process_within_a_second(house: House, database_url: str) -> None:
    async with another_process(house, database_url) as (there, heard):
        await there.get(house.partner.id)
        async with house.db.write() as tx:
            await set_webhook_token(tx, house.vault, house.partner.id, "tk_new")
        async with asyncio.timeout(1):
            await heard.wait()
        assert (await there.get(house.partner.id)).tokens == {UNBOUND: "tk_new"}


async def test_they_are_read_again_after_60_seconds_whatever_was_heard(
    house: House, steady: list[float]
) -> None:
    cache = known(house)
    await cache.get(house.partner.id)
    steady[0] += 59.9
    assert cache.cached(house.partner.id) is not None
    steady[0] += 0.1
    assert cache.cached(house.partner.id) is None
    await cache.get(house.partner.id)
    assert cache.cached(house.partner.id) is not None


async def test_while_the_database_is_away_what_is_known_goes_on_and_it_is_seldom_asked(
    house: House, steady: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = known(house)
    first = await cache.get(house.partner.id)
    away = Away(house, monkeypatch)
    steady[0] += 3600
    for _ in range(10):
        assert await cache.get(house.partner.id) == first
    assert away.asked == 1
    steady[0] += 5
    await cache.get(house.partner.id)
    assert away.asked == 2


async def test_while_the_database_is_away_a_missed_change_does_not_take_what_is_known(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ChangeFeed(house.db)
    cache = WebhookCredentials(house.db, feed, house.vault, lambda: house.now)
    first = await cache.get(house.partner.id)
    await feed.poll()  # the first one: anything may have changed
    assert cache.cached(house.partner.id) is None
    Away(house, monkeypatch)
    assert await cache.get(house.partner.id) == first


async def test_of_a_partner_that_is_not_known_a_database_that_is_away_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    Away(house, monkeypatch)
    with pytest.raises(DatabaseUnavailable):
        await known(house).get(house.partner.id)


async def test_a_database_that_never_answers_is_not_waited_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "READ_SECONDS", 0.02)
    cache, never = known(house), asyncio.Event()

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        await never.wait()
        raise DatabaseUnavailable("it came back too late")
        yield

    monkeypatch.setattr(house.db, "read", stuck)
    with pytest.raises(DatabaseUnavailable, match="could not be read in time"):
        await cache.get(house.partner.id)
    never.set()


async def test_a_change_that_overtakes_a_reading_leaves_nothing_stale(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, real, begun, go = known(house), house.db.read, asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow() -> AsyncIterator[Any]:
        async with real() as tx:
            begun.set()
            yield tx
            await go.wait()

    monkeypatch.setattr(house.db, "read", slow)
    reading = asyncio.create_task(cache.get(house.partner.id))
    await begun.wait()
    monkeypatch.setattr(house.db, "read", real)
    new = await rotate(house, timedelta(0))
    assert (await cache.get(house.partner.id)).secrets == (new,)
    go.set()
    await reading
    assert (await cache.get(house.partner.id)).secrets == (new,)


async def test_as_many_are_held_as_may_be_the_least_recently_used_out(house: House) -> None:
    cache, others = known(house, limit=2), [new_id(), new_id()]
    await cache.get(house.partner.id)
    await cache.get(others[0])
    cache.cached(house.partner.id)
    await cache.get(others[1])
    assert cache.cached(house.partner.id) is not None
    assert cache.cached(others[0]) is None


def test_no_repr_shows_a_secret() -> None:
    assert "whsec" not in repr(Credentials(("whsec_c2VjcmV0",), {"": "tk"}))
    assert "tk" not in repr(Credentials(("whsec_c2VjcmV0",), {"": "tk"}))
