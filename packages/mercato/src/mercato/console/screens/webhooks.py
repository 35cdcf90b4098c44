"""Webhooks: deliveries to the account, each with its attempts; and the endpoints that they go to."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mercato.console.filters import Filters, before_of, order_of, partner_of, read_filters, store_of
from mercato.console.forms import read_fields
from mercato.console.screen import (
    EVERYBODY,
    PARTNERS,
    Done,
    Page,
    Question,
    Screens,
    Secret,
    Visit,
    show_once,
)
from mercato.features.partners.credentials import OVERLAP
from mercato.features.partners.model import Caller, Surface
from mercato.features.sign_in.roles import Permission
from mercato.features.stores.operators import list_stores_of
from mercato.features.stores.queries import find_name_and_timezone
from mercato.features.webhooks import deliveries, operators
from mercato.features.webhooks.endpoints import get_endpoint, list_endpoints
from mercato.features.webhooks.model import (
    AS_OPERATORS,
    DELIVERY_WORDS,
    DeliveryNotFound,
    EndpointNotFound,
    types_of,
)
from mercato.features.webhooks.queries import MAX_SEARCHED, DeliveryFilter, DeliveryRow
from mercato.platform.db.engine import Read
from mercato.platform.telemetry import tracing
from mercato_contract.debugger.findings import SignatureExplanation
from mercato_contract.events import STORE_CALLS, EventType
from mercato_contract.pages import PAGE, Cursor
from mercato_contract.pages import Page as PageQuery
from mercato_contract.refusals import ValidationFailed
from mercato_contract.texts import count_of
from mercato_contract.webhooks import (
    MAX_BODY,
    MAX_HEADERS,
    DeliveryStatus,
    ExplainSignatureRequest,
    WebhookDeliveryDetail,
    WebhookEndpoint,
    WebhookEndpointKind,
    WebhookEndpointRequest,
)
from mercato_contract.wire import Instant, Wire, parse_instant, redacted, validator

screens: Final = Screens(EVERYBODY)

MAX_SECRET: Final = 512
"""Characters of a signing secret that somebody pastes."""

MAX_SIGNATURE_FORM: Final = 256 * 1024
"""Bytes of the form with a webhook. It is sent as multipart/form-data, so nothing in it is escaped."""

MAX_RESENT: Final = 200
"""Deliveries that one press of `Resend failed` sends, each in a separate transaction."""


_RESENT: Final = ("side", "type", "storeId", "orderId", "since", "until", "code", "partner")
"""The filters that say what `Resend failed` sends."""


def _type_fault(text: str) -> str | None:
    """Return why no delivery can have the type, or a type that begins with it; None if one can."""
    words = text.removesuffix(".*")
    known = any(event_type == words or event_type.startswith(f"{words}.") for event_type in EventType)
    return None if known else "No type has this name."


def _status_fault(text: str) -> str | None:
    """Return why no delivery is in the state, in the words that lists have for it."""
    known = text in list(DeliveryStatus)
    return (
        None
        if known
        else f"No delivery is in this state. Choose {', '.join(DELIVERY_WORDS.values())} or all."
    )


def _code_fault(text: str) -> str | None:
    """Return why no receiver answers so."""
    known = text.isascii() and text.isdigit() and 100 <= int(text[:4]) <= 599  # noqa: PLR2004
    return None if known else "The code must be a number from 100 to 599."


class DeliveriesQuery(Wire):
    """The filters of the list and of `Resend failed`, besides store, order and, for operators, partner.

    `code` is the HTTP status of an attempt's answer.
    """

    side: Surface | None = None
    status: Annotated[str, Meta(extra=validator(_status_fault))] | None = None
    type: Annotated[str, Meta(extra=validator(_type_fault))] | None = None
    code: Annotated[str, Meta(max_length=3, extra=validator(_code_fault))] | None = None
    since: Instant | None = None
    until: Instant | None = None
    cursor: Cursor | None = None


@screens.get("webhooks")
async def list_deliveries(visit: Visit) -> Page:
    filters = read_filters(visit, DeliveriesQuery)
    page: Sequence[DeliveryRow] = ()
    cursor = None
    async with visit.app.db.read() as tx:
        criteria = await _criteria(tx, visit, filters)
        if not filters.faults:
            page, cursor = await operators.search(tx, criteria, limit=PAGE)
    filters.listed(page, cursor)
    values = {
        "deliveries": page,
        "next_cursor": cursor,
        "search": filters,
        "resent": {name: filters.texts.get(name) for name in _RESENT},
        "statuses": list(DeliveryStatus),
        "types": list(EventType),
        "most": MAX_SEARCHED,
        "sees_endpoints": visit.store_id is None and visit.may(Permission.SEE_KEYS),
    }
    return Page("deliveries.html", "Webhooks", values)


@screens.get("webhooks/{delivery}")
async def show_delivery(visit: Visit) -> Page:
    delivery, _ = await _read(visit)
    if not visit.may(Permission.SEE_CUSTOMERS):
        delivery = operators.mask_delivery(delivery)
    sees_all = visit.may(Permission.SEE_KEYS) and not visit.is_operator
    async with visit.app.db.read() as tx:
        place = delivery.store_id and await find_name_and_timezone(tx, delivery.store_id)
        partner = await operators.find_partner(tx, delivery.delivery_id) if visit.is_operator else None
    values = {
        "delivery": delivery,
        "store_name": place and place[0],
        "body": msgspec.json.format(bytes(delivery.body), indent=2).decode(),
        # The query may be what grants access, which is the partner's, and of its people for those who see keys.
        "address": delivery.url if sees_all else delivery.url.partition("?")[0],
        "why_not": STORE_CALLS.get(delivery.type),
        "partner": partner,
    }
    return Page("delivery.html", f"Webhook {delivery.delivery_id}", values)


@screens.post("webhooks/{delivery}/resend", needs=Permission.CHANGE_ORDERS)
async def resend_delivery(visit: Visit) -> Done:
    delivery, surface = await _read(visit)
    now = visit.app.clock()
    async with visit.app.db.write() as tx:
        if surface is None:
            await operators.redeliver_any(tx, delivery.delivery_id, now=now)
        else:
            await deliveries.redeliver(tx, visit.caller(surface), delivery.delivery_id, now=now)
    return Done(
        f"{delivery.type} is sent again, with the same id and body.",
        to=f"/console/webhooks/{delivery.delivery_id}",
    )


@screens.post("webhooks/resend-failed", needs=Permission.CHANGE_ORDERS)
async def resend_failed(visit: Visit) -> Done:
    filters = read_filters(visit, DeliveriesQuery, read_fields(visit.form))
    async with visit.app.db.read() as tx:
        criteria = await _criteria(tx, visit, filters)
    filters.check()
    criteria = msgspec.structs.replace(criteria, status=DeliveryStatus.FAILED)
    sent = await operators.redeliver_some(visit.app.db, criteria, most=MAX_RESENT, now=visit.app.clock)
    more = " Press the button again for more." if sent == MAX_RESENT else ""
    why = await _why_none(visit, criteria) if sent == 0 else ""
    return Done(
        f"{count_of(sent, 'failed delivery', 'failed deliveries')} sent again.{more}{why}",
        to="/console/webhooks",
    )


async def _why_none(visit: Visit, criteria: DeliveryFilter) -> str:
    """Return why `Resend failed` sent nothing."""
    async with visit.app.db.read() as tx:
        calls = await operators.list_not_redeliverable(tx, criteria)
        others = await operators.list_rows(tx, criteria, limit=1) if not calls else []
    if calls:
        return (
            f" {' and '.join(calls)} ask a store for an answer while an order is placed or cancelled, and aren't "
            "events: the service repeats them by itself as long as the order waits."
        )
    if others:
        return " What failed went to addresses that were deleted or that their owner has disabled."
    return " No delivery that the filters match has failed."


_NO_SIGNATURE: Final = (
    "Add the header webhook-signature as your server received it: signatures aren't stored. "
    "If your server received none, delete these lines and paste the headers that it did receive."
)


@redacted("headers", "body", "secret")
class SignatureForm(Wire):
    """A webhook as it was received, headers as lines, and the secret that it was verified with.

    The secret is used once: it is on no page, and without it the account's own are tried.
    """

    headers: Annotated[str, Meta(max_length=16_384)] = ""
    body: Annotated[str, Meta(max_length=MAX_BODY)] = ""
    secret: Annotated[str, Meta(max_length=MAX_SECRET)] = ""
    received_at: Instant | None = None


@screens.get("webhooks/{delivery}/signature", needs=Permission.SEE_CUSTOMERS, audiences=PARTNERS)
async def show_signature(visit: Visit) -> Page:
    delivery, _ = await _read(visit)
    last = delivery.attempt_log[-1].at if delivery.attempt_log else None
    headers = "\n".join(f"{name}: {value}" for name, value in _known_headers(delivery).items())
    form = SignatureForm(headers=headers, body=bytes(delivery.body).decode(), received_at=last)
    return _signature_page(delivery, form, None)


@screens.post(
    "webhooks/{delivery}/signature",
    needs=Permission.SEE_CUSTOMERS,
    audiences=PARTNERS,
    max_form=MAX_SIGNATURE_FORM,
)
async def explain_signature(visit: Visit) -> Page:
    """Explain the signature of a webhook as it was received. Nothing is changed or stored."""
    # Imported on first use, as the API does.
    from mercato.features.webhooks.explanations import load_case

    delivery, surface = await _read(visit)
    assert surface is not None, "a screen of partners"
    form, app = visit.fields(SignatureForm), visit.app
    # A browser sends every line end of a field as two characters.
    headers, body = (text.replace("\r\n", "\n") for text in (form.headers, form.body))
    form = msgspec.structs.replace(form, headers=headers, body=body)
    lines = [line.partition(":") for line in headers.splitlines()]
    if len(lines) > MAX_HEADERS:
        raise ValidationFailed.at(
            None, f"A webhook has at most {MAX_HEADERS} headers. Paste those that begin with webhook-."
        )
    sent = {name.strip(): value.strip() for name, _, value in lines if name.strip()}
    if sent == _known_headers(delivery):
        return _signature_page(delivery, form, None, fault=_NO_SIGNATURE)
    request = ExplainSignatureRequest(
        headers=sent,
        body=body,
        secrets=[form.secret] if form.secret else None,
        delivery_id=delivery.delivery_id,
        received_at=form.received_at,
    )
    async with app.db.read() as tx:
        case = await load_case(tx, app.vault, visit.caller(surface), request, now=app.clock)
    return _signature_page(delivery, form, await case.explain(app.clock()))


def _known_headers(delivery: WebhookDeliveryDetail) -> dict[str, str]:
    """Return the headers of the last attempt that are stored: its signature isn't."""
    headers = {"webhook-id": str(delivery.webhook_id)}
    at = parse_instant(delivery.attempt_log[-1].at) if delivery.attempt_log else None
    return headers if at is None else headers | {"webhook-timestamp": str(int(at.timestamp()))}


def _signature_page(
    delivery: WebhookDeliveryDetail,
    form: SignatureForm,
    explanation: SignatureExplanation | None,
    *,
    fault: str | None = None,
) -> Page:
    values = {"delivery": delivery, "form": form, "explanation": explanation, "fault": fault}
    return Page("signature.html", "Signature", values)


async def _criteria(tx: Read, visit: Visit, filters: Filters[DeliveriesQuery]) -> DeliveryFilter:
    """Return which deliveries: a partner's are its own, of one side, and of one store if the session is."""
    query = filters.query
    return DeliveryFilter(
        partner_id=await partner_of(tx, visit, filters),
        surface=query.side if visit.is_operator else visit.caller_of(query.side).surface,
        http_status=None if query.code is None else int(query.code),
        store_id=await store_of(tx, visit, filters, query.side),
        order_id=await order_of(tx, visit, filters, query.side),
        status=None if query.status is None else DeliveryStatus(query.status),
        types=query.type,
        since=None if query.since is None else parse_instant(query.since),
        before=before_of(query.cursor, query.until),
    )


async def _read(visit: Visit) -> tuple[WebhookDeliveryDetail, Surface | None]:
    """Return the delivery and whose it is: the partner's side, None for the operator. Raises DeliveryNotFound."""
    delivery_id = visit.ids["delivery"]
    missing = DeliveryNotFound(delivery_id)
    async with visit.app.db.read() as tx:
        if visit.is_operator:
            return await operators.get_delivery(tx, delivery_id), None
        for surface in visit.surfaces:
            try:
                found = await deliveries.get_delivery(tx, visit.caller(surface), delivery_id)
            except DeliveryNotFound:
                continue
            visit.check_store(found.store_id, missing)
            return found, surface
    raise missing


# --- endpoints ------------------------------------------------------------------------------------

endpoint_screens: Final = Screens(EVERYBODY, whole_account=True)

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


@endpoint_screens.get("webhooks/endpoints", needs=Permission.SEE_KEYS)
async def show_endpoints(visit: Visit) -> Page:
    query = visit.filters(EndpointsQuery)
    caller = _caller(visit, query.side)
    async with visit.app.db.read() as tx:
        page = await list_endpoints(tx, visit.app.vault, caller, PageQuery(limit=PAGE, cursor=query.cursor))
        single = [
            endpoint.store_ids[0]
            for endpoint in page.endpoints
            if endpoint.store_ids and len(endpoint.store_ids) == 1
        ]
        named = await list_stores_of(tx, single, now=visit.app.clock())
    values = {
        "endpoints": page.endpoints,
        "stores": {store.id: store.name for store in named if not store.suspended},
        "next_cursor": page.next_cursor,
        "side": caller.surface,
        "own": WebhookEndpointKind.ENDPOINT,
        "event_url": WebhookEndpointKind.EVENT_URL,
        "types": sorted(types_of(caller)),
    }
    return Page("endpoints.html", "Webhook endpoints", values)


@endpoint_screens.post("webhooks/endpoints", needs=Permission.MAKE_KEYS)
async def create_endpoint(visit: Visit) -> Page:
    form = visit.fields(NewEndpointForm)
    types = [part.strip() for part in (form.types or "").split(",") if part.strip()]
    request = WebhookEndpointRequest(url=form.url, types=types or None, description=form.description)
    async with visit.app.db.write() as tx:
        made = await visit.app.endpoints.create(tx, _caller(visit, form.side), request)
    return _shown("Endpoint added", made.secret, "It verifies the webhooks of this endpoint alone.")


@endpoint_screens.post("webhooks/endpoints/{endpoint}/test", needs=Permission.CHANGE_KEYS)
async def test_endpoint(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        caller, found = await _find(tx, visit)
        delivery_id = await visit.app.endpoints.send_test(
            tx, caller, found.endpoint_id, traceparent=tracing.new_trace()
        )
    return Done("A ping is sent. This page shows what was answered.", to=f"/console/webhooks/{delivery_id}")


@endpoint_screens.post("webhooks/endpoints/{endpoint}/enable", needs=Permission.CHANGE_KEYS)
async def enable_endpoint(visit: Visit) -> Done:
    return await _set_enabled(visit, enabled=True)


@endpoint_screens.post("webhooks/endpoints/{endpoint}/disable", needs=Permission.CHANGE_KEYS)
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


@endpoint_screens.post("webhooks/endpoints/{endpoint}/rotate-secret", needs=Permission.MAKE_KEYS)
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


@endpoint_screens.post(
    "webhooks/endpoints/{endpoint}/delete", needs=Permission.CHANGE_KEYS, ask=_ask_to_delete
)
async def delete_endpoint(visit: Visit) -> Done:
    async with visit.app.db.write() as tx:
        caller, found = await _find(tx, visit)
        await visit.app.endpoints.delete(tx, caller, found.endpoint_id)
    return Done("The endpoint is deleted.", to=_list_of(caller))


async def _find(tx: Read, visit: Visit) -> tuple[Caller, WebhookEndpoint]:
    """Return the endpoint of the path, and the caller of its surface. Raises EndpointNotFound."""
    endpoint_id = visit.ids["endpoint"]
    callers = (AS_OPERATORS,) if visit.is_operator else tuple(map(visit.caller, visit.surfaces))
    for caller in callers:
        try:
            return caller, await get_endpoint(tx, visit.app.vault, caller, endpoint_id)
        except EndpointNotFound:
            continue
    raise EndpointNotFound(endpoint_id)


def _caller(visit: Visit, side: Surface | None) -> Caller:
    return AS_OPERATORS if visit.is_operator else visit.caller_of(side)


def _list_of(caller: Caller) -> str:
    return ENDPOINTS if caller is AS_OPERATORS else f"{ENDPOINTS}?side={caller.surface}"


def _shown(title: str, secret: str, note: str) -> Page:
    return show_once(title, Secret("Signing secret", secret, (note,), ("Webhook endpoints", ENDPOINTS)))
