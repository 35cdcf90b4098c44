"""One-time links to the console, made with a partner's key."""

from uuid import UUID

from mercato.features.partners.model import Caller, Surface, looks_like_token
from mercato.features.sign_in import sessions
from mercato.features.sign_in.model import Grant
from mercato.features.stores.errors import StoreNotFound
from mercato.http.head import Head, bearer_token
from mercato.http.operations import Access, Call, Operations
from mercato.platform import errors
from mercato.services import Services
from mercato_contract.console import ConsoleLink, ConsoleLinkRequest
from mercato_contract.wire import rfc3339

console = Operations(access=Access.ANY, tag="Console")


def _refuse_token(head: Head) -> None:
    """Raise Forbidden for an access token: its hour would become a session that makes keys."""
    if looks_like_token(bearer_token(head)):
        raise errors.Forbidden(
            "An access token can't open the console: its session could outlive the token. "
            "Create the link with the key itself: Authorization: Bearer <your key>."
        )


@console.post(
    "/v1/console/links",
    summary="Create Console Link",
    status=201,
    problems=(StoreNotFound, errors.Forbidden),
    checks_head=_refuse_token,
)
async def create_console_link(call: Call[ConsoleLinkRequest | None, None]) -> ConsoleLink:
    """Return a one-time link into the console of this account, valid for 15 minutes.

    With a key of either surface, not with an access token. The session that it begins shows this key's surface. It ends
    with this key, and when the partner is suspended.
    """
    wanted = call.body or ConsoleLinkRequest()
    app, caller = call.app, call.caller
    if wanted.store_id is not None:
        await _check_store(app, caller, wanted.store_id)
    grant = Grant(
        partner_id=caller.partner_id,
        created_by=call.context().actor,
        key_id=caller.key_id,
        store_id=wanted.store_id,
        read_only=bool(wanted.read_only),
    )
    async with app.db.write() as tx:
        link = await sessions.create_link(tx, grant, now=app.clock())
    return ConsoleLink(
        url=f"{call.head.base_url}/console/links/{link.token}", expires_at=rfc3339(link.expires_at)
    )


async def _check_store(app: Services, caller: Caller, store_id: UUID) -> None:
    """Raise StoreNotFound unless the caller has the store, or as a storefront can see it."""
    if caller.surface is Surface.COMMERCE:
        await app.cache.get_own(caller, store_id)
    elif await app.cache.find_in_force(store_id) is None:
        raise StoreNotFound(store_id)
