"""One-time links and the sessions that they begin.

Every look-up joins the partner and the key, so that a session ends with them at once and everywhere.
Every function takes the caller's transaction.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    FromClause,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    false,
    insert,
    or_,
    select,
    update,
)

from mercato.features.partners.model import Limits, Partner, PartnerKind, Surface
from mercato.features.partners.tables import api_keys, partners
from mercato.features.sign_in.model import (
    IDLE_LIFE,
    LINK_LIFE,
    LONGEST_LIFE,
    USE_STEP,
    Grant,
    LinkExpired,
    LinkRefused,
    LinkUsed,
    LinkWithdrawn,
    NewLink,
    Person,
    Session,
    digest,
    new_token,
)
from mercato.features.sign_in.roles import Permission, Role
from mercato.features.sign_in.tables import console_links, console_people, console_sessions
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import prepared
from mercato.platform.db.types import Instant
from mercato_contract import clock
from mercato_contract.clock import MakeId

MAX_LISTED: Final = 200
"""Sessions of one account that a page shows, the newest first."""

_GRANT: Final = ("partner_id", "key_id", "store_id", "read_only", "created_by")
_PARTNER: Final = (
    partners.c.name,
    partners.c.kind,
    partners.c.limits,
    partners.c.event_url,
    partners.c.created_at.label("partner_since"),
    partners.c.suspended_at,
)
_NOW: Final = bindparam("now", type_=Instant)


def _with_owner(table: Table) -> Select[Any]:
    """Return the query of links or sessions with their partners and whether these and their keys are valid at `now`."""
    has_key = and_(
        api_keys.c.id.is_not(None),
        api_keys.c.revoked_at.is_(None),
        or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > _NOW),
    )
    has_partner = and_(partners.c.id.is_not(None), partners.c.suspended_at.is_(None))
    is_valid = and_(or_(table.c.key_id.is_(None), has_key), or_(table.c.partner_id.is_(None), has_partner))
    joined: FromClause = table.outerjoin(partners, partners.c.id == table.c.partner_id).outerjoin(
        api_keys, and_(api_keys.c.id == table.c.key_id, api_keys.c.partner_id == table.c.partner_id)
    )
    shown = [*_PARTNER, api_keys.c.prefix.label("key_prefix"), api_keys.c.surface.label("key_surface")]
    if table is console_sessions:
        people = console_people.c
        joined = joined.outerjoin(console_people, people.id == table.c.person_id)
        is_valid = and_(is_valid, or_(table.c.person_id.is_(None), people.id.is_not(None)))
        shown += [people.name.label("person"), people.role, people.key_id.label("person_key_id")]
    return select(*table.c, *shown, is_valid.label("is_valid")).select_from(joined)


_FIND_LINK: Final = prepared(_with_owner(console_links).where(console_links.c.hash == bindparam("hash")))
_FIND_SESSION: Final = prepared(
    _with_owner(console_sessions).where(
        console_sessions.c.hash == bindparam("hash"), console_sessions.c.expires_at > _NOW
    )
)
"""Every page looks a session up: making this query takes longer than running it."""


# --- links -------------------------------------------------------------------------------------------


async def create_link(
    tx: Write, grant: Grant, *, now: datetime, new_id: MakeId = clock.new_id, token: str | None = None
) -> NewLink:
    """Return a new link, which can be opened once within `LINK_LIFE`.

    A `token` that the caller has derived makes one link. Raises LinkUsed for a second one.
    """
    if token is not None and await tx.first(
        select(console_links.c.id).where(console_links.c.hash == digest(token))
    ):
        raise LinkUsed
    token, link_id = token or new_token(), new_id()
    await tx.execute(
        insert(console_links).values(
            id=link_id, hash=digest(token), created_at=now, expires_at=now + LINK_LIFE, **_columns(grant)
        )
    )
    await _audit(tx, "consoleLink", link_id, grant, {"created": True})
    return NewLink(token, now + LINK_LIFE)


async def get_link(tx: Read, token: str, *, now: datetime) -> Grant:
    """Return what the link opens, without using it. Raises LinkRefused."""
    row = await tx.first(_FIND_LINK, {"hash": digest(token), "now": now})
    if row is None:
        raise LinkRefused
    if row.used_at is not None:
        raise LinkUsed
    if row.expires_at <= now:
        raise LinkExpired
    if not row.is_valid:
        raise LinkWithdrawn
    return _grant(row)


async def sign_in(tx: Write, token: str, *, now: datetime, new_id: MakeId = clock.new_id) -> str:
    """Use the link and return the token of a new session. Raises LinkRefused."""
    grant = await get_link(tx, token, now=now)
    used = await tx.execute(
        update(console_links)
        .where(console_links.c.hash == digest(token), console_links.c.used_at.is_(None))
        .values(used_at=now)
    )
    if used.rowcount != 1:
        raise LinkUsed
    return await begin(tx, grant, now=now, new_id=new_id)


# --- sessions ----------------------------------------------------------------------------------------


async def begin(tx: Write, grant: Grant, *, now: datetime, new_id: MakeId = clock.new_id) -> str:
    """Begin a session and return its token."""
    session_token, session_id = new_token(), new_id()
    await tx.execute(
        insert(console_sessions).values(
            id=session_id,
            hash=digest(session_token),
            created_at=now,
            used_at=now,
            expires_at=now + IDLE_LIFE,
            person_id=grant.person_id,
            **_columns(grant),
        )
    )
    await _audit(tx, "consoleSession", session_id, grant, {"signedIn": True})
    return session_token


async def find_session(tx: Read, token: str, *, now: datetime) -> Session | None:
    """Return the session of the token if it is valid now."""
    row = await tx.first(_FIND_SESSION, {"hash": digest(token), "now": now})
    return None if row is None or not row.is_valid else _session(row)


async def extend_session(tx: Write, session: Session, *, now: datetime) -> None:
    """Record a use, which makes the session last longer, up to `LONGEST_LIFE` from its start."""
    expires_at = min(now + IDLE_LIFE, session.created_at + LONGEST_LIFE)
    await tx.execute(
        update(console_sessions)
        .where(console_sessions.c.id == session.id)
        .values(used_at=now, expires_at=expires_at)
    )


def needs_extension(session: Session, now: datetime) -> bool:
    """Return whether the last recorded use is long enough ago."""
    return now - session.used_at >= USE_STEP


async def list_sessions(tx: Read, account: Session, *, now: datetime) -> Sequence[Session]:
    """Return the valid sessions of the session's account, the newest first.

    A session for one store sees the sessions for that store, one for one surface those that keys of that surface began,
    and somebody who may not see the account's people their own.
    """
    query = (
        _with_owner(console_sessions)
        .where(
            *_of_account(account.grant.partner_id, account, console_sessions),
            console_sessions.c.expires_at > _NOW,
        )
        .order_by(console_sessions.c.id.desc())
        .limit(MAX_LISTED)
    )
    return [_session(row) for row in await tx.all(query, {"now": now}) if row.is_valid]


async def end_session(tx: Write, account: Session, session_id: UUID) -> bool:
    """End a session of the same account; return whether there was one."""
    ended = await tx.execute(
        delete(console_sessions).where(
            *_of_account(account.grant.partner_id, account, console_sessions),
            console_sessions.c.id == session_id,
        )
    )
    if ended.rowcount == 1:
        await _audit(tx, "consoleSession", session_id, account.grant, {"ended": True})
    return ended.rowcount == 1


async def end_all_sessions(
    tx: Write, partner_id: UUID | None, *, seen_by: Session | None = None, now: datetime
) -> int:
    """End the partner's sessions, None for the operators', and withdraw its unused links; return how many ended.

    With `seen_by` those that the session sees: itself, too. Invitations end with those of the whole account, if the
    session may change its people.
    """
    # The links first: a session that one of them begins in the meantime ends with the others.
    for table, usable in (
        (console_links, console_links.c.used_at.is_(None)),
        (console_sessions, console_sessions.c.expires_at > now),
    ):
        ended = await tx.execute(delete(table).where(*_of_account(partner_id, seen_by, table), usable))
    if seen_by is None or (
        seen_by.may(Permission.CHANGE_PEOPLE)
        and seen_by.grant.store_id is None
        and seen_by.only_surface is None
    ):
        await tx.execute(
            update(console_people)
            .where(
                _is_of(partner_id, console_people),
                console_people.c.joined_at.is_(None),
                console_people.c.invitation_expires_at > now,
            )
            .values(invitation_expires_at=now)
        )
    await audit(tx, "consoleSession", partner_id=partner_id, detail={"ended": ended.rowcount})
    return ended.rowcount


async def end_sessions_of(tx: Write, created_by: str) -> None:
    """End the sessions that somebody began, as the audit trail names them."""
    await tx.execute(delete(console_sessions).where(console_sessions.c.created_by == created_by))


async def end_sessions_of_person(tx: Write, person_id: UUID, partner_id: UUID | None) -> None:
    """End the person's sessions."""
    await tx.execute(
        delete(console_sessions).where(
            _is_of(partner_id, console_sessions), console_sessions.c.person_id == person_id
        )
    )


async def prune(tx: Write, *, now: datetime, limit: int) -> int:
    """Delete at most `limit` expired links and as many sessions; return how many of the more numerous.

    A used link is kept until it expires, so that a second use can be distinguished from a wrong token.
    """
    counts = []
    for table in (console_links, console_sessions):
        some = select(table.c.id).where(table.c.expires_at < now - IDLE_LIFE).limit(limit)
        counts.append((await tx.execute(delete(table).where(table.c.id.in_(some)))).rowcount)
    return max(counts)


async def delete_of_partner(tx: Write, partner_id: UUID) -> None:
    """Delete the partner's links and sessions."""
    for table in (console_links, console_sessions):
        await tx.execute(delete(table).where(table.c.partner_id == partner_id))


def _is_of(partner_id: UUID | None, table: Table) -> ColumnElement[bool]:
    """Return which rows are the account's. Not IS NOT DISTINCT FROM, for which PostgreSQL uses no index."""
    return table.c.partner_id.is_(None) if partner_id is None else table.c.partner_id == partner_id


def _of_account(
    partner_id: UUID | None, seen_by: Session | None, table: Table
) -> tuple[ColumnElement[bool], ...]:
    """Return which links or sessions are the partner's, and of those the ones that the session sees."""
    conditions = [_is_of(partner_id, table)]
    if seen_by is not None and seen_by.grant.store_id is not None:
        conditions.append(table.c.store_id == seen_by.grant.store_id)
    if seen_by is not None and seen_by.only_surface is not None:
        keys = select(api_keys.c.id).where(
            api_keys.c.partner_id == partner_id, api_keys.c.surface == seen_by.only_surface
        )
        conditions.append(table.c.key_id.in_(keys))
    if seen_by is not None and not seen_by.may(Permission.SEE_PEOPLE):
        if seen_by.grant.person_id is None:  # whom a provider has named
            conditions.append(table.c.created_by == seen_by.grant.created_by)
        else:
            conditions.append(
                table.c.person_id == seen_by.grant.person_id if "person_id" in table.c else false()
            )
    return tuple(conditions)


# --- rows --------------------------------------------------------------------------------------------


def _columns(grant: Grant) -> dict[str, Any]:
    return {name: getattr(grant, name) for name in _GRANT}


def _grant(row: Row[Any]) -> Grant:
    return Grant(**{name: getattr(row, name) for name in _GRANT})


def _session(row: Row[Any]) -> Session:
    return Session(
        id=row.id,
        grant=replace(_grant(row), person_id=row.person_id),
        person=None if row.person_id is None else _person(row),
        partner=None if row.partner_id is None else _partner(row),
        key_prefix=row.key_prefix,
        key_surface=None if row.key_surface is None else Surface(row.key_surface),
        created_at=row.created_at,
        used_at=row.used_at,
        expires_at=row.expires_at,
    )


def _person(row: Row[Any]) -> Person:
    return Person(
        id=row.person_id,
        partner_id=row.partner_id,
        name=row.person,
        role=Role(row.role),
        key_id=row.person_key_id,
    )


def _partner(row: Row[Any]) -> Partner:
    return Partner(
        id=row.partner_id,
        name=row.name,
        kind=PartnerKind(row.kind),
        limits=msgspec.json.decode(row.limits, type=Limits),
        has_webhook_token=False,
        event_url=row.event_url,
        created_at=row.partner_since,
        suspended_at=row.suspended_at,
    )


async def _audit(tx: Write, kind: str, subject: UUID, grant: Grant, detail: dict[str, Any]) -> None:
    more: dict[str, Any] = {} if grant.person_id is not None else {"readOnly": grant.read_only}
    if grant.store_id is not None:
        more["storeId"] = str(grant.store_id)
    await audit(tx, kind, subject, partner_id=grant.partner_id, detail=detail | more)
