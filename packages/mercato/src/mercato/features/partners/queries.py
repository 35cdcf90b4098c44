"""The SQL of partners, keys and secrets, and of what a partner stores.

How much a partner may store in a day (UTC), counted in the transaction that stores, over all processes.

Deleting data doesn't reduce the day's count.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import (
    ColumnElement,
    Insert,
    Row,
    Select,
    and_,
    bindparam,
    case,
    column,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    table,
    update,
)

from mercato.features.partners.model import (
    Agent,
    ApiKey,
    ApprovalRule,
    Limits,
    Partner,
    PartnerKind,
    SigningSecret,
    Surface,
)
from mercato.features.partners.tables import (
    agent_spending,
    agents,
    api_keys,
    key_checks,
    partners,
    signing_secrets,
    stored_bytes,
    webhook_tokens,
)
from mercato.platform import errors
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.search import ESCAPE, pattern_of
from mercato.platform.db.statements import conflicting_insert, prepared, prepared_insert
from mercato.platform.db.types import Dialect, Id, Instant
from mercato_contract.wire import as_json

USE_STEP: Final = timedelta(minutes=1)
"""A key's last use is kept to the minute."""

_MAX_ALIKE: Final = 100
"""Partners whose names are compared in any letter case."""

# --- partners ----------------------------------------------------------------------------------------


_HAS_TOKEN: Final = exists().where(webhook_tokens.c.partner_id == partners.c.id).label("has_webhook_token")
_PARTNER: Final = select(*partners.c, _HAS_TOKEN)
_THIS_PARTNER: Final = partners.c.id == bindparam("where_id")
_PARTNER_BY_ID: Final = prepared(_PARTNER.where(_THIS_PARTNER))
_LOCK_PARTNER: Final = prepared(_PARTNER.where(_THIS_PARTNER).with_for_update(of=partners, key_share=True))
_HOLD_ACTIVE: Final = prepared(
    select(partners.c.id).where(_THIS_PARTNER, partners.c.suspended_at.is_(None)).with_for_update(read=True)
)
_INSERT_PARTNER: Final = prepared_insert(partners)


async def insert_partner(tx: Write, partner: Partner) -> None:
    values = asdict(partner) | {"limits": _json(partner.limits)}
    del values["has_webhook_token"]
    await tx.execute(_INSERT_PARTNER, values)


async def find_partner(tx: Read, partner_id: UUID) -> Partner | None:
    row = await tx.first(_PARTNER_BY_ID, {"where_id": partner_id})
    return None if row is None else _partner(row)


_GONE: Final = "This partner is suspended. Ask the operator of this service."


async def lock_partner(tx: Write, partner_id: UUID) -> Partner | None:
    """Return the partner and lock its row until the transaction ends. Orders in its name don't wait for it."""
    row = await tx.first(_LOCK_PARTNER, {"where_id": partner_id})
    return None if row is None else _partner(row)


async def list_partners(
    tx: Read, *, name: str | None = None, after: UUID | None = None, limit: int
) -> list[Partner]:
    """Return a page in the order of creation: all, or those of one name."""
    statement = _PARTNER.order_by(partners.c.id).limit(limit)
    if name is not None:
        statement = statement.where(partners.c.name == name)
    if after is not None:
        statement = statement.where(partners.c.id > after)
    return [_partner(row) for row in await tx.all(statement)]


async def find_partners_named(tx: Read, name: str, *, limit: int) -> list[Partner]:
    """Return the partner of the name, or else those whose name differs in letter case alone.

    That reads all names: partners are organisations, which operators create one by one.
    """
    name = name.encode(errors="replace").decode()
    exact = await list_partners(tx, name=name, limit=1)
    if exact or not name:
        return exact
    alike = _PARTNER.where(func.lower(partners.c.name).like(pattern_of(name), escape=ESCAPE)).limit(
        _MAX_ALIKE
    )
    found = [_partner(row) for row in await tx.all(alike.order_by(partners.c.id))]
    return [partner for partner in found if partner.name.casefold() == name.casefold()][:limit]


async def list_newest_partners(tx: Read, *, before: UUID | None = None, limit: int) -> list[Partner]:
    """Return a page, newest first: `before` is the last partner of the page before."""
    statement = _PARTNER.order_by(partners.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(partners.c.id < before)
    return [_partner(row) for row in await tx.all(statement)]


# Not prepared: there may be many.
_NAMES: Final = select(partners.c.id, partners.c.name).where(
    partners.c.id.in_(bindparam("where_ids", expanding=True))
)
_PREFIXES: Final = select(api_keys.c.id, api_keys.c.prefix).where(
    api_keys.c.id.in_(bindparam("where_ids", expanding=True))
)


async def find_names(tx: Read, partner_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the names of the partners that exist."""
    return {row.id: row.name for row in await tx.all(_NAMES, {"where_ids": partner_ids})}


async def find_prefixes(tx: Read, key_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the prefixes of the keys that exist, by which lists name them."""
    return {row.id: row.prefix for row in await tx.all(_PREFIXES, {"where_ids": key_ids})}


_EVENT_URL = prepared(select(partners.c.event_url).where(_THIS_PARTNER))


async def find_event_url(tx: Read, partner_id: UUID) -> str | None:
    url: str | None = await tx.scalar(_EVENT_URL, {"where_id": partner_id})
    return url


async def hold_active_partner(tx: Write, partner_id: UUID) -> None:
    """Lock the partner against suspension and deletion until the transaction ends: for what is made in its name.

    Its key was looked up before that. Raises Forbidden for a partner that is suspended or gone.
    """
    if await tx.first(_HOLD_ACTIVE, {"where_id": partner_id}) is None:
        raise errors.Forbidden(_GONE)


async def lock_active_partner(tx: Write, partner_id: UUID) -> None:
    """The same, and one such transaction waits for another."""
    partner = await lock_partner(tx, partner_id)
    if partner is None or partner.suspended_at is not None:
        raise errors.Forbidden(_GONE)


async def hold_for_deletion(tx: Write, partner_id: UUID) -> None:
    """Wait for the orders that are being stored in the partner's name. No more are, until the transaction ends."""
    # What its agents spent first, as orders lock it, and in the order of their `give_back`: no two deadlock so.
    spent = select(agent_spending).where(agent_spending.c.agent_id.in_(_agents_of(partner_id)))
    in_order = spent.order_by(*agent_spending.primary_key).with_for_update().subquery()
    await tx.scalar(select(func.count()).select_from(in_order))
    await tx.first(select(partners.c.id).where(partners.c.id == partner_id).with_for_update())


def _agents_of(partner_id: UUID) -> Select[tuple[UUID]]:
    return select(agents.c.id).where(agents.c.partner_id == partner_id)


async def delete_partner(tx: Write, partner_id: UUID) -> None:
    """Delete the partner with its agents, keys, signing secrets and webhook tokens, after `hold_for_deletion`."""
    own_agents = _agents_of(partner_id)
    await tx.execute(delete(agent_spending).where(agent_spending.c.agent_id.in_(own_agents)))
    await tx.execute(delete(agents).where(agents.c.partner_id == partner_id))
    await tx.execute(delete(api_keys).where(api_keys.c.partner_id == partner_id))
    await tx.execute(delete(signing_secrets).where(signing_secrets.c.partner_id == partner_id))
    await tx.execute(delete(webhook_tokens).where(webhook_tokens.c.partner_id == partner_id))
    await tx.execute(delete(partners).where(partners.c.id == partner_id))


async def update_partner(tx: Write, partner_id: UUID, **values: Any) -> bool:
    """Set columns; return whether the partner exists."""
    if "limits" in values:
        values["limits"] = _json(values["limits"])
    result = await tx.execute(update(partners).where(partners.c.id == partner_id).values(**values))
    return result.rowcount == 1


# --- keys --------------------------------------------------------------------------------------------


_INSERT_KEY: Final = prepared_insert(api_keys)


async def insert_key(tx: Write, key: ApiKey, *, digest: bytes) -> None:
    await tx.execute(_INSERT_KEY, asdict(key) | {"hash": digest})


_PREFIX: Final = "of_agent_"
_OF_AGENT: Final = tuple(column.label(_PREFIX + column.name) for column in agents.c)

_STORES: Final = table("stores", column("partner_id", Id))
"""The table of a feature above this one, which is only counted here."""


async def count_stores(tx: Read, partner_id: UUID) -> int:
    """Return how many live stores the partner has, paused ones too: an index counts them."""
    return int(await tx.scalar(_stores_of(partner_id)))


def _stores_of(partner_id: UUID | ColumnElement[UUID]) -> Select[int]:
    return select(func.count()).select_from(_STORES).where(_STORES.c.partner_id == partner_id)


class KeyWithPartner(NamedTuple):
    """A key in any state, with its partner's limits and event URL, the number of its live stores, and its agent."""

    key: ApiKey
    limits: Limits
    stores: int
    suspended: bool
    agent: Agent | None
    event_url: str | None


_CALLER: Final = (
    select(
        api_keys,
        *_OF_AGENT,
        partners.c.limits,
        partners.c.event_url,
        partners.c.suspended_at,
        _stores_of(api_keys.c.partner_id).scalar_subquery().label("stores"),
    )
    .join(partners, partners.c.id == api_keys.c.partner_id)
    .outerjoin(agents, agents.c.id == api_keys.c.agent_id)
)
# Not prepared: a partner may have thousands of stores.
_CALLER_BY_DIGEST: Final = _CALLER.where(api_keys.c.hash == bindparam("where_hash"))
_CALLER_BY_KEY_ID: Final = _CALLER.where(
    api_keys.c.id == bindparam("where_id"), api_keys.c.partner_id == bindparam("where_partner")
)


async def find_caller_by_digest(tx: Read, digest: bytes) -> KeyWithPartner | None:
    return _with_partner(await tx.first(_CALLER_BY_DIGEST, {"where_hash": digest}))


async def find_caller_by_key_id(tx: Read, key_id: UUID, partner_id: UUID) -> KeyWithPartner | None:
    of_key = {"where_id": key_id, "where_partner": partner_id}
    return _with_partner(await tx.first(_CALLER_BY_KEY_ID, of_key))


def _with_partner(row: Row[Any] | None) -> KeyWithPartner | None:
    if row is None:
        return None
    limits = msgspec.json.decode(row.limits, type=Limits)
    return KeyWithPartner(
        key_of(row),
        limits,
        row.stores,
        suspended=row.suspended_at is not None,
        agent=None if row.agent_id is None else agent_of(row, _PREFIX),
        event_url=row.event_url,
    )


async def find_key(tx: Read, key_id: UUID) -> ApiKey | None:
    return await _only(tx, api_keys.c.id == key_id)


async def find_key_by_digest(tx: Read, digest: bytes) -> ApiKey | None:
    return await _only(tx, api_keys.c.hash == digest)


async def find_key_by_prefix(tx: Read, prefix: str) -> ApiKey | None:
    """Return the key with this listed prefix; None if several have it, which 36 bits make rare."""
    return await _only(tx, api_keys.c.prefix == prefix)


async def _only(tx: Read, condition: ColumnElement[bool]) -> ApiKey | None:
    rows = await tx.all(select(api_keys).where(condition).limit(2))
    return key_of(rows[0]) if len(rows) == 1 else None


async def list_keys(
    tx: Read,
    *,
    partner_id: UUID | None = None,
    surfaces: Collection[Surface] | None = None,
    after: UUID | None = None,
    limit: int,
) -> list[ApiKey]:
    """Return a page in the order of creation: of one partner or of all."""
    statement = select(api_keys).order_by(api_keys.c.id).limit(limit)
    if partner_id is not None:
        statement = statement.where(api_keys.c.partner_id == partner_id)
    if surfaces is not None:
        statement = statement.where(api_keys.c.surface.in_(surfaces))
    if after is not None:
        statement = statement.where(api_keys.c.id > after)
    return [key_of(row) for row in await tx.all(statement)]


async def count_active_keys(tx: Read, partner_id: UUID, *, now: datetime) -> int:
    """Return how many keys of the partner are neither revoked nor expired."""
    mine = select(func.count()).where(api_keys.c.partner_id == partner_id, is_active(now))
    return int(await tx.scalar(mine))


async def set_key_expiry(tx: Write, key_id: UUID, *, at: datetime, now: datetime) -> bool:
    """Move an active key's expiry forward to the instant at the latest; return whether it was active."""
    sooner = api_keys.c.expires_at < at
    result = await tx.execute(
        update(api_keys)
        .where(api_keys.c.id == key_id, is_active(now))
        .values(expires_at=case((sooner, api_keys.c.expires_at), else_=literal(at, Instant)))
    )
    return result.rowcount == 1


async def set_key_revoked(tx: Write, key_id: UUID, *, now: datetime) -> bool:
    """Return whether the key wasn't revoked before."""
    result = await tx.execute(
        update(api_keys)
        .where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    return result.rowcount == 1


async def set_agent_keys_revoked(tx: Write, parent: ApiKey, *, now: datetime) -> list[UUID]:
    """Revoke the agents' keys that the parent has made and that weren't revoked; return their ids."""
    made = and_(
        api_keys.c.partner_id == parent.partner_id,
        api_keys.c.parent_key_id == parent.id,
        api_keys.c.agent_id.is_not(None),
        api_keys.c.revoked_at.is_(None),
    )
    result = await tx.execute(update(api_keys).where(made).values(revoked_at=now).returning(api_keys.c.id))
    return [row.id for row in result.all()]


async def record_key_uses(tx: Write, key_ids: Sequence[UUID], *, now: datetime) -> None:
    """Record a use of the keys; rows that another process is writing are skipped."""
    known = or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at <= now - USE_STEP)
    wanted = select(api_keys.c.id).where(api_keys.c.id.in_(key_ids), known)
    await tx.execute(
        update(api_keys)
        .where(api_keys.c.id.in_(wanted.with_for_update(skip_locked=True)))
        .values(last_used_at=now)
    )


def is_active(now: datetime) -> ColumnElement[bool]:
    unexpired = or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now)
    return and_(api_keys.c.revoked_at.is_(None), unexpired)


# --- agents ------------------------------------------------------------------------------------------


async def insert_agent(tx: Write, agent: Agent) -> None:
    await tx.execute(insert(agents).values(asdict(agent)))


async def set_agent_key(tx: Write, agent_id: UUID, key_id: UUID) -> None:
    await tx.execute(update(agents).where(agents.c.id == agent_id).values(key_id=key_id))


# --- signing secrets ---------------------------------------------------------------------------------


_INSERT_SECRET: Final = prepared_insert(signing_secrets)
_SECRETS: Final = prepared(
    select(signing_secrets)
    .where(
        signing_secrets.c.partner_id == bindparam("where_partner"),
        or_(signing_secrets.c.expires_at.is_(None), signing_secrets.c.expires_at > bindparam("now")),
    )
    # The current one never expires: that makes it the newest, whatever the clocks say.
    .order_by(signing_secrets.c.expires_at.is_(None).desc(), signing_secrets.c.created_at.desc())
)
_NEWEST_SECRET: Final = prepared(select(signing_secrets).order_by(signing_secrets.c.id.desc()).limit(1))


async def insert_secret(tx: Write, partner_id: UUID, secret: SigningSecret, *, sealed: bytes) -> None:
    await tx.execute(_INSERT_SECRET, asdict(secret) | {"partner_id": partner_id, "secret": sealed})


async def list_secrets(tx: Read, partner_id: UUID, *, now: datetime) -> list[tuple[SigningSecret, bytes]]:
    """Return the secrets that are valid now, at most two, the newest first, each with its sealed text."""
    rows = await tx.all(_SECRETS, {"where_partner": partner_id, "now": now})
    return [
        (SigningSecret(id=row.id, created_at=row.created_at, expires_at=row.expires_at), row.secret)
        for row in rows
    ]


async def find_newest_secret(tx: Read) -> tuple[UUID, bytes] | None:
    """Return id and sealed text of the newest secret of all partners."""
    row = await tx.first(_NEWEST_SECRET)
    return None if row is None else (row.id, row.secret)


KEY_CHECK: Final = UUID(int=0)
"""The id of the one row of `key_checks`."""

_KEY_CHECK: Final = prepared(select(key_checks.c.sealed).where(key_checks.c.id == bindparam("where_id")))


async def find_key_check(tx: Read) -> bytes | None:
    """Return the text that is sealed with the key of the database's processes."""
    sealed: bytes | None = await tx.scalar(_KEY_CHECK, {"where_id": KEY_CHECK})
    return sealed


async def insert_key_check(tx: Write, sealed: bytes) -> None:
    """Write the sealed text, unless there is one."""
    new = conflicting_insert(key_checks, tx.dialect).values(id=KEY_CHECK, sealed=sealed)
    await tx.execute(new.on_conflict_do_nothing())


async def replace_key_check(tx: Write, sealed: bytes) -> None:
    await tx.execute(update(key_checks).where(key_checks.c.id == KEY_CHECK).values(sealed=sealed))


async def expire_signing_secret(tx: Write, partner_id: UUID, *, until: datetime) -> None:
    """Set the current secret's expiry and delete the previous one, so that at most two are valid."""
    mine = signing_secrets.c.partner_id == partner_id
    await tx.execute(delete(signing_secrets).where(mine, signing_secrets.c.expires_at.is_not(None)))
    await tx.execute(update(signing_secrets).where(mine).values(expires_at=until))


# --- rows --------------------------------------------------------------------------------------------


def _json(limits: Limits) -> str:
    return as_json(limits).decode()


def _partner(row: Row[Any]) -> Partner:
    limits = msgspec.json.decode(row.limits, type=Limits)
    return Partner(**row._asdict() | {"kind": PartnerKind(row.kind), "limits": limits})


def agent_of(row: Row[Any], prefix: str = "") -> Agent:
    """Return the agent of a row whose columns have names that begin with the prefix."""
    members = {name: getattr(row, prefix + name) for name in Agent.__struct_fields__}
    return Agent(**members | {"approval": ApprovalRule(members["approval"])})


def key_of(row: Row[Any]) -> ApiKey:
    members = {name: getattr(row, name) for name in ApiKey.__struct_fields__}
    return ApiKey(**members | {"surface": Surface(row.surface)})


ORDER_BYTES: Final = 12_000
"""What an order stores besides its content: rows, indices, events. Measured by `benchmarks.stored`."""

VALIDATION_BYTES: Final = 1_000
"""What the log of a validation without a usable reply stores besides its body."""

_DAY: Final = timedelta(days=1)
_COLUMNS: Final = tuple(stored_bytes.c.keys())
_KEY: Final = [stored_bytes.c.partner_id, stored_bytes.c.day]


def _add(dialect: Dialect) -> Insert:
    new = conflicting_insert(stored_bytes, dialect).values({name: bindparam(name) for name in _COLUMNS})
    added: Insert = new.on_conflict_do_update(
        index_elements=_KEY,
        set_={"bytes": stored_bytes.c.bytes + new.excluded.bytes},
        where=stored_bytes.c.bytes < bindparam("quota"),
    )
    return prepared(added)


_ADD: Final[dict[Dialect, Insert]] = {dialect: _add(dialect) for dialect in ("sqlite", "postgresql")}
_FIND: Final = prepared(
    select(stored_bytes.c.bytes).where(
        stored_bytes.c.partner_id == bindparam("where_partner"), stored_bytes.c.day == bindparam("where_day")
    )
)


class StorageQuota(Struct, frozen=True):
    """The bytes that each partner may store in a day; 0 means no limit and no count."""

    per_day: int

    async def take(self, tx: Write, partner_id: UUID, size: int, *, now: datetime) -> None:
        """Count bytes that this transaction stores for the partner. Raises RateLimited if its quota is used up.

        The last call that succeeds may exceed the quota.
        """
        if not self.per_day:
            return
        row = {"partner_id": partner_id, "day": _day_of(now), "bytes": size, "quota": self.per_day}
        tx.require(_ADD[tx.dialect], row, otherwise=self._used_up(now))

    async def check(self, tx: Read, partner_id: UUID, *, now: datetime) -> None:
        """Raise RateLimited if the partner's quota is used up."""
        if not self.per_day:
            return
        if await self.used(tx, partner_id, now=now) >= self.per_day:
            raise self._used_up(now)

    async def used(self, tx: Read, partner_id: UUID, *, now: datetime) -> int:
        """Return the bytes that were counted for the partner in this day."""
        used: int | None = await tx.scalar(_FIND, {"where_partner": partner_id, "where_day": _day_of(now)})
        return used or 0

    def _used_up(self, now: datetime) -> errors.RateLimited:
        midnight = (now.astimezone(UTC) + _DAY).replace(hour=0, minute=0, second=0, microsecond=0)
        seconds = -int((now - midnight) // timedelta(seconds=1))
        return errors.RateLimited(
            f"You have stored all of the {self.per_day:,} bytes that a partner may store in a day. The next day begins "
            f"at 00:00 UTC, in {seconds:,} seconds. The operator can raise MERCATO_STORED_BYTES_PER_DAY.",
            retry_after=seconds,
        )


async def prune_stored_bytes(tx: Write, *, now: datetime, limit: int) -> int:
    """Delete at most `limit` counts of past days; return how many."""
    some = select(*_KEY).where(stored_bytes.c.day < _day_of(now) - 1).limit(limit)
    rows = await tx.all(some)
    for row in rows:
        conditions = (stored_bytes.c.partner_id == row.partner_id, stored_bytes.c.day == row.day)
        await tx.execute(delete(stored_bytes).where(*conditions))
    return len(rows)


def _day_of(now: datetime) -> int:
    """Return the number of the day in UTC, from 1 January of the year 1."""
    return now.astimezone(UTC).toordinal()
