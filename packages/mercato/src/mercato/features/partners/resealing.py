"""Replace the encryption key: reseal with the first key what older keys have sealed, so that those can be removed."""

from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select, update

from mercato.features.partners.accounts import secret_context
from mercato.features.partners.tables import partners, signing_secrets, webhook_tokens
from mercato.features.partners.vault import Vault, VaultError
from mercato.features.partners.webhook_tokens import token_context
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Read, Write


class Resealed(Struct, frozen=True):
    """The result of one step. `last` is the partner to continue after; None at the end."""

    count: int
    last: UUID | None


async def reseal(tx: Write, vault: Vault, *, after: UUID | None, limit: int) -> Resealed:
    """Reseal the secrets of the next partners that an older key has sealed. Raises VaultError.

    A concurrent rotation wins: a secret is replaced only if it hasn't changed.
    """
    query = select(partners.c.id).order_by(partners.c.id).limit(limit)
    owners = await tx.all(query if after is None else query.where(partners.c.id > after))
    ids = [row.id for row in owners]
    count = await _tokens(tx, vault, ids) + await _secrets(tx, vault, ids)
    if count:
        await audit(tx, "database", detail={"resealed": count})
    return Resealed(count, owners[-1].id if len(owners) == limit else None)


async def _tokens(tx: Write, vault: Vault, owners: Iterable[UUID]) -> int:
    count = 0
    rows = await tx.all(select(webhook_tokens).where(webhook_tokens.c.partner_id.in_(list(owners))))
    for row in rows:
        if not vault.is_current(row.token):
            sealed = _reseal(vault, row.token, token_context(row.partner_id, row.origin))
            await tx.execute(
                update(webhook_tokens)
                .where(
                    webhook_tokens.c.partner_id == row.partner_id,
                    webhook_tokens.c.origin == row.origin,
                    webhook_tokens.c.token == row.token,
                )
                .values(token=sealed)
            )
            count += 1
    return count


async def _secrets(tx: Write, vault: Vault, owners: Iterable[UUID]) -> int:
    count = 0
    rows = await tx.all(
        select(signing_secrets.c.id, signing_secrets.c.secret).where(
            signing_secrets.c.partner_id.in_(list(owners))
        )
    )
    for row in rows:
        if not vault.is_current(row.secret):
            sealed = _reseal(vault, row.secret, secret_context(row.id))
            await tx.execute(
                update(signing_secrets)
                .where(signing_secrets.c.id == row.id, signing_secrets.c.secret == row.secret)
                .values(secret=sealed)
            )
            count += 1
    return count


async def count_unreadable(tx: Read, vault: Vault, *, limit: int) -> int:
    """Return how many of the newest secrets and tokens (`limit` of each) no key opens."""
    secrets = await tx.all(
        select(signing_secrets.c.id, signing_secrets.c.secret)
        .order_by(signing_secrets.c.id.desc())
        .limit(limit)
    )
    tokens = await tx.all(select(webhook_tokens).order_by(webhook_tokens.c.partner_id.desc()).limit(limit))
    sealed = [(row.secret, secret_context(row.id)) for row in secrets]
    sealed += [(row.token, token_context(row.partner_id, row.origin)) for row in tokens]
    return sum(not _opens(vault, secret, context) for secret, context in sealed)


def _opens(vault: Vault, sealed: bytes, context: str) -> bool:
    try:
        vault.open(sealed, context=context)
    except VaultError:
        return False
    return True


def _reseal(vault: Vault, sealed: bytes, context: str) -> bytes:
    return vault.seal(vault.open(sealed, context=context), context=context)
