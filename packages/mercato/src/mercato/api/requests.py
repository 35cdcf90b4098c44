"""Refused requests, the same operation on both surfaces: each partner sees its own."""

from mercato.features.requests.log import list_own_requests
from mercato.http.operations import Access, Call, Operations
from mercato_contract.requests import RefusedRequestPage, RefusedRequestQuery

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
