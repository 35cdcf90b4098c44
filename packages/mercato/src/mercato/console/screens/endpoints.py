"""Webhook endpoints: the addresses that an account's events go to, and those that it registers here."""

from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta

from mercato.console.screen import PARTNERS, Done, Page, Question, Screens, Visit
from mercato.features.partners.credentials import OVERLAP
from mercato.features.partners.model import Caller, Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.webhooks.model import TYPES, EndpointNotFound
from mercato.features.webhooks.partner_endpoints import get_endpoint, list_endpoints
from mercato.platform.db.engine import Read
from mercato.platform.telemetry import tracing
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.pages import Page as PageQuery
from mercato_contract.webhooks import WebhookEndpoint, WebhookEndpointKind, WebhookEndpointRequest
from mercato_contract.wire import Wire

screens: Final = Screens(PARTNERS, whole_account=True)

ENDPOINTS: Final = "/console/webhooks/endpoints"

_HOURS: Final = int(OVERLAP / timedelta(hours=1))


class EndpointsQuery(Wire):
    side: Surface | None = None
    cursor: Cursor | None = None


class NewEndpointForm(Wire):
    """`types` are divided by commas; without any, every event. `side` is needed for a partner of both kinds."""

    url: Annotated[str, Meta(max_length=2048)]
    side: Surface | None = None
    types: Annotated[str, Meta(max_length=400)] | None = None
    description: Annotated[str, Meta(max_length=200)] | None = None


@screens.get("webhooks/endpoints", needs=Permission.SEE_KEYS)
async def show_endpoints(visit: Visit) -> Page:
    query = visit.filters(EndpointsQuery)
    caller = visit.caller_of(query.side)
    async with visit.app.db.read() as tx:
        page = await list_endpoints(tx, visit.app.vault, caller, PageQuery(limit=PAGE, cursor=query.cursor))
    values = {
        "endpoints": page.endpoints,
        "next_cursor": page.next_cursor,
        "side": caller.surface,
        "own": WebhookEndpointKind.ENDPOINT,
        "event_url": WebhookEndpointKind.EVENT_URL,
        "types": sorted(TYPES[caller.surface]),
    }
    return Page("endpoints.html", "Webhook endpoints", values)


@screens.post("webhooks/endpoints", needs=Permission.MAKE_KEYS)
async def create_endpoint(visit: Visit) -> Page:
    form = visit.fields(NewEndpointForm)
    types = [part.strip() for part in (form.types or "").split(",") if part.strip()]
    request = WebhookEndpointRequest(url=form.url, types=types or None, description=form.description)
    async with visit.app.db.write() as tx:
        made = await visit.app.endpoints.create(tx, visit.caller_of(form.side), request)
    return _shown("Endpoint added", made.secret, "It verifies the webhooks of this endpoint alone.")


@screens.post("webhooks/endpoints/{endpoint}/test", needs=Permission.CHANGE_KEYS)
async def test_endpoint(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        caller, found = await _find(tx, visit)
        delivery_id = await visit.app.endpoints.send_test(
            tx, caller, found.endpoint_id, traceparent=tracing.new_trace()
        )
    return Done("A ping is sent. This page shows what was answered.", to=f"/console/webhooks/{delivery_id}")


@screens.post("webhooks/endpoints/{endpoint}/enable", needs=Permission.CHANGE_KEYS)
async def enable_endpoint(visit: Visit) -> Done:
    return await _set_enabled(visit, enabled=True)


@screens.post("webhooks/endpoints/{endpoint}/disable", needs=Permission.CHANGE_KEYS)
async def disable_endpoint(visit: Visit) -> Done:
    return await _set_enabled(visit, enabled=False)


async def _set_enabled(visit: Visit, *, enabled: bool) -> Done:
    async with visit.app.db.write() as tx:
        caller, found = await _find(tx, visit)
        await visit.app.endpoints.set_enabled(tx, caller, found.endpoint_id, enabled=enabled)
    words = (
        "Events are sent to the endpoint again." if enabled else "Nothing is sent to the endpoint any more."
    )
    return Done(words, to=_list_of(caller))


@screens.post("webhooks/endpoints/{endpoint}/rotate-secret", needs=Permission.MAKE_KEYS)
async def rotate_endpoint_secret(visit: Visit) -> Page:
    async with visit.app.db.write() as tx:
        caller, found = await _find(tx, visit)
        made = await visit.app.endpoints.rotate_secret(tx, caller, found.endpoint_id, overlap=OVERLAP)
    return _shown("Secret rotated", made.secret, f"The secret before signs, too, for {_HOURS} hours.")


async def _ask_to_delete(visit: Visit) -> Question:
    async with visit.app.db.read() as tx:
        caller, found = await _find(tx, visit)
    text = "What waits for it isn't sent, and its secret is gone. Its deliveries stay in the list."
    return Question("Delete the endpoint?", text, back=_list_of(caller), names=(found.url,))


@screens.post("webhooks/endpoints/{endpoint}/delete", needs=Permission.CHANGE_KEYS, ask=_ask_to_delete)
async def delete_endpoint(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        caller, found = await _find(tx, visit)
        await visit.app.endpoints.delete(tx, caller, found.endpoint_id)
    return Done("The endpoint is deleted.", to=_list_of(caller))


async def _find(tx: Read, visit: Visit) -> tuple[Caller, WebhookEndpoint]:
    """Return the endpoint of the path, and the caller of its surface. Raises EndpointNotFound."""
    endpoint_id = visit.ids["endpoint"]
    for surface in visit.surfaces:
        caller = visit.caller(surface)
        try:
            return caller, await get_endpoint(tx, visit.app.vault, caller, endpoint_id)
        except EndpointNotFound:
            continue
    raise EndpointNotFound(endpoint_id)


def _list_of(caller: Caller) -> str:
    return f"{ENDPOINTS}?side={caller.surface}"


def _shown(title: str, secret: str, note: str) -> Page:
    shown = {
        "name": "Signing secret",
        "text": secret,
        "notes": (note,),
        "back": ("Webhook endpoints", ENDPOINTS),
    }
    return Page("shown_once.html", title, {"secret": shown})
