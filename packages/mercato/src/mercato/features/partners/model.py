"""Partners, their keys and limits, and the caller of a request.

The text of API keys and signing secrets: generate, recognise and hash it.
"""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato_contract.signing import new_secret


class Surface(StrEnum):
    """The two sides of the network. A key belongs to one of them."""

    COMMERCE = "commerce"
    MARKETFRONT = "marketfront"


class PartnerKind(StrEnum):
    """Which surfaces an organisation uses."""

    COMMERCE = "commerce"
    MARKETFRONT = "marketfront"
    BOTH = "both"

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        return tuple(Surface) if self is PartnerKind.BOTH else (Surface(self.value),)


class Limits(msgspec.Struct, frozen=True):
    """A partner's own requests a minute, before what its live stores add; None is the deployment's default."""

    reads: int | None = None
    writes: int | None = None
    discovery: int | None = None


class ApprovalRule(StrEnum):
    """Which orders of an agent wait for a person's approval. `above`: those that cost more than an amount."""

    NEVER = "never"
    ABOVE = "above"
    ALWAYS = "always"


class Agent(Struct, frozen=True, kw_only=True):
    """A program that orders for a storefront, with limits that never change. `key_id` is its newest key.

    Amounts are minor units of the currency, the only one that it orders in; without one it has no amounts. A day begins
    at midnight of `timezone`.
    """

    id: UUID
    partner_id: UUID
    name: str
    key_id: UUID
    currency: str | None
    maximum_order: int | None
    maximum_day: int | None
    approval: ApprovalRule
    approval_above: int | None
    timezone: str
    created_at: datetime


def needs_approval(agent: Agent, total: int) -> bool:
    """Return whether a person must approve an order with this total, in minor units of the agent's currency."""
    match agent.approval:
        case ApprovalRule.NEVER:
            return False
        case ApprovalRule.ALWAYS:
            return True
        case ApprovalRule.ABOVE:
            assert agent.approval_above is not None, "the rule has an amount"
            return total > agent.approval_above


class Caller(Struct, frozen=True):
    """The partner and key of a request: every query that a partner can reach takes one.

    `stores` is how many live stores the partner has, for its limits. `agent` is whose key it is, if an agent's.
    `event_url` is the partner's, as it was when the key was last read.
    """

    partner_id: UUID
    key_id: UUID
    surface: Surface
    limits: Limits
    stores: int = 0
    agent: Agent | None = None
    event_url: str | None = None


class Partner(Struct, frozen=True, kw_only=True):
    """An organisation, without its secrets."""

    id: UUID
    name: str
    kind: PartnerKind
    limits: Limits
    has_webhook_token: bool
    event_url: str | None
    created_at: datetime
    suspended_at: datetime | None = None


class KeyState(StrEnum):
    """Whether a key is accepted."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class ApiKey(Struct, frozen=True, kw_only=True):
    """A stored key without its text.

    It descends from `parent_key_id`, the key whose console session or request made it. Neither it nor a key that
    replaces it expires after `latest_expiry`, if there is one. `agent_id` is whose key it is, if an agent's.
    """

    id: UUID
    partner_id: UUID
    surface: Surface
    prefix: str
    description: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime
    last_used_at: datetime | None
    parent_key_id: UUID | None = None
    latest_expiry: datetime | None = None
    agent_id: UUID | None = None

    def is_agent_of(self, parent: "ApiKey") -> bool:
        """Return whether it is the key of an agent that the parent has made, and is revoked with it."""
        return self.agent_id is not None and self.parent_key_id == parent.id

    def state(self, now: datetime) -> KeyState:
        if self.revoked_at is not None:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        return KeyState.ACTIVE


class SigningSecret(Struct, frozen=True, kw_only=True):
    """A signing secret without its text."""

    id: UUID
    created_at: datetime
    expires_at: datetime | None


class AccountError(ValueError):
    """A change of a partner or its credentials isn't possible.

    The text says why; the console and the commands add what to do.
    """


class UnknownAccountError(AccountError):
    """The partner or key doesn't exist."""


class UnknownPartnerError(UnknownAccountError):
    """There is no partner with this id or name."""

    def __init__(self, partner_id: UUID | None = None) -> None:
        super().__init__(f"There is no partner {'with this name' if partner_id is None else partner_id}.")


class UnknownKeyError(UnknownAccountError):
    """There is no key with this id, prefix or text. `shown` is what of it may be repeated."""

    def __init__(self, shown: str) -> None:
        super().__init__(f"There is no key {shown}.")


class InactiveKeyError(AccountError):
    """The key has expired or is revoked, so it can't be rolled."""

    def __init__(self, key: ApiKey, state: KeyState) -> None:
        super().__init__(f"The key {key.prefix} is {state} and cannot be rolled.")
        self.key: Final = key


class TakenNameError(AccountError):
    """Another partner has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A partner called {name} exists already.")
        self.name: Final = name


class NoStoresError(AccountError):
    """A partner without the Commerce surface has no webhook token."""

    def __init__(self, kind: PartnerKind) -> None:
        super().__init__(f"A {kind.value} partner has no stores, and its events carry no token.")


class SeveralOriginsError(AccountError):
    """The token is for one of several origins."""

    def __init__(self, origins: Sequence[str]) -> None:
        super().__init__(f"The partner's stores use {len(origins)} origins: {', '.join(origins[:5])}.")


class OpenOrdersError(AccountError):
    """The partner has open orders, so it can't be deleted."""

    def __init__(self, partner_id: UUID, count: int) -> None:
        super().__init__(
            f"The partner has open orders: {count:,}. Deleting it would leave the other side without an answer."
        )
        self.partner_id: Final = partner_id


ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Base 62: a double click selects a whole key, and no shell, header or URL needs it quoted."""

RANDOM_LENGTH: Final = 34
"""Random characters of a key: 202 bits; its prefix shows 36 of them."""

CHECKSUM_LENGTH: Final = 6
"""Characters of the checksum: 32 bits in base 62."""

PREFIX_LENGTH: Final = 6
"""Random characters that lists show, enough to distinguish an organisation's keys."""

PATTERN: Final = rf"mk_({'|'.join(Surface)})_([0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}})"
"""The pattern for secret scanners; `is_whole` also verifies the checksum."""

ACCESS_BEGIN: Final = "mt_"
"""The prefix of access tokens; no key begins with it."""

_KEY: Final = re.compile(PATTERN.encode())
_ACCESS_BEGIN: Final = ACCESS_BEGIN.encode()
_BEGIN: Final = re.compile(rf"mk_({'|'.join(Surface)})_".encode())


def new_key(surface: Surface) -> str:
    """Return a new key, `mk_<surface>_` and 40 characters of which the last 6 are a checksum."""
    text = f"mk_{surface}_" + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return text + _checksum(text)


def looks_like_key(token: bytes) -> bool:
    return _BEGIN.match(token) is not None


def looks_like_token(token: bytes) -> bool:
    return token.startswith(_ACCESS_BEGIN)


def is_whole(token: bytes) -> bool:
    """Return whether the token has a key's form and checksum: a mistyped or truncated one hasn't."""
    if _KEY.fullmatch(token) is None:
        return False
    text = token.decode()
    return text[-CHECKSUM_LENGTH:] == _checksum(text[:-CHECKSUM_LENGTH])


def malformed_reason(token: bytes) -> str:
    """Return why the text isn't a whole key, for its sender."""
    if not looks_like_key(token):
        return (
            "The token is not a key of this service: keys begin with mk_commerce_ or mk_marketfront_, "
            "and access tokens with mt_."
        )
    return "The key is not complete, or a character of it is wrong. Copy it again from where it is stored."


def prefix(key: str) -> str:
    """Return the part of a key that may be shown in lists and messages: `mk_commerce_3fZk9Q`."""
    mk, surface, characters = key.split("_", 2)
    return f"{mk}_{surface}_{characters[:PREFIX_LENGTH]}"


def digest(key: bytes) -> bytes:
    """Return the hash that is stored of a key.

    SHA-256 rather than a slow password hash: 202 random bits can't be guessed, and every cold request computes it.
    The comparison needn't take constant time: timing the lookup reveals bits of the hash, not of the key.
    """
    return hashlib.sha256(key).digest()


def new_signing_secret() -> str:
    """Return a new signing secret as Standard Webhooks has them: `whsec_` and 32 random bytes in base64."""
    return new_secret(secrets.token_bytes)


def _checksum(text: str) -> str:
    """CRC-32: it catches typing errors and false alarms, not forgeries."""
    number, characters = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        characters = ALPHABET[digit] + characters
    return characters
