"""Partners, their keys and limits, and the caller of a request."""

from dataclasses import dataclass
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
    """A partner's own requests a minute; None is the deployment's default."""

    reads: int | None = None
    writes: int | None = None
    discovery: int | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The partner and key of a request: every query that a partner can reach takes one."""

    partner_id: UUID
    key_id: UUID
    surface: Surface
    limits: Limits


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
    """The request can't be granted. The text says why, and what to do with a command or in the console."""

    def __init__(self, why: str, *, command: str = "", console: str = "") -> None:
        super().__init__(f"{why} {command}".rstrip())
        self.in_console: Final = f"{why} {console}".rstrip()


SEE_PARTNERS: Final = {
    "command": "See them with: mercato partner list",
    "console": "See them on the page Partners.",
}
"""What to do about a partner that doesn't exist."""


class UnknownAccountError(AccountError):
    """The partner or key doesn't exist."""
