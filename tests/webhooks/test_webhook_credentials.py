"""Cached signing secrets; a rotation or a new token is effective everywhere within a second."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.databases import mostly_sqlite, on_both
from tests.waiting import loop_timeout
from tests.webhooks.harness import TOKEN, Harness

from mercato.features.partners import accounts
from mercato.features.partners.credentials import TOPIC
from mercato.features.partners.webhook_tokens import UNBOUND, set_webhook_token
from mercato.features.webhooks import credentials
from mercato.features.webhooks.credentials import Credentials, WebhookCredentials
from mercato.platform import cache as platform_cache
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato_contract.clock import new_id

pytestmark = mostly_sqlite


def known(harness: Harness, *, limit: int = 10) -> WebhookCredentials:
    return WebhookCredentials(
        harness.db, ChangeFeed(harness.db), harness.vault, lambda: harness.now, limit=limit
    )


async def rotate(harness: Harness, overlap: timedelta = timedelta(hours=1)) -> str:
    async with harness.db.write() as tx:
        return await accounts.rotate_signing_secret(
            tx, harness.vault, harness.partner.id, overlap=overlap, now=lambda: harness.now
        )


class Away:
    """Keeps the database from being read, and counts who asks."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        monkeypatch.setattr(harness.db, "read", self.read)

    def read(self) -> Any:
        self.asked += 1
        raise DatabaseUnavailable("it is not there")


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that moves when the test moves it."""
    time = [1_000.0]
    monkeypatch.setattr(platform_cache, "monotonic", lambda: time[0])
    return time


async def test_credentials_are_read_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = known(harness)
    assert not cache.is_cached(harness.partner.id)
    first = await cache.get(harness.partner.id)
    assert first == Credentials((harness.partner.signing_secret,), {UNBOUND: TOKEN})
    Away(harness, monkeypatch)
    assert cache.is_cached(harness.partner.id)
    assert await cache.get(harness.partner.id) == first


@on_both
async def test_concurrent_calls_share_one_read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, real, readings = known(harness), harness.db.read, 0

    def counted() -> Any:
        nonlocal readings
        readings += 1
        return real()

    monkeypatch.setattr(harness.db, "read", counted)
    await asyncio.gather(*(cache.get(harness.partner.id) for _ in range(50)))
    assert readings == 1


@on_both
async def test_a_call_that_is_cancelled_during_the_read_does_not_cancel_it_for_others(
    harness: Harness,
) -> None:
    cache = known(harness)
    leaving = asyncio.create_task(cache.get(harness.partner.id))
    staying = asyncio.create_task(cache.get(harness.partner.id))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).tokens == {UNBOUND: TOKEN}


async def test_after_a_rotation_the_old_secret_ends_without_another_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = known(harness)
    new = await rotate(harness)
    assert (await cache.get(harness.partner.id)).secrets == (new, harness.partner.signing_secret)
    Away(harness, monkeypatch)
    harness.now += timedelta(hours=1)
    assert (await cache.get(harness.partner.id)).secrets == (new,)


@on_both
async def test_a_change_is_effective_at_once_in_its_own_process(harness: Harness) -> None:
    cache = known(harness)
    await cache.get(harness.partner.id)
    new = await rotate(harness, timedelta(0))
    assert not cache.is_cached(harness.partner.id)
    assert (await cache.get(harness.partner.id)).secrets == (new,)
    async with harness.db.write() as tx:
        await set_webhook_token(tx, harness.vault, harness.partner.id, None)
    assert (await cache.get(harness.partner.id)).tokens == {}


@asynccontextmanager
async def another_process(
    harness: Harness, database_url: str
) -> AsyncIterator[tuple[WebhookCredentials, asyncio.Event]]:
    async with Database.open(database_url) as elsewhere:
        feed, heard, ready = ChangeFeed(elsewhere), asyncio.Event(), asyncio.Event()
        cache = WebhookCredentials(elsewhere, feed, harness.vault, lambda: harness.now)
        feed.subscribe(TOPIC, lambda key: (ready if key is None else heard).set())
        running = asyncio.create_task(feed.run())
        await ready.wait()
        yield cache, heard
        feed.stop()
        await running


async def test_a_rotation_is_effective_in_another_process_within_a_second(
    harness: Harness, database_url: str
) -> None:
    async with another_process(harness, database_url) as (there, heard):
        await there.get(harness.partner.id)
        new = await rotate(harness)
        async with loop_timeout(1):
            await heard.wait()
        assert not there.is_cached(harness.partner.id)
        assert (await there.get(harness.partner.id)).secrets == (new, harness.partner.signing_secret)


async def test_a_new_token_is_effective_in_another_process_within_a_second(
    harness: Harness, database_url: str
) -> None:
    async with another_process(harness, database_url) as (there, heard):
        await there.get(harness.partner.id)
        async with harness.db.write() as tx:
            await set_webhook_token(tx, harness.vault, harness.partner.id, "tk_new")
        async with loop_timeout(1):
            await heard.wait()
        assert (await there.get(harness.partner.id)).tokens == {UNBOUND: "tk_new"}


async def test_credentials_are_read_again_after_60_seconds(harness: Harness, steady: list[float]) -> None:
    cache = known(harness)
    await cache.get(harness.partner.id)
    steady[0] += 59.9
    assert cache.is_cached(harness.partner.id)
    steady[0] += 0.1
    assert not cache.is_cached(harness.partner.id)
    await cache.get(harness.partner.id)
    assert cache.is_cached(harness.partner.id)


@on_both
async def test_cached_credentials_stay_valid_while_the_database_is_unavailable_and_reads_are_rare(
    harness: Harness, steady: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = known(harness)
    first = await cache.get(harness.partner.id)
    away = Away(harness, monkeypatch)
    steady[0] += 3600
    for _ in range(10):
        assert await cache.get(harness.partner.id) == first
    assert away.asked == 1
    steady[0] += 5
    await cache.get(harness.partner.id)
    assert away.asked == 2


@on_both
async def test_cached_credentials_survive_a_lost_change_feed_while_the_database_is_unavailable(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ChangeFeed(harness.db)
    cache = WebhookCredentials(harness.db, feed, harness.vault, lambda: harness.now)
    first = await cache.get(harness.partner.id)
    await feed.poll()  # the first poll: anything may have changed
    assert not cache.is_cached(harness.partner.id)
    Away(harness, monkeypatch)
    assert await cache.get(harness.partner.id) == first


async def test_an_unavailable_database_is_an_error_for_a_partner_that_is_not_cached(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    Away(harness, monkeypatch)
    with pytest.raises(DatabaseUnavailable):
        await known(harness).get(harness.partner.id)


async def test_a_read_that_hangs_times_out(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "READ_SECONDS", 0.02)
    cache, never = known(harness), asyncio.Event()

    @asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        await never.wait()
        raise DatabaseUnavailable("it came back too late")
        yield

    monkeypatch.setattr(harness.db, "read", stuck)
    with pytest.raises(DatabaseUnavailable, match="could not be read in time"):
        await cache.get(harness.partner.id)
    never.set()


async def test_a_change_during_a_read_leaves_nothing_stale(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, real, begun, go = known(harness), harness.db.read, asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow() -> AsyncIterator[Any]:
        async with real() as tx:
            begun.set()
            yield tx
            await go.wait()

    monkeypatch.setattr(harness.db, "read", slow)
    reading = asyncio.create_task(cache.get(harness.partner.id))
    await begun.wait()
    monkeypatch.setattr(harness.db, "read", real)
    new = await rotate(harness, timedelta(0))
    assert (await cache.get(harness.partner.id)).secrets == (new,)
    go.set()
    await reading
    assert (await cache.get(harness.partner.id)).secrets == (new,)


async def test_the_least_recently_used_credentials_are_dropped(harness: Harness) -> None:
    cache, others = known(harness, limit=2), [new_id(), new_id()]
    await cache.get(harness.partner.id)
    await cache.get(others[0])
    await cache.get(harness.partner.id)
    await cache.get(others[1])
    assert cache.is_cached(harness.partner.id)
    assert not cache.is_cached(others[0])


def test_no_repr_shows_a_secret() -> None:
    assert "whsec" not in repr(Credentials(("whsec_c2VjcmV0",), {"": "tk"}))
    assert "tk" not in repr(Credentials(("whsec_c2VjcmV0",), {"": "tk"}))
