"""Rate limits of the console: of an address without a session, of a session, and of a partner's requests to the API."""

from typing import Final
from uuid import UUID, uuid5

from msgspec.structs import replace

from mercato.features.partners.limits import MAX_VISITS
from mercato.features.partners.model import Caller, Limits, Surface
from mercato.features.partners.queries import count_stores
from mercato.features.sign_in.model import Session
from mercato.http.head import Head
from mercato.http.operations import Rate
from mercato.platform.errors import RateLimited
from mercato.services import Services


async def count_request(app: Services, caller: Caller, rate: Rate) -> None:
    """Count a request in the limits of the caller's partner. Raises RateLimited."""
    limiter, shared = app.limiter, app.shared_limiter
    if limiter is None:
        return
    quota = limiter.take(caller, rate.value) if shared is None else await shared.take(caller, rate.value)
    if quota.wait is not None:
        raise RateLimited(
            f"The limit is {quota.limit} requests of this kind a minute. Wait {quota.wait} s.",
            retry_after=quota.wait,
        )


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
"""All sessions of a partner together may send as many requests as so many sessions."""

_PAGES: Final = UUID("7b1f6a52-3d0e-4b9e-9c57-1d3f8a20c6e4")
"""The namespace of the ids by which the pages of partners are counted: apart from their programs' requests."""


async def count_page(app: Services, session: Session, method: str) -> None:
    """Count a page in the limits of the session, which are the deployment's for a partner. Raises RateLimited.

    So a script with a stolen cookie is held up. It is counted in those of all sessions of the partner, too, but not in
    those of its programs, which nobody who looks at pages uses up.
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
