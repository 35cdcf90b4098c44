"""What signs webhooks: partners' secrets and tokens, cached, and those of a webhook endpoint, sealed in its row.

The cache is invalidated by every change, and at most a minute old.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct, field

from mercato.features.partners.accounts import endpoint_context, get_ending_secrets
from mercato.features.partners.credentials import TOPIC
from mercato.features.partners.vault import Vault
from mercato.features.partners.webhook_tokens import get_webhook_tokens
from mercato.platform.cache import Cache
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable
from mercato_contract.clock import Clock
from mercato_contract.wire import as_json, redacted
from mercato_outbound.guard import origin_of

MAX_PARTNERS: Final = 10_000
"""Cached partners, under a kilobyte each besides their tokens. The least recently used is dropped."""

TRUST_SECONDS: Final = 60.0
"""An older entry is read again before use, if the database answers."""

READ_SECONDS: Final = 2.0
"""The timeout of a read: a request may be waiting for the call."""

PAUSE_SECONDS: Final = 5.0
"""While the database is unavailable, a cached partner isn't read again for so long."""


@redacted("secrets", "tokens")
class Credentials(Struct, frozen=True):
    """The secrets that sign now, newest first, and the partner's own tokens by origin."""

    secrets: tuple[str, ...]
    tokens: Mapping[str, str]

    def token_for(self, url: str) -> str | None:
        """Return the token for the URL's origin."""
        # Most partners have none, and then the URL needs no parsing.
        origin = origin_of(url) if self.tokens else None
        return None if origin is None else self.tokens.get(origin)


@redacted("secrets", "tokens")
class _PartnerCredentials(Struct):
    secrets: list[tuple[str, datetime | None]]
    tokens: Mapping[str, str]
    constant: Credentials | None = None
    """The credentials at any time, if no secret ends."""

    def at(self, now: Clock) -> Credentials:
        if self.constant is not None:
            return self.constant
        instant = now()
        valid = tuple(text for text, end in self.secrets if end is None or end > instant)
        found = Credentials(valid, self.tokens)
        if all(end is None for _, end in self.secrets):
            self.constant = found
        return found


class WebhookCredentials:
    """Credentials by partner. Entries that didn't change stay valid while the database is unavailable."""

    def __init__(
        self, db: Database, feed: ChangeFeed, vault: Vault, now: Clock, *, limit: int = MAX_PARTNERS
    ) -> None:
        self._db = db
        self._vault = vault
        self._now = now
        self._cache = Cache[int, _PartnerCredentials](
            capacity=limit, seconds=TRUST_SECONDS, outage_pause=PAUSE_SECONDS
        )
        self._cache.follow(feed, TOPIC, lambda key: UUID(key).int)

    async def get(self, partner_id: UUID) -> Credentials:
        """Return the partner's signing secrets and tokens. Raises the errors of the database and the vault."""
        entry = await self._cache.get(partner_id.int, self._read, partner_id)
        assert entry is not None
        return entry.at(self._now)

    def is_cached(self, partner_id: UUID) -> bool:
        """Return whether the credentials are in memory and current."""
        return self._cache.find(partner_id.int) is not None

    async def _read(self, partner_id: UUID) -> _PartnerCredentials:
        try:
            async with asyncio.timeout(READ_SECONDS), self._db.read() as tx:
                secrets = await get_ending_secrets(tx, self._vault, partner_id, now=self._now)
                tokens = await get_webhook_tokens(tx, self._vault, partner_id)
        except TimeoutError:
            raise DatabaseUnavailable("webhook credentials could not be read in time") from None
        return _PartnerCredentials(secrets, tokens)


# --- of webhook endpoints ----------------------------------------------------------------------------------


@redacted("secrets", "headers")
class EndpointCredentials(Struct, frozen=True):
    """The secrets that sign, newest first, each with the Unix seconds at which it ends; and the partner's headers."""

    secrets: tuple[tuple[str, int | None], ...]
    headers: dict[str, str] = field(default_factory=dict)

    def secrets_at(self, now: datetime) -> tuple[str, ...]:
        """Return the secrets that sign now: one, or two during a rotation."""
        return tuple(text for text, end in self.secrets if end is None or end > now.timestamp())


def open_credentials(vault: Vault, endpoint_id: UUID, sealed: bytes) -> EndpointCredentials:
    """Return an endpoint's credentials. Raises VaultError."""
    text = vault.open(sealed, context=endpoint_context(endpoint_id))
    return msgspec.json.decode(text, type=EndpointCredentials)


def seal_credentials(vault: Vault, endpoint_id: UUID, credentials: EndpointCredentials) -> bytes:
    return vault.seal(as_json(credentials).decode(), context=endpoint_context(endpoint_id))
