"""A cache of the secrets and tokens of partners' webhooks: invalidated by every change, at most a minute old."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.partners.accounts import get_ending_secrets
from mercato.features.partners.credentials import TOPIC
from mercato.features.partners.vault import Vault
from mercato.features.partners.webhook_tokens import get_webhook_tokens
from mercato.platform.clock import Clock
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database
from mercato.platform.db.errors import DatabaseUnavailable, is_unavailable
from mercato.platform.outbound.urls import origin_of
from mercato_contract.wire import redacted

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
class _Entry(Struct):
    secrets: list[tuple[str, datetime | None]]
    tokens: Mapping[str, str]
    until: float  # in monotonic seconds

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
        self._limit = limit
        # By the integer of the id: hashing a UUID runs Python code.
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._reads: dict[UUID, asyncio.Task[_Entry]] = {}
        # Counts changes: what was read before a change must not be cached after it.
        self._changes = 0
        feed.subscribe(TOPIC, self._forget)

    def cached(self, partner_id: UUID) -> Credentials | None:
        """Return the credentials if the cache has them and they aren't too old. Never waits."""
        entry = self._entries.get(partner_id.int)
        if entry is None or monotonic() >= entry.until:
            return None
        self._entries.move_to_end(partner_id.int)
        return entry.at(self._now)

    async def get(self, partner_id: UUID) -> Credentials:
        """Return the partner's signing secrets and tokens. Raises the errors of the database and the vault."""
        return self.cached(partner_id) or (await self._refresh(partner_id)).at(self._now)

    async def _refresh(self, partner_id: UUID) -> _Entry:
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await asyncio.shield(self._shared_read(partner_id))
        except TimeoutError:
            unavailable: Exception = DatabaseUnavailable("webhook credentials could not be read in time")
        except Exception as error:
            if not is_unavailable(error):
                raise
            unavailable = error
        known = self._entries.get(partner_id.int)
        if known is None:
            raise unavailable
        known.until = monotonic() + PAUSE_SECONDS
        return known

    def _shared_read(self, partner_id: UUID) -> asyncio.Task[_Entry]:
        """Return the running read for the partner, which any number of calls await."""
        task = self._reads.get(partner_id)
        if task is None:
            task = self._reads[partner_id] = asyncio.create_task(self._read(partner_id))
            task.add_done_callback(lambda done: self._end(partner_id, done))
        return task

    def _end(self, partner_id: UUID, task: asyncio.Task[_Entry]) -> None:
        if self._reads.get(partner_id) is task:
            del self._reads[partner_id]
        if not task.cancelled():
            task.exception()  # retrieved; those that await the task get it

    async def _read(self, partner_id: UUID) -> _Entry:
        started_at, changes = monotonic(), self._changes
        async with self._db.read() as tx:
            secrets = await get_ending_secrets(tx, self._vault, partner_id, now=self._now)
            tokens = await get_webhook_tokens(tx, self._vault, partner_id)
        entry = _Entry(secrets, tokens, started_at + TRUST_SECONDS)
        if changes == self._changes:
            self._entries[partner_id.int] = entry
            self._entries.move_to_end(partner_id.int)
            if len(self._entries) > self._limit:
                self._entries.popitem(last=False)
        return entry

    def _forget(self, key: str | None) -> None:
        self._changes += 1
        if key is not None:
            partner_id = UUID(key)
            self._entries.pop(partner_id.int, None)
            # A read that began before the change may return what was before it.
            self._reads.pop(partner_id, None)
            return
        # Any entry may have changed: all are read again, but stay valid if the database is unavailable.
        for entry in self._entries.values():
            entry.until = 0.0
        self._reads.clear()
