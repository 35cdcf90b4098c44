"""API keys: create, find, roll and revoke, with the keys that descend from them."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select

from mercato.features.partners import model, queries
from mercato.features.partners.model import (
    AccountError,
    ApiKey,
    InactiveKeyError,
    KeyState,
    Partner,
    Surface,
    UnknownKeyError,
)
from mercato.features.partners.queries import is_active, key_of
from mercato.features.partners.tables import api_keys
from mercato.platform.db.audit import audit
from mercato.platform.db.changes import announce
from mercato.platform.db.engine import Read, Write
from mercato_contract import clock
from mercato_contract.clock import Clock, MakeId
from mercato_contract.wire import parse_uuid, redacted

TOPIC: Final = "partner"
"""The topic under which a change of a partner or of its credentials is announced, with the partner's id."""

STORES_TOPIC: Final = "partner-stores"
"""The topic under which a change of the number of a partner's live stores is announced, with the partner's id."""

OVERLAP: Final = timedelta(hours=24)
"""How long an old key or secret stays valid beside the new one, by default."""

MAX_OVERLAP: Final = timedelta(days=90)
"""A longer overlap isn't a rotation."""

MAX_DESCRIPTION: Final = 200

MAX_ACTIVE_KEYS: Final = 100
"""Active keys of a partner up to which it makes others itself; an operator's command isn't limited."""


@redacted("text")
class NewKey(Struct, frozen=True):
    """A new key with its text, which is never shown again. Its repr redacts it."""

    id: UUID
    surface: Surface
    text: str
    expires_at: datetime | None


async def create_key(
    tx: Write,
    partner: Partner,
    *,
    surface: Surface,
    description: str | None = None,
    expires_at: datetime | None = None,
    parent: ApiKey | None = None,
    agent_id: UUID | None = None,
    now: Clock = clock.now,
    new_id: MakeId = clock.new_id,
) -> NewKey:
    """Create a key, which expires no later than its parent. Raises AccountError if the partner lacks the surface."""
    if surface not in partner.kind.surfaces:
        raise AccountError(f"{partner.name} is a {partner.kind} partner and can have no {surface} key.")
    if expires_at is not None and expires_at <= now():
        raise AccountError("The key's expiry is in the past: it would have expired before its first use.")
    if description is not None and (len(description) > MAX_DESCRIPTION or not description.isprintable()):
        raise AccountError(f"A key's description has at most {MAX_DESCRIPTION} printable characters.")
    latest = None if parent is None else parent.expires_at
    made = await insert_key(
        tx,
        partner.id,
        surface,
        description=description,
        expires_at=_earliest(expires_at, latest),
        parent_key_id=None if parent is None else parent.id,
        latest_expiry=latest,
        agent_id=agent_id,
        now=now,
        new_id=new_id,
    )
    if agent_id is None:  # else the entry about the agent names it
        await audit(tx, "key", made.id, partner_id=partner.id, detail={"surface": surface})
    return made


async def get_key(tx: Read, name: str) -> ApiKey:
    """Return the key with this id, listed prefix or text. Raises UnknownKeyError."""
    token = name.encode(errors="replace")
    if (key_id := parse_uuid(name)) is not None:
        key = await queries.find_key(tx, key_id)
    elif model.is_whole(token):
        key = await queries.find_key_by_digest(tx, model.digest(token))
    else:
        key = await queries.find_key_by_prefix(tx, token.decode())
    if key is None:
        shown = model.prefix(name) if model.looks_like_key(token) else "of that name"
        raise UnknownKeyError(shown)
    return key


async def roll_key(
    tx: Write,
    key: ApiKey,
    *,
    overlap: timedelta = OVERLAP,
    parent: ApiKey | None = None,
    now: Clock = clock.now,
    new_id: MakeId = clock.new_id,
) -> NewKey:
    """Create a key that replaces an active one, which expires after the overlap.

    The new key has the lifetime of the old one, but expires no later than that one's parent did, and than its own. The
    parent is the key whose session rolls; an operator's command keeps the old one's. The key of an agent is replaced by
    another of that agent. Raises InactiveKeyError if the key isn't active.
    """
    at = now()
    if not await queries.set_key_expiry(tx, key.id, at=at + checked_overlap(overlap), now=at):
        raise InactiveKeyError(key, key.state(at))
    await announce(tx, TOPIC, str(key.partner_id))
    life = None if key.expires_at is None else key.expires_at - key.created_at
    latest = _earliest(key.latest_expiry, None if parent is None else parent.expires_at)
    made = await insert_key(
        tx,
        key.partner_id,
        key.surface,
        description=key.description,
        expires_at=_earliest(None if life is None else at + life, latest),
        parent_key_id=key.parent_key_id if parent is None else parent.id,
        latest_expiry=latest,
        agent_id=key.agent_id,
        now=now,
        new_id=new_id,
    )
    if key.agent_id is not None:
        await queries.set_agent_key(tx, key.agent_id, made.id)
    await audit(tx, "key", key.id, partner_id=key.partner_id, detail={"rolledTo": made.id})
    return made


async def revoke_key(tx: Write, key: ApiKey, *, agent_id: UUID | None = None, now: Clock = clock.now) -> bool:
    """Revoke a key, here at once and everywhere within a second; return whether it wasn't revoked before.

    The keys of agents that it has made are revoked with it. `agent_id` is the agent that is revoked with its keys.
    """
    revoked = await queries.set_key_revoked(tx, key.id, now=now())
    if revoked and agent_id is None:
        await audit(tx, "key", key.id, partner_id=key.partner_id, detail={"revoked": True})
    elif revoked:
        detail = {"revoked": True, "key": key.id}
        await audit(tx, "agent", agent_id, partner_id=key.partner_id, detail=detail)
    # After the update, for which a request that makes an agent with the key has waited; again, because a key of an
    # agent that is being revoked may have been rolled in the meantime.
    while made := await queries.set_agent_keys_revoked(tx, key, now=now()):
        for key_id in made:
            await audit(
                tx, "key", key_id, partner_id=key.partner_id, detail={"revoked": True, "parent": key.id}
            )
    # Announced even when nothing changed: a second revocation may follow a lost announcement.
    await announce(tx, TOPIC, str(key.partner_id))
    return revoked


async def insert_key(
    tx: Write,
    partner_id: UUID,
    surface: Surface,
    *,
    description: str | None = None,
    expires_at: datetime | None = None,
    parent_key_id: UUID | None = None,
    latest_expiry: datetime | None = None,
    agent_id: UUID | None = None,
    now: Clock,
    new_id: MakeId,
) -> NewKey:
    text = model.new_key(surface)
    key = ApiKey(
        id=new_id(),
        partner_id=partner_id,
        surface=surface,
        prefix=model.prefix(text),
        description=description,
        expires_at=expires_at,
        revoked_at=None,
        created_at=now(),
        last_used_at=None,
        parent_key_id=parent_key_id,
        latest_expiry=latest_expiry,
        agent_id=agent_id,
    )
    await queries.insert_key(tx, key, digest=model.digest(text.encode()))
    return NewKey(id=key.id, surface=surface, text=text, expires_at=expires_at)


def _earliest(*instants: datetime | None) -> datetime | None:
    return min((instant for instant in instants if instant is not None), default=None)


def checked_overlap(overlap: timedelta) -> timedelta:
    """Return the overlap. Raises AccountError if it is negative or too long."""
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise AccountError(f"An overlap has 0 to {MAX_OVERLAP.days} days.")
    return overlap


async def lock_parent(tx: Write, key_id: UUID, *, now: datetime) -> ApiKey | None:
    """Return the key if it is active, and lock it against revocation until the transaction ends."""
    row = await tx.first(select(api_keys).where(api_keys.c.id == key_id, is_active(now)).with_for_update())
    return None if row is None else key_of(row)


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
        parents += [created.id for created in made]
        found += made
    # A key that has ended can have active descendants.
    return sorted(
        (descendant for descendant in found if descendant.state(now) is KeyState.ACTIVE),
        key=lambda descendant: descendant.id,
    )


async def revoke_descendants(tx: Write, key: ApiKey, *, now: Clock = clock.now) -> list[ApiKey]:
    """Revoke the active keys that descend from a revoked one, and return them as they were."""
    revoked: list[ApiKey] = []
    # One that is being revoked may have made another key in the meantime.
    while found := await list_descendants(tx, key, now=now()):
        for descendant in found:
            await revoke_key(tx, descendant, now=now)
        revoked += found
    return revoked
