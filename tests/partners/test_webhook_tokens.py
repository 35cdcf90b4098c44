"""A partner's Authorization token goes to the origin that it was given for, and nowhere else."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update
from tests.databases import mostly_sqlite, on_both
from tests.partners.support import VAULT, HandClock, make_partner

from mercato.features.partners.model import AccountError, SeveralOriginsError
from mercato.features.partners.tables import webhook_tokens
from mercato.features.partners.vault import VaultError
from mercato.features.partners.webhook_tokens import (
    MAX_ORIGINS,
    UNBOUND,
    TooManyOriginsError,
    bind_token,
    get_webhook_tokens,
    set_webhook_token,
)
from mercato.features.webhooks.credentials import Credentials
from mercato.platform.db.engine import Database

pytestmark = mostly_sqlite

A, B = "https://a.example/hooks", "https://b.example/hooks"


@pytest.fixture
def now() -> HandClock:
    return HandClock()


@pytest.fixture
async def partner(db: Database, now: HandClock) -> UUID:
    return (await make_partner(db, now)).id


async def tokens(db: Database, partner_id: UUID) -> dict[str, str]:
    async with db.read() as tx:
        return await get_webhook_tokens(tx, VAULT, partner_id)


async def give(db: Database, partner_id: UUID, token: str | None, **options: Any) -> None:
    async with db.write() as tx:
        await set_webhook_token(tx, VAULT, partner_id, token, **options)


async def name(db: Database, partner_id: UUID, url: str, token: str | None = None) -> None:
    async with db.write() as tx:
        await bind_token(tx, VAULT, partner_id, url, token=token)


async def test_a_token_is_bound_to_the_first_origin_that_is_named_and_to_no_other(
    db: Database, partner: UUID
):
    await give(db, partner, "one")
    assert await tokens(db, partner) == {UNBOUND: "one"}
    await name(db, partner, A + "?key=1")
    await name(db, partner, B)
    assert await tokens(db, partner) == {"https://a.example": "one"}


@on_both
async def test_of_two_stores_that_are_registered_at_once_one_binds_the_token(db: Database, partner: UUID):
    await give(db, partner, "one")
    await asyncio.gather(*(name(db, partner, f"https://{host}.example") for host in "abcdef"))
    bound = await tokens(db, partner)
    assert len(bound) == 1
    assert UNBOUND not in bound


async def test_a_token_that_comes_with_its_url_is_for_that_origin_and_ends_one_not_bound_yet(
    db: Database, partner: UUID
):
    await give(db, partner, "old")
    await name(db, partner, A, "one")
    assert await tokens(db, partner) == {"https://a.example": "one"}
    await name(db, partner, B, "two")
    await name(db, partner, A, "three")
    assert await tokens(db, partner) == {"https://a.example": "three", "https://b.example": "two"}


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/hooks", "https://a.example:8443/hooks", "https://b.a.example", "https://a.example.evil.example",
        "https://a.example@evil.example", "https://evil.example/https://a.example", "https://evil.example#a.example",
    ],
)  # fmt: skip
async def test_another_scheme_host_or_port_is_another_origin(db: Database, partner: UUID, url: str):
    await give(db, partner, "one", url=A)
    found = Credentials((), await tokens(db, partner))
    assert found.token_for(url) is None
    for same in ("https://A.example:443/other", "https://a.example./x?y=1"):
        assert found.token_for(same) == "one"


async def test_a_token_that_is_given_again_replaces_those_that_are_bound(db: Database, partner: UUID):
    await name(db, partner, A, "one")
    await name(db, partner, B, "two")
    await give(db, partner, "new", used=["https://evil.example"])
    assert await tokens(db, partner) == {"https://a.example": "new", "https://b.example": "new"}
    await give(db, partner, "third", url="https://c.example")
    assert len(await tokens(db, partner)) == 3
    await give(db, partner, None, url=A)
    assert set(await tokens(db, partner)) == {"https://b.example", "https://c.example"}
    await give(db, partner, None)
    assert await tokens(db, partner) == {}


async def test_a_first_token_goes_to_the_one_origin_of_the_stores_and_of_several_one_must_be_named(
    db: Database, partner: UUID
):
    with pytest.raises(SeveralOriginsError, match="2 origins"):
        await give(db, partner, "one", used=[A, B])
    await give(db, partner, "one", used=[A, "https://a.example/other"])
    assert await tokens(db, partner) == {"https://a.example": "one"}


async def test_a_partner_has_tokens_for_at_most_100_origins(db: Database, partner: UUID):
    async with db.write() as tx:
        for number in range(MAX_ORIGINS):
            await bind_token(tx, VAULT, partner, f"https://h{number}.example", token="t")
    with pytest.raises(TooManyOriginsError, match="100 origins"):
        await name(db, partner, "https://more.example", "t")
    await name(db, partner, "https://h7.example", "new")


@on_both
async def test_a_token_copied_to_another_row_does_not_open(db: Database, partner: UUID, now: HandClock):
    other = (await make_partner(db, now)).id
    await give(db, partner, "secret", url=A)
    for owner, origin in ((other, "https://a.example"), (partner, "https://b.example")):
        async with db.write() as tx:
            await tx.execute(update(webhook_tokens).values(partner_id=owner, origin=origin))
            with pytest.raises(VaultError):
                await get_webhook_tokens(tx, VAULT, owner)
            await tx.execute(update(webhook_tokens).values(partner_id=partner, origin="https://a.example"))


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Evil: 1", "é", "x" * 4097, "\x00"])
async def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(
    db: Database, now: HandClock, token: str
) -> None:
    made = await make_partner(db, now)
    async with db.write() as tx:
        with pytest.raises(AccountError) as caught:
            await set_webhook_token(tx, VAULT, made.id, token)
    assert not token or token not in str(caught.value)
