"""What signs a partner's webhooks, in memory: read once, forgotten at every change, a minute old at most."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.domain.partners.accounts import get_ending_secrets
from mercato.domain.partners.credentials import TOPIC
from mercato.domain.partners.vault import Vault
from mercato.domain.partners.webhook_tokens import get_webhook_tokens
from mercato.kernel.clock import Clock
from mercato.kernel.db.changes import ChangeFeed
from mercato.kernel.db.engine import Database
from mercato.kernel.db.errors import DatabaseUnavailable, is_unavailable
from mercato.kernel.outbound.urls import origin_of
from mercato.kernel.wire import redacted

MOST: Final = 10_000
"""Partners held, the least recently used out: under a kilobyte each, and what their tokens have."""

TRUST_SECONDS: Final = 60.0
"""What is older is read again before it is used, if the database answers."""

READ_SECONDS: Final = 2.0
"""How long a reading may take: somebody waits for the call."""

PAUSE_SECONDS: Final = 5.0
"""While the database is away it is not asked again for so long about a partner that is known."""


@redacted("secrets", "tokens")
class Credentials(Struct, frozen=True):
    """The secrets that sign now, the newest first, and by origin the tokens that the partner wants to see."""

    secrets: tuple[str, ...]
    tokens: Mapping[str, str]

    def token_for(self, url: str) -> str | None:
        """Return the token that a call to the URL carries: the one that was given for its origin."""
        # Most partners gave none, and then the URL needs no parsing.
        origin = origin_of(url) if self.tokens else None
        return None if origin is None else self.tokens.get(origin)


@redacted("secrets", "tokens")
class _Entry(Struct):
    secrets: list[tuple[str, datetime | None]]
    tokens: Mapping[str, str]
    until: float  # in monotonic seconds

    lasting: Credentials | None = None
    """What they are at any time, once it is known that none of the secrets ends."""

    def at(self, now: Clock) -> Credentials:
        if self.lasting is not None:
            return self.lasting
        instant = now()
        alive = tuple(text for text, end in self.secrets if end is None or end > instant)
        found = Credentials(alive, self.tokens)
        if all(end is None for _, end in self.secrets):
            self.lasting = found
        return found


class WebhookCredentials:
    """Credentials by partner. What is known goes on while the database is away, but for what was changed."""

    def __init__(self, db: Database, feed: ChangeFeed, vault: Vault, now: Clock, *, most: int = MOST) -> None:
        self._db = db
        self._vault = vault
        self._now = now
        self._most = most
        # By the integers of ids: a UUID's own hash is Python code.
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._readings: dict[UUID, asyncio.Task[_Entry]] = {}
        # Bumped at every change: what was read before a change must not be kept after it.
        self._changes = 0
        feed.subscribe(TOPIC, self._forget)

    def cached(self, partner_id: UUID) -> Credentials | None:
        """Return them if memory has them and may be believed; no database, no waiting."""
        entry = self._entries.get(partner_id.int)
        if entry is None or monotonic() >= entry.until:
            return None
        self._entries.move_to_end(partner_id.int)
        return entry.at(self._now)

    async def get(self, partner_id: UUID) -> Credentials:
        """Return the partner's signing secrets and tokens. Raises the errors of the database and the vault."""
        return self.cached(partner_id) or (await self._renewed(partner_id)).at(self._now)

    async def _renewed(self, partner_id: UUID) -> _Entry:
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await asyncio.shield(self._reading(partner_id))
        except TimeoutError:
            away: Exception = DatabaseUnavailable("webhook credentials could not be read in time")
        except Exception as error:
            if not is_unavailable(error):
                raise
            away = error
        known = self._entries.get(partner_id.int)
        if known is None:
            raise away
        known.until = monotonic() + PAUSE_SECONDS
        return known

    def _reading(self, partner_id: UUID) -> asyncio.Task[_Entry]:
        """Return the one reading that is under way for the partner, however many calls wait for it."""
        task = self._readings.get(partner_id)
        if task is None:
            task = self._readings[partner_id] = asyncio.create_task(self._read(partner_id))
            task.add_done_callback(lambda done: self._end(partner_id, done))
        return task

    def _end(self, partner_id: UUID, task: asyncio.Task[_Entry]) -> None:
        if self._readings.get(partner_id) is task:
            del self._readings[partner_id]
        if not task.cancelled():
            task.exception()  # heard by those who waited, if any still did

    async def _read(self, partner_id: UUID) -> _Entry:
        began, changes = monotonic(), self._changes
        async with self._db.read() as tx:
            secrets = await get_ending_secrets(tx, self._vault, partner_id, now=self._now)
            tokens = await get_webhook_tokens(tx, self._vault, partner_id)
        entry = _Entry(secrets, tokens, began + TRUST_SECONDS)
        if changes == self._changes:
            self._entries[partner_id.int] = entry
            self._entries.move_to_end(partner_id.int)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return entry

    def _forget(self, key: str | None) -> None:
        self._changes += 1
        if key is not None:
            partner_id = UUID(key)
            self._entries.pop(partner_id.int, None)
            # One that began before the change may answer with what was before it.
            self._readings.pop(partner_id, None)
            return
        # Anything may have changed unheard: all is read again, but goes on if the database is away.
        for entry in self._entries.values():
            entry.until = 0.0
        self._readings.clear()
