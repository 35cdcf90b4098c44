"""Partners, their limits, and signing secrets of which two are valid during a rotation."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import select
from tests.databases import mostly_sqlite, on_both
from tests.partners.support import HOUR, VAULT, HandClock, make_partner

from mercato.features.partners import accounts, encryption, queries
from mercato.features.partners.credentials import TOPIC
from mercato.features.partners.model import (
    AccountError,
    Limits,
    NoStoresError,
    PartnerKind,
    Surface,
    TakenNameError,
    UnknownAccountError,
)
from mercato.features.partners.tables import api_keys, partners, signing_secrets, webhook_tokens
from mercato.features.partners.vault import Vault, VaultError
from mercato.features.partners.webhook_tokens import set_webhook_token
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato_contract.clock import new_id

pytestmark = mostly_sqlite

NOBODY = new_id()


@pytest.fixture
def now() -> HandClock:
    return HandClock()


@pytest.mark.parametrize("kind", PartnerKind)
async def test_a_new_partner_has_a_key_for_each_surface_of_its_kind(
    db: Database, now: HandClock, kind: PartnerKind
) -> None:
    made = await make_partner(db, now, kind, name="Acme")
    assert {key.surface for key in made.keys} == set(kind.surfaces)
    assert (made.commerce_key is not None) is (Surface.COMMERCE in kind.surfaces)
    assert (made.marketfront_key is not None) is (Surface.MARKETFRONT in kind.surfaces)
    async with db.read() as tx:
        partner = await accounts.get_partner(tx, made.id)
        assert (partner.name, partner.kind, partner.created_at) == ("Acme", kind, now())
        assert await accounts.get_signing_secrets(tx, VAULT, made.id, now=now) == [made.signing_secret]


async def test_a_partner_is_created_completely_or_not_at_all(db: Database, now: HandClock) -> None:
    async def failing() -> None:
        async with db.write() as tx:
            await accounts.create_partner(tx, VAULT, name="Acme", kind=PartnerKind.BOTH, now=now)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    async with db.read() as tx:
        for table in (partners, api_keys, signing_secrets):
            assert await tx.first(select(table)) is None


async def test_no_secret_is_stored_or_shown_as_it_is(db: Database, now: HandClock) -> None:
    async with db.write() as tx:
        made = await accounts.create_partner(
            tx, VAULT, name="Acme", kind=PartnerKind.BOTH, webhook_token="hunter2", now=now
        )
    async with db.read() as tx:
        stored = [
            await tx.all(select(table)) for table in (partners, api_keys, signing_secrets, webhook_tokens)
        ]
    for secret in ("hunter2", made.signing_secret, *(key.text for key in made.keys)):
        assert secret not in repr(stored)
        assert secret not in repr(made)


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 201, "\udcff"])
async def test_a_name_that_cannot_be_shown_is_refused(db: Database, now: HandClock, name: str) -> None:
    with pytest.raises(AccountError):
        await make_partner(db, now, name=name)


async def test_a_partner_without_the_commerce_surface_has_no_webhook_token(
    db: Database, now: HandClock
) -> None:
    async with db.write() as tx:
        with pytest.raises(NoStoresError, match="carry no token"):
            await accounts.create_partner(
                tx, VAULT, name="Shop", kind=PartnerKind.MARKETFRONT, webhook_token="hunter2"
            )
        with pytest.raises(UnknownAccountError):
            await accounts.get_partner_named(tx, "Shop")
    made = await make_partner(db, now, PartnerKind.MARKETFRONT)
    async with db.write() as tx:
        with pytest.raises(AccountError, match="has no stores"):
            await set_webhook_token(tx, VAULT, made.id, "hunter2")
        await set_webhook_token(tx, VAULT, made.id, None)


async def test_only_marketfront_partners_have_an_event_url(db: Database, now: HandClock) -> None:
    commerce = await make_partner(db, now, PartnerKind.COMMERCE)
    both = await make_partner(db, now, PartnerKind.BOTH)
    async with db.write() as tx:
        with pytest.raises(AccountError, match="marketfront"):
            await accounts.set_event_url(tx, commerce.id, "https://example.com/events")
        await accounts.set_event_url(tx, both.id, "https://example.com/events")
        assert (await accounts.get_partner(tx, both.id)).event_url == "https://example.com/events"
        await accounts.set_event_url(tx, both.id, None)
        assert (await accounts.get_partner(tx, both.id)).event_url is None


@pytest.mark.parametrize(
    "url", ["", "example.com", "ftp://example.com", "https://", "https://u:p@example.com", "http://a b"]
)
async def test_an_event_url_must_be_an_address(db: Database, now: HandClock, url: str) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        with pytest.raises(AccountError):
            await accounts.set_event_url(tx, made.id, url)


async def test_limits_are_configurable_per_partner(db: Database, now: HandClock) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        await accounts.set_limits(tx, made.id, Limits(writes=5))
        assert (await accounts.get_partner(tx, made.id)).limits == Limits(writes=5)
        with pytest.raises(AccountError):
            await accounts.set_limits(tx, made.id, Limits(writes=0))


async def test_a_partner_is_found_by_id_or_name(db: Database, now: HandClock) -> None:
    one = await make_partner(db, now, name="One")
    async with db.read() as tx:
        assert (await accounts.get_partner_named(tx, str(one.id))).name == "One"
        assert (await accounts.get_partner_named(tx, "One")).id == one.id
        with pytest.raises(UnknownAccountError):
            await accounts.get_partner_named(tx, "Three")


async def test_a_second_partner_of_a_name_is_refused_with_what_to_do(db: Database, now: HandClock) -> None:
    await make_partner(db, now, name="My POS")
    with pytest.raises(TakenNameError, match="called My POS exists"):
        await make_partner(db, now, name=" My POS ")
    other = await make_partner(db, now, name="Other")
    with pytest.raises(AccountError, match="already"):
        async with db.write() as tx:
            await accounts.rename_partner(tx, other.id, "My POS")
    async with db.write() as tx:
        await accounts.rename_partner(tx, other.id, "Other")
        await accounts.rename_partner(tx, other.id, "Third")
    await make_partner(db, now, name="Other")


@on_both
async def test_partners_are_listed_in_pages(db: Database, now: HandClock) -> None:
    made = sorted([(await make_partner(db, now)).id for _ in range(5)])
    async with db.read() as tx:
        first = await queries.list_partners(tx, limit=3)
        second = await queries.list_partners(tx, after=first[-1].id, limit=3)
    assert [one.id for one in first + second] == made


async def test_operations_on_an_unknown_partner_are_refused(db: Database, now: HandClock) -> None:
    async with db.write() as tx:
        for wish in (
            accounts.get_partner(tx, NOBODY),
            accounts.set_limits(tx, NOBODY, Limits()),
            accounts.set_event_url(tx, NOBODY, None),
            set_webhook_token(tx, VAULT, NOBODY, None),
            accounts.rotate_signing_secret(tx, VAULT, NOBODY, now=now),
        ):
            with pytest.raises(UnknownAccountError):
                await wish


async def test_during_a_rotation_two_secrets_sign_the_newest_first(db: Database, now: HandClock) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        new = await accounts.rotate_signing_secret(tx, VAULT, made.id, overlap=HOUR, now=now)
        assert await accounts.get_signing_secrets(tx, VAULT, made.id, now=now) == [new, made.signing_secret]
        now.advance(HOUR)
        assert await accounts.get_signing_secrets(tx, VAULT, made.id, now=now) == [new]


async def test_a_second_rotation_ends_the_first_ones_overlap(db: Database, now: HandClock) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        second = await accounts.rotate_signing_secret(tx, VAULT, made.id, overlap=HOUR, now=now)
        third = await accounts.rotate_signing_secret(tx, VAULT, made.id, overlap=HOUR, now=now)
        assert await accounts.get_signing_secrets(tx, VAULT, made.id, now=now) == [third, second]


async def test_a_rotation_without_overlap_ends_the_old_secret_at_once(db: Database, now: HandClock) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        new = await accounts.rotate_signing_secret(tx, VAULT, made.id, overlap=timedelta(0), now=now)
        assert await accounts.get_signing_secrets(tx, VAULT, made.id, now=now) == [new]


@on_both
async def test_concurrent_rotations_leave_one_secret_without_an_expiry(db: Database, now: HandClock) -> None:
    made = await make_partner(db, now)

    async def rotate() -> None:
        async with db.write() as tx:
            await accounts.rotate_signing_secret(tx, VAULT, made.id, overlap=HOUR, now=now)

    await asyncio.gather(*(rotate() for _ in range(5)))
    async with db.read() as tx:
        secrets = await accounts.list_signing_secrets(tx, made.id, now=now)
    assert [secret.expires_at for secret in secrets] == [None, now() + HOUR]


@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(days=91)])
async def test_an_overlap_has_bounds(db: Database, now: HandClock, overlap: timedelta) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        with pytest.raises(AccountError, match="overlap"):
            await accounts.rotate_signing_secret(tx, VAULT, made.id, overlap=overlap, now=now)


async def test_another_vault_than_the_databases_is_noticed_before_anything_is_sealed(
    db: Database, now: HandClock
) -> None:
    other = Vault([b"1" * 32])
    async with db.read() as tx:
        await encryption.check_vault(tx, other, source="a file")
    await make_partner(db, now)
    async with db.read() as tx:
        await encryption.check_vault(tx, VAULT, source="a file")
        await encryption.check_vault(tx, Vault([b"1" * 32, b"0" * 32]), source="a file")
        with pytest.raises(VaultError):
            await encryption.check_vault(tx, other, source="a file")


async def test_every_change_of_a_partner_is_announced(db: Database, now: HandClock) -> None:
    made = await make_partner(db, now)
    heard: list[str | None] = []
    ChangeFeed(db).subscribe(TOPIC, heard.append)
    async with db.write() as tx:
        await accounts.set_limits(tx, made.id, Limits(reads=1))
        await accounts.set_event_url(tx, made.id, None)
        await set_webhook_token(tx, VAULT, made.id, None)
        await accounts.rotate_signing_secret(tx, VAULT, made.id, now=now)
    assert heard == [str(made.id)] * 4
