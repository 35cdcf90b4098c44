"""What a link or a session of the console opens, and why a link is refused."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.partners.model import Caller, Partner, Surface
from mercato_contract.wire import redacted

LINK_LIFE: Final = timedelta(minutes=15)
"""How long a one-time link can be opened."""

IDLE_LIFE: Final = timedelta(hours=12)
"""How long a session lasts after its last use."""

LONGEST_LIFE: Final = timedelta(days=7)
"""How long a session lasts at most, however much it is used."""

USE_STEP: Final = timedelta(minutes=5)
"""A session's last use is kept to five minutes, so that few pages write."""


class Grant(Struct, frozen=True, kw_only=True):
    """What a link and its session open: a partner's account, one store of it, or the operator's (no partner).

    `key_id` is the key that made the link, None if a command did. `created_by` is who, as the audit trail names actors.
    """

    partner_id: UUID | None
    created_by: str
    key_id: UUID | None = None
    store_id: UUID | None = None
    read_only: bool = False


@redacted("token")
class NewLink(Struct, frozen=True):
    """A new link's token, which is kept nowhere."""

    token: str
    expires_at: datetime


class Session(Struct, frozen=True, kw_only=True):
    """A session that is valid now: its key isn't revoked or expired, its partner isn't suspended."""

    id: UUID
    grant: Grant
    partner: Partner | None
    key_prefix: str | None
    key_surface: Surface | None
    created_at: datetime
    used_at: datetime
    expires_at: datetime

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """The sides of the network that it shows: its key's, or without a key all of the partner's.

        None for the operator, who sees all.
        """
        if self.partner is None:
            return ()
        return self.partner.kind.surfaces if self.key_surface is None else (self.key_surface,)

    @property
    def only_surface(self) -> Surface | None:
        """The side that it is limited to, if its account has another one that it doesn't show."""
        if self.partner is None or self.surfaces == self.partner.kind.surfaces:
            return None
        return self.key_surface

    def caller(self, surface: Surface) -> Caller:
        """Return the caller that a partner's screens work for, as one with a key of this surface.

        The session's id stands for the key where a command made the link.
        """
        assert self.partner is not None, "the operator isn't a caller"
        assert surface in self.surfaces, surface
        return Caller(self.partner.id, self.grant.key_id or self.id, surface, self.partner.limits)


class LinkRefused(Exception):  # noqa: N818  # a refusal, as Problem is
    """A link that begins no session. `title` is the page's heading, `detail` why, and what to do next."""

    title = "This link isn't valid"
    detail = "It may have been copied incompletely. Get another link."


class LinkUsed(LinkRefused):
    title = "This link has been used"
    detail = "A link signs in once. Get another one if that wasn't you or you need to sign in again."


class LinkExpired(LinkRefused):
    title = "This link has expired"
    detail = "A link can be opened for 15 minutes. Get another one."


class LinkWithdrawn(LinkRefused):
    title = "This link is no longer valid"
    detail = "The key that made it was revoked or has expired, or its partner is suspended."


def new_token() -> str:
    """Return 256 random bits in the alphabet of URLs."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """Return the hash that is stored of a token. It has 256 random bits, so a slow hash would gain nothing."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
