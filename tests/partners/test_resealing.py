"""The encryption key is replaced without a moment in which a secret can't be read."""

import os

import pytest

from mercato.features.partners import accounts
from mercato.features.partners.encryption import reseal
from mercato.features.partners.model import PartnerKind
from mercato.features.partners.vault import Vault, VaultError
from mercato.features.partners.webhook_tokens import UNBOUND, get_webhook_tokens
from mercato.platform.db.engine import Database

OLD, NEW = os.urandom(32), os.urandom(32)


async def test_all_secrets_are_resealed_and_the_old_key_can_be_removed(db: Database):
    before, both, after = Vault([OLD]), Vault([NEW, OLD]), Vault([NEW])
    made = []
    for number in range(5):
        async with db.write() as tx:
            new = await accounts.create_partner(
                tx, before, name=f"P{number}", kind=PartnerKind.BOTH, webhook_token=f"token-{number}"
            )
            await accounts.rotate_signing_secret(tx, before, new.id)
        made.append(new.id)

    counts, last = [], None
    while True:
        async with db.write() as tx:
            done = await reseal(tx, both, after=last, limit=2)
        counts.append(done.count)
        last = done.last
        if last is None:
            break
    assert counts == [6, 6, 3]

    async with db.read() as tx:
        for number, partner in enumerate(made):
            assert await get_webhook_tokens(tx, after, partner) == {UNBOUND: f"token-{number}"}
            assert len(await accounts.get_signing_secrets(tx, after, partner)) == 2
            with pytest.raises(VaultError):
                await get_webhook_tokens(tx, before, partner)
    async with db.write() as tx:
        again = await reseal(tx, both, after=None, limit=100)
    assert (again.count, again.last) == (0, None)


async def test_a_secret_that_no_key_opens_stops_resealing_and_changes_nothing(db: Database):
    async with db.write() as tx:
        await accounts.create_partner(tx, Vault([OLD]), name="P", kind=PartnerKind.COMMERCE)
    with pytest.raises(VaultError, match="MERCATO_ENCRYPTION_KEYS"):
        async with db.write() as tx:
            await reseal(tx, Vault([NEW]), after=None, limit=10)
