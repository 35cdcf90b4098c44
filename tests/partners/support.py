"""Helpers for tests of partners."""

from datetime import UTC, datetime, timedelta

from mercato.features.partners import accounts
from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.callers import PURPOSE, Tokens
from mercato.features.partners.model import PartnerKind
from mercato.features.partners.vault import Vault
from mercato.platform.db.engine import Database
from mercato_contract.clock import new_id

VAULT = Vault([b"0" * 32])
TOKENS = Tokens(VAULT.derive(PURPOSE))
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class HandClock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def advance(self, time: timedelta) -> None:
        self.at += time


async def make_partner(
    db: Database, now: HandClock, kind: PartnerKind = PartnerKind.BOTH, *, name: str | None = None
) -> NewPartner:
    async with db.write() as tx:
        return await accounts.create_partner(
            tx, VAULT, name=f"Acme {new_id()}" if name is None else name, kind=kind, now=now
        )
