"""Keys have an optional expiry, are rolled with an overlap, and revoked."""

from datetime import timedelta

import pytest
from tests.databases import mostly_sqlite, on_both
from tests.partners.support import HOUR, SECOND, HandClock, make_partner

from mercato.features.partners import accounts, credentials, queries
from mercato.features.partners.credentials import TOPIC, NewKey
from mercato.features.partners.model import (
    AccountError,
    ApiKey,
    KeyState,
    PartnerKind,
    Surface,
    UnknownAccountError,
    digest,
    prefix,
)
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato_contract.clock import new_id

pytestmark = mostly_sqlite

DAY = timedelta(days=1)


@pytest.fixture
def now() -> HandClock:
    return HandClock()


async def stored(db: Database, key: NewKey) -> ApiKey:
    async with db.read() as tx:
        return await credentials.get_key(tx, str(key.id))


async def new_key(db: Database, now: HandClock, *, lives: timedelta | None = None) -> NewKey:
    made = await make_partner(db, now, PartnerKind.COMMERCE)
    async with db.write() as tx:
        return await credentials.create_key(
            tx,
            await accounts.get_partner(tx, made.id),
            surface=Surface.COMMERCE,
            description="till 1",
            expires_at=None if lives is None else now() + lives,
            now=now,
        )


async def test_a_key_that_replaces_a_descendant_expires_no_later_than_the_parent_did(
    db: Database, now: HandClock
) -> None:
    """Also after the parent was rolled itself, which shortens its own life."""
    parent = await stored(db, await new_key(db, now, lives=30 * DAY))
    async with db.write() as tx:
        partner = await accounts.get_partner(tx, parent.partner_id)
        made = await credentials.create_key(
            tx, partner, surface=parent.surface, expires_at=now() + 20 * DAY, parent=parent, now=now
        )
        await credentials.roll_key(tx, parent, overlap=HOUR, now=now)
    now.advance(15 * DAY)
    child = await stored(db, made)
    async with db.write() as tx:
        rolled = await credentials.roll_key(tx, child, overlap=HOUR, now=now)
    new = await stored(db, rolled)
    assert (new.parent_key_id, new.expires_at) == (parent.id, parent.expires_at)
    async with db.read() as tx:
        assert await credentials.list_descendants(tx, parent, now=now()) == [await stored(db, made), new]
    now.advance(2 * HOUR)
    async with db.write() as tx:
        found = await credentials.revoke_descendants(tx, parent, now=now)
        assert [one.id for one in found] == [new.id], "the old one has expired"
        assert await credentials.list_descendants(tx, parent, now=now()) == []


@on_both
async def test_a_key_is_listed_with_its_prefix_and_description_and_never_as_it_is(
    db: Database, now: HandClock
) -> None:
    made = await new_key(db, now)
    key = await stored(db, made)
    assert (key.prefix, key.description, key.created_at) == (prefix(made.text), "till 1", now())
    assert made.text not in repr((made, key))
    async with db.read() as tx:
        listed = await queries.list_keys(tx, partner_id=key.partner_id, limit=10)
        assert key in listed
        assert await queries.list_keys(tx, partner_id=new_id(), limit=10) == []
        assert await queries.list_keys(tx, after=listed[0].id, limit=10) == listed[1:]


async def test_a_partner_gets_no_key_for_a_surface_that_is_not_its(db: Database, now: HandClock) -> None:
    made = await make_partner(db, now, PartnerKind.MARKETFRONT)
    async with db.write() as tx:
        partner = await accounts.get_partner(tx, made.id)
        with pytest.raises(AccountError, match="can have no commerce key"):
            await credentials.create_key(tx, partner, surface=Surface.COMMERCE, now=now)


async def test_a_new_key_with_an_expiry_in_the_past_is_refused(db: Database, now: HandClock) -> None:
    with pytest.raises(AccountError, match="expired"):
        await new_key(db, now, lives=timedelta(0))


@pytest.mark.parametrize("description", ["a\nb", "x" * 201])
async def test_a_description_that_cannot_be_shown_is_refused(
    db: Database, now: HandClock, description: str
) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        partner = await accounts.get_partner(tx, made.id)
        with pytest.raises(AccountError, match="description"):
            await credentials.create_key(
                tx, partner, surface=Surface.COMMERCE, description=description, now=now
            )


async def test_a_key_is_found_by_its_id_its_prefix_or_itself(db: Database, now: HandClock) -> None:
    made = await new_key(db, now)
    async with db.read() as tx:
        for name in (str(made.id), str(made.id).upper(), prefix(made.text), made.text):
            assert (await credentials.get_key(tx, name)).id == made.id


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "mk_commerce_",
        "mk_commerce_zzzzzz",
        "01a1fccc-df35-78fe-8ad7-ff08b615082f",
        "\udcff",
        "mk_commerce_a_b",
    ],
)
async def test_an_unknown_key_is_reported_as_unknown(db: Database, name: str) -> None:
    async with db.read() as tx:
        with pytest.raises(UnknownAccountError):
            await credentials.get_key(tx, name)


async def test_the_message_about_an_unknown_key_shows_no_more_than_its_prefix(db: Database) -> None:
    leaked = "mk_commerce_" + "a" * 40
    async with db.read() as tx:
        with pytest.raises(UnknownAccountError, match="mk_commerce_aaaaaa") as caught:
            await credentials.get_key(tx, leaked)
    assert "aaaaaaa" not in str(caught.value)


async def test_a_key_expires_at_its_instant(db: Database, now: HandClock) -> None:
    key = await stored(db, await new_key(db, now, lives=HOUR))
    now.advance(HOUR - SECOND)
    assert key.state(now()) is KeyState.ACTIVE
    now.advance(SECOND)
    assert key.state(now()) is KeyState.EXPIRED


async def test_a_rolled_key_is_valid_for_the_overlap_and_its_successor_stays(
    db: Database, now: HandClock
) -> None:
    old = await new_key(db, now)
    async with db.write() as tx:
        new = await credentials.roll_key(tx, await stored(db, old), overlap=HOUR, now=now)
    key, successor = await stored(db, old), await stored(db, new)
    assert (key.expires_at, successor.expires_at) == (now() + HOUR, None)
    assert (successor.partner_id, successor.surface, successor.description) == (
        key.partner_id,
        key.surface,
        "till 1",
    )
    assert new.text != old.text


@on_both
async def test_rolled_without_overlap_the_old_key_ends_at_once(db: Database, now: HandClock) -> None:
    old = await new_key(db, now)
    async with db.write() as tx:
        await credentials.roll_key(tx, await stored(db, old), overlap=timedelta(0), now=now)
    assert (await stored(db, old)).state(now()) is KeyState.EXPIRED


async def test_an_overlap_never_lengthens_a_keys_life(db: Database, now: HandClock) -> None:
    old = await new_key(db, now, lives=HOUR)
    async with db.write() as tx:
        await credentials.roll_key(tx, await stored(db, old), overlap=DAY, now=now)
    assert (await stored(db, old)).expires_at == now() + HOUR


async def test_the_successor_of_an_expiring_key_has_the_same_lifetime(db: Database, now: HandClock) -> None:
    old = await new_key(db, now, lives=DAY)
    now.advance(HOUR)
    async with db.write() as tx:
        new = await credentials.roll_key(tx, await stored(db, old), now=now)
    assert new.expires_at == now() + DAY


@pytest.mark.parametrize("overlap", [-SECOND, timedelta(days=91)])
async def test_an_overlap_has_bounds(db: Database, now: HandClock, overlap: timedelta) -> None:
    old = await stored(db, await new_key(db, now))
    async with db.write() as tx:
        with pytest.raises(AccountError, match="overlap"):
            await credentials.roll_key(tx, old, overlap=overlap, now=now)


async def test_an_expired_or_revoked_key_cannot_be_rolled(db: Database, now: HandClock) -> None:
    expired, revoked = await new_key(db, now, lives=HOUR), await new_key(db, now)
    async with db.write() as tx:
        await credentials.revoke_key(tx, await credentials.get_key(tx, str(revoked.id)), now=now)
    now.advance(HOUR)
    for key in (expired, revoked):
        one = await stored(db, key)
        async with db.write() as tx:
            with pytest.raises(AccountError, match=one.state(now())):
                await credentials.roll_key(tx, one, now=now)


async def test_a_revocation_applies_from_its_first_instant_and_is_announced_once(
    db: Database, now: HandClock
) -> None:
    made = await new_key(db, now)
    async with db.write() as tx:
        key = await credentials.get_key(tx, str(made.id))
        assert await credentials.revoke_key(tx, key, now=now)
        now.advance(HOUR)
        assert not await credentials.revoke_key(tx, key, now=now)
    assert (await stored(db, made)).revoked_at == now() - HOUR


async def test_roll_and_revoke_are_announced(db: Database, now: HandClock) -> None:
    key = await stored(db, await new_key(db, now))
    heard: list[str | None] = []
    ChangeFeed(db).subscribe(TOPIC, heard.append)
    async with db.write() as tx:
        await credentials.roll_key(tx, key, now=now)
        await credentials.revoke_key(tx, key, now=now)
    assert heard == [str(key.partner_id)] * 2


async def test_the_last_use_is_kept_to_the_minute(db: Database, now: HandClock) -> None:
    made = await new_key(db, now)
    first = now()

    async def use() -> None:
        async with db.write() as tx:
            await queries.record_key_uses(tx, [made.id, new_id()], now=now())

    await use()
    now.advance(59 * SECOND)
    await use()
    assert (await stored(db, made)).last_used_at == first
    now.advance(SECOND)
    await use()
    assert (await stored(db, made)).last_used_at == now()


async def test_a_presented_key_comes_with_its_partners_limits(db: Database, now: HandClock) -> None:
    made = await new_key(db, now)
    async with db.read() as tx:
        found = await queries.find_caller_by_digest(tx, digest(made.text.encode()))
        assert found is not None
        assert found[0].id == made.id
        assert await queries.find_caller_by_digest(tx, digest(b"other")) is None
