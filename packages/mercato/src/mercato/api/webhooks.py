"""Webhook deliveries and refused requests: the same operations on both surfaces, where each partner sees its own."""

from mercato.features.requests.log import list_own_requests
from mercato.features.webhooks import deliveries
from mercato.features.webhooks.errors import DeliveryNotFound
from mercato.http.operations import Access, Call, Operations
from mercato.platform import errors
from mercato_contract.debugger.findings import SignatureExplanation
from mercato_contract.requests import RefusedRequestPage, RefusedRequestQuery
from mercato_contract.webhooks import (
    ExplainSignatureRequest,
    WebhookDeliveryDetail,
    WebhookDeliveryPage,
    WebhookDeliveryQuery,
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


def _declare(access: Access, surface: str) -> Operations:
    operations = Operations(access=access, tag="Webhooks")
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
        base + "/{deliveryId}/redeliver",
        id=f"redeliver{name}Webhook",
        summary="Redeliver Webhook",
        problems=(errors.Conflict,),
    )(redeliver)
    return operations


commerce_webhooks = _declare(Access.COMMERCE, "commerce")
marketfront_webhooks = _declare(Access.MARKETFRONT, "marketfront")

debugger = Operations(access=Access.ANY, tag="Webhooks")


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
marketfront_requests = Operations(access=Access.MARKETFRONT, tag="Requests")


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
    """Return the account's requests of the last 7 days that were refused, newest first, with their faults."""
    return await list_own_requests(call.app.db, call.caller, call.query)
