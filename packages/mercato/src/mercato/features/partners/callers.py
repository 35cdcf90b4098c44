"""Find the caller of a key or an access token, from memory when the key is cached and still valid.

An access token is signed, and verified without a database.
"""

import asyncio
import base64
import hmac
import re
import struct
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from math import ceil
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from mercato.features.partners import model, queries
from mercato.features.partners.credentials import STORES_TOPIC, TOPIC
from mercato.features.partners.model import ACCESS_BEGIN, ApiKey, Caller, KeyState, Surface
from mercato.features.partners.queries import KeyWithPartner
from mercato.platform.cache import Cache
from mercato.platform.db.changes import ChangeFeed
from mercato.platform.db.engine import Database, Read
from mercato.platform.db.errors import DatabaseUnavailable, is_unavailable
from mercato.platform.errors import Forbidden, Unauthenticated
from mercato_contract import clock
from mercato_contract.clock import Clock
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import redacted, rfc3339

LIFETIME: Final = timedelta(hours=1)

PURPOSE: Final = "mercato access token"
"""The purpose of the derived signing keys: what is signed for another purpose isn't a valid token."""

_VERSION: Final = 1
_CLAIMS: Final = struct.Struct(">B16s16sI")
_SIGNATURE: Final = 32
# 69 bytes fill 92 characters exactly: every token has one spelling.
_TOKEN: Final = re.compile(
    rf"{ACCESS_BEGIN}([0-9A-Za-z_-]{{{(_CLAIMS.size + _SIGNATURE) * 4 // 3}}})".encode()
)


class Claims(Struct, frozen=True):
    """A token's content: its key, the key's partner, and the Unix second at which it expires."""

    key_id: UUID
    partner_id: UUID
    expires_at: int


@redacted("text")
class AccessToken(Struct, frozen=True):
    """A new token and its lifetime in seconds. Its repr redacts the text."""

    text: str
    seconds: int


class Tokens:
    """Signs with the first key and verifies with any, so that keys can be rotated."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    def sign(self, claims: Claims) -> str:
        """Return the token: `mt_` and 92 characters of base64url, of which the last 43 are the signature's."""
        packed = _CLAIMS.pack(_VERSION, claims.key_id.bytes, claims.partner_id.bytes, claims.expires_at)
        signature = hmac_sha256(self._keys[0], packed)
        return ACCESS_BEGIN + base64.urlsafe_b64encode(packed + signature).decode()

    def find(self, token: bytes) -> Claims | None:
        """Return a token's claims if its signature is valid. It may have expired."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        raw = base64.urlsafe_b64decode(match[1])
        packed, signature = raw[: _CLAIMS.size], raw[_CLAIMS.size :]
        if not any(hmac.compare_digest(hmac_sha256(key, packed), signature) for key in self._keys):
            return None
        version, key_id, partner_id, expires_at = _CLAIMS.unpack(packed)
        return Claims(UUID(bytes=key_id), UUID(bytes=partner_id), expires_at) if version == _VERSION else None


log = structlog.get_logger("mercato.partners")

MAX_CALLERS: Final = 20_000
"""Cached callers, about half a kilobyte each; the least recently used is evicted."""

MAX_REFUSED: Final = 10_000
"""Invented keys that are cached; the oldest is evicted."""

REFUSED_SECONDS: Final = 10.0
"""How long a wrong key is refused from memory."""

MAX_READS: Final = 4
"""Concurrent lookups: the most that a flood of invented keys takes of the database."""

TRUST_SECONDS: Final = 60.0
"""When the change feed is older than this, lookups go to the database."""

USE_SECONDS: Final = 5.0
"""Seconds between writes of key uses; each key is written at most once a minute."""

USES_PER_STATEMENT: Final = 500
"""Keys in one update of last uses."""


class SuspendedPartner(Forbidden):
    """The key or token is valid, but its partner is suspended. `caller` is for the request log alone."""

    def __init__(self, caller: Caller) -> None:
        super().__init__("This partner is suspended: its keys are refused. Ask the operator of this service.")
        self.caller = caller


class _CachedKey(Struct):
    caller: Caller
    expires_at: datetime | None
    refusal: str | None = None
    """Why the key is refused, if it is revoked or has expired."""

    suspended: bool = False
    used: bool = True
    recorded: datetime | None = None


_LookUp = Callable[[Read], Awaitable[KeyWithPartner | None]]


class Callers:
    """Callers by the hash of their key, and by the key's id for access tokens.

    A token's signature is verified without the database; its key must still be valid, which is cached like a key. So
    the database is read once for each key, however many tokens it has, and not at all in the process that issued one.
    """

    def __init__(
        self,
        db: Database,
        feed: ChangeFeed,
        tokens: Tokens,
        now: Clock = clock.now,
        *,
        timeout: timedelta = timedelta(seconds=5),
        max_callers: int = MAX_CALLERS,
        max_refused: int = MAX_REFUSED,
    ) -> None:
        """`timeout` is that of a lookup, including its wait for a free slot."""
        self._db = db
        self._feed = feed
        self._tokens = tokens
        self._seconds = timeout.total_seconds()
        self._now = now
        self._cache = Cache[bytes, _CachedKey](capacity=max_callers)
        # Keys that don't exist. Apart from the callers, which a flood of invented keys must not evict.
        self._refused = Cache[bytes, bool](capacity=max_refused, seconds=REFUSED_SECONDS)
        self.lookups = self._cache.lookups
        self._reads = asyncio.Semaphore(MAX_READS)
        self._suspect_reads = asyncio.Semaphore(1)
        feed.subscribe(TOPIC, self._forget)
        # A caller's limits count its stores: they are counted when its key is read, which a new store makes necessary.
        feed.subscribe(STORES_TOPIC, self._forget)

    def find_cached(self, token: bytes) -> Caller | None:
        """Return the caller of a key or token that is in memory, even of a suspended partner.

        For the request log: it admits nobody.
        """
        entry = self._find(self._handle(token) if model.looks_like_token(token) else model.digest(token))
        return None if entry is None or entry.refusal is not None else entry.caller

    async def get(self, token: bytes) -> Caller:
        """Return the caller of a key or token. Raises Unauthenticated, with advice but never the key.

        Raises SuspendedPartner, DatabaseUnavailable or the database's error when a read fails.
        """
        is_token = model.looks_like_token(token)
        entry = self._find(self._handle(token) if is_token else model.digest(token))
        if entry is None:
            entry = await (self._load_token(token) if is_token else self._load_key(token, self._reads))
        if entry.refusal is not None or entry.suspended:
            raise _refusal(entry)
        return entry.caller

    async def get_by_key(self, key_id: UUID, partner_id: UUID) -> Caller:
        """Return the caller of a key in whose name something is done later, as the database has it now.

        Raises what `get` raises.
        """
        async with self._db.read() as tx:
            found = await queries.find_caller_by_key_id(tx, key_id, partner_id)
        if found is None:
            raise Unauthenticated("The key no longer exists.", sent=True)
        entry = self._entry_of(found)
        if entry.refusal is not None or entry.suspended:
            raise _refusal(entry)
        return entry.caller

    async def issue(self, client_id: UUID, key: bytes, *, suspect: bool = False) -> AccessToken:
        """Return an access token of the marketfront key, valid as long as the key is.

        `suspect` attempts, after too many failures, are looked up one at a time: a valid key still works, and
        wrong ones keep at most one database connection busy.

        Raises Unauthenticated when this is not the key of that id, Forbidden when it is a Commerce key, and
        what `get` raises. A token can't be exchanged for another.
        """
        entry = self._find(model.digest(key))
        if entry is None:
            entry = await self._load_key(key, self._suspect_reads if suspect else self._reads)
        if entry.refusal is not None or entry.suspended:
            raise _refusal(entry)
        caller = entry.caller
        if caller.key_id != client_id:
            raise Unauthenticated(
                "The client id is not the id of this key. Lists of keys show the id.", sent=True
            )
        if caller.surface is not Surface.MARKETFRONT:
            raise Forbidden(
                "Access tokens are issued for marketfront keys only. Send a Commerce key as it is."
            )
        now = self._now()
        life = LIFETIME if entry.expires_at is None else min(LIFETIME, entry.expires_at - now)
        if self._cache.find(model.digest(key)) is entry:
            self._cache.put(caller.key_id.bytes, entry)
        claims = Claims(caller.key_id, caller.partner_id, ceil((now + life).timestamp()))
        return AccessToken(self._tokens.sign(claims), int(life.total_seconds()))

    def _handle(self, token: bytes) -> bytes | None:
        """Return the cache key of a valid token: its key's id (16 bytes). Keys are cached under 32 bytes."""
        claims = self._tokens.find(token)
        return claims.key_id.bytes if claims is not None and not self._has_expired(claims) else None

    def _has_expired(self, claims: Claims) -> bool:
        return claims.expires_at <= self._now().timestamp()

    async def _load_token(self, token: bytes) -> _CachedKey:
        claims = self._tokens.find(token)
        if claims is None:
            raise Unauthenticated(
                "The access token was not issued by this service, or is not complete. "
                "Get one with POST /v1/oauth/token.",
                sent=True,
            )
        if self._has_expired(claims):
            raise Unauthenticated(
                "The access token has expired. Get another with POST /v1/oauth/token.", sent=True
            )
        return await self._load(
            claims.key_id.bytes,
            lambda tx: queries.find_caller_by_key_id(tx, claims.key_id, claims.partner_id),
            unknown="The key of this access token no longer exists.",
            reads=self._reads,
        )

    async def _load_key(self, token: bytes, reads: asyncio.Semaphore) -> _CachedKey:
        if not model.is_whole(token):
            raise Unauthenticated(model.malformed_reason(token), sent=True)
        digest = model.digest(token)
        return await self._load(
            digest,
            lambda tx: queries.find_caller_by_digest(tx, digest),
            unknown=f"There is no key {model.prefix(token.decode())}. Check where you copied it from.",
            reads=reads,
        )

    async def _load(
        self, handle: bytes, look_up: _LookUp, *, unknown: str, reads: asyncio.Semaphore
    ) -> _CachedKey:
        if self._refused.find(handle) is None:
            # Without the change feed, a read that is under way may be older than a revocation.
            load = self._cache.read_shared if self._feed.age() <= TRUST_SECONDS else self._cache.refresh
            entry = await load(handle, self._read, handle, look_up, reads)
            if entry is not None:
                return entry
            self._refused.put(handle, True)  # that it's refused is all that is known
        raise Unauthenticated(unknown, sent=True)

    async def _read(self, handle: bytes, look_up: _LookUp, reads: asyncio.Semaphore) -> _CachedKey | None:
        """Return the key, also one that is refused; None if there is no such key."""
        try:
            async with asyncio.timeout(self._seconds), reads:
                # Checked after the wait: of a hundred requests with one invented key, only the first few read.
                if self._refused.find(handle) is not None:
                    return None
                async with self._db.read() as tx:
                    found = await look_up(tx)
        except TimeoutError:
            raise DatabaseUnavailable("keys could not be looked up in time") from None
        return None if found is None else self._entry_of(found)

    def _entry_of(self, found: KeyWithPartner) -> _CachedKey:
        key, now = found.key, self._now()
        caller = Caller(
            key.partner_id, key.id, key.surface, found.limits, found.stores, found.agent, found.event_url
        )
        if key.state(now) is not KeyState.ACTIVE:
            return _CachedKey(caller, None, refusal=_inactive_reason(key, now), used=False)
        return _CachedKey(caller, key.expires_at, suspended=found.suspended)

    def _find(self, handle: bytes | None) -> _CachedKey | None:
        """Return a cached key, also one that is refused, if the change feed is current."""
        if handle is None:
            return None
        entry = self._cache.find(handle)
        if entry is None or self._feed.age() > TRUST_SECONDS:
            return None
        if entry.expires_at is not None and entry.expires_at <= self._now():
            return None
        entry.used = entry.refusal is None
        return entry

    async def run(self) -> None:
        """Record key uses every few seconds until cancelled. A crash loses the last ones."""
        while True:
            await asyncio.sleep(USE_SECONDS)
            try:
                await self.record_uses()
            except Exception as error:  # logged; the next run records nearly the same
                if is_unavailable(error):
                    log.warning("key uses wait for the database", error=type(error).__name__)
                else:
                    log.exception("bug in noting key uses")

    async def record_uses(self) -> None:
        """Record the keys that were used since the last call; a key in steady use once a minute."""
        now = self._now()
        used = [
            entry
            for entry in self._cache.values()
            if entry.used and (entry.recorded is None or now - entry.recorded >= queries.USE_STEP)
        ]
        for entry in used:
            entry.used, entry.recorded = False, now
        ids = iter([entry.caller.key_id for entry in used])
        while batch := list(islice(ids, USES_PER_STATEMENT)):
            async with self._db.write() as tx:
                await queries.record_key_uses(tx, batch, now=now)

    def _forget(self, partner: str | None) -> None:
        if partner is None:
            self._cache.forget_all()
            return
        # Changes of partners are rare: a scan of all callers is cheaper than an index.
        changed = UUID(partner)
        self._cache.forget_if(lambda entry: entry.caller.partner_id == changed)


def _refusal(entry: _CachedKey) -> Unauthenticated | SuspendedPartner:
    return (
        SuspendedPartner(entry.caller) if entry.refusal is None else Unauthenticated(entry.refusal, sent=True)
    )


def _inactive_reason(key: ApiKey, now: datetime) -> str:
    state = key.state(now)
    when = key.revoked_at if state is KeyState.REVOKED else key.expires_at
    assert when is not None
    return f"The key {key.prefix} has been {state} since {rfc3339(when)}. Use the partner's current key."
