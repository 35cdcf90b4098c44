"""Who sends a key or an access token: answered from memory when the key is known, and only while it is good."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime
from itertools import islice
from math import ceil
from time import monotonic
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato import clock
from mercato.clock import Clock, rfc3339
from mercato.db.changes import ChangeFeed
from mercato.db.engine import Database, Read
from mercato.db.errors import DatabaseAway, is_unavailable
from mercato.errors import Forbidden, Unauthenticated
from mercato.partners import keys, queries
from mercato.partners.credentials import TOPIC
from mercato.partners.model import ApiKey, Caller, KeyState, Surface
from mercato.partners.queries import KeyWithPartner
from mercato.partners.tokens import LIFE, AccessToken, Claims, Tokens
from mercato.telemetry import Lookups

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

USE_SECONDS: Final = 5.0
"""Seconds between looks at which keys were used; of each it is written down once a minute at most."""

BATCH: Final = 500
"""Keys that one statement notes."""

TRIES: Final = 3
"""Readings of one key that changes may overtake before the last is answered without being kept."""


_SUSPENDED: Final = "This partner is suspended: its keys open nothing. Ask whoever runs this service."


class _Known(Struct):
    caller: Caller
    expires_at: datetime | None
    suspended: bool = False
    used: bool = True
    noted: datetime | None = None


_LookUp = Callable[[Read], Awaitable[KeyWithPartner | None]]


class Callers:
    """Callers by the hash of their key, and by the key's id for who sends access tokens.

    A token is verified by itself; whether its key still is good is known as for the key. So the database is
    asked once for each key, however many tokens come of it, and not at all where the token was made.
    """

    def __init__(
        self, db: Database, feed: ChangeFeed, tokens: Tokens, now: Clock = clock.now, *, most: int = MOST
    ) -> None:
        self._db = db
        self._feed = feed
        self._tokens = tokens
        self._now = now
        self._most = most
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        # Why a key is refused, and until when memory says so.
        self._refused: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        # Bumped at every change: what was read before a change must not be kept after it.
        self._changes = 0
        self.lookups = Lookups()
        self._reads = asyncio.Semaphore(MOST_READS)
        self._suspect_reads = asyncio.Semaphore(1)
        feed.subscribe(TOPIC, self._forget)

    def cached(self, token: bytes) -> Caller | None:
        """Return the caller of a key or token if memory has it and may be believed; no database, no waiting."""
        known = self._find(self._handle(token) if keys.looks_like_token(token) else keys.digest(token))
        if known is None or known.suspended:
            self.lookups.misses += 1
            return None
        self.lookups.hits += 1
        return known.caller

    async def get(self, token: bytes) -> Caller:
        """Return the caller of a key or token. Raises Unauthenticated, with what helps its owner and never the key.

        Raises Forbidden while the partner is suspended; DatabaseAway, or what the database raises, when it has to
        ask and gets no answer.
        """
        known = await (self._claimed(token) if keys.looks_like_token(token) else self._presented(token))
        return known.caller

    async def issue(self, client_id: UUID, key: bytes, *, suspect: bool = False) -> AccessToken:
        """Return an access token of the marketfront key, which dies with it.

        The attempts that are `suspect`, after too many failures, are looked up one after the other: a right key still
        opens, and wrong ones keep one connection of the database busy at most.

        Raises Unauthenticated when this is not the key of that id, Forbidden when it is a Commerce key, and
        what `get` raises. A token is no key: it cannot be exchanged for another.
        """
        known = await self._presented(key, self._suspect_reads if suspect else self._reads)
        caller = known.caller
        if caller.key_id != client_id:
            raise Unauthenticated(
                "The client id is not the id of this key. See it with: mercato key list", sent=True
            )
        if caller.surface is not Surface.MARKETFRONT:
            raise Forbidden(
                "Access tokens are made from marketfront keys only. Send a Commerce key as it is."
            )
        now = self._now()
        life = LIFE if known.expires_at is None else min(LIFE, known.expires_at - now)
        if self._known.get(keys.digest(key)) is known:
            self._keep(caller.key_id.bytes, known)
        claims = Claims(caller.key_id, caller.partner_id, ceil((now + life).timestamp()))
        return AccessToken(self._tokens.sign(claims), int(life.total_seconds()))

    def _handle(self, token: bytes) -> bytes | None:
        """Return under what memory has the key of a good token (16 bytes); keys themselves stand there in 32."""
        claims = self._tokens.find(token)
        return claims.key_id.bytes if claims is not None and not self._has_expired(claims) else None

    def _has_expired(self, claims: Claims) -> bool:
        return claims.expires_at <= self._now().timestamp()

    async def _claimed(self, token: bytes) -> _Known:
        claims = self._tokens.find(token)
        if claims is None:
            raise Unauthenticated(
                "The access token was not made by this service, or is not complete. "
                "Get one with POST /v1/oauth/token.",
                sent=True,
            )
        if self._has_expired(claims):
            raise Unauthenticated(
                "The access token has expired. Get another with POST /v1/oauth/token.", sent=True
            )
        return await self._get(
            claims.key_id.bytes,
            lambda tx: queries.find_caller_by_key_id(tx, claims.key_id, claims.partner_id),
            unknown="There is no key any more that this access token was made from.",
        )

    async def _presented(self, token: bytes, reads: asyncio.Semaphore | None = None) -> _Known:
        if not keys.is_whole(token):
            raise Unauthenticated(_complaint(token), sent=True)
        digest = keys.digest(token)
        return await self._get(
            digest,
            lambda tx: queries.find_caller_by_digest(tx, digest),
            unknown=f"There is no key {keys.prefix(token.decode())}. Check where it is from.",
            reads=reads,
        )

    async def _get(
        self, handle: bytes, look_up: _LookUp, *, unknown: str, reads: asyncio.Semaphore | None = None
    ) -> _Known:
        known = self._find(handle)
        if known is not None:
            return known
        self._refuse_again(handle)
        try:
            async with asyncio.timeout(READ_SECONDS), reads or self._reads:
                # Only now: of a hundred requests with one new key the first few read, and the others find.
                known = self._find(handle)
                if known is None:
                    self._refuse_again(handle)
                    known = await self._read(handle, look_up, unknown)
        except TimeoutError:
            raise DatabaseAway("keys could not be looked up in time") from None
        if known.suspended:
            raise Forbidden(_SUSPENDED)
        return known

    async def run(self) -> None:
        """Note every few seconds which keys were used, until cancelled. The last notes may be lost with the process."""
        while True:
            await asyncio.sleep(USE_SECONDS)
            try:
                await self.note_uses()
            except Exception as error:  # told; the next note says nearly the same
                if is_unavailable(error):
                    log.warning("key uses wait for the database", error=type(error).__name__)
                else:
                    log.exception("bug in noting key uses")

    async def note_uses(self) -> None:
        """Write down that keys used since the last time were in use now; what is in steady use, once a minute."""
        now = self._now()
        used = [
            known
            for known in self._known.values()
            if known.used and (known.noted is None or now - known.noted >= queries.USE_STEP)
        ]
        for known in used:
            known.used, known.noted = False, now
        ids = iter([known.caller.key_id for known in used])
        while batch := list(islice(ids, BATCH)):
            async with self._db.write() as tx:
                await queries.record_key_uses(tx, batch, now=now)

    def _find(self, handle: bytes | None) -> _Known | None:
        if handle is None:
            return None
        known = self._known.get(handle)
        if known is None or self._feed.age() > TRUST_SECONDS:
            return None
        if known.expires_at is not None and known.expires_at <= self._now():
            del self._known[handle]
            return None
        known.used = True
        self._known.move_to_end(handle)
        return known

    def _refuse_again(self, handle: bytes) -> None:
        detail, until = self._refused.get(handle, ("", 0.0))
        if until > monotonic():
            raise Unauthenticated(detail, sent=True)

    async def _read(self, handle: bytes, look_up: _LookUp, unknown: str) -> _Known:
        for _ in range(TRIES):
            changes = self._changes
            async with self._db.read() as tx:
                found = await look_up(tx)
            if changes == self._changes:
                break
        if found is None:
            raise self._refusal(handle, unknown)
        key = found.key
        caller = Caller(key.partner_id, key.id, key.surface, found.limits)
        if key.state(self._now()) is not KeyState.ACTIVE:
            raise self._refusal(handle, _ended(key, self._now()))
        known = _Known(caller, key.expires_at, suspended=found.suspended)
        if changes == self._changes:
            self._keep(handle, known)
        return known

    def _keep(self, handle: bytes, known: _Known) -> None:
        self._known[handle] = known
        self._known.move_to_end(handle)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def _refusal(self, handle: bytes, detail: str) -> Unauthenticated:
        self._known.pop(handle, None)
        self._refused[handle] = detail, monotonic() + REFUSED_SECONDS
        self._refused.move_to_end(handle)
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
        for handle in [h for h, known in self._known.items() if known.caller.partner_id == gone]:
            del self._known[handle]


def _complaint(token: bytes) -> str:
    if not keys.looks_like_key(token):
        return (
            "The token is not a key of this service: those begin with mk_commerce_ or mk_marketfront_, "
            "and access tokens with mt_."
        )
    return "The key is not complete, or a character of it is wrong: copy it once more from where it is kept."


def _ended(key: ApiKey, now: datetime) -> str:
    state = key.state(now)
    when = key.revoked_at if state is KeyState.REVOKED else key.expires_at
    assert when is not None
    return f"The key {key.prefix} is {state} since {rfc3339(when)}. Use the partner's present key."
