"""Limits that all servers count together, in a loopback server with Redis' protocol."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from fakeredis import TcpFakeServer
from tests.partners.support import HandClock
from tests.service import service
from tests.waiting import PATIENCE, loop_timeout

from mercato.features.partners import shared_limits as module
from mercato.features.partners.limits import Limiter
from mercato.features.partners.model import Caller, Limits, Surface
from mercato.features.partners.shared_limits import SharedLimiter
from mercato_contract.clock import new_id
from mercato_contract.texts import Secret
from mercato_tools.settings import SettingsError


@contextmanager
def redis(port: int = 0) -> Iterator[int]:
    """Run a server; yield its port."""
    server = TcpFakeServer(("127.0.0.1", port))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def limiter(
    port: int, now: HandClock, *, writes: int = 10, workers: int = 2
) -> AsyncIterator[SharedLimiter]:
    own = Limiter(reads=1000, writes=writes, discovery=60, workers=workers, clock=now)
    shared = SharedLimiter(f"redis://127.0.0.1:{port}/0", own, now)
    await shared.start()
    try:
        yield shared
    finally:
        await shared.close()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    # A machine that runs all tests at once is slower than any network.
    monkeypatch.setattr(module, "COUNT_TIMEOUT", 5.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.02)


@pytest.fixture
def now() -> HandClock:
    return HandClock()


def caller(limits: Limits | None = None) -> Caller:
    return Caller(new_id(), new_id(), Surface.COMMERCE, limits or Limits())


async def test_servers_count_together_and_to_the_whole_limit(now: HandClock) -> None:
    who = caller()
    with redis() as port:
        async with limiter(port, now) as one, limiter(port, now) as other:
            left = [
                (await (one if number % 2 else other).take(who, "writes")).remaining for number in range(10)
            ]
            assert left == list(range(9, -1, -1))
            refused = await one.take(who, "writes")
            assert (refused.remaining, refused.wait) == (0, refused.reset - int(now().timestamp()))
            assert (await other.take(who, "reads")).wait is None
            assert (await other.take(caller(), "writes")).remaining == 9
            now.advance(timedelta(minutes=1))
            assert (await other.take(who, "writes")).remaining == 9


async def test_how_much_is_used_is_what_all_servers_have_counted(now: HandClock) -> None:
    who = caller()
    with redis() as port:
        async with limiter(port, now) as one, limiter(port, now) as other:
            assert await one.used(who, "writes") == 0
            for _ in range(11):
                await other.take(who, "writes")
            assert (await one.used(who, "writes"), await one.used(who, "reads")) == (10, 0)
            now.advance(timedelta(minutes=1))
            assert await one.used(who, "writes") == 0


async def test_without_redis_how_much_is_used_is_what_this_process_has_counted(now: HandClock) -> None:
    who = caller()
    with redis() as port:
        pass
    async with limiter(port, now) as alone:
        assert not alone.connected
        await alone.take(who, "writes")
        assert await alone.used(who, "writes") == 1


async def test_a_partners_own_limit_holds(now: HandClock) -> None:
    who = caller(Limits(writes=1))
    with redis() as port:
        async with limiter(port, now) as one, limiter(port, now) as other:
            assert (await one.take(who, "writes")).wait is None
            assert (await other.take(who, "writes")).wait is not None


async def test_concurrent_requests_are_counted_once_each(
    now: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = caller()
    monkeypatch.setattr(module, "COUNT_TIMEOUT", PATIENCE)
    with redis() as port:
        async with limiter(port, now, writes=50) as one, limiter(port, now, writes=50) as other:
            quotas = await asyncio.gather(
                *(which.take(who, "writes") for which in (one, other) for _ in range(40))
            )
            assert sum(quota.wait is None for quota in quotas) == 50


async def test_without_redis_each_server_counts_its_share_logs_it_once_and_reconnects(
    now: HandClock,
) -> None:
    who = caller()
    with structlog.testing.capture_logs() as lines:
        with redis() as port:
            async with limiter(port, now) as one:
                assert (await one.take(who, "writes")).remaining == 9
                await one._redis.connection_pool.disconnect()
                stopped = port
        # The port is closed now.
        async with limiter(stopped, now) as one:
            assert not one.connected
            taken = [await one.take(who, "writes") for _ in range(6)]
            assert [quota.wait is None for quota in taken] == [True] * 5 + [False]
            assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
                "rate limits are counted by each server: no Redis"
            ]
            with redis(stopped):
                async with asyncio.timeout(PATIENCE):
                    while not one.connected:
                        await asyncio.sleep(0.01)
                assert (await one.take(who, "writes")).remaining == 9


async def test_a_silent_redis_delays_one_request_and_no_other(
    now: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COUNT_TIMEOUT", 0.05)
    heard = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    own = Limiter(reads=1000, writes=10, discovery=60, clock=now)
    shared = SharedLimiter(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", own, now)
    try:
        async with loop_timeout(5):
            assert (await shared.take(caller(), "writes")).remaining == 9
        assert heard.is_set()
        assert not shared.connected
        # From memory, without a wait.
        assert (await shared.take(caller(), "writes")).remaining == 9
    finally:
        await shared.close()
        server.close()


async def test_a_redis_that_answers_but_cannot_count_is_retried_occasionally(
    now: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 60.0)
    who = caller()
    with redis() as port, structlog.testing.capture_logs() as lines:
        async with limiter(port, now, workers=1) as one:
            # Not a number, so it can't be incremented.
            key = f"mercato:writes:{who.partner_id.hex}:{int(now().timestamp()) // 60}"
            await one._redis.lpush(key, "x")
            for left in range(9, 4, -1):
                assert (await one.take(who, "writes")).remaining == left
                await asyncio.sleep(0.05)
            assert not one.connected
    assert [line["event"] for line in lines] == ["rate limits are counted by each server: no Redis"]


async def test_two_servers_refuse_a_partner_together(database_url: str, tmp_path: Path) -> None:
    with redis() as port:
        options: dict[str, Any] = {
            "rate_limits": True,
            "rate_limit_reads": 5,
            "redis_url": Secret(f"redis://127.0.0.1:{port}"),
        }
        async with (
            service(database_url, tmp_path / "data", works=False, **options) as one,
            service(database_url, tmp_path / "data", works=False, **options) as other,
        ):
            _, pos = await one.partner()
            statuses = []
            for number in range(6):
                pos.base = (one if number % 2 else other).base
                reply = await pos.get("/v1/commerce/stores")
                statuses.append(reply.status)
            # The sixth, unless a minute has just begun.
            assert statuses[:5] == [200] * 5
            assert statuses[5] == 429 or reply.headers["X-RateLimit-Remaining"] != "0"
            assert reply.headers["X-RateLimit-Limit"] == "5"


@pytest.mark.parametrize("url", ["http://127.0.0.1", "127.0.0.1:6379"])
def test_an_invalid_address_is_refused_without_repeating_it(url: str, now: HandClock) -> None:
    with pytest.raises(SettingsError) as refused:
        SharedLimiter(url, Limiter(reads=1, writes=1, discovery=1), now)
    assert "127.0.0.1" not in str(refused.value)
