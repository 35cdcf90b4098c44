"""Create, read and change partners and their signing secrets.

Every function takes the caller's transaction. A change is announced under `TOPIC`, so that it holds in this
process once the transaction is committed and everywhere within a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy.exc import IntegrityError

from mercato.features.partners import model, queries
from mercato.features.partners.credentials import OVERLAP, TOPIC, NewKey, checked_overlap, insert_key
from mercato.features.partners.model import (
    AccountError,
    Limits,
    Partner,
    PartnerKind,
    SigningSecret,
    Surface,
    TakenNameError,
    UnknownPartnerError,
)
from mercato.features.partners.tables import (
    partners_one_for_each_name,
)
from mercato.features.partners.vault import Vault
from mercato.features.partners.webhook_tokens import check_has_stores, insert_token
from mercato.platform.db.audit import audit
from mercato.platform.db.changes import announce
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.errors import is_unique_violation
from mercato_contract import clock
from mercato_contract.clock import Clock, MakeId
from mercato_contract.texts import is_blank
from mercato_contract.wire import parse_uuid, redacted
from mercato_outbound.guard import ANY_ADDRESS, AddressPolicy, call_fault

MAX_NAME: Final = 200


@redacted("signing_secret")
class NewPartner(Struct, frozen=True):
    """A new partner with its keys and signing secret in plain text."""

    id: UUID
    keys: tuple[NewKey, ...]
    signing_secret: str

    @property
    def key(self) -> str:
        """Return the text of the only key, or of the Commerce key of a partner with both."""
        return self.keys[0].text

    @property
    def commerce_key(self) -> NewKey | None:
        return self._key(Surface.COMMERCE)

    @property
    def marketfront_key(self) -> NewKey | None:
        return self._key(Surface.MARKETFRONT)

    def _key(self, surface: Surface) -> NewKey | None:
        return next((key for key in self.keys if key.surface is surface), None)


# --- partners ----------------------------------------------------------------------------------------


async def create_partner(
    tx: Write,
    vault: Vault,
    *,
    name: str,
    kind: PartnerKind,
    webhook_token: str | None = None,
    webhook_origin: str | None = None,
    event_url: str | None = None,
    policy: AddressPolicy = ANY_ADDRESS,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    now: Clock = clock.now,
    new_id: MakeId = clock.new_id,
) -> NewPartner:
    """Create a partner with a key for each surface of its kind and a signing secret. Raises AccountError.

    The token is bound to `webhook_origin`, a URL, or else to the origin of the first webhookUrl that it registers.
    `policy` says which addresses may be called; a command doesn't know its server's, so by default only the form of the
    `event_url` is checked.
    """
    if webhook_token is not None:
        check_has_stores(kind)
    partner = Partner(
        id=new_id(),
        name=_checked_name(name),
        kind=kind,
        limits=_checked_limits(limits),
        has_webhook_token=webhook_token is not None,
        event_url=_checked_event_url(event_url, kind, policy),
        created_at=now(),
    )
    with _refuse_taken_name(partner.name):
        await queries.insert_partner(tx, partner)
    if webhook_token is not None:
        await insert_token(tx, vault, partner.id, webhook_token, url=webhook_origin)
    made = [await insert_key(tx, partner.id, surface, now=now, new_id=new_id) for surface in kind.surfaces]
    secret = await _insert_secret(tx, vault, partner.id, now=now, new_id=new_id)
    await audit(tx, "partner", partner.id, partner_id=partner.id, detail={"kind": kind})
    return NewPartner(id=partner.id, keys=tuple(made), signing_secret=secret)


async def get_partner(tx: Read, partner_id: UUID) -> Partner:
    """Return the partner. Raises UnknownPartnerError."""
    return _require(await queries.find_partner(tx, partner_id), partner_id)


async def get_partner_named(tx: Read, name: str) -> Partner:
    """Return the partner of an id or a name. Raises AccountError."""
    partner_id = parse_uuid(name)
    if partner_id is not None:
        return await get_partner(tx, partner_id)
    found = await queries.list_partners(tx, name=name.encode(errors="replace").decode(), limit=1)
    if found:
        return found[0]
    raise UnknownPartnerError


async def rename_partner(tx: Write, partner_id: UUID, name: str) -> None:
    """Give the partner another name. Raises AccountError, also when another partner has it."""
    name = _checked_name(name)
    with _refuse_taken_name(name):
        if not await queries.update_partner(tx, partner_id, name=name):
            raise UnknownPartnerError(partner_id)
    await _record_change(tx, partner_id, "name")


async def set_suspended(tx: Write, partner_id: UUID, at: datetime | None) -> None:
    """Suspend the partner, so that its keys are refused, or resume it with None. Raises AccountError."""
    if not await queries.update_partner(tx, partner_id, suspended_at=at):
        raise UnknownPartnerError(partner_id)
    await _record_change(tx, partner_id, "suspended")


async def delete_partner(tx: Write, partner_id: UUID) -> None:
    """Delete the partner with its keys, secrets and token. Its other rows must be deleted before."""
    await queries.delete_partner(tx, partner_id)
    await audit(tx, "partner", partner_id, partner_id=partner_id, detail={"deleted": True})
    await announce(tx, TOPIC, str(partner_id))


async def set_limits(tx: Write, partner_id: UUID, limits: Limits) -> None:
    """Set the partner's requests a minute; None is the deployment's default. Raises AccountError."""
    if not await queries.update_partner(tx, partner_id, limits=_checked_limits(limits)):
        raise UnknownPartnerError(partner_id)
    await _record_change(tx, partner_id, "limits")


async def set_event_url(
    tx: Write, partner_id: UUID, event_url: str | None, *, policy: AddressPolicy = ANY_ADDRESS
) -> None:
    """Set where order events go, or with None stop them. Raises AccountError.

    `policy` says which addresses may be called; a URL that stays isn't checked again.
    """
    partner = await get_partner(tx, partner_id)
    checked = ANY_ADDRESS if event_url == partner.event_url else policy
    await queries.update_partner(
        tx, partner_id, event_url=_checked_event_url(event_url, partner.kind, checked)
    )
    await _record_change(tx, partner_id, "eventUrl")


# --- signing secrets ---------------------------------------------------------------------------------


async def rotate_signing_secret(
    tx: Write,
    vault: Vault,
    partner_id: UUID,
    *,
    overlap: timedelta = OVERLAP,
    now: Clock = clock.now,
    new_id: MakeId = clock.new_id,
) -> str:
    """Return a new secret; the previous one also signs during the overlap. Raises UnknownPartnerError."""
    # Two concurrent rotations would leave two secrets that never expire.
    _require(await queries.lock_partner(tx, partner_id), partner_id)
    await queries.expire_signing_secret(tx, partner_id, until=now() + checked_overlap(overlap))
    secret = await _insert_secret(tx, vault, partner_id, now=now, new_id=new_id)
    await _record_change(tx, partner_id, "signingSecret")
    return secret


async def get_signing_secrets(
    tx: Read, vault: Vault, partner_id: UUID, *, now: Clock = clock.now
) -> list[str]:
    """Return the secrets that sign now, the newest first: one, or two during a rotation. Raises VaultError."""
    return [text for text, _ in await get_ending_secrets(tx, vault, partner_id, now=now)]


async def get_ending_secrets(
    tx: Read, vault: Vault, partner_id: UUID, *, now: Clock = clock.now
) -> list[tuple[str, datetime | None]]:
    """Return the secrets that sign now, each with its expiry, for callers that cache them."""
    rows = await queries.list_secrets(tx, partner_id, now=now())
    return [
        (vault.open(sealed, context=secret_context(secret.id)), secret.expires_at) for secret, sealed in rows
    ]


async def list_signing_secrets(tx: Read, partner_id: UUID, *, now: Clock = clock.now) -> list[SigningSecret]:
    """Return the secrets that sign now without their text, the newest first."""
    return [secret for secret, _ in await queries.list_secrets(tx, partner_id, now=now())]


async def _record_change(tx: Write, partner_id: UUID, change: str) -> None:
    await audit(tx, "partner", partner_id, partner_id=partner_id, detail={"changed": [change]})
    await announce(tx, TOPIC, str(partner_id))


async def _insert_secret(tx: Write, vault: Vault, partner_id: UUID, *, now: Clock, new_id: MakeId) -> str:
    text = model.new_signing_secret()
    secret = SigningSecret(id=new_id(), created_at=now(), expires_at=None)
    sealed = vault.seal(text, context=secret_context(secret.id))
    await queries.insert_secret(tx, partner_id, secret, sealed=sealed)
    return text


# --- checks ------------------------------------------------------------------------------------------


def _require(partner: Partner | None, partner_id: UUID) -> Partner:
    if partner is None:
        raise UnknownPartnerError(partner_id)
    return partner


@contextmanager
def _refuse_taken_name(name: str) -> Iterator[None]:
    """Raise AccountError for a name that another partner has."""
    try:
        yield
    except IntegrityError as error:
        if not is_unique_violation(error, partners_one_for_each_name):
            raise
        raise TakenNameError(name) from None


def _checked_name(name: str) -> str:
    name = name.strip()
    if is_blank(name) or len(name) > MAX_NAME or not name.isprintable():
        raise AccountError(f"A partner's name has 1 to {MAX_NAME} characters that can be seen.")
    return name


def _checked_limits(limits: Limits) -> Limits:
    if any(value is not None and value < 1 for value in (limits.reads, limits.writes, limits.discovery)):
        raise AccountError("A limit is at least 1 request a minute.")
    return limits


def _checked_event_url(url: str | None, kind: PartnerKind, policy: AddressPolicy) -> str | None:
    if url is None:
        return None
    if Surface.MARKETFRONT not in kind.surfaces:
        raise AccountError("Only marketfront partners get order events: a commerce partner has no event URL.")
    fault = call_fault(url, "The event URL", policy)
    if fault is not None:
        raise AccountError(fault)
    return url


def secret_context(secret_id: UUID) -> str:
    """Return the context that a signing secret is sealed with."""
    return f"signing-secret:{secret_id}"


def endpoint_context(endpoint_id: UUID) -> str:
    """Return the context that a webhook endpoint's credentials are sealed with."""
    return f"webhook-endpoint:{endpoint_id}"
