"""What cannot be done in the state that something has."""

from typing import Final

from mercato.web.explained.commands import (
    ONBOARDINGS,
    call,
    member,
    order,
    place,
    quiet,
    registration,
    script,
    throw_away,
    webhook,
)
from mercato.web.explained.model import Explained

_PLACED: Final = script(
    place(order(), options="-o placed.json"), f"ORDER={member('orderId', 'placed.json')}"
).rstrip()
_STATUS: Final = "/v1/commerce/orders/$ORDER/status"
_PENDING: Final = (
    '{"partnerStoreId": "example-$RANDOM-$RANDOM", "name": "Example", "address": {}, '
    '"catalogCallbackUrl": "$URL/healthz"}'
)

PAGES: Final = {
    "CONFLICT": Explained(
        "The request does not fit what the resource is: an order webhook is not sent again by hand, because "
        "the service does that itself.",
        "`detail` says what to do instead.",
        throw_away(
            webhook("http://127.0.0.1:9"),
            call("/v1/marketfront/orders/validate", order(), key="SHOP_KEY", options="-o answer.json"),
            call("/v1/commerce/webhook-deliveries?type=order.validate&limit=1", options="-o deliveries.json"),
            f"DELIVERY={member('id', 'deliveries.json')}",
            call("/v1/commerce/webhook-deliveries/$DELIVERY/redeliver", options="-X POST"),
        ),
    ),
    "INVALID_STATUS_TRANSITION": Explained(
        "The order is further on: `pending`, `confirmed`, `preparing`, `ready`, `inTransit` go forward only.",
        "Read the order. If your updates overtake each other, send them one after the other and let this "
        "one go.",
        throw_away(_PLACED, quiet(_STATUS, '{"status": "ready"}'), call(_STATUS, '{"status": "confirmed"}')),
    ),
    "ORDER_CLOSED": Explained(
        "The order is completed or cancelled. The same closing again is no fault; any other change is.",
        "Read the order: `cancelReason` says why. `STORE_UNREACHABLE` means that the store did not answer "
        "for 10 minutes: place it anew, with a new `Idempotency-Key`.",
        throw_away(
            _PLACED,
            quiet(_STATUS, '{"state": "cancelled", "cancelReason": "Out of bread"}'),
            call(_STATUS, '{"status": "preparing"}'),
        ),
    ),
    "ONBOARDING_NOT_READY": Explained(
        "The store's catalog has not been taken yet, or was refused: only `ready_to_activate` can be "
        "activated.",
        "Read the onboarding until its status has changed. If it is `catalog_failed`, mend what `errors` "
        "lists, and retry.",
        script(
            quiet(ONBOARDINGS, _PENDING),
            f"PENDING={member('onboardingId', 'answer.json')}",
            call(f"{ONBOARDINGS}/$PENDING/activate", options="-X POST"),
            quiet(f"{ONBOARDINGS}/$PENDING", options="-X DELETE"),
        ),
    ),
    "ONBOARDING_ACTIVE": Explained(
        "The onboarding is done: its store is live, and stays.",
        "Pause the store with Set Store Status instead.",
        throw_away(call(f"{ONBOARDINGS}/$ONBOARDING", options="-X DELETE")),
    ),
    "ONBOARDING_NOT_FAILED": Explained(
        "There is nothing to try again: the catalog is being looked at, or was taken.",
        "Read the onboarding. A live store's new catalog is told with Notify Catalog Update.",
        throw_away(call(f"{ONBOARDINGS}/$ONBOARDING/retry", options="-X POST")),
    ),
    "STORE_ALREADY_REGISTERED": Explained(
        "An onboarding of yours with this `partnerStoreId` is under way or active. Its id is in "
        "`onboardingId`.",
        "Go on with that onboarding: `Location` leads to it. Cancel it first if you want to begin anew.",
        throw_away(call(ONBOARDINGS, registration())),
    ),
}
