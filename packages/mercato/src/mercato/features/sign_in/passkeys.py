"""Passkeys of operators (WebAuthn, level 3): credentials of a browser or a security key that sign in again and again.

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
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import delete, insert, or_, select, update

from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.features.sign_in.tables import console_passkeys
from mercato.platform import clock
from mercato.platform.clock import MakeId
from mercato.platform.db.audit import audit
from mercato.platform.db.engine import AnyRow, Read, Write
from mercato.platform.errors import Forbidden
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import Wire, redacted

PURPOSE: Final = "mercato console passkey"
"""What the keys of the challenges are derived for."""

CHALLENGE_LIFE: Final = timedelta(minutes=5)
"""How long a browser may take to answer."""

MAX_PASSKEYS: Final = 100
"""Passkeys of all operators together."""

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


# --- what the browser is asked, and what it answers ---------------------------------------------------


async def load() -> None:
    """Import py_webauthn in a thread, before its first use: that takes a quarter of a second."""
    await asyncio.to_thread(import_module, "webauthn")


def creation_options(site: Site, challenge: bytes, existing: Sequence[bytes]) -> str:
    """Return the options of `navigator.credentials.create`, as JSON. `existing` are ids that aren't made again."""
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
        user_name=f"operator@{site.host}",
        challenge=challenge,
        authenticator_selection=AuthenticatorSelectionCriteria(
            # It signs in without a user name.
            resident_key=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in existing],
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


async def add(
    tx: Write,
    challenges: Challenges,
    site: Site,
    credential: str,
    *,
    name: str,
    purpose: str,
    created_by: str,
    now: datetime,
    new_id: MakeId = clock.new_id,
) -> UUID:
    """Keep the passkey that a browser has made, and return its id. Raises Forbidden."""
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
    existing = await list_credential_ids(tx)
    if found.credential_id in existing:
        raise Forbidden("This passkey was added before. It signs in already.")
    if len(existing) == MAX_PASSKEYS:
        raise Forbidden(f"There are {MAX_PASSKEYS} passkeys, which is the limit. Remove one that isn't used.")
    passkey_id = new_id()
    await tx.execute(
        insert(console_passkeys).values(
            id=passkey_id,
            credential_id=found.credential_id,
            public_key=found.credential_public_key,
            sign_count=found.sign_count,
            name=name,
            created_by=created_by,
            created_at=now,
            used_at=None,
            rp_id=site.host,
            origin=site.origin,
        )
    )
    await audit(tx, "consolePasskey", passkey_id, detail={"created": True, "name": name})
    return passkey_id


class Use(Struct, frozen=True):
    """The valid answer of a passkey to a challenge that was made at that time."""

    passkey_id: UUID
    made_at: datetime
    sign_count: int


async def verify(
    tx: Read, challenges: Challenges, site: Site, credential: str, *, purpose: str, now: datetime
) -> Use:
    """Return what the answer of a passkey says, without using it up. Raises Forbidden.

    It reads only, so that nobody who makes answers up waits for the database's write lock, or holds it.
    """
    from webauthn import verify_authentication_response
    from webauthn.helpers import parse_authentication_credential_json

    refused = "The passkey wasn't accepted: {} Try again."
    with _refusing(refused):
        challenge = _challenge_of(credential)
        made_at = challenges.read(challenge, purpose, site, now=now)
        credential_id = parse_authentication_credential_json(credential).raw_id
    row = await tx.first(select(console_passkeys).where(console_passkeys.c.credential_id == credential_id))
    if row is None:
        raise Forbidden("This passkey is unknown: it was removed, or it belongs to another service.")
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
    if row.used_at is not None and row.used_at >= made_at:
        raise _used()
    return Use(row.id, made_at, found.new_sign_count)


async def sign_in(tx: Write, use: Use, *, now: datetime) -> str:
    """Begin an operator's session by the answer of a passkey; return its token. Raises Forbidden."""
    its = console_passkeys.c
    # The answer to a challenge that was made before the last use has been given already, or was overtaken.
    used = await tx.execute(
        update(console_passkeys)
        .where(its.id == use.passkey_id, or_(its.used_at.is_(None), its.used_at < use.made_at))
        .values(used_at=now, sign_count=use.sign_count)
    )
    if used.rowcount != 1:
        raise _used()
    grant = Grant(partner_id=None, created_by=_actor(use.passkey_id))
    return await sessions.begin(tx, grant, now=now)


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

    text = msgspec.json.decode(credential, type=_Credential).response.client_data_json
    return parse_client_data_json(base64url_to_bytes(text)).challenge


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


async def list_all(tx: Read) -> list[Passkey]:
    """Return all passkeys, the oldest first."""
    rows = await tx.all(select(console_passkeys).order_by(console_passkeys.c.id).limit(MAX_PASSKEYS))
    return [_passkey(row) for row in rows]


async def list_credential_ids(tx: Read) -> list[bytes]:
    """Return the authenticators' ids of all passkeys."""
    return [
        row.credential_id
        for row in await tx.all(select(console_passkeys.c.credential_id).limit(MAX_PASSKEYS))
    ]


async def remove(tx: Write, passkey_id: UUID) -> bool:
    """Remove the passkey and end its sessions; return whether there was one."""
    removed = await tx.execute(delete(console_passkeys).where(console_passkeys.c.id == passkey_id))
    if removed.rowcount == 1:
        await sessions.end_sessions_of(tx, _actor(passkey_id))
        await audit(tx, "consolePasskey", passkey_id, detail={"removed": True})
    return removed.rowcount == 1


def _passkey(row: AnyRow) -> Passkey:
    return Passkey(
        id=row.id, name=row.name, created_by=row.created_by, created_at=row.created_at, used_at=row.used_at
    )
