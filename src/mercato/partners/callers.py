"""Who sends a key: answered from memory when it was seen before, and never for longer than the key is good."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from time import monotonic
from typing import Final
from uuid import UUID

import structlog

from mercato import clock
from mercato.clock import Clock, rfc3339
from mercato.db.changes import ChangeFeed
from mercato.db.engine import Database
from mercato.db.errors import DatabaseAway, is_unavailable
from mercato.errors import Unauthenticated
from mercato.partners import keys, queries
from mercato.partners.credentials import TOPIC
from mercato.partners.model import ApiKey, Caller, KeyState

log = structlog.get_logger("mercato.partners")

MOST: Final = 20_000
"""Callers held, the least recently used out: about half a kilobyte each."""

MOST_REFUSED: Final = 10_000
"""Refusals held, the oldest out."""

REFUSED_SECONDS: Final = 10.0
"""How long a wrong key is refused from memory."""

MOST_READS: Final = 4
"""Look-ups at one time: a flood of invented keys takes no more of the database than these."""

READ_SECONDS: Final = 5.0
"""How long a look-up may take, with the wait for its turn."""

TRUST_SECONDS: Final = 60.0
"""Without news of revocations for so long, memory is not believed and the database is asked."""

USE_SECONDS: Final = 60.0
"""Seconds between notes of which keys were used."""

BATCH: Final = 500
"""Keys that one statement notes."""

TRIES: Final = 3
"""Readings of one key that changes may overtake before the last is answered without being kept."""


@dataclass(slots=True)
class _Known:
    caller: Caller
    expires_at: datetime | None
    used: bool = True


class Callers:
    """Callers by the hash of their key."""

    def __init__(self, db: Database, feed: ChangeFeed, now: Clock = clock.now, *, most: int = MOST) -> None:
        self._db = db
        self._feed = feed
        self._now = now
        self._most = most
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        # Why a key is refused, and until when memory says so.
        self._refused: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        # Bumped at every change: what was read before a change must not be kept after it.
        self._changes = 0
        self._reads = asyncio.Semaphore(MOST_READS)
        feed.subscribe(TOPIC, self._forget)

    def cached(self, token: bytes) -> Caller | None:
        """Return the key's caller if memory has it and may be believed; no database, no waiting."""
        return self._find(keys.digest(token))

    async def get(self, token: bytes) -> Caller:
        """Return the key's caller. Raises Unauthenticated, with what helps its owner and never the key.

        Raises DatabaseAway, or what the database raises, when it has to ask and gets no answer.
        """
        if not keys.is_whole(token):
            raise Unauthenticated(_complaint(token), sent=True)
        digest = keys.digest(token)
        try:
            async with asyncio.timeout(READ_SECONDS), self._reads:
                # Only now: of a hundred requests with one new key the first few read, and the others find.
                caller = self._find(digest)
                if caller is None:
                    self._refuse_again(digest)
                    caller = await self._read(digest, token)
                return caller
        except TimeoutError:
            raise DatabaseAway("keys could not be looked up in time") from None

    async def run(self) -> None:
        """Note once a minute which keys were used, until cancelled. A minute's notes may be lost with the process."""
        while True:
            await asyncio.sleep(USE_SECONDS)
            try:
                await self.note_uses()
            except Exception as error:  # told; the next minute's note says nearly the same
                if is_unavailable(error):
                    log.warning("key uses wait for the database", error=type(error).__name__)
                else:
                    log.exception("bug in noting key uses")

    async def note_uses(self) -> None:
        """Write down that the keys used since the last time were in use now."""
        used = [known for known in self._known.values() if known.used]
        for known in used:
            known.used = False
        ids = iter([known.caller.key_id for known in used])
        while batch := list(islice(ids, BATCH)):
            async with self._db.write() as tx:
                await queries.move_uses(tx, batch, now=self._now())

    def _find(self, digest: bytes) -> Caller | None:
        known = self._known.get(digest)
        if known is None or self._feed.age() > TRUST_SECONDS:
            return None
        if known.expires_at is not None and known.expires_at <= self._now():
            del self._known[digest]
            return None
        known.used = True
        self._known.move_to_end(digest)
        return known.caller

    def _refuse_again(self, digest: bytes) -> None:
        detail, until = self._refused.get(digest, ("", 0.0))
        if until > monotonic():
            raise Unauthenticated(detail, sent=True)

    async def _read(self, digest: bytes, token: bytes) -> Caller:
        for _ in range(TRIES):
            changes = self._changes
            async with self._db.read() as tx:
                found = await queries.find_presented(tx, digest)
            if changes == self._changes:
                break
        if found is None:
            raise self._refusal(
                digest, f"There is no key {keys.prefix(token.decode())}. Check where it is from."
            )
        key, limits = found
        caller = Caller(key.partner_id, key.id, key.surface, limits)
        if key.state(self._now()) is not KeyState.ACTIVE:
            raise self._refusal(digest, _ended(key, self._now()))
        if changes == self._changes:
            self._keep(digest, _Known(caller, key.expires_at))
        return caller

    def _keep(self, digest: bytes, known: _Known) -> None:
        self._known[digest] = known
        self._known.move_to_end(digest)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def _refusal(self, digest: bytes, detail: str) -> Unauthenticated:
        self._known.pop(digest, None)
        self._refused[digest] = detail, monotonic() + REFUSED_SECONDS
        self._refused.move_to_end(digest)
        if len(self._refused) > MOST_REFUSED:
            self._refused.popitem(last=False)
        return Unauthenticated(detail, sent=True)

    def _forget(self, partner: str | None) -> None:
        self._changes += 1
        if partner is None:
            self._known.clear()
            return
        # Changes of partners are rare: looking through all callers is cheaper than an index kept for them.
        gone = UUID(partner)
        for digest in [d for d, known in self._known.items() if known.caller.partner_id == gone]:
            del self._known[digest]


def _complaint(token: bytes) -> str:
    if not keys.looks_like_key(token):
        return "The token is not a key of this service: those begin with mk_commerce_ or mk_marketfront_."
    return "The key is not complete, or a character of it is wrong: copy it once more from where it is kept."


def _ended(key: ApiKey, now: datetime) -> str:
    state = key.state(now)
    when = key.revoked_at if state is KeyState.REVOKED else key.expires_at
    assert when is not None
    return f"The key {key.prefix} is {state} since {rfc3339(when)}. Use the partner's present key."
