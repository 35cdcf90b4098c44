"""Replacing the encryption key: what older keys have sealed is sealed anew with the first, and they can go."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select, update

from mercato.db.audit import audit
from mercato.db.engine import Read, Write
from mercato.db.tables import partners, signing_secrets
from mercato.partners.accounts import secret_context, token_context
from mercato.partners.vault import Vault, VaultError


@dataclass(frozen=True, slots=True)
class Resealed:
    """What one step did. `last`: the partner it ended with; None when there are no more."""

    count: int
    last: UUID | None


async def reseal(tx: Write, vault: Vault, *, after: UUID | None, limit: int) -> Resealed:
    """Seal the secrets of some partners anew where an older key has sealed them. Raises VaultError.

    Whoever rotates one in the same moment has the last word: each is replaced only if it is still the same.
    """
    query = select(partners.c.id, partners.c.webhook_token).order_by(partners.c.id).limit(limit)
    owners = await tx.all(query if after is None else query.where(partners.c.id > after))
    count = 0
    for row in owners:
        if row.webhook_token is not None and not vault.is_current(row.webhook_token):
            sealed = _anew(vault, row.webhook_token, token_context(row.id))
            await tx.execute(
                update(partners)
                .where(partners.c.id == row.id, partners.c.webhook_token == row.webhook_token)
                .values(webhook_token=sealed)
            )
            count += 1
    count += await _secrets(tx, vault, [row.id for row in owners])
    if count:
        await audit(tx, "database", detail={"resealed": count})
    return Resealed(count, owners[-1].id if len(owners) == limit else None)


async def _secrets(tx: Write, vault: Vault, owners: Iterable[UUID]) -> int:
    count = 0
    rows = await tx.all(
        select(signing_secrets.c.id, signing_secrets.c.secret).where(
            signing_secrets.c.partner_id.in_(list(owners))
        )
    )
    for row in rows:
        if not vault.is_current(row.secret):
            sealed = _anew(vault, row.secret, secret_context(row.id))
            await tx.execute(
                update(signing_secrets)
                .where(signing_secrets.c.id == row.id, signing_secrets.c.secret == row.secret)
                .values(secret=sealed)
            )
            count += 1
    return count


async def count_unreadable(tx: Read, vault: Vault, *, most: int) -> int:
    """Return how many of the newest secrets and tokens, at most so many of each, none of the keys opens."""
    secrets = await tx.all(
        select(signing_secrets.c.id, signing_secrets.c.secret)
        .order_by(signing_secrets.c.id.desc())
        .limit(most)
    )
    tokens = await tx.all(
        select(partners.c.id, partners.c.webhook_token).order_by(partners.c.id.desc()).limit(most)
    )
    sealed = [(row.secret, secret_context(row.id)) for row in secrets]
    sealed += [(row.webhook_token, token_context(row.id)) for row in tokens if row.webhook_token is not None]
    return sum(not _opens(vault, one, context) for one, context in sealed)


def _opens(vault: Vault, sealed: bytes, context: str) -> bool:
    try:
        vault.open(sealed, context=context)
    except VaultError:
        return False
    return True


def _anew(vault: Vault, sealed: bytes, context: str) -> bytes:
    return vault.seal(vault.open(sealed, context=context), context=context)
