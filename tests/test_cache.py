"""What was read is kept within a weight, never after a change, and read once for all that wait for it."""

import asyncio
from typing import Any

import pytest

from mercato.platform import cache as module
from mercato.platform.cache import READ_ATTEMPTS, Cache
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable


class Source:
    """Values by key as a database has them; `pause` holds up reads, `fault` fails them."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.reads = 0
        self.fault: Exception | None = None
        self.pause: asyncio.Event | None = None

    async def read(self, key: str) -> str | None:
        self.reads += 1
        value = self.values.get(key)
        if self.pause is not None:
            await self.pause.wait()
        if self.fault is not None:
            raise self.fault
        return value


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that moves when the test moves it."""
    time = [1_000.0]
    monkeypatch.setattr(module, "monotonic", lambda: time[0])
    return time


async def get(cache: Cache[str, str], source: Source, key: str = "a") -> str | None:
    return await cache.get(key, source.read, key)


async def started(source: Source, reads: int = 1) -> None:
    while source.reads < reads:
        await asyncio.sleep(0)


async def test_a_value_is_read_once_and_lookups_are_counted() -> None:
    cache, source = Cache[str, str](capacity=10), Source(a="1")
    assert [await get(cache, source) for _ in range(3)] == ["1", "1", "1"]
    assert (source.reads, cache.lookups.hits, cache.lookups.misses) == (1, 2, 1)


async def test_a_hit_does_not_suspend_its_caller() -> None:
    cache, source = Cache[str, str](capacity=10), Source(a="1")
    await get(cache, source)
    with pytest.raises(StopIteration):
        get(cache, source).send(None)


async def test_the_least_recently_used_are_evicted_by_weight_and_one_value_is_always_kept() -> None:
    cache = Cache[str, str](capacity=4, weigh=len)
    source = Source(a="11", b="22", c="3", long="too long")
    for key in "abac":
        await get(cache, source, key)
    assert [cache.find(key) for key in "abc"] == ["11", None, "3"]
    await get(cache, source, "long")
    assert (cache.find("long"), len(cache)) == ("too long", 1)
    await get(cache, source, "c")
    assert (cache.find("c"), len(cache)) == ("3", 1)


async def test_the_weight_is_right_after_values_were_replaced_and_dropped() -> None:
    cache, source = Cache[str, str](capacity=4, weigh=len), Source(a="1111", b="2", c="333")
    for _ in range(5):
        await cache.refresh("a", source.read, "a")
        cache.put("a", "1")
        cache.forget("a")
    cache.put("b", "2")
    await get(cache, source, "c")
    assert len(cache) == 2
    cache.forget_all()
    cache.put("a", "1111")
    assert cache.find("a") == "1111"


async def test_a_value_that_is_too_old_is_read_again(time: list[float]) -> None:
    cache, source = Cache[str, str](capacity=10, seconds=60), Source(a="1")
    await get(cache, source)
    source.values["a"] = "2"
    time[0] += 59.9
    assert await get(cache, source) == "1"
    time[0] += 0.1
    assert cache.find("a") is None
    assert await get(cache, source) == "2"


async def test_what_does_not_exist_is_not_kept() -> None:
    cache, source = Cache[str, str](capacity=10), Source()
    assert await get(cache, source) is None
    source.values["a"] = "1"
    assert await get(cache, source) == "1"


async def test_an_old_value_is_dropped_when_it_no_longer_exists(time: list[float]) -> None:
    cache, source = Cache[str, str](capacity=10, seconds=60, outage_pause=5), Source(a="1")
    await get(cache, source)
    time[0] += 60
    source.values.clear()
    assert await get(cache, source) is None
    assert len(cache) == 0


async def test_concurrent_callers_share_one_read_and_one_error() -> None:
    cache, source = Cache[str, str](capacity=10), Source(a="1")
    assert set(await asyncio.gather(*(get(cache, source) for _ in range(50)))) == {"1"}
    assert source.reads == 1
    source.fault = ZeroDivisionError()
    found = await asyncio.gather(*(get(cache, source, "b") for _ in range(50)), return_exceptions=True)
    assert all(isinstance(one, ZeroDivisionError) for one in found)
    assert source.reads == 2


async def test_a_caller_that_is_cancelled_does_not_cancel_the_read_for_others() -> None:
    cache, source = Cache[str, str](capacity=10), Source(a="1")
    source.pause = asyncio.Event()
    leaving, staying = (asyncio.create_task(get(cache, source)) for _ in range(2))
    await started(source)
    leaving.cancel()
    source.pause.set()
    assert await staying == "1"
    assert (leaving.cancelled(), source.reads) == (True, 1)


async def test_an_absence_is_not_shared_because_it_may_be_older_than_the_call() -> None:
    cache, source = Cache[str, str](capacity=10), Source()
    source.pause = asyncio.Event()
    first = asyncio.create_task(get(cache, source))
    await started(source)
    source.values["a"] = "1"
    second = asyncio.create_task(get(cache, source))
    await asyncio.sleep(0)
    source.pause.set()
    assert (await first, await second) == (None, "1")


@pytest.mark.parametrize("change", ["forget", "forget_if", "forget_all"])
async def test_a_value_that_a_change_overtakes_is_read_again_and_joined_by_no_later_call(change: str) -> None:
    cache, source = Cache[str, str](capacity=10), Source(a="old")
    source.pause = first_pause = asyncio.Event()
    first = asyncio.create_task(get(cache, source))
    await started(source)
    source.values["a"] = "new"
    changes: dict[str, Any] = {"forget": ("a",), "forget_if": (lambda _: False,), "forget_all": ()}
    getattr(cache, change)(*changes[change])
    source.pause = None
    assert await get(cache, source) == "new"
    first_pause.set()
    assert await first == "new"
    assert cache.find("a") == "new"


async def test_a_value_that_changes_during_every_read_is_returned_but_not_kept() -> None:
    cache, source = Cache[str, str](capacity=10), Source(a="1")

    async def busy() -> str | None:
        value = await source.read("a")
        cache.forget("a")
        return value

    assert await cache.get("a", busy) == "1"
    assert (source.reads, len(cache)) == (READ_ATTEMPTS, 0)


async def test_a_refresh_sees_what_was_committed_before_it_and_joins_no_earlier_read() -> None:
    cache, source = Cache[str, str](capacity=10), Source(a="old")
    source.pause = asyncio.Event()
    earlier = asyncio.create_task(get(cache, source))
    await started(source)
    source.values["a"] = "new"
    fresh = asyncio.create_task(cache.refresh("a", source.read, "a"))
    await started(source, 2)
    source.pause.set()
    assert await fresh == "new"
    await earlier


async def test_values_stay_valid_while_the_database_is_unavailable_and_reads_are_rare(
    time: list[float],
) -> None:
    cache, source = Cache[str, str](capacity=10, seconds=60, outage_pause=5), Source(a="1")
    await get(cache, source)
    source.fault = DatabaseUnavailable("away")
    time[0] += 3600
    assert {await get(cache, source) for _ in range(10)} == {"1"}
    assert source.reads == 2
    time[0] += 5
    await get(cache, source)
    assert source.reads == 3


async def test_an_error_that_is_no_outage_is_raised_though_an_old_value_is_there(time: list[float]) -> None:
    cache, source = Cache[str, str](capacity=10, seconds=60, outage_pause=5), Source(a="1")
    await get(cache, source)
    time[0] += 60
    source.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await get(cache, source)


async def test_without_an_outage_pause_an_outage_is_an_error(time: list[float]) -> None:
    cache, source = Cache[str, str](capacity=10, seconds=60), Source(a="1")
    await get(cache, source)
    time[0] += 60
    source.fault = DatabaseUnavailable("away")
    with pytest.raises(DatabaseUnavailable):
        await get(cache, source)


async def test_a_changed_value_is_not_returned_during_an_outage_but_a_lost_feed_outdates_none() -> None:
    cache, source = Cache[str, str](capacity=10, outage_pause=5), Source(a="1", b="2")
    await get(cache, source)
    await get(cache, source, "b")
    source.fault = DatabaseUnavailable("away")
    cache.forget("a")
    cache.forget_all()
    with pytest.raises(DatabaseUnavailable):
        await get(cache, source)
    assert await get(cache, source, "b") == "2"


async def test_a_cache_follows_the_changes_of_its_topic(db: Database) -> None:
    feed, cache, source = ChangeFeed(db), Cache[str, str](capacity=10), Source(a="1", b="2")
    cache.follow(feed, "letters", str.lower)
    await get(cache, source)
    await get(cache, source, "b")
    feed._deliver_own("1 numbers A")
    feed._deliver_own("2 letters A")
    assert (cache.find("a"), cache.find("b")) == (None, "2")
    await feed.poll()  # the first poll: anything may have changed
    assert len(cache) == 0
