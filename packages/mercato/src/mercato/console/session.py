"""A browser's session: the cookies that it keeps, and how many requests it may send.

Browsers accept a `__Host-` cookie over https, and Chromium and Firefox over http to a loopback address, too. Over plain
http to another address it can't be kept; a service for development then uses a name without the prefix.
"""

from typing import Final
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID, uuid5

from msgspec.structs import replace

from mercato.features.partners.limits import MAX_VISITS
from mercato.features.partners.model import Caller, Limits, Surface
from mercato.features.partners.queries import count_stores
from mercato.features.sign_in.model import Session, is_signed_on
from mercato.http.calls import count_request
from mercato.http.head import Head
from mercato.http.operations import Rate
from mercato.platform.errors import RateLimited
from mercato.services import Services
from mercato.settings import Settings
from mercato_outbound.guard import is_loopback

SESSION: Final = "mercato-session"
MESSAGE: Final = "mercato-message"
"""What was done, for the page after it."""

SIGN_ON: Final = "mercato-sign-on"
"""What the way back from an OpenID Connect provider is checked against."""

TIMEZONE: Final = "mercato-timezone"
"""The time zone that this browser is shown times in."""

TIMEZONE_SECONDS: Final = 365 * 24 * 3600

SIGNED_IN: Final = "You are signed in."
"""The message after a sign-in. It goes by itself, as nobody needs it for long."""

MESSAGE_SECONDS: Final = 60
MAX_MESSAGE: Final = 1000
"""Bytes of a message. Escaped, each may take three, and browsers refuse a cookie of more than 4,096."""

MAX_AGE: Final = 7 * 24 * 3600

Header = tuple[bytes, bytes]


def with_role(app: Services, session: Session) -> Session:
    """Return a session of single sign-on with the role that the settings give its person now, and others unchanged."""
    if app.sign_on is None or not is_signed_on(session.grant):
        return session
    return replace(session, signed_on_as=app.sign_on.people.role_of(session.grant))


class Cookies:
    """The cookies of one request, and those of its answer."""

    def __init__(self, head: Head, settings: Settings) -> None:
        self._plain = settings.allow_private_networks and _is_plain(head.base_url)
        # Not http.cookies: it takes quadratic time for backslashes, and one odd cookie of others makes it read none.
        pairs = (
            part.partition("=") for part in head.headers.get(b"cookie", b"").decode("latin-1").split(";")
        )
        self._sent = {name.strip(): value.strip() for name, _, value in pairs}

    def read(self, name: str) -> str | None:
        """Return a cookie's value, if it was sent."""
        value = self._sent.get(self._name(name))
        return None if value is None else unquote(value)

    def write(self, name: str, value: str, *, seconds: int, same_site: str = "Strict") -> Header:
        """Return the header that keeps a cookie; with 0 seconds, the one that removes it."""
        secure = "" if self._plain else " Secure;"
        text = (
            f"{self._name(name)}={quote(value)};{secure} HttpOnly; SameSite={same_site}; Path=/; "
            f"Max-Age={seconds}"
        )
        return b"set-cookie", text.encode()

    def _name(self, name: str) -> str:
        return name if self._plain else f"__Host-{name}"


def _is_plain(base_url: str) -> bool:
    parts = urlsplit(base_url)
    return parts.scheme == "http" and not is_loopback(parts.hostname)


# --- limits: of an address, a session, and a partner ----------------------------------------------


async def with_stores(app: Services, caller: Caller) -> Caller:
    """Return the caller of a session with the number of its stores, as that of a key has it."""
    async with app.db.read() as tx:
        return replace(caller, stores=await count_stores(tx, caller.partner_id))


def count_visitor(app: Services, head: Head) -> None:
    """Count a request without a session in the limit of its address. Raises RateLimited."""
    wait = None if app.visitors is None else app.visitors.take(head.address)
    if wait is not None:
        raise RateLimited(
            f"Your network has sent {MAX_VISITS} requests without a session within a minute. "
            f"Wait {wait} s. Who is signed in isn't affected.",
            retry_after=wait,
        )


SESSIONS: Final = 5
"""All sessions of a partner together may send as many requests as this number of sessions."""

_PAGES: Final = UUID("7b1f6a52-3d0e-4b9e-9c57-1d3f8a20c6e4")
"""The namespace of the ids by which the pages of partners are counted: apart from their programs' requests."""


async def count_page(app: Services, session: Session, method: str) -> None:
    """Count a page in the limits of the session, which are the deployment's for a partner. Raises RateLimited.

    So a script with a stolen cookie is held up. It is counted in those of all sessions of the partner, too, but not in
    those of its programs, so that viewing pages doesn't use them up.
    """
    rate = Rate.WRITE if method == "POST" else Rate.READ
    await count_request(app, _visitor(session.id, Limits()), rate)
    if session.partner is not None:
        settings = app.settings
        together = Limits(
            reads=SESSIONS * settings.rate_limit_reads, writes=SESSIONS * settings.rate_limit_writes
        )
        await count_request(app, _visitor(uuid5(_PAGES, str(session.partner.id)), together), rate)


def _visitor(counted_as: UUID, limits: Limits) -> Caller:
    return Caller(counted_as, counted_as, Surface.COMMERCE, limits)
