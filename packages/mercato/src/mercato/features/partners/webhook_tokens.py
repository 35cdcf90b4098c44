"""The tokens that webhooks carry to a partner's stores. Each goes to one origin (scheme, host and port) only.

A Commerce key can change a store's URL. If the token followed the URL, a stolen key would be enough to read it. So a
token is bound to the origin that it was given for. A token given without an origin is bound to that of the first
webhookUrl; every other origin needs the token in the request that sets its URL.
"""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy import Insert, and_, bindparam, delete, select

from mercato.features.partners import queries
from mercato.features.partners.credentials import TOPIC
from mercato.features.partners.model import (
    AccountError,
    NoStoresError,
    PartnerKind,
    SeveralOriginsError,
    Surface,
    UnknownPartnerError,
)
from mercato.features.partners.tables import webhook_tokens
from mercato.features.partners.vault import Vault
from mercato.platform.db.audit import audit
from mercato.platform.db.changes import announce
from mercato.platform.db.engine import Read, Write
from mercato.platform.db.statements import conflicting_insert, prepared, prepared_update
from mercato.platform.db.types import Dialect
from mercato_contract.stores import webhook_token_fault
from mercato_outbound.guard import origin_of

UNBOUND: Final = ""
"""The origin of a token that isn't bound yet and never sent."""

MAX_ORIGINS: Final = 100
"""Origins of one partner that have a token; all of them are cached."""

_OF_PARTNER: Final = webhook_tokens.c.partner_id == bindparam("where_partner")
_ROW: Final = and_(_OF_PARTNER, webhook_tokens.c.origin == bindparam("where_origin"))
_TOKENS: Final = prepared(select(webhook_tokens).where(_OF_PARTNER))
_ORIGINS: Final = prepared(
    select(webhook_tokens.c.origin).where(_OF_PARTNER).order_by(webhook_tokens.c.origin)
)
_FIND: Final = prepared(select(webhook_tokens.c.token).where(_ROW))
_BIND: Final = prepared_update(webhook_tokens, "origin", "token", where=[_ROW])
_DELETE: Final = prepared(delete(webhook_tokens).where(_ROW))


def _upserting(dialect: Dialect) -> Insert:
    new = conflicting_insert(webhook_tokens, dialect).values(
        {name: bindparam(name) for name in ("partner_id", "origin", "token")}
    )
    upserting: Insert = new.on_conflict_do_update(
        index_elements=["partner_id", "origin"], set_={"token": new.excluded.token}
    )
    return prepared(upserting)


_UPSERT: Final[dict[Dialect, Insert]] = {dialect: _upserting(dialect) for dialect in ("sqlite", "postgresql")}


class TooManyOriginsError(AccountError):
    """The partner has tokens for the maximum number of origins."""


async def get_webhook_tokens(tx: Read, vault: Vault, partner_id: UUID) -> dict[str, str]:
    """Return the partner's tokens by origin. Raises VaultError."""
    rows = await tx.all(_TOKENS, {"where_partner": partner_id})
    return {row.origin: vault.open(row.token, context=token_context(partner_id, row.origin)) for row in rows}


async def list_token_origins(tx: Read, partner_id: UUID) -> list[str]:
    """Return the origins that the partner has a token for, with `UNBOUND` for an unbound one."""
    return [row.origin for row in await tx.all(_ORIGINS, {"where_partner": partner_id})]


async def bind_token(tx: Write, vault: Vault, partner_id: UUID, url: str, *, token: str | None) -> None:
    """Bind a token to the origin of a webhookUrl that the partner sets: `token`, or the unbound one.

    Without either, only an origin that already has a token gets one. Raises TooManyOriginsError.
    """
    origin = origin_of(url)
    if origin is None:
        return
    if token is not None:
        await _upsert(tx, vault, partner_id, origin, token)
        await announce(tx, TOPIC, str(partner_id))
    elif await _bind_unbound(tx, vault, partner_id, origin):
        await announce(tx, TOPIC, str(partner_id))


async def set_webhook_token(
    tx: Write,
    vault: Vault,
    partner_id: UUID,
    token: str | None,
    *,
    url: str | None = None,
    used: Collection[str] = (),
) -> None:
    """Set the token of the origin of `url`, or remove it with None. Raises AccountError.

    Without `url`: of every origin that has a token, else of the only origin among `used`, the URLs of the partner's
    stores. A partner without stores gets an unbound token, which the first registration binds.
    """
    partner = await queries.lock_partner(tx, partner_id)
    if partner is None:
        raise UnknownPartnerError(partner_id)
    if token is not None:
        check_has_stores(partner.kind)
    if url is not None:
        origins = [_origin(url)]
    else:
        origins = [origin for origin in await list_token_origins(tx, partner_id) if origin] or _single_origin(
            used
        )
    if token is None:
        unbound = [] if url is not None else [UNBOUND]
        await tx.execute(
            delete(webhook_tokens).where(
                webhook_tokens.c.partner_id == partner_id, webhook_tokens.c.origin.in_([*origins, *unbound])
            )
        )
    else:
        for origin in origins or [UNBOUND]:
            await _upsert(tx, vault, partner_id, origin, token)
    await audit(tx, "partner", partner_id, partner_id=partner_id, detail={"changed": ["webhookToken"]})
    await announce(tx, TOPIC, str(partner_id))


def check_has_stores(kind: PartnerKind) -> None:
    """Refuse a webhook token for a partner without the Commerce surface. Raises NoStoresError."""
    if Surface.COMMERCE not in kind.surfaces:
        raise NoStoresError(kind)


async def insert_token(tx: Write, vault: Vault, partner_id: UUID, token: str, *, url: str | None) -> None:
    """Store the token of a new partner, not bound yet without a URL. Raises AccountError."""
    await _upsert(tx, vault, partner_id, UNBOUND if url is None else _origin(url), token)


def token_context(partner_id: UUID, origin: str) -> str:
    """Return the context that a token is sealed with."""
    return f"webhook-token:{partner_id}:{origin}"


async def _upsert(tx: Write, vault: Vault, partner_id: UUID, origin: str, token: str) -> None:
    """Store a token for an origin. An unbound one is deleted: it must not follow a later URL."""
    if (fault := webhook_token_fault(token)) is not None:
        raise AccountError(fault)
    others = [known for known in await list_token_origins(tx, partner_id) if known not in (UNBOUND, origin)]
    if len(others) >= MAX_ORIGINS:
        raise TooManyOriginsError(
            f"The partner has tokens for {MAX_ORIGINS} origins, which is the maximum. "
            "Serve more stores below one host, or leave the token out."
        )
    if origin != UNBOUND:
        await tx.execute(_DELETE, _unbound(partner_id))
    sealed = vault.seal(token, context=token_context(partner_id, origin))
    await tx.execute(_UPSERT[tx.dialect], {"partner_id": partner_id, "origin": origin, "token": sealed})


async def _bind_unbound(tx: Write, vault: Vault, partner_id: UUID, origin: str) -> bool:
    sealed = await tx.scalar(_FIND, _unbound(partner_id))
    if sealed is None:
        return False
    token = vault.open(sealed, context=token_context(partner_id, UNBOUND))
    # Of two concurrent registrations the first one binds it.
    sealed = vault.seal(token, context=token_context(partner_id, origin))
    bound = await tx.execute(_BIND, _unbound(partner_id) | {"origin": origin, "token": sealed})
    return bound.rowcount == 1


def _unbound(partner_id: UUID) -> dict[str, object]:
    return {"where_partner": partner_id, "where_origin": UNBOUND}


def _origin(url: str) -> str:
    origin = origin_of(url)
    if origin is None:
        raise AccountError(
            "The webhook origin is an absolute http or https URL, like https://pos.example.com."
        )
    return origin


def _single_origin(urls: Collection[str]) -> list[str]:
    origins = sorted({origin for url in urls if (origin := origin_of(url)) is not None})
    if len(origins) > 1:
        raise SeveralOriginsError(origins)
    return origins
