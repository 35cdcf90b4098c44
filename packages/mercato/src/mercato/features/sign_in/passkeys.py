"""Passkeys (WebAuthn, level 3): credentials of a browser or a security key that sign in again and again.

A passkey is a person's, or one of the operator's account that several may share.

py_webauthn checks what an authenticator says. A challenge is signed and not stored: it is bound to what it is for and
to the site, lasts five minutes, and ends with the passkey's next use.
"""

import asyncio
import hmac
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Table, delete, insert, or_, select, true, update

from mercato.features.partners.tables import partners
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant, Person
from mercato.features.sign_in.roles import Role
from mercato.features.sign_in.tables import console_passkeys, console_people, console_person_passkeys
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import AnyRow, Read, Write
from mercato.platform.errors import Forbidden
from mercato_contract import clock
from mercato_contract.clock import MakeId
from mercato_contract.json_texts import is_too_deep
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import Wire, redacted
from mercato_outbound.guard import is_loopback

PURPOSE: Final = "mercato console passkey"
"""What the keys of the challenges are derived for."""

CHALLENGE_LIFE: Final = timedelta(minutes=5)
"""How long a browser may take to answer."""

SKEW: Final = timedelta(minutes=1)
"""How much the clocks of two servers may differ. A use from later was recorded before the clock was set back."""

MAX_PASSKEYS: Final = 100
"""Passkeys of the operator's account."""

MAX_OF_PERSON: Final = 10
"""Passkeys of a person."""

_RANDOM: Final = 16
_TIME: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Site(Struct, frozen=True):
    """Whose passkeys they are: the host name, and the origin of the pages (`https://mercato.example`).

    Unless the settings name it, it is this machine under a name that the client chose.
    """

    host: str
    origin: str
    is_configured: bool


def site_url(base_url: str) -> str:
    """Return the address by which a browser must open the service to make a passkey: for this machine, localhost."""
    parts = urlsplit(base_url)
    if not is_loopback(parts.hostname) or (parts.hostname or "").endswith("localhost"):
        return base_url
    return parts._replace(netloc="localhost" if parts.port is None else f"localhost:{parts.port}").geturl()


class Passkey(Struct, frozen=True, kw_only=True):
    """A passkey as its list shows it."""

    id: UUID
    name: str
    created_by: str
    created_at: datetime
    used_at: datetime | None


def _actor(passkey_id: UUID) -> str:
    return f"passkey:{passkey_id}"


@redacted("keys")
class Challenges(Struct, frozen=True):
    """Makes challenges, and reads those that it made. `keys`: the first signs."""

    keys: Sequence[bytes]

    def new(self, purpose: str, site: Site, *, now: datetime) -> bytes:
        """Return a challenge for the site. `purpose` says what it is for, and in which session."""
        head = int((now - _EPOCH) / timedelta(milliseconds=1)).to_bytes(_TIME, "big") + secrets.token_bytes(
            _RANDOM
        )
        return head + _signature(self.keys[0], purpose, site, head)

    def read(self, challenge: bytes, purpose: str, site: Site, *, now: datetime) -> datetime:
        """Return when the challenge was made. Raises Forbidden for another's, and for one that is too old."""
        head, signature = challenge[: _TIME + _RANDOM], challenge[_TIME + _RANDOM :]
        if not any(hmac.compare_digest(_signature(key, purpose, site, head), signature) for key in self.keys):
            raise Forbidden("This response doesn't belong to this page. Reload the page.")
        made_at = _EPOCH + timedelta(milliseconds=int.from_bytes(head[:_TIME], "big"))
        if now - made_at >= CHALLENGE_LIFE:
            raise Forbidden("The page was open for longer than five minutes. Reload it.")
        return made_at


def _signature(key: bytes, purpose: str, site: Site, head: bytes) -> bytes:
    return hmac_sha256(key, f"{purpose}\0{site.host}\0{site.origin}\0".encode() + head)


# --- challenges, and the browser's answers ------------------------------------------------------------


async def load() -> None:
    """Import py_webauthn in a thread, before its first use: that takes a quarter of a second."""
    await asyncio.to_thread(import_module, "webauthn")


def creation_options(site: Site, challenge: bytes, existing: Sequence[bytes], person: str | None) -> str:
    """Return the options of `navigator.credentials.create`, as JSON. `existing` are ids that aren't made again.

    `person` is the name by which the authenticator lists the passkey.
    """
    from webauthn import generate_registration_options, options_to_json
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        PublicKeyCredentialDescriptor,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    options = generate_registration_options(
        rp_id=site.host,
        rp_name="Mercato",
        user_name=person or f"operator@{site.host}",
        challenge=challenge,
        authenticator_selection=AuthenticatorSelectionCriteria(
            # It signs in without a user name.
            resident_key=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=passkey) for passkey in existing],
    )
    return options_to_json(options)


def request_options(site: Site, challenge: bytes) -> str:
    """Return the options of `navigator.credentials.get`, as JSON."""
    from webauthn import generate_authentication_options, options_to_json
    from webauthn.helpers.structs import UserVerificationRequirement

    return options_to_json(
        generate_authentication_options(
            rp_id=site.host, challenge=challenge, user_verification=UserVerificationRequirement.REQUIRED
        )
    )


class NewPasskey(Struct, frozen=True):
    """What an authenticator has made for a site."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    site: Site


def verify_new(
    challenges: Challenges, site: Site, credential: str, *, purpose: str, now: datetime
) -> NewPasskey:
    """Return the passkey that a browser has made. Raises Forbidden."""
    from webauthn import verify_registration_response

    with _refusing("The passkey can't be added: {} Try again, or with another authenticator."):
        challenge = _challenge_of(credential)
        challenges.read(challenge, purpose, site, now=now)
        found = verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    return NewPasskey(found.credential_id, found.credential_public_key, found.sign_count, site)


async def add(
    tx: Write,
    made: NewPasskey,
    *,
    name: str,
    created_by: str,
    person: Person | None = None,
    now: datetime,
    new_id: MakeId = clock.new_id,
) -> UUID:
    """Keep the passkey for the person, or for the operator's account; return its id. Raises Forbidden."""
    for table in (console_passkeys, console_person_passkeys):
        if await tx.first(select(table.c.id).where(table.c.credential_id == made.credential_id)):
            raise Forbidden("This passkey was added before. It signs in already.")
    most = MAX_PASSKEYS if person is None else MAX_OF_PERSON
    if len(await list_credential_ids(tx, person)) >= most:
        raise Forbidden(f"There are {most} passkeys, which is the limit. Remove one that isn't used.")
    passkey_id = new_id()
    its_person = {} if person is None else {"person_id": person.id, "partner_id": person.partner_id}
    await tx.execute(
        insert(_table(person)).values(
            id=passkey_id,
            credential_id=made.credential_id,
            public_key=made.public_key,
            sign_count=made.sign_count,
            name=name,
            created_by=created_by,
            created_at=now,
            used_at=None,
            rp_id=made.site.host,
            origin=made.site.origin,
            **its_person,
        )
    )
    partner_id = None if person is None else person.partner_id
    detail = {"created": True, "name": name}
    await audit(tx, "consolePasskey", passkey_id, partner_id=partner_id, detail=detail)
    return passkey_id


class Use(Struct, frozen=True):
    """The valid answer of a passkey to a challenge that was made at that time."""

    passkey_id: UUID
    made_at: datetime
    sign_count: int
    person: Person | None

    @property
    def grant(self) -> Grant:
        """Return what its session opens."""
        if self.person is not None:
            return self.person.grant
        return Grant(partner_id=None, created_by=_actor(self.passkey_id))


async def verify(
    tx: Read, challenges: Challenges, site: Site, credential: str, *, purpose: str, now: datetime
) -> Use:
    """Return what the answer of a passkey says, without using it up. Raises Forbidden.

    It only reads, so that made-up answers neither wait for the database's write lock nor hold it.
    """
    from webauthn import verify_authentication_response
    from webauthn.helpers import parse_authentication_credential_json

    refused = "The passkey wasn't accepted: {} Try again."
    with _refusing(refused):
        challenge = _challenge_of(credential)
        made_at = challenges.read(challenge, purpose, site, now=now)
        credential_id = parse_authentication_credential_json(credential).raw_id
    row, person = await _find(tx, credential_id)
    with _refusing(refused):
        found = verify_authentication_response(
            credential=credential,
            expected_challenge=challenge,
            # What it was added for, which earlier releases didn't store.
            expected_rp_id=row.rp_id or site.host,
            expected_origin=site.origin if site.is_configured else row.origin or site.origin,
            credential_public_key=row.public_key,
            credential_current_sign_count=row.sign_count,
            require_user_verification=True,
        )
    if row.used_at is not None and made_at <= row.used_at <= now + SKEW:
        raise _used()
    return Use(row.id, made_at, found.new_sign_count, person)


async def _find(tx: Read, credential_id: bytes) -> tuple[AnyRow, Person | None]:
    """Return a passkey with the person whose it is, if it is one's. Raises Forbidden."""
    of_account, of_person = console_passkeys.c, console_person_passkeys.c
    row = await tx.first(select(console_passkeys).where(of_account.credential_id == credential_id))
    if row is not None:
        return row, None
    whose = console_people.c
    row = await tx.first(
        select(
            console_person_passkeys,
            whose.name.label("person"),
            whose.role,
            whose.key_id,
            partners.c.suspended_at,
        )
        .select_from(
            console_person_passkeys.join(console_people, whose.id == of_person.person_id).outerjoin(
                partners, partners.c.id == of_person.partner_id
            )
        )
        .where(of_person.credential_id == credential_id)
    )
    if row is None:
        raise Forbidden("This passkey is unknown: it was removed, or it belongs to another service.")
    if row.suspended_at is not None:
        raise Forbidden("The account of this passkey is suspended. Ask the operator of this service.")
    return row, Person(
        id=row.person_id, partner_id=row.partner_id, name=row.person, role=Role(row.role), key_id=row.key_id
    )


async def sign_in(tx: Write, use: Use, *, now: datetime) -> str:
    """Begin a session by the answer of a passkey; return its token. Raises Forbidden."""
    table = _table(use.person)
    # The answer to a challenge that was made before the last use has been given already, or was overtaken.
    used = await tx.execute(
        update(table)
        .where(
            table.c.id == use.passkey_id,
            or_(table.c.used_at.is_(None), table.c.used_at < use.made_at, table.c.used_at > now + SKEW),
        )
        .values(used_at=now, sign_count=use.sign_count)
    )
    if used.rowcount != 1:
        raise _used()
    return await sessions.begin(tx, use.grant, now=now)


def _used() -> Forbidden:
    return Forbidden("This response was used already. Reload the page.")


class _Response(Wire):
    client_data_json: str = msgspec.field(name="clientDataJSON")


class _Credential(Wire):
    response: _Response


def _challenge_of(credential: str) -> bytes:
    """Return the challenge that the browser says it answers. Raises WebAuthnException, ValueError, RecursionError."""
    from webauthn import base64url_to_bytes
    from webauthn.helpers import parse_client_data_json

    _check_depth(credential.encode())
    text = msgspec.json.decode(credential, type=_Credential).response.client_data_json
    client_data = base64url_to_bytes(text)
    _check_depth(client_data)
    return parse_client_data_json(client_data).challenge


def _check_depth(text: bytes) -> None:
    # py_webauthn's parsers allow as many levels as the interpreter does, and that differs between versions.
    if is_too_deep(text):
        raise ValueError("nested too deeply")


@contextmanager
def _refusing(message: str) -> Iterator[None]:
    """Raise Forbidden with the message and the reason where a browser's answer is wrong or can't be read."""
    from webauthn.helpers.exceptions import WebAuthnException

    try:
        yield
    except WebAuthnException as error:
        raise Forbidden(message.format(error)) from None
    except (ValueError, LookupError, TypeError, RecursionError):
        # py_webauthn lets through what its parsers of JSON, base64, CBOR and keys raise.
        raise Forbidden(message.format("the browser's answer can't be read.")) from None


# --- the list ----------------------------------------------------------------------------------------


async def list_all(tx: Read, person: Person | None) -> list[Passkey]:
    """Return the person's passkeys, or without one those of the operator's account, the oldest first."""
    table = _table(person)
    rows = await tx.all(select(table).where(_is_whose(person)).order_by(table.c.id).limit(MAX_PASSKEYS))
    return [_passkey(row) for row in rows]


async def list_credential_ids(tx: Read, person: Person | None) -> list[bytes]:
    """Return the authenticators' ids of the same passkeys."""
    table = _table(person)
    rows = await tx.all(select(table.c.credential_id).where(_is_whose(person)).limit(MAX_PASSKEYS))
    return [row.credential_id for row in rows]


async def remove(tx: Write, passkey_id: UUID, person: Person | None) -> bool:
    """Remove the passkey, if it is one of `list_all`, and end its sessions; return whether there was one.

    A person's sessions are of all their passkeys, and all end.
    """
    table = _table(person)
    removed = await tx.execute(delete(table).where(_is_whose(person), table.c.id == passkey_id))
    if removed.rowcount != 1:
        return False
    if person is None:
        await sessions.end_sessions_of(tx, _actor(passkey_id))
    else:
        await sessions.end_sessions_of_person(tx, person.id, person.partner_id)
    partner_id = None if person is None else person.partner_id
    await audit(tx, "consolePasskey", passkey_id, partner_id=partner_id, detail={"removed": True})
    return True


def _table(person: Person | None) -> Table:
    return console_passkeys if person is None else console_person_passkeys


def _is_whose(person: Person | None) -> ColumnElement[bool]:
    return true() if person is None else console_person_passkeys.c.person_id == person.id


def _passkey(row: AnyRow) -> Passkey:
    return Passkey(
        id=row.id, name=row.name, created_by=row.created_by, created_at=row.created_at, used_at=row.used_at
    )
