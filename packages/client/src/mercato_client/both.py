"""What both surfaces have: operations for either key, and the requests whose path alone differs."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from mercato_client.exchange import Id, Sent
from mercato_client.operation import operation
from mercato_contract.console import ConsoleLink, ConsoleLinkRequest
from mercato_contract.debugger.findings import SignatureExplanation
from mercato_contract.webhooks import (
    DeliveryStatus,
    ExplainSignatureRequest,
    RedeliverRequest,
    RotateEndpointSecretRequest,
    WebhookEndpointRequest,
)


class EitherKey:
    """The methods for a key of either surface."""

    @operation("POST", "/v1/console/links", ConsoleLink)
    def create_console_link(self, *, read_only: bool = False, store_id: UUID | None = None) -> Sent:
        """Return a link that signs one browser in to the console of this account, within 15 minutes."""
        return Sent(body=ConsoleLinkRequest(read_only=read_only, store_id=store_id))

    @operation("POST", "/v1/webhooks/explain", SignatureExplanation, repeats=True)
    def explain_webhook_signature(self, request: ExplainSignatureRequest) -> Sent:
        """Return what is wrong with a webhook's signature, compared with what the service has sent."""
        return Sent(body=request)


def refused_requests(
    _: object,
    *,
    error_code: str | None = None,
    since: datetime | str | None = None,
    store_id: Id | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Sent:
    """Return the account's requests that were refused in the last 7 days, newest first."""
    which = {"errorCode": error_code, "since": since, "storeId": store_id}
    return Sent(query={**which, "limit": limit, "cursor": cursor})


def order_report(
    _: object,
    from_: date | str,
    to: date | str,
    *,
    store_id: Id | None = None,
    timezone: str | None = None,
) -> Sent:
    """Return a row for each order placed from one day to another, which is included, and their sums by currency.

    The whole report is in memory. Ask for fewer days if there are hundreds of thousands of orders, or for CSV, which
    is sent as it is read.
    """
    return Sent(query={"from": from_, "to": to, "storeId": store_id, "timezone": timezone})


def events(
    _: object,
    *,
    after: str | None = None,
    types: Sequence[str] = (),
    store_id: Id | None = None,
    limit: int | None = None,
    wait: int | None = None,
) -> Sent:
    """Return the events after a cursor, the oldest first, and the cursor to go on from: keep it.

    With `wait`, in whole seconds up to 25, an answer without an event is held until there is one.
    """
    which = {"types": ",".join(types) or None, "storeId": store_id}
    return Sent(query={"after": after, **which, "limit": limit, "wait": wait})


def webhook_deliveries(
    _: object,
    *,
    status: DeliveryStatus | str | None = None,
    type: str | None = None,  # noqa: A002  # the wire's word
    store_id: Id | None = None,
    order_id: Id | None = None,
    endpoint_id: Id | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Sent:
    """Return the webhooks that the account was sent, newest first."""
    which = {"status": status, "type": type, "storeId": store_id, "orderId": order_id}
    which["endpointId"] = endpoint_id
    return Sent(query={**which, "limit": limit, "cursor": cursor})


def webhook_delivery(_: object, delivery_id: Id) -> Sent:
    """Return a webhook with its body and every attempt."""
    return Sent(ids=(delivery_id,))


def redelivery(_: object, delivery_id: Id) -> Sent:
    """Redeliver a webhook with the same id and body."""
    return Sent(ids=(delivery_id,))


def redeliveries(_: object, request: RedeliverRequest) -> Sent:
    """Redeliver many webhooks in the background, the oldest first; return how many."""
    return Sent(body=request)


# --- webhook endpoints --------------------------------------------------------------------------------


def webhook_endpoints(_: object, *, limit: int | None = None, cursor: str | None = None) -> Sent:
    """Return the addresses that events are sent to, the oldest first."""
    return Sent(query={"limit": limit, "cursor": cursor})


def new_webhook_endpoint(_: object, request: WebhookEndpointRequest) -> Sent:
    """Register an address for events. Only this answer has its `secret`: store it."""
    return Sent(body=request)


def webhook_endpoint(_: object, endpoint_id: Id) -> Sent:
    """Return an address that events are sent to."""
    return Sent(ids=(endpoint_id,))


def changed_webhook_endpoint(_: object, endpoint_id: Id, request: WebhookEndpointRequest) -> Sent:
    """Replace what an endpoint says. Without `headers` they stay, unless the URL has another origin."""
    return Sent(ids=(endpoint_id,), body=request)


def deleted_webhook_endpoint(_: object, endpoint_id: Id) -> Sent:
    """Delete an endpoint; what waits for it isn't sent."""
    return Sent(ids=(endpoint_id,))


def webhook_endpoint_test(_: object, endpoint_id: Id) -> Sent:
    """Send a signed `ping` to an endpoint; return the delivery, which tells what it answered once it was sent."""
    return Sent(ids=(endpoint_id,))


def webhook_endpoint_secret(_: object, endpoint_id: Id, *, overlap_hours: int | None = None) -> Sent:
    """Give an endpoint a new `secret`, which only this answer has. The old one signs, too, for a day or these hours."""
    return Sent(ids=(endpoint_id,), body=RotateEndpointSecretRequest(overlap_hours=overlap_hours))
