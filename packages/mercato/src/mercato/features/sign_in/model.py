"""What a link or a session of the console opens, and why a link is refused.

Who may sign in with an OpenID Connect provider, by a verified e-mail address or a claim of the ID token.
"""

import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.partners.model import Caller, Partner, Surface
from mercato.features.sign_in.roles import ALLOWED, Permission, Role
from mercato.settings import SettingsError
from mercato_contract.wire import redacted

LINK_LIFE: Final = timedelta(minutes=15)
"""How long a one-time link can be opened."""

IDLE_LIFE: Final = timedelta(hours=12)
"""How long a session lasts after its last use."""

INVITATION_LIFE: Final = timedelta(days=3)
"""How long an invitation can be accepted."""

LONGEST_LIFE: Final = timedelta(days=7)
"""How long a session lasts at most, however much it is used."""

USE_STEP: Final = timedelta(minutes=5)
"""A session's last use is kept to five minutes, so that few pages write."""


class Grant(Struct, frozen=True, kw_only=True):
    """What a link and its session open: a partner's account, one store of it, or the operator's (no partner).

    `key_id` is the key that made the link, None if a command did. `created_by` is the actor, as in the audit trail.
    `person_id` is the person who signed in with their own passkey.
    """

    partner_id: UUID | None
    created_by: str
    key_id: UUID | None = None
    store_id: UUID | None = None
    read_only: bool = False
    person_id: UUID | None = None


PERSON: Final = "person:"
"""What a session's `created_by` begins with: `person:<name>`."""


class Person(Struct, frozen=True, kw_only=True):
    """A member of a partner's or the operator's account, who signs in with their own passkeys.

    `key_id` is the key from whose session the invitation descends, if it does from one.
    """

    id: UUID
    partner_id: UUID | None
    name: str
    role: Role
    key_id: UUID | None = None

    @property
    def actor(self) -> str:
        """Return how the audit trail names the person."""
        return f"{PERSON}{self.name}"

    @property
    def grant(self) -> Grant:
        """Return what a session of the person opens: the account as an earlier release may, which knows no roles."""
        return Grant(partner_id=self.partner_id, created_by=self.actor, read_only=True, person_id=self.id)


@redacted("token")
class NewLink(Struct, frozen=True):
    """A new link's token, which is kept nowhere."""

    token: str
    expires_at: datetime


class Session(Struct, frozen=True, kw_only=True):
    """A session that is valid now: its key hasn't ended, its partner isn't suspended, its person isn't removed."""

    id: UUID
    grant: Grant
    partner: Partner | None
    person: Person | None
    key_prefix: str | None
    key_surface: Surface | None
    signed_on_as: Role | None = None
    """The role that the settings give whom a provider has named."""
    created_at: datetime
    used_at: datetime
    expires_at: datetime

    @property
    def role(self) -> Role:
        """The person's role, or that of the account's link."""
        if self.person is not None:
            return self.person.role
        if self.signed_on_as is not None:
            return self.signed_on_as
        if self.grant.read_only:
            return Role.READ_ONLY
        return Role.ADMIN if self.partner is None else Role.OWNER

    def may(self, permission: Permission) -> bool:
        """Return whether the role of the session includes it."""
        return permission in ALLOWED[self.role]

    @property
    def name(self) -> str:
        """Who signed in: a person, or the beginning of a key, or else the actor who made the link."""
        return self.person.name if self.person is not None else self.key_prefix or self.grant.created_by

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


class InvitationExpired(LinkRefused):
    title = "This invitation has expired"
    detail = "An invitation can be accepted for 3 days. Ask whoever invited you for a new one."


class LinkWithdrawn(LinkRefused):
    title = "This link is no longer valid"
    detail = "The key that made it was revoked or has expired, or its partner is suspended."


def new_token() -> str:
    """Return 256 random bits in the alphabet of URLs."""
    return secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """Return the hash that is stored of a token. It has 256 random bits, so a slow hash would gain nothing."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


ACTOR: Final = "oidc:"
"""What a session's `created_by` begins with: `oidc:<person>`, then a space and the claim that let the person in."""

MAX_NAME: Final = 255
"""Characters of an e-mail address or a subject (OpenID Connect Core, 2)."""


def is_signed_on(grant: Grant) -> bool:
    """Return whether a provider has named the person of the session."""
    return grant.created_by.startswith(ACTOR)


def person_of(grant: Grant) -> str:
    """Return the e-mail address or the subject of the person whom a provider has named."""
    return grant.created_by.removeprefix(ACTOR).partition(" ")[0]


class People:
    """The rules of three settings: who is an operator, who gives support, and who may only look."""

    def __init__(self, operators: str | None, support: str | None, viewers: str | None) -> None:
        """Each is a comma-separated list of e-mail addresses and `claim=value`. Raises SettingsError."""
        faults: list[str] = []
        self._rules = {
            Role.ADMIN: _rules("MERCATO_OIDC_OPERATORS", operators, faults),
            Role.SUPPORT: _rules("MERCATO_OIDC_SUPPORT", support, faults),
            Role.READ_ONLY: _rules("MERCATO_OIDC_VIEWERS", viewers, faults),
        }
        if faults:
            raise SettingsError("\n".join(faults))
        if not any(self._rules.values()):
            raise SettingsError(
                "MERCATO_OIDC_ISSUER is set, but nobody may sign in. Name them, as in "
                "MERCATO_OIDC_OPERATORS='anna@example.com, groups=operators'."
            )

    def admit(self, claims: Mapping[str, object]) -> Grant | None:
        """Return what the person of a verified ID token may open; None if they may not sign in."""
        email, is_verified = claims.get("email"), claims.get("email_verified") is True
        address = _address(email) if is_verified and isinstance(email, str) and _is_name(email) else None
        person = address or claims.get("sub")
        if not isinstance(person, str) or not _is_name(person):
            return None
        for role, rules in self._rules.items():
            # An earlier release knows no roles: for it, support may only look.
            read_only = role is not Role.ADMIN
            if address in rules:
                return Grant(partner_id=None, created_by=f"{ACTOR}{address}", read_only=read_only)
            for rule in sorted(rules):
                if _matches(rule, claims):
                    return Grant(partner_id=None, created_by=f"{ACTOR}{person} {rule}", read_only=read_only)
        return None

    def role_of(self, grant: Grant) -> Role | None:
        """Return the role that the settings give the person of a session now; None if they no longer admit the person.

        A session that began with less than an admin's role stays so, and one that began with it has no less.
        """
        person, _, claim = grant.created_by.removeprefix(ACTOR).partition(" ")
        rule = claim or person
        found = next((role for role, rules in self._rules.items() if rule in rules), None)
        if grant.read_only:
            return Role.READ_ONLY if found is Role.ADMIN else found
        return found if found is Role.ADMIN else None


def _rules(setting: str, text: str | None, faults: list[str]) -> frozenset[str]:
    """Return the rules of a setting, and append a fault for each entry that isn't a rule."""
    rules = set()
    for entry in filter(None, (part.strip() for part in (text or "").split(","))):
        claim, is_claim, value = (part.strip() for part in entry.partition("="))
        if is_claim and claim in {"email", "email_verified"}:
            faults.append(f"{setting}: write an e-mail address alone, without {claim}=.")
        elif is_claim and claim and value:
            rules.add(f"{claim}={value}")
        elif "@" in entry and not is_claim and _is_name(entry):
            rules.add(_address(entry))
        else:
            faults.append(
                f"{setting}: {entry!r} is neither an e-mail address nor claim=value. "
                "Write them as anna@example.com, groups=operators."
            )
    return frozenset(rules)


def _matches(rule: str, claims: Mapping[str, object]) -> bool:
    claim, _, value = rule.partition("=")
    found = claims.get(claim)
    return bool(value) and (found == value or (isinstance(found, list) and value in found))


def _address(text: str) -> str:
    """Return an e-mail address in the form that is compared: other scripts have letters whose lower case is ASCII."""
    return text.lower() if text.isascii() else text


def _is_name(text: str) -> bool:
    """Return whether the text can name a person in the log and the audit trail."""
    return 0 < len(text) <= MAX_NAME and text.isprintable() and " " not in text
