"""Webhook deliveries, the feed of events, and refused requests: the same on both surfaces, each partner seeing its own.

The feed of stores that changed is a storefront's, and is read as that of events is.
"""

from datetime import timedelta

from mercato.features.events.cursors import CursorExpired
from mercato.features.requests.log import list_own_requests
from mercato.features.webhooks import deliveries, endpoints
from mercato.features.webhooks.model import DeliveryNotFound, EndpointNotFound, UnknownStore
from mercato.http.operations import Access, Answer, Call, Operations
from mercato.platform import errors
from mercato_contract.debugger.findings import SignatureExplanation
from mercato_contract.feeds import EventPage, EventsQuery, FeedQuery, StoreChangePage
from mercato_contract.pages import Page
from mercato_contract.requests import RefusedRequestPage, RefusedRequestQuery
from mercato_contract.webhooks import (
    OVERLAP_HOURS,
    ExplainSignatureRequest,
    RedeliverAccepted,
    RedeliverRequest,
    RotateEndpointSecretRequest,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
    WebhookDeliveryQuery,
    WebhookEndpoint,
    WebhookEndpointPage,
    WebhookEndpointRequest,
    WebhookEndpointWithSecret,
)


async def list_deliveries(call: Call[None, WebhookDeliveryQuery]) -> WebhookDeliveryPage:
    """Return webhook deliveries, newest first."""
    async with call.app.db.read() as tx:
        return await deliveries.list_deliveries(tx, call.caller, call.query)


async def get_delivery(call: Call[None, None]) -> WebhookDeliveryDetail:
    """Return a webhook delivery with its body and every attempt."""
    async with call.app.db.read() as tx:
        return await deliveries.get_delivery(tx, call.caller, call.ids["deliveryId"])


async def redeliver(call: Call[None, None]) -> WebhookDeliveryDetail:
    """Send a webhook again with the same id and body. This also enables a disabled endpoint again.

    `order.validate` and `order.place` can't be sent again (409).
    """
    async with call.app.db.write() as tx:
        return await deliveries.redeliver(tx, call.caller, call.ids["deliveryId"], now=call.app.clock())


async def redeliver_many(call: Call[RedeliverRequest, None]) -> RedeliverAccepted:
    """Send many webhooks again in the background, the oldest first, with the same ids and bodies.

    They are paced as first deliveries are. Calls to stores are left out, and so are deliveries to endpoints that were
    deleted or that you have disabled; those that the service has disabled are enabled. At most 100,000 in a request.
    """
    return await call.app.redeliveries.request(call.caller, call.body)


async def list_endpoints(call: Call[None, Page]) -> WebhookEndpointPage:
    """Return the addresses that events are sent to, the oldest first.

    The account's event URL and its stores' webhook URLs are among them (`kind`), and can't be changed here.
    """
    async with call.app.db.read() as tx:
        return await endpoints.list_endpoints(tx, call.app.vault, call.caller, call.query)


async def get_endpoint(call: Call[None, None]) -> WebhookEndpoint:
    """Return an address that events are sent to."""
    async with call.app.db.read() as tx:
        return await endpoints.get_endpoint(tx, call.app.vault, call.caller, call.ids["endpointId"])


async def create_endpoint(call: Call[WebhookEndpointRequest, None]) -> Answer[WebhookEndpointWithSecret]:
    """Register an address for events. Only this answer has its `secret`, which verifies its webhooks' signatures.

    It gets the events that happen from now on, with their own retries: another address that fails doesn't delay it. An
    account has at most 10 on each surface, each with a URL of its own (409). `order.validate`, `order.place` and
    `order.cancel` go to the store's webhook URL alone.
    """
    async with call.app.db.write() as tx:
        created = await call.app.endpoints.create(tx, call.caller, call.body)
    location = f"{_endpoints_path(call.caller.surface)}/{created.endpoint_id}"
    return Answer(created, headers=((b"location", location.encode()),))


async def update_endpoint(call: Call[WebhookEndpointRequest, None]) -> WebhookEndpoint:
    """Replace an endpoint's members. What waits for it is sent to its new URL.

    Without `headers` they stay, unless scheme, host or port of the URL change; a value of `***` stays, too. `enabled`
    also enables an endpoint that the service has disabled after failures.
    """
    async with call.app.db.write() as tx:
        return await call.app.endpoints.replace(tx, call.caller, call.ids["endpointId"], call.body)


async def delete_endpoint(call: Call[None, None]) -> None:
    """Delete an endpoint. What waits for it isn't sent; its deliveries stay in the log."""
    async with call.app.db.write() as tx:
        await call.app.endpoints.delete(tx, call.caller, call.ids["endpointId"])


async def send_test(call: Call[None, None]) -> WebhookDeliveryDetail:
    """Send a signed `ping` to an endpoint. Follow the delivery to see what it answered."""
    async with call.app.db.write() as tx:
        delivery_id = await call.app.endpoints.send_test(
            tx, call.caller, call.ids["endpointId"], traceparent=call.trace
        )
        return await deliveries.get_delivery(tx, call.caller, delivery_id)


async def rotate_secret(call: Call[RotateEndpointSecretRequest | None, None]) -> WebhookEndpointWithSecret:
    """Give an endpoint a new `secret`, which only this answer has. The old one signs, too, for a day.

    With `overlapHours` for as long as that; 0 if the old one has leaked.
    """
    given = None if call.body is None else call.body.overlap_hours
    overlap = timedelta(hours=OVERLAP_HOURS if given is None else given)
    async with call.app.db.write() as tx:
        return await call.app.endpoints.rotate_secret(
            tx, call.caller, call.ids["endpointId"], overlap=overlap
        )


def _endpoints_path(surface: str) -> str:
    return f"/v1/{surface}/webhook-endpoints"


def _declare_endpoints(operations: Operations, surface: str) -> None:
    base, name = _endpoints_path(surface), f"{surface.title()}WebhookEndpoint"
    one = base + "/{endpointId}"
    conflict = (errors.Conflict,)
    operations.get(base, id=f"list{name}s", summary="List Webhook Endpoints")(list_endpoints)
    operations.post(
        base,
        id=f"create{name}",
        summary="Create Webhook Endpoint",
        names_unknown=True,
        status=201,
        answer_headers=("Location",),
        problems=(UnknownStore, *conflict),
    )(create_endpoint)
    operations.get(one, id=f"get{name}", summary="Get Webhook Endpoint")(get_endpoint)
    operations.put(
        one,
        id=f"update{name}",
        summary="Update Webhook Endpoint",
        names_unknown=True,
        problems=(UnknownStore, *conflict),
    )(update_endpoint)
    operations.post(one + "/test", id=f"test{name}", summary="Test Webhook Endpoint", problems=conflict)(
        send_test
    )
    operations.post(
        one + "/rotate-secret",
        id=f"rotate{name}Secret",
        summary="Rotate Endpoint Secret",
        names_unknown=True,
        problems=conflict,
    )(rotate_secret)
    operations.delete(
        one, id=f"delete{name}", summary="Delete Webhook Endpoint", status=204, problems=conflict
    )(delete_endpoint)


def _declare(access: Access, surface: str) -> Operations:
    operations = Operations(access=access, tag="Webhooks", for_agents=False)
    _declare_endpoints(operations, surface)
    base = f"/v1/{surface}/webhook-deliveries"
    name = surface.title()
    operations.get(
        base,
        id=f"list{name}WebhookDeliveries",
        summary="List Webhook Deliveries",
    )(list_deliveries)
    operations.get(
        base + "/{deliveryId}",
        id=f"get{name}WebhookDelivery",
        summary="Get Webhook Delivery",
    )(get_delivery)
    operations.post(
        base + "/redeliver",
        id=f"redeliver{name}Webhooks",
        summary="Redeliver Many Webhooks",
        names_unknown=True,
        status=202,
        problems=(UnknownStore, EndpointNotFound, errors.RateLimited),
    )(redeliver_many)
    operations.post(
        base + "/{deliveryId}/redeliver",
        id=f"redeliver{name}Webhook",
        summary="Redeliver Webhook",
        problems=(errors.Conflict,),
    )(redeliver)
    return operations


commerce_webhooks = _declare(Access.COMMERCE, "commerce")
marketfront_webhooks = _declare(Access.MARKETFRONT, "marketfront")

debugger = Operations(access=Access.ANY, tag="Webhooks", for_agents=False)


@debugger.post(
    "/v1/webhooks/explain",
    id="explainWebhookSignature",
    summary="Explain Webhook Signature",
    problems=(DeliveryNotFound,),
)
async def explain_signature(call: Call[ExplainSignatureRequest, None]) -> SignatureExplanation:
    """Explain why a webhook's signature fails: secret, headers, time, or a body that differs from the one sent.

    With a key of either surface. Nothing is changed or stored, and no secret is repeated.
    """
    # Imported on first use, because it would make the start slower.
    from mercato.features.webhooks.explanations import load_case

    app = call.app
    async with app.db.read() as tx:
        case = await load_case(tx, app.vault, call.caller, call.body, now=app.clock)
    return await case.explain(app.clock())


commerce_requests = Operations(access=Access.COMMERCE, tag="Requests")
marketfront_requests = Operations(access=Access.MARKETFRONT, tag="Requests", for_agents=False)


@commerce_requests.get(
    "/v1/commerce/requests",
    id="listCommerceRequests",
    summary="List Refused Requests",
)
@marketfront_requests.get(
    "/v1/marketfront/requests",
    id="listMarketfrontRequests",
    summary="List Refused Requests",
)
async def list_requests(call: Call[None, RefusedRequestQuery]) -> RefusedRequestPage:
    """Return the account's requests of the last 7 days that were refused, newest first, with their faults.

    Requests that were accepted are among them if their bodies had unknown members: `errorCode` is `UNKNOWN_MEMBER`.
    """
    return await list_own_requests(call.app.db, call.caller, call.query)


_PROBLEMS = (errors.InvalidCursor, CursorExpired)


async def list_events(call: Call[None, EventsQuery]) -> EventPage:
    """Return events, the oldest first: what webhooks tell, whether there is an address for them or not.

    Go on from `nextCursor`, which is always there. Whoever follows it misses no event and gets none twice, whatever is
    committed meanwhile. Events are kept for 30 days; a cursor from before them gets 410. With `wait`, an answer without
    an event is held until there is one. At most 16 requests of an account wait at a time; others are answered at once.
    """
    return await call.app.feeds.read_events(call.caller, call.query)


def _declare_feed(access: Access, surface: str) -> Operations:
    operations = Operations(access=access, tag="Feeds", for_agents=False)
    operations.get(
        f"/v1/{surface}/events",
        id=f"list{surface.title()}Events",
        summary="List Events",
        problems=_PROBLEMS,
        waits=True,
    )(list_events)
    return operations


commerce_feeds = _declare_feed(Access.COMMERCE, "commerce")
marketfront_feeds = _declare_feed(Access.MARKETFRONT, "marketfront")
store_feed = Operations(access=Access.MARKETFRONT, tag="Feeds")


@store_feed.get(
    "/v1/marketfront/stores/changes",
    summary="List Store Changes",
    problems=_PROBLEMS,
    waits=True,
)
async def list_store_changes(call: Call[None, FeedQuery]) -> StoreChangePage:
    """Return the stores that changed after the cursor, one entry a store, however often it changed.

    Without a cursor, every store of the network once. `kinds` says what to read again; `gone`: the store can't be seen
    any more. What a date makes true (opening hours, the end of a pause, an item's `until`) is no change.
    """
    return await call.app.feeds.read_changes(call.caller, call.query)
