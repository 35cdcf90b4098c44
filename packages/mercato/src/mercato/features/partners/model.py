"""Partners, their keys and limits, and the caller of a request."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct


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


class Caller(Struct, frozen=True):
    """The partner and key of a request: every query that a partner can reach takes one.

    `stores` is how many live stores the partner has, for its limits.
    """

    partner_id: UUID
    key_id: UUID
    surface: Surface
    limits: Limits
    stores: int = 0


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

    It descends from `parent_key_id`, the key whose console session made it. Neither it nor a key that replaces it
    expires after `latest_expiry`, if there is one.
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
    """A partner or its credentials can't be changed so. The text says why; who shows it adds what to do."""


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
