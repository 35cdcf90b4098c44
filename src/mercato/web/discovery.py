"""Store discovery on the Marketfront surface."""

from mercato.discovery.model import DiscoverRequest, DiscoverResponse
from mercato.web.operations import Access, Answer, Call, Operations, Rate

discovery = Operations(access=Access.MARKETFRONT, tag="Marketfront")

_NO_STORE = ((b"cache-control", b"no-store"),)


@discovery.post(
    "/v1/marketfront/stores/discover",
    summary="Discover Stores",
    takes=DiscoverRequest,
    returns=DiscoverResponse,
    reply_headers=("Cache-Control",),
    rate=Rate.DISCOVERY,
)
async def discover_stores(call: Call[DiscoverRequest, None]) -> Answer:
    """Find stores: by place, nearest first; else by words, best match first; else all of them by name.

    With a location every store has its `distance` in metres. `totalCount` counts all that was found, exactly.
    """
    return Answer(await call.app.discovery.discover(call.body), headers=_NO_STORE)
