"""What a partner reads at its own pace: its events on either surface, and for storefronts the stores that changed."""

from mercato.features.events.feed import CursorExpired
from mercato.http.operations import Access, Call, Operations
from mercato.platform import errors
from mercato_contract.feeds import EventPage, EventsQuery, FeedQuery, StoreChangePage

_PROBLEMS = (errors.InvalidCursor, CursorExpired)


async def list_events(call: Call[None, EventsQuery]) -> EventPage:
    """Return events, the oldest first: what webhooks tell, whether there is an address for them or not.

    Go on from `nextCursor`, which is always there. Whoever follows it misses no event and gets none twice, whatever is
    committed meanwhile. Events are kept for 30 days; a cursor from before them gets 410. With `wait`, an answer without
    an event is held until there is one. At most 16 requests of an account wait at a time; others are answered at once.
    """
    return await call.app.feeds.read_events(call.caller, call.query)


def _declare(access: Access, surface: str) -> Operations:
    operations = Operations(access=access, tag="Feeds")
    operations.get(
        f"/v1/{surface}/events",
        id=f"list{surface.title()}Events",
        summary="List Events",
        problems=_PROBLEMS,
    )(list_events)
    return operations


commerce_feeds = _declare(Access.COMMERCE, "commerce")
marketfront_feeds = _declare(Access.MARKETFRONT, "marketfront")


@marketfront_feeds.get(
    "/v1/marketfront/stores/changes",
    summary="List Store Changes",
    problems=_PROBLEMS,
)
async def list_store_changes(call: Call[None, FeedQuery]) -> StoreChangePage:
    """Return the stores that changed after the cursor, one entry a store, however often it changed.

    Without a cursor, every store of the network once. `kinds` says what to read again; `gone`: the store can't be seen
    any more. What a date makes true (opening hours, the end of a pause, an item's `until`) is no change.
    """
    return await call.app.feeds.read_changes(call.caller, call.query)
