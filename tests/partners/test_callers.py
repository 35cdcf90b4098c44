"""A cached key is checked without a database read, and a revoked key is refused everywhere within 2 s."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
import structlog
from tests.databases import mostly_sqlite, on_both
from tests.partners.support import HOUR, SECOND, TOKENS, HandClock, make_partner
from tests.waiting import PATIENCE, loop_timeout

from mercato.features.partners import accounts, credentials, queries
from mercato.features.partners import callers as module
from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.callers import Callers, Claims, Tokens
from mercato.features.partners.model import Caller, Limits, Surface, new_key, prefix
from mercato.platform import cache
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.errors import DatabaseUnavailable
from mercato.platform.errors import Forbidden, Unauthenticated

pytestmark = mostly_sqlite


@pytest.fixture
def now() -> HandClock:
    return HandClock()


@pytest.fixture
async def partner(db: Database, now: HandClock) -> NewPartner:
    return await make_partner(db, now)


@pytest.fixture
async def feed(db: Database) -> ChangeFeed:
    feed = ChangeFeed(db)
    await feed.poll()
    return feed


@pytest.fixture
def callers(db: Database, feed: ChangeFeed, now: HandClock) -> Callers:
    return Callers(db, feed, TOKENS, now)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Records the lookups in the database."""
    seen: list[bytes] = []
    real = queries.find_caller_by_digest

    async def counted(tx: Read, digest: bytes) -> Any:
        seen.append(digest)
        return await real(tx, digest)

    monkeypatch.setattr(queries, "find_caller_by_digest", counted)
    return seen


def token(partner: NewPartner, surface: Surface = Surface.COMMERCE) -> bytes:
    key = partner.commerce_key if surface is Surface.COMMERCE else partner.marketfront_key
    assert key is not None
    return key.text.encode()


async def revoke(db: Database, key: bytes, now: HandClock) -> None:
    async with db.write() as tx:
        await credentials.revoke_key(tx, await credentials.get_key(tx, key.decode()), now=now)


async def refusal(callers: Callers, key: bytes) -> str:
    with pytest.raises(Unauthenticated) as caught:
        await callers.get(key)
    assert caught.value.challenge == 'Bearer error="invalid_token"'
    return caught.value.detail


@pytest.mark.parametrize("surface", Surface)
async def test_a_key_is_known_by_its_partner_surface_and_limits(
    db: Database, callers: Callers, partner: NewPartner, surface: Surface
) -> None:
    async with db.write() as tx:
        await accounts.set_limits(tx, partner.id, Limits(reads=7))
    key = next(key for key in partner.keys if key.surface is surface)
    expected = Caller(partner.id, key.id, surface, Limits(reads=7))
    assert await callers.get(token(partner, surface)) == expected
    assert callers.find_cached(token(partner, surface)) == expected


async def test_a_warm_key_costs_no_database_read(
    callers: Callers, partner: NewPartner, reads: list[bytes]
) -> None:
    assert callers.find_cached(token(partner)) is None
    first = await callers.get(token(partner))
    for _ in range(100):
        assert callers.find_cached(token(partner)) is first
        assert await callers.get(token(partner)) is first
    assert len(reads) == 1


@on_both
async def test_many_first_requests_with_one_key_read_it_a_few_times(
    callers: Callers, partner: NewPartner, reads: list[bytes]
) -> None:
    found = await asyncio.gather(*(callers.get(token(partner)) for _ in range(100)))
    assert len(set(found)) == 1
    assert len(reads) <= module.MAX_READS


async def test_an_unknown_key_is_refused_by_its_prefix_and_never_repeated(callers: Callers) -> None:
    key = new_key(Surface.COMMERCE)
    detail = await refusal(callers, key.encode())
    assert prefix(key) in detail
    assert key not in detail


@pytest.mark.parametrize(
    "key", [b"x", b"", b"\xff" * 10, b"mk_commerce_", b"mk_other_" + b"a" * 40, b"a" * 100_000]
)
async def test_what_cannot_be_a_key_is_refused_without_a_database_read(
    callers: Callers, reads: list[bytes], key: bytes
) -> None:
    assert callers.find_cached(key) is None
    await refusal(callers, key)
    assert reads == []


async def test_a_truncated_key_is_reported_differently_from_a_foreign_token(
    callers: Callers, partner: NewPartner, reads: list[bytes]
) -> None:
    assert "not complete" in await refusal(callers, token(partner)[:-1])
    assert "not a key of this service" in await refusal(callers, b"eyJhbGciOi.J9")
    assert reads == []


async def test_a_flood_with_one_wrong_key_is_one_read(callers: Callers, reads: list[bytes]) -> None:
    key = new_key(Surface.COMMERCE).encode()
    for _ in range(100):
        await refusal(callers, key)
    assert len(reads) == 1


async def test_a_wrong_key_is_looked_up_again_after_a_while(
    callers: Callers, reads: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key(Surface.COMMERCE).encode()
    await refusal(callers, key)
    later = time.monotonic() + module.REFUSED_SECONDS
    monkeypatch.setattr(cache, "monotonic", lambda: later)
    await refusal(callers, key)
    assert len(reads) == 2


@on_both
async def test_a_flood_of_wrong_keys_is_limited_in_concurrent_reads_and_memory(
    db: Database, feed: ChangeFeed, now: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers = Callers(db, feed, TOKENS, now, max_refused=10)
    running = most = 0
    real = queries.find_caller_by_digest

    async def counted(tx: Read, digest: bytes) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await real(tx, digest)
        finally:
            running -= 1

    monkeypatch.setattr(queries, "find_caller_by_digest", counted)
    await asyncio.gather(*(refusal(callers, new_key(Surface.COMMERCE).encode()) for _ in range(50)))
    assert most <= module.MAX_READS
    assert len(callers._refused) == 10


async def test_the_cache_is_bounded_and_evicts_the_least_recently_used(
    db: Database, feed: ChangeFeed, now: HandClock
) -> None:
    callers = Callers(db, feed, TOKENS, now, max_callers=2)
    one, two, three = [token(await make_partner(db, now)) for _ in range(3)]
    await callers.get(one)
    await callers.get(two)
    callers.find_cached(one)
    await callers.get(three)
    assert [callers.find_cached(key) is not None for key in (one, two, three)] == [True, False, True]


async def test_a_key_is_refused_from_the_instant_it_expires_though_it_is_warm(
    db: Database, callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    async with db.write() as tx:
        key = await credentials.create_key(
            tx,
            await accounts.get_partner(tx, partner.id),
            surface=Surface.COMMERCE,
            expires_at=now() + HOUR,
            now=now,
        )
    warm = key.text.encode()
    await callers.get(warm)
    now.advance(HOUR - SECOND)
    assert callers.find_cached(warm) is not None
    now.advance(SECOND)
    assert callers.find_cached(warm) is None
    assert "has been expired since 2026-03-01T13:00:00.000Z" in await refusal(callers, warm)


async def test_a_rolled_key_works_through_the_overlap_and_not_beyond(
    db: Database, callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    old = token(partner)
    await callers.get(old)
    async with db.write() as tx:
        made = await credentials.roll_key(
            tx, await credentials.get_key(tx, old.decode()), overlap=HOUR, now=now
        )
    new = made.text.encode()
    assert (await callers.get(old)).partner_id == (await callers.get(new)).partner_id == partner.id
    now.advance(HOUR)
    assert callers.find_cached(old) is None
    await refusal(callers, old)
    assert callers.find_cached(new) is not None


@on_both
async def test_a_revoked_key_is_refused_at_once_in_the_process_that_revokes_it(
    db: Database, callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    await callers.get(token(partner))
    await revoke(db, token(partner), now)
    assert callers.find_cached(token(partner)) is None
    assert f"{prefix(token(partner).decode())} has been revoked since" in await refusal(
        callers, token(partner)
    )


async def test_revoking_one_key_leaves_the_partners_others(
    db: Database, callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    await callers.get(token(partner))
    await revoke(db, token(partner), now)
    assert await callers.get(token(partner, Surface.MARKETFRONT)) is not None


@asynccontextmanager
async def another_process(database_url: str, now: HandClock) -> AsyncIterator[tuple[Callers, asyncio.Event]]:
    """Callers of another process with its change feed, and an event that is set when a partner changes."""
    async with Database.open(database_url) as elsewhere:
        feed = ChangeFeed(elsewhere)
        callers, heard = Callers(elsewhere, feed, TOKENS, now), asyncio.Event()
        ready = asyncio.Event()
        feed.subscribe(credentials.TOPIC, lambda key: (ready if key is None else heard).set())
        running = asyncio.create_task(feed.run())
        await ready.wait()
        yield callers, heard
        feed.stop()
        await running


async def test_a_revoked_key_is_refused_everywhere_within_2_seconds(
    db: Database, database_url: str, partner: NewPartner, now: HandClock
) -> None:
    async with another_process(database_url, now) as (there, heard):
        await there.get(token(partner))
        assert there.find_cached(token(partner)) is not None
        await revoke(db, token(partner), now)
        async with loop_timeout(2):
            await heard.wait()
        assert there.find_cached(token(partner)) is None
        await refusal(there, token(partner))


async def test_changed_limits_are_known_everywhere_within_2_seconds(
    db: Database, database_url: str, partner: NewPartner, now: HandClock
) -> None:
    async with another_process(database_url, now) as (there, heard):
        await there.get(token(partner))
        async with db.write() as tx:
            await accounts.set_limits(tx, partner.id, Limits(reads=1))
        async with loop_timeout(2):
            await heard.wait()
        assert (await there.get(token(partner))).limits == Limits(reads=1)


async def test_a_revocation_that_overtakes_a_look_up_leaves_nothing_stale(
    db: Database, callers: Callers, partner: NewPartner, now: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = queries.find_caller_by_digest
    overtaken = False

    async def slow(tx: Read, digest: bytes) -> Any:
        nonlocal overtaken
        found = await real(tx, digest)
        if not overtaken:
            overtaken = True
            await revoke(db, token(partner), now)
        return found

    monkeypatch.setattr(queries, "find_caller_by_digest", slow)
    await refusal(callers, token(partner))
    assert callers.find_cached(token(partner)) is None


async def test_a_key_that_changes_during_every_read_is_accepted_but_not_cached(
    db: Database, callers: Callers, partner: NewPartner, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = queries.find_caller_by_digest

    async def busy(tx: Read, digest: bytes) -> Any:
        found = await real(tx, digest)
        async with db.write() as other:
            await accounts.set_limits(other, partner.id, Limits(reads=1))
        return found

    monkeypatch.setattr(queries, "find_caller_by_digest", busy)
    assert (await callers.get(token(partner))).partner_id == partner.id
    assert callers.find_cached(token(partner)) is None


async def test_a_cache_without_a_change_feed_for_a_minute_is_not_used(
    callers: Callers,
    feed: ChangeFeed,
    partner: NewPartner,
    reads: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await callers.get(token(partner))
    monkeypatch.setattr(feed, "age", lambda: module.TRUST_SECONDS + 1)
    assert callers.find_cached(token(partner)) is None
    await callers.get(token(partner))
    assert len(reads) == 2
    monkeypatch.undo()
    assert callers.find_cached(token(partner)) is not None


async def test_a_key_that_cannot_be_looked_up_is_503_and_not_401(
    db: Database, feed: ChangeFeed, callers: Callers, partner: NewPartner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(tx: Read, digest: bytes) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(queries, "find_caller_by_digest", hangs)
    with pytest.raises(DatabaseUnavailable):
        await Callers(db, feed, TOKENS, timeout=SECOND / 100).get(token(partner))
    monkeypatch.undo()
    assert (await callers.get(token(partner))).partner_id == partner.id


@on_both
async def test_the_last_use_is_recorded_in_the_background_once_for_many_requests(
    db: Database, callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    async def last_use() -> Any:
        async with db.read() as tx:
            return (await credentials.get_key(tx, token(partner).decode())).last_used_at

    await callers.get(token(partner))
    assert await last_use() is None
    await callers.record_uses()
    first = now()
    assert await last_use() == first
    now.advance(HOUR)
    await callers.record_uses()
    assert await last_use() == first
    callers.find_cached(token(partner))
    await callers.record_uses()
    assert await last_use() == now()


async def test_a_use_is_recorded_soon_and_a_key_in_steady_use_once_a_minute(
    callers: Callers, partner: NewPartner, now: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.USE_SECONDS <= 5
    noted: list[Any] = []

    async def move(_tx: Any, ids: Any, *, now: Any) -> None:
        noted.append((len(ids), now))

    monkeypatch.setattr(queries, "record_key_uses", move)
    await callers.get(token(partner))
    began = now()
    for _ in range(13):
        callers.find_cached(token(partner))
        await callers.record_uses()
        now.advance(5 * SECOND)
    assert noted == [(1, began), (1, began + 60 * SECOND)]


async def test_recording_uses_resumes_after_an_unavailable_database(
    callers: Callers, partner: NewPartner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "USE_SECONDS", 0)
    failures = iter([DatabaseUnavailable("away"), ZeroDivisionError()])
    noted = asyncio.Event()

    async def notes() -> None:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        noted.set()

    monkeypatch.setattr(callers, "record_uses", notes)
    with structlog.testing.capture_logs() as logs:
        running = asyncio.create_task(callers.run())
        async with asyncio.timeout(PATIENCE):
            await noted.wait()
        running.cancel()
    assert [line["log_level"] for line in logs] == ["warning", "error"]


async def test_no_key_is_kept_in_memory_or_logged(
    callers: Callers, partner: NewPartner, db: Database, now: HandClock
) -> None:
    with structlog.testing.capture_logs() as logs:
        await callers.get(token(partner))
        await revoke(db, token(partner), now)
        detail = await refusal(callers, token(partner))
        await callers.get(token(partner, Surface.MARKETFRONT))
    for secret in (token(partner), token(partner, Surface.MARKETFRONT)):
        assert (
            secret.decode()
            not in f"{vars(callers)} {vars(callers._cache)} {vars(callers._refused)} {logs} {detail}"
        )


# --- access tokens --------------------------------------------------------------------------------


async def issue(callers: Callers, partner: NewPartner) -> bytes:
    assert partner.marketfront_key is not None
    key = partner.marketfront_key
    return (await callers.issue(key.id, key.text.encode())).text.encode()


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Records the lookups of tokens' keys in the database."""
    seen: list[UUID] = []
    real = queries.find_caller_by_key_id

    async def counted(tx: Read, key_id: UUID, partner_id: UUID) -> Any:
        seen.append(key_id)
        return await real(tx, key_id, partner_id)

    monkeypatch.setattr(queries, "find_caller_by_key_id", counted)
    return seen


async def test_a_token_needs_no_read_in_the_process_that_issued_it(
    callers: Callers, partner: NewPartner, claims: list[UUID]
) -> None:
    made = await issue(callers, partner)
    assert callers.find_cached(made) == await callers.get(token(partner, Surface.MARKETFRONT))
    assert await callers.get(made) is callers.find_cached(made)
    assert claims == []


async def test_in_other_processes_all_tokens_of_a_key_cost_one_read(
    db: Database, feed: ChangeFeed, callers: Callers, partner: NewPartner, now: HandClock, claims: list[UUID]
) -> None:
    elsewhere = Callers(db, feed, TOKENS, now)
    for _ in range(5):
        made = await issue(callers, partner)
        now.advance(SECOND)
        assert (await elsewhere.get(made)).partner_id == partner.id
        assert elsewhere.find_cached(made) is not None
    assert len(claims) == 1


async def test_a_token_expires_after_an_hour_and_its_key_does_not(
    callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    made = await issue(callers, partner)
    now.advance(HOUR - SECOND)
    assert callers.find_cached(made) is not None
    now.advance(SECOND)
    assert callers.find_cached(made) is None
    assert "has expired" in await refusal(callers, made)
    assert callers.find_cached(token(partner, Surface.MARKETFRONT)) is not None


async def test_a_token_ends_with_the_overlap_of_its_rolled_key(
    db: Database, callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    made = await issue(callers, partner)
    async with db.write() as tx:
        old = await credentials.get_key(tx, token(partner, Surface.MARKETFRONT).decode())
        await credentials.roll_key(tx, old, overlap=HOUR / 2, now=now)
    assert (await callers.get(made)).key_id == old.id
    now.advance(HOUR / 2 - SECOND)
    assert callers.find_cached(made) is not None
    now.advance(SECOND)
    assert callers.find_cached(made) is None
    assert "has been expired since" in await refusal(callers, made)


async def test_a_token_is_refused_everywhere_within_2_seconds_of_its_keys_revocation(
    db: Database, database_url: str, callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    made = await issue(callers, partner)
    async with another_process(database_url, now) as (there, heard):
        await there.get(made)
        await revoke(db, token(partner, Surface.MARKETFRONT), now)
        assert callers.find_cached(made) is None
        async with loop_timeout(2):
            await heard.wait()
        assert there.find_cached(made) is None
        assert "has been revoked since" in await refusal(there, made)


async def test_a_forged_token_is_refused_without_a_database_read(
    callers: Callers, partner: NewPartner, claims: list[UUID], reads: list[bytes], now: HandClock
) -> None:
    key = partner.marketfront_key
    assert key is not None
    wanted = Claims(key.id, partner.id, int(now().timestamp()) + 60)
    forged = Tokens([b"guess"]).sign(wanted).encode()
    assert callers.find_cached(forged) is None
    assert "not issued by this service" in await refusal(callers, forged)
    assert (claims, reads) == ([], [])
    assert (await callers.get(TOKENS.sign(wanted).encode())).key_id == key.id


async def test_a_token_of_a_key_that_is_not_that_partners_is_refused(
    callers: Callers, partner: NewPartner, now: HandClock
) -> None:
    assert partner.marketfront_key is not None
    claims = Claims(partner.marketfront_key.id, partner.marketfront_key.id, int(now().timestamp()) + 60)
    assert "no longer exists" in await refusal(callers, TOKENS.sign(claims).encode())


async def test_only_a_marketfront_key_with_its_own_id_is_exchanged(
    callers: Callers, partner: NewPartner
) -> None:
    market, shop = partner.marketfront_key, partner.commerce_key
    assert market is not None
    assert shop is not None
    with pytest.raises(Forbidden):
        await callers.issue(shop.id, shop.text.encode())
    with pytest.raises(Unauthenticated):
        await callers.issue(shop.id, market.text.encode())
    with pytest.raises(Unauthenticated):
        await callers.issue(market.id, await issue(callers, partner))
