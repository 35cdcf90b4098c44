"""Keys: API keys, signing secrets, where webhooks go and with which token, and how much of the limits is used.

A new key or secret is on the page that answers the form, and nowhere else: no redirect, cookie or log has it.
"""

from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from mercato.console.filters import PageOf
from mercato.console.new_keys import check_room, expiry_note, get_parent
from mercato.console.revocation import ask_to_revoke, revoke
from mercato.console.screen import (
    MERCHANTS,
    PARTNERS,
    STOREFRONTS,
    Done,
    Page,
    Question,
    Screens,
    Secret,
    Visit,
    show_once,
)
from mercato.console.session import with_stores
from mercato.features.partners import accounts, credentials, queries
from mercato.features.partners.credentials import MAX_DESCRIPTION, OVERLAP, NewKey
from mercato.features.partners.limits import PER_STORE
from mercato.features.partners.model import ApiKey, KeyState, Surface
from mercato.features.partners.webhook_tokens import list_token_origins, set_webhook_token
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.queries import list_webhook_urls
from mercato.features.webhooks.outbox import change_event_url
from mercato.http.operations import Rate
from mercato.platform.db.engine import Read
from mercato.platform.errors import Forbidden, NotFound
from mercato_contract.decoding.decode import page_of, read_cursor
from mercato_contract.pages import PAGE
from mercato_contract.stores import MAX_TOKEN
from mercato_contract.wire import Wire, redacted

screens: Final = Screens(PARTNERS, whole_account=True)

KEYS: Final = "/console/keys"
BACK: Final = ("Keys", KEYS)

_HOURS: Final = int(OVERLAP / timedelta(hours=1))


class NewKeyForm(Wire):
    """`surface` is needed for a partner of both kinds."""

    surface: Surface | None = None
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION)] | None = None
    expires_in_days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class EventUrlForm(Wire):
    event_url: Annotated[str, Meta(max_length=2048)] | None = None


@redacted("webhook_token")
class TokenForm(Wire):
    """A webhook token. Without an origin, it goes to every origin that has one, as with the command line."""

    webhook_token: Annotated[str, Meta(max_length=MAX_TOKEN)]
    origin: Annotated[str, Meta(max_length=2048)] | None = None


class Usage(Struct, frozen=True):
    """Requests of one kind: the limit a minute, what the stores add to it, and how many were counted in this minute."""

    rate: str
    limit: int
    added: int
    used: int


@screens.get("keys", needs=Permission.SEE_KEYS)
async def show_keys(visit: Visit) -> Page:
    partner, app, now = visit.partner, visit.app, visit.app.clock()
    query = visit.filters(PageOf)
    async with app.db.read() as tx:
        rows = await queries.list_keys(
            tx,
            partner_id=partner.id,
            surfaces=visit.surfaces,
            after=read_cursor(query.cursor),
            limit=PAGE + 1,
        )
        parents = {row.parent_key_id for row in rows if row.parent_key_id is not None}
        prefixes = await queries.find_prefixes(tx, parents)
        secrets = await accounts.list_signing_secrets(tx, partner.id, now=app.clock)
        origins = await list_token_origins(tx, partner.id)
        stored = await app.quota.used(tx, partner.id, now=now)
    page, cursor = page_of(rows, PAGE, lambda row: row.id)
    values = {
        "keys": [(key, key.state(now)) for key in page],
        "next_cursor": cursor,
        "active": KeyState.ACTIVE,
        "own_key": visit.session.grant.key_id,
        "prefixes": prefixes,
        "may_rotate": visit.session.only_surface is None,
        "partner": partner,
        "hours": _HOURS,
        "max_token": MAX_TOKEN,
        "secrets": secrets,
        "origins": origins,
        "usage": await _usage(visit),
        "shared": app.shared_limiter is not None and app.shared_limiter.connected,
        "stored": stored,
        "per_day": app.quota.per_day,
    }
    return Page("keys.html", "Keys", values)


@screens.post("keys", needs=Permission.MAKE_KEYS)
async def create_key(visit: Visit) -> Page:
    form, partner, now = visit.fields(NewKeyForm), visit.partner, visit.app.clock
    surface = form.surface or visit.surfaces[0]
    if surface in partner.kind.surfaces and surface not in visit.surfaces:
        raise Forbidden(
            f"This session was begun by a {visit.surfaces[0]} key, so it makes no {surface} keys. "
            f"Sign in with a link of a {surface} key."
        )
    days = form.expires_in_days
    async with visit.app.db.write() as tx:
        parent = await get_parent(tx, visit)
        await check_room(tx, visit)
        made = await credentials.create_key(
            tx,
            partner,
            surface=surface,
            description=form.description,
            expires_at=None if days is None else now() + timedelta(days=days),
            parent=parent,
            now=now,
        )
    return show_once("Key created", _new_key(made, *expiry_note(visit, made, parent)))


@screens.post("keys/{key}/roll", needs=Permission.MAKE_KEYS)
async def roll_key(visit: Visit) -> Page:
    async with visit.app.db.write() as tx:
        parent = await get_parent(tx, visit)
        old = await _key(tx, visit)
        await check_room(tx, visit)
        made = await credentials.roll_key(tx, old, parent=parent, now=visit.app.clock)
    until = f"The old key {old.prefix} works for {_HOURS} more hours. Revoke it if others may have it."
    return show_once("Key rolled", _new_key(made, until, *expiry_note(visit, made, parent)))


async def _ask_to_revoke(visit: Visit) -> Question:
    async with visit.app.db.read() as tx:
        return await ask_to_revoke(tx, visit, await _key(tx, visit), back=KEYS)


@screens.post("keys/{key}/revoke", needs=Permission.CHANGE_KEYS, ask=_ask_to_revoke)
async def revoke_key(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        done = await revoke(tx, visit, await _key(tx, visit))
    return Done(done, to=KEYS)


@screens.post("keys/rotate-secret", needs=Permission.MAKE_KEYS)
async def rotate_secret(visit: Visit) -> Page:
    """Rotate the account's secret, which signs the webhooks of both sides of a partner of both kinds."""
    app = visit.app
    if visit.session.only_surface is not None:
        raise Forbidden(
            f"This session was begun by a {visit.session.only_surface} key, and the signing secret is also that of the "
            "other surface. Ask the operator of this service: mercato secret rotate, or a link for the whole account."
        )
    async with app.db.write() as tx:
        text = await accounts.rotate_signing_secret(tx, app.vault, visit.partner.id, now=app.clock)
    notes = (
        f"Webhooks are signed with this secret and the one before for {_HOURS} hours, then with this one alone.",
        "Let your receiver accept both until then.",
    )
    return show_once("Secret rotated", Secret("Signing secret", text, notes, BACK))


@screens.post("keys/event-url", needs=Permission.CHANGE_KEYS, audiences=STOREFRONTS)
async def set_event_url(visit: Visit) -> Done:
    url = visit.fields(EventUrlForm).event_url
    app = visit.app
    async with app.db.write() as tx:
        await change_event_url(
            tx, visit.partner.id, url, now=app.clock(), new_id=app.new_id, policy=app.outbound.policy
        )
    return Done("Order events go to the new URL." if url else "Order events are no longer sent.", to=KEYS)


@screens.post("keys/webhook-token", needs=Permission.CHANGE_KEYS, audiences=MERCHANTS)
async def set_token(visit: Visit) -> Done:
    form = visit.fields(TokenForm)
    await _set_token(visit, form.webhook_token, form.origin)
    return Done("Calls to your stores carry the new token.", to=KEYS)


async def _ask_to_remove(_visit: Visit) -> Question:
    text = "Calls to your stores no longer carry a token. A server that requires one refuses orders."
    return Question("Remove the webhook token?", text, back=KEYS)


@screens.post(
    "keys/webhook-token/remove", needs=Permission.CHANGE_KEYS, audiences=MERCHANTS, ask=_ask_to_remove
)
async def remove_token(visit: Visit) -> Done:
    await _set_token(visit, None, None)
    return Done("The webhook token was removed.", to=KEYS)


async def _set_token(visit: Visit, token: str | None, origin: str | None) -> None:
    partner, app = visit.partner, visit.app
    async with app.db.write() as tx:
        used = await list_webhook_urls(tx, partner.id)
        await set_webhook_token(tx, app.vault, partner.id, token, url=origin, used=used)


# --- keys ---------------------------------------------------------------------------------------------


async def _key(tx: Read, visit: Visit) -> ApiKey:
    """Return the partner's key of the path. Raises NotFound, also for another partner's or the other surface's."""
    key_id: UUID = visit.ids["key"]
    key = await queries.find_key(tx, key_id)
    if key is None or key.partner_id != visit.partner.id or key.surface not in visit.surfaces:
        raise NotFound("This account has no such key. The Keys page lists its keys.")
    return key


def _new_key(made: NewKey, *notes: str) -> Secret:
    side = "merchant" if made.surface is Surface.COMMERCE else "storefront"
    return Secret(f"API key ({side})", made.text, (f"Its id is {made.id}.", *notes), BACK)


async def _usage(visit: Visit) -> list[Usage]:
    """Return the partner's limits, an empty list if this deployment has none."""
    limiter, shared = visit.app.limiter, visit.app.shared_limiter
    if limiter is None:
        return []
    caller = await with_stores(visit.app, visit.caller_of(None))
    rates = [Rate.READ, Rate.WRITE, *([Rate.DISCOVERY] if Surface.MARKETFRONT in visit.surfaces else [])]
    usage = []
    for name in (rate.value for rate in rates):
        used = limiter.used(caller, name) if shared is None else await shared.used(caller, name)
        added = caller.stores * PER_STORE.get(name, 0)
        usage.append(Usage(name, limiter.limit_of(caller, name), added, used))
    return usage
