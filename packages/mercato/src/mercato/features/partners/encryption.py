"""The encryption key that the processes of a database share: which one it is, and its replacement.

Each process has the key from its settings or its data directory, so two could have two. The first that starts, or makes
a partner, leaves a text in the database that it has sealed. One with another key seals nothing there: the others could
not open it.

Replace the key: reseal with the first key what older keys have sealed, so that those can be removed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, select, update

from mercato.features.partners import queries
from mercato.features.partners.accounts import endpoint_context, secret_context
from mercato.features.partners.tables import partners, signing_secrets, webhook_endpoints, webhook_tokens
from mercato.features.partners.vault import FILE, Vault, VaultError, load_keys, other_key
from mercato.features.partners.webhook_tokens import token_context
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Read, Write

_CHECK: Final = "key-check"
"""The context of the text that only says which key has sealed it, and the text itself."""


class Sealed(Struct, frozen=True):
    """What a process of the database has sealed, and its context."""

    content: bytes
    context: str


async def find_sealed(tx: Read, *, has_text: bool = True) -> Sealed | None:
    """Return what a vault must open to be that of the database: the newest signing secret, or else the text.

    A database of an earlier version has no place for the text.
    """
    found = await queries.find_newest_secret(tx)
    if found is not None:
        secret_id, secret = found
        return Sealed(secret, secret_context(secret_id))
    text = await queries.find_key_check(tx) if has_text else None
    return None if text is None else Sealed(text, _CHECK)


async def open_vault(tx: Read, encryption_keys: str | None, data_dir: Path) -> Vault:
    """Return the vault that all processes on this database share; a new database gets a new key. Raises VaultError."""
    found = await find_sealed(tx)
    vault = Vault(load_keys(encryption_keys, data_dir, sealed=None if found is None else found.content))
    await check_vault(tx, vault, source=source_of(encryption_keys, data_dir))
    return vault


async def bind_vault(tx: Write, encryption_keys: str | None, data_dir: Path) -> Vault:
    """Do the same, and let no process with another key open this database from the commit on. Raises VaultError."""
    # First: another process may bind the database between any two statements.
    bound = await is_bound(tx)
    vault = await open_vault(tx, encryption_keys, data_dir)
    if not bound:
        await queries.insert_key_check(tx, vault.seal(_CHECK, context=_CHECK))
        await check_vault(tx, vault, source=source_of(encryption_keys, data_dir))
    return vault


def source_of(encryption_keys: object, data_dir: Path) -> str:
    """Return where a process has its keys from, given the setting or None."""
    return "MERCATO_ENCRYPTION_KEYS" if encryption_keys else str(data_dir / FILE)


async def is_bound(tx: Read) -> bool:
    """Return whether the database says which key its processes share."""
    return await queries.find_key_check(tx) is not None


async def check_vault(tx: Read, vault: Vault, *, source: str) -> None:
    """Raise VaultError unless the vault, whose keys are from this source, opens what other processes have sealed.

    Call it before sealing: with another key, a process would write secrets that the others can't open.
    """
    found = await find_sealed(tx)
    if found is not None and not vault.knows(found.content):
        raise VaultError(other_key(found.content, source))
    if found is not None:
        vault.open(found.content, context=found.context)


class Resealed(Struct, frozen=True):
    """The result of one step. `last` is the partner to continue after; None at the end."""

    count: int
    last: UUID | None


async def reseal(tx: Write, vault: Vault, *, after: UUID | None, limit: int) -> Resealed:
    """Reseal the secrets of the next partners that an older key has sealed, first with those of no partner.

    A concurrent rotation wins: a secret is replaced only if it hasn't changed. Raises VaultError.
    """
    query = select(partners.c.id).order_by(partners.c.id).limit(limit)
    owners = await tx.all(query if after is None else query.where(partners.c.id > after))
    ids = [row.id for row in owners]
    count = await _tokens(tx, vault, ids) + await _secrets(tx, vault, ids)
    count += await _endpoints(tx, vault, webhook_endpoints.c.partner_id.in_(ids))
    if after is None:
        # The operators' own, which belong to no partner.
        others = webhook_endpoints.c.partner_id.not_in(select(partners.c.id))
        count += await _endpoints(tx, vault, others)
        await _key_check(tx, vault)
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


async def _endpoints(tx: Write, vault: Vault, owned: ColumnElement[bool]) -> int:
    count, c = 0, webhook_endpoints.c
    for row in await tx.all(select(c.id, c.credentials).where(owned)):
        if not vault.is_current(row.credentials):
            sealed = _reseal(vault, row.credentials, endpoint_context(row.id))
            await tx.execute(
                update(webhook_endpoints)
                .where(c.id == row.id, c.credentials == row.credentials)
                .values(credentials=sealed)
            )
            count += 1
    return count


async def _key_check(tx: Write, vault: Vault) -> None:
    """Seal the text that says which key the processes share with the first key."""
    found = await queries.find_key_check(tx)
    if found is not None and not vault.is_current(found):
        await queries.replace_key_check(tx, vault.seal(_CHECK, context=_CHECK))


async def count_unreadable(tx: Read, vault: Vault, *, limit: int) -> int:
    """Return how many of the newest secrets and tokens (`limit` of each) no key opens."""
    secrets = await tx.all(
        select(signing_secrets.c.id, signing_secrets.c.secret)
        .order_by(signing_secrets.c.id.desc())
        .limit(limit)
    )
    tokens = await tx.all(select(webhook_tokens).order_by(webhook_tokens.c.partner_id.desc()).limit(limit))
    c = webhook_endpoints.c
    others = await tx.all(select(c.id, c.credentials).order_by(c.id.desc()).limit(limit))
    sealed = [(row.secret, secret_context(row.id)) for row in secrets]
    sealed += [(row.credentials, endpoint_context(row.id)) for row in others]
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
