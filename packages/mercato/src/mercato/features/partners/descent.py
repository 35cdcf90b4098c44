"""Keys that descend from another one: they were made in its console sessions, or in sessions of such keys."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from sqlalchemy import select

from mercato.features.partners.credentials import revoke_key
from mercato.features.partners.model import ApiKey, KeyState
from mercato.features.partners.queries import is_active, key_of
from mercato.features.partners.tables import api_keys
from mercato.platform import clock
from mercato.platform.clock import Clock
from mercato.platform.db.engine import Read, Write


async def lock_parent(tx: Write, key_id: UUID, *, now: datetime) -> ApiKey | None:
    """Return the key if it is active, and lock it against revocation until the transaction ends."""
    row = await tx.first(select(api_keys).where(api_keys.c.id == key_id, is_active(now)).with_for_update())
    return None if row is None else key_of(row)


async def find_prefixes(tx: Read, key_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the prefixes of the keys that exist."""
    found = select(api_keys.c.id, api_keys.c.prefix).where(api_keys.c.id.in_(key_ids))
    return {row.id: row.prefix for row in await tx.all(found)}


async def list_descendants(tx: Read, key: ApiKey, *, now: datetime) -> list[ApiKey]:
    """Return the active keys that descend from the key, in the order of creation."""
    children: dict[UUID, list[ApiKey]] = {}
    with_parent = select(api_keys).where(
        api_keys.c.partner_id == key.partner_id, api_keys.c.parent_key_id.is_not(None)
    )
    for row in await tx.all(with_parent):
        children.setdefault(row.parent_key_id, []).append(key_of(row))
    found: list[ApiKey] = []
    parents = [key.id]
    while parents:
        made = children.pop(parents.pop(), [])
        parents += [one.id for one in made]
        found += made
    # A key that has ended can have active descendants.
    return sorted((one for one in found if one.state(now) is KeyState.ACTIVE), key=lambda one: one.id)


async def revoke_descendants(tx: Write, key: ApiKey, *, now: Clock = clock.now) -> list[ApiKey]:
    """Revoke the active keys that descend from a revoked one, and return them as they were."""
    revoked: list[ApiKey] = []
    # One that is being revoked may have made another key in the meantime.
    while found := await list_descendants(tx, key, now=now()):
        for one in found:
            await revoke_key(tx, one, now=now)
        revoked += found
    return revoked
