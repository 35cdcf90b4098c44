"""Partners: created, shown with what they have, renamed, limited, suspended, resumed and deleted."""

from typing import Annotated, Final

from msgspec import Meta

from mercato.console.filters import PageOf
from mercato.console.revocation import ask_to_revoke, revoke
from mercato.console.screen import OPERATORS, Done, Page, Question, Screens, Visit
from mercato.features import offboarding
from mercato.features.orders.operators import OrderFilter, list_orders
from mercato.features.partners import accounts, queries
from mercato.features.partners.model import ApiKey, KeyState, Limits, Partner, PartnerKind
from mercato.features.sign_in import sessions
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.operators import StoreFilter, list_stores
from mercato.platform.db.engine import Read
from mercato.platform.errors import Conflict, NotFound
from mercato_contract.decoding.decode import page_of, read_cursor
from mercato_contract.pages import PAGE
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire
from mercato_outbound.guard import origin_of

screens: Final = Screens(OPERATORS)

MAX_KEYS: Final = 200
MAX_DELETED: Final = 5_000
"""Deliveries of a partner up to which it is deleted while a page waits: each 500 are a transaction."""

SHOWN: Final = 10
"""Stores and orders of a partner that its page shows, the newest."""

PerMinute = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class NewPartnerForm(Wire):
    """A new partner. `event_url` is where a storefront's events go."""

    kind: PartnerKind
    name: str = ""
    event_url: str | None = None


class NameForm(Wire):
    name: str = ""


class LimitsForm(Wire):
    """Requests a minute; a field that is left empty is the deployment's limit."""

    reads: PerMinute | None = None
    writes: PerMinute | None = None
    discovery: PerMinute | None = None


@screens.get("partners")
async def list_partners(visit: Visit) -> Page:
    query = visit.filters(PageOf)
    async with visit.app.db.read() as tx:
        rows = await queries.list_newest_partners(tx, before=read_cursor(query.cursor), limit=PAGE + 1)
    page, cursor = page_of(rows, PAGE, lambda row: row.id)
    return Page("partners.html", "Partners", {"partners": page, "next_cursor": cursor})


@screens.get("partners/new", needs=Permission.CHANGE_PARTNERS)
async def show_new_partner(visit: Visit) -> Page:
    assert visit.is_operator
    return Page("partner_new.html", "New partner", {"kinds": list(PartnerKind)})


@screens.post("partners/new", needs=Permission.CHANGE_PARTNERS)
async def create_partner(visit: Visit) -> Page:
    form, app = visit.fields(NewPartnerForm), visit.app
    async with app.db.write() as tx:
        made = await accounts.create_partner(
            tx,
            app.vault,
            name=form.name,
            kind=form.kind,
            event_url=form.event_url,
            policy=app.outbound.policy,
            now=app.clock,
        )
    return Page("partner_created.html", "New partner", {"made": made, "name": form.name.strip()})


@screens.get("partners/{partner}")
async def show_partner(visit: Visit) -> Page:
    now = visit.app.clock()
    async with visit.app.db.read() as tx:
        partner = await accounts.get_partner(tx, visit.ids["partner"])
        sees_keys = visit.may(Permission.SEE_KEYS)
        keys = await queries.list_keys(tx, partner_id=partner.id, limit=MAX_KEYS) if sees_keys else []
        stores = await list_stores(tx, StoreFilter(partner_id=partner.id), limit=SHOWN, now=now)
        orders = await list_orders(tx, OrderFilter(partner_id=partner.id), limit=SHOWN)
    values = {
        "partner": partner,
        # The rest of the address may grant access.
        "event_origin": None if partner.event_url is None else origin_of(partner.event_url),
        "keys": [(key, key.state(now)) for key in keys] if sees_keys else None,
        "active": KeyState.ACTIVE,
        "stores": stores,
        "orders": orders,
        "limits": _limits(visit, partner),
    }
    return Page("partner.html", partner.name, values)


@screens.post("partners/{partner}/limits", needs=Permission.CHANGE_PARTNERS)
async def set_partner_limits(visit: Visit) -> Done:
    form, partner_id = visit.fields(LimitsForm), visit.ids["partner"]
    limits = Limits(reads=form.reads, writes=form.writes, discovery=form.discovery)
    async with visit.app.db.write() as tx:
        await accounts.set_limits(tx, partner_id, limits)
    return Done("The limits were set. They apply within a second.", to=f"/console/partners/{partner_id}")


@screens.post("partners/{partner}/name", needs=Permission.CHANGE_PARTNERS)
async def rename_partner(visit: Visit) -> Done:
    name, partner = visit.fields(NameForm).name, await _partner(visit)
    async with visit.app.db.write() as tx:
        await accounts.rename_partner(tx, partner.id, name)
    return Done(f"{partner.name} is now called {name.strip()}.", to=f"/console/partners/{partner.id}")


async def ask_to_revoke_key(visit: Visit) -> Question:
    async with visit.app.db.read() as tx:
        key = await _key(tx, visit)
        return await ask_to_revoke(tx, visit, key, back=f"/console/partners/{key.partner_id}")


@screens.post("partners/{partner}/keys/{key}/revoke", needs=Permission.CHANGE_KEYS, ask=ask_to_revoke_key)
async def revoke_partner_key(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        key = await _key(tx, visit)
        done = await revoke(tx, visit, key)
    return Done(done, to=f"/console/partners/{key.partner_id}")


async def ask_to_end_sessions(visit: Visit) -> Question:
    partner = await _partner(visit)
    return Question(
        f"End all sessions of {partner.name}?",
        "Everybody who is signed in to its console is signed out at once, and links that weren't opened yet no longer "
        "sign in. Its keys stay valid: whoever has one can sign in again.",
        back=f"/console/partners/{partner.id}",
    )


@screens.post("partners/{partner}/sessions/end", needs=Permission.CHANGE_PARTNERS, ask=ask_to_end_sessions)
async def end_partner_sessions(visit: Visit) -> Done:
    partner = await _partner(visit)
    async with visit.app.db.write() as tx:
        ended = await sessions.end_all_sessions(tx, partner.id, now=visit.app.clock())
    done = f"{count_of(ended, 'session')} of {partner.name} ended."
    return Done(done, to=f"/console/partners/{partner.id}")


async def ask_to_delete(visit: Visit) -> Question:
    partner = await _partner(visit)
    async with visit.app.db.read() as tx:
        has = await offboarding.count_holdings(tx, partner.id)
    stays = f"{count_of(has.orders, 'order')} stay" if has.orders else "It has no orders"
    opened = f", but {has.open_orders:,} of them are open, and until they end it can't be deleted"
    return Question(
        f"Delete {partner.name}?",
        f"It is deleted for good, with {count_of(has.keys, 'key')}, {count_of(has.stores, 'store')} and "
        f"{count_of(has.deliveries, 'delivery', 'deliveries')}. {stays}{opened if has.open_orders else ''}.",
        back=f"/console/partners/{partner.id}",
    )


@screens.post("partners/{partner}/delete", needs=Permission.CHANGE_PARTNERS, ask=ask_to_delete)
async def delete_partner(visit: Visit) -> Done:
    partner, app = await _partner(visit), visit.app
    async with app.db.read() as tx:
        has = await offboarding.count_holdings(tx, partner.id)
    if has.deliveries > MAX_DELETED:
        raise Conflict(
            f"{partner.name} has {has.deliveries:,} deliveries, which take too long to delete while a page waits. "
            f"Delete it with: mercato partner delete {partner.id} --yes"
        )
    await offboarding.delete(app.db, partner.id, now=app.clock)
    return Done(f"{partner.name} is deleted.", to="/console/partners")


async def ask_to_suspend(visit: Visit) -> Question:
    partner = await _partner(visit)
    return Question(
        f"Suspend {partner.name}?",
        "Its keys are refused and its stores are hidden within 2 seconds, until it is resumed. Its open orders and the "
        "deliveries to it go on.",
        back=f"/console/partners/{partner.id}",
    )


@screens.post("partners/{partner}/suspend", needs=Permission.CHANGE_PARTNERS, ask=ask_to_suspend)
async def suspend_partner(visit: Visit) -> Done:
    partner = await _partner(visit)
    await offboarding.suspend(visit.app.db, partner.id, now=visit.app.clock)
    return Done(f"{partner.name} is suspended.", to=f"/console/partners/{partner.id}")


@screens.post("partners/{partner}/resume", needs=Permission.CHANGE_PARTNERS)
async def resume_partner(visit: Visit) -> Done:
    partner = await _partner(visit)
    await offboarding.resume(visit.app.db, partner.id, now=visit.app.clock)
    return Done(
        f"{partner.name} is resumed: its keys work, and its stores are shown.",
        to=f"/console/partners/{partner.id}",
    )


async def _partner(visit: Visit) -> Partner:
    """Return the partner of the path. Raises AccountError."""
    async with visit.app.db.read() as tx:
        return await accounts.get_partner(tx, visit.ids["partner"])


async def _key(tx: Read, visit: Visit) -> ApiKey:
    """Return the key of the path. Raises NotFound, also for another partner's."""
    key = await queries.find_key(tx, visit.ids["key"])
    if key is None or key.partner_id != visit.ids["partner"]:
        raise NotFound("This partner has no such key. Its page lists them.")
    return key


def _limits(visit: Visit, partner: Partner) -> list[tuple[str, str, int | None, int]]:
    """Return label, name, the partner's own limit and the deployment's, of each."""
    settings, own = visit.app.settings, partner.limits
    return [
        ("Reads a minute", "reads", own.reads, settings.rate_limit_reads),
        ("Writes a minute", "writes", own.writes, settings.rate_limit_writes),
        ("Discoveries a minute", "discovery", own.discovery, settings.rate_limit_discovery),
    ]
