"""The people of an account: invited by a link that is good once, with passkeys of their own, until they are removed.

An account is a partner's, or without one the operator's. Every function takes the caller's transaction.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, delete, func, select, update

from mercato.features.partners.tables import partners
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import (
    INVITATION_LIFE,
    InvitationExpired,
    LinkRefused,
    LinkUsed,
    LinkWithdrawn,
    NewLink,
    Person,
    digest,
    new_token,
)
from mercato.features.sign_in.roles import OPERATOR_ROLES, PARTNER_ROLES, Role
from mercato.features.sign_in.tables import console_people, console_person_passkeys
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import AnyRow, Read, Write
from mercato.platform.db.statements import conflicting_insert
from mercato.platform.errors import Conflict
from mercato_contract import clock
from mercato_contract.clock import MakeId
from mercato_contract.refusals import ValidationFailed
from mercato_contract.texts import is_blank

MAX_PEOPLE: Final = 200
"""People of one account."""

MAX_NAME: Final = 100
"""Characters of a person's name, by which the account and the audit trail know them."""


class ListedPerson(Struct, frozen=True, kw_only=True):
    """A person in the account's list. They haven't signed in yet while `joined_at` is None."""

    person: Person
    created_by: str
    created_at: datetime
    expires_at: datetime
    joined_at: datetime | None
    used_at: datetime | None


class Invitation(Struct, frozen=True):
    """An invitation that can be accepted. `account` is the partner's name, None for the operator."""

    person: Person
    account: str | None


def roles_of(partner_id: UUID | None) -> tuple[Role, ...]:
    """Return the roles that people of the account can have."""
    return OPERATOR_ROLES if partner_id is None else PARTNER_ROLES


async def invite(
    tx: Write,
    partner_id: UUID | None,
    *,
    name: str,
    role: Role,
    created_by: str,
    key_id: UUID | None = None,
    now: datetime,
    new_id: MakeId = clock.new_id,
) -> NewLink:
    """Add a person, and return the token of the invitation. Raises ValidationFailed, Conflict."""
    name = name.strip()
    if is_blank(name) or len(name) > MAX_NAME or not name.isprintable():
        raise ValidationFailed.at(
            "/name", f"A name has 1 to {MAX_NAME} characters that can be seen, in one line."
        )
    if role not in roles_of(partner_id):
        words = ", ".join(option.words for option in roles_of(partner_id))
        raise ValidationFailed.at("/role", f"This account has the roles {words}.")
    # Two at once would otherwise both find that there is room: here they wait for each other.
    first = select(console_people.c.id).where(_account(partner_id)).order_by(console_people.c.id).limit(1)
    await tx.first(first.with_for_update())
    count = await tx.scalar(select(func.count()).select_from(console_people).where(_account(partner_id)))
    if count >= MAX_PEOPLE:
        raise Conflict(f"This account has {MAX_PEOPLE} people, which is the limit. Remove one first.")
    token, person_id = new_token(), new_id()
    added = await tx.execute(
        conflicting_insert(console_people, tx.dialect)
        .values(
            id=person_id,
            partner_id=partner_id,
            name=name,
            role=role,
            created_by=created_by,
            created_at=now,
            key_id=key_id,
            invitation_hash=digest(token),
            invitation_expires_at=now + INVITATION_LIFE,
        )
        .on_conflict_do_nothing()
    )
    if added.rowcount != 1:
        raise Conflict("Somebody of this account has this name. Add a surname: the audit trail names people.")
    detail = {"invited": True, "name": name, "role": role.value}
    await audit(tx, "consolePerson", person_id, partner_id=partner_id, detail=detail)
    return NewLink(token, now + INVITATION_LIFE)


async def invite_again(tx: Write, person: Person, *, now: datetime) -> NewLink:
    """Return a new invitation for a person who hasn't accepted the previous one, which ends.

    Raises Conflict for a person who has joined: a passkey that another person adds would act in their name.
    """
    token = new_token()
    renewed = await tx.execute(
        update(console_people)
        .where(console_people.c.id == person.id, console_people.c.joined_at.is_(None))
        .values(invitation_hash=digest(token), invitation_expires_at=now + INVITATION_LIFE)
    )
    if renewed.rowcount != 1:
        raise Conflict(
            f"{person.name} has accepted the invitation, or was removed. For a new passkey remove them, and invite "
            "them again."
        )
    await audit(
        tx, "consolePerson", person.id, partner_id=person.partner_id, detail={"invitedAgain": person.name}
    )
    return NewLink(token, now + INVITATION_LIFE)


async def find_invitation(tx: Read, token: str, *, now: datetime) -> Invitation | None:
    """Return the invitation of the token, None if there is none. Raises LinkRefused for one that ended."""
    columns = console_people.c
    row = await tx.first(
        select(console_people, partners.c.name.label("account"), partners.c.suspended_at)
        .select_from(console_people.outerjoin(partners, partners.c.id == columns.partner_id))
        .where(columns.invitation_hash == digest(token))
    )
    if row is None:
        return None
    if row.joined_at is not None:
        raise LinkUsed
    if row.invitation_expires_at <= now:
        raise InvitationExpired
    if row.partner_id is not None and (row.account is None or row.suspended_at is not None):
        raise LinkWithdrawn
    return Invitation(_person(row), row.account)


async def accept(tx: Write, token: str, *, now: datetime) -> Person:
    """Use the invitation up, and return who accepted it. Raises LinkRefused."""
    invitation = await find_invitation(tx, token, now=now)
    if invitation is None:
        raise LinkRefused
    joined = await tx.execute(
        update(console_people)
        .where(console_people.c.invitation_hash == digest(token), console_people.c.joined_at.is_(None))
        .values(joined_at=now)
    )
    if joined.rowcount != 1:
        raise LinkUsed
    person = invitation.person
    detail = {"joined": True, "name": person.name}
    await audit(tx, "consolePerson", person.id, partner_id=person.partner_id, detail=detail)
    return person


async def list_people(tx: Read, partner_id: UUID | None) -> Sequence[ListedPerson]:
    """Return the account's people by their names."""
    columns, used = console_people.c, console_person_passkeys.c
    last = (
        select(used.person_id, func.max(used.used_at).label("used_at"))
        .where(used.partner_id.is_(None) if partner_id is None else used.partner_id == partner_id)
        .group_by(used.person_id)
        .subquery()
    )
    rows = await tx.all(
        select(console_people, last.c.used_at)
        .select_from(console_people.outerjoin(last, last.c.person_id == columns.id))
        .where(_account(partner_id))
        .order_by(columns.name)
        .limit(MAX_PEOPLE)
    )
    return [
        ListedPerson(
            person=_person(row),
            created_by=row.created_by,
            created_at=row.created_at,
            expires_at=row.invitation_expires_at,
            joined_at=row.joined_at,
            used_at=row.used_at,
        )
        for row in rows
    ]


async def find_person(tx: Read, partner_id: UUID | None, person_id: UUID) -> Person | None:
    """Return the person of the account, None for another account's."""
    row = await tx.first(select(console_people).where(_account(partner_id), console_people.c.id == person_id))
    return None if row is None else _person(row)


async def find_named(tx: Read, partner_id: UUID | None, name: str) -> Person | None:
    """Return the person of the account by their name."""
    row = await tx.first(select(console_people).where(_account(partner_id), console_people.c.name == name))
    return None if row is None else _person(row)


async def list_invited_with(tx: Read, partner_id: UUID, key_ids: Collection[UUID]) -> list[Person]:
    """Return the people who were invited in sessions of these keys, and by those people."""
    columns = console_people.c
    rows = await tx.all(
        select(console_people).where(_account(partner_id), columns.key_id.in_(key_ids)).order_by(columns.name)
    )
    return [_person(row) for row in rows]


async def remove(tx: Write, person: Person) -> bool:
    """Remove the person with their passkeys, and end their sessions; return whether they were there."""
    # The person first: a concurrent acceptance is refused, or has finished before the deletions that follow.
    gone = await tx.execute(delete(console_people).where(console_people.c.id == person.id))
    await tx.execute(delete(console_person_passkeys).where(console_person_passkeys.c.person_id == person.id))
    await sessions.end_sessions_of_person(tx, person.id, person.partner_id)
    if gone.rowcount == 1:
        detail = {"removed": True, "name": person.name, "role": person.role.value}
        await audit(tx, "consolePerson", person.id, partner_id=person.partner_id, detail=detail)
    return gone.rowcount == 1


async def delete_of_partner(tx: Write, partner_id: UUID) -> None:
    """Delete the partner's people with their passkeys."""
    for table in (console_person_passkeys, console_people):
        await tx.execute(delete(table).where(table.c.partner_id == partner_id))


def _account(partner_id: UUID | None) -> ColumnElement[bool]:
    columns = console_people.c.partner_id
    return columns.is_(None) if partner_id is None else columns == partner_id


def _person(row: AnyRow) -> Person:
    return Person(id=row.id, partner_id=row.partner_id, name=row.name, role=Role(row.role), key_id=row.key_id)
