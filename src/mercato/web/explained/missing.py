"""What is not there, or is another partner's."""

from typing import Final

from mercato.web.explained.commands import NOBODY, call, script, throw_away
from mercato.web.explained.model import Explained


def _absent(cause: str, remedy: str, path: str, *, key: str = "KEY") -> Explained:
    return Explained(cause, remedy, script(call(path, key=key)))


PAGES: Final = {
    "NOT_FOUND": _absent(
        "No operation has this path. A slash at the end and an escaped slash count.",
        "Compare the path with `/docs`. Operations of partners begin with `/v1/`.",
        "/v1/commerce/shops",
    ),
    "STORE_NOT_FOUND": _absent(
        "The `storeId` is no UUID, no store has it, or the store is another partner's: you are not told "
        "which.",
        "List what there is with `GET /v1/commerce/stores`, or find it with Discover Stores; and check that "
        "the key is of the deployment and of the partner that you mean.",
        f"/v1/commerce/stores/{NOBODY}",
    ),
    "CATALOGSET_NOT_FOUND": _absent(
        "No such CatalogSet is kept: it never was, or the store has replaced it long ago.",
        "Read the store again: `catalogSetId` names the current one.",
        f"/v1/marketfront/catalog-sets/{NOBODY}",
        key="SHOP_KEY",
    ),
    "ORDER_NOT_FOUND": _absent(
        "No order has this id, or it is another partner's: you are not told which.",
        "List your orders. If an answer to Place order was lost, send the same request with the same "
        "`Idempotency-Key`: it tells the `orderId`.",
        f"/v1/marketfront/orders/{NOBODY}",
        key="SHOP_KEY",
    ),
    "ONBOARDING_NOT_FOUND": _absent(
        "No onboarding has this id, it was cancelled, or it is another partner's.",
        "Read `GET /v1/commerce/onboarding/stores`. The `Location` of Register Store leads to the "
        "onboarding.",
        f"/v1/commerce/onboarding/stores/{NOBODY}",
    ),
    "CATALOG_INGEST_NOT_FOUND": Explained(
        "This store has no such run: the id is another store's, or the run is so old that it was removed.",
        "Take `statusUrl` from the answer to Notify Catalog Update; the store's history lists the runs that "
        "are kept.",
        throw_away(call(f"/v1/commerce/stores/$STORE/catalog-ingest/{NOBODY}/status")),
    ),
    "DELIVERY_NOT_FOUND": _absent(
        "No delivery to this partner has this id: it is the delivery's own, not the `webhook-id`.",
        "List the deliveries with `GET /v1/commerce/webhook-deliveries`, or of `/v1/marketfront/` for a "
        "storefront.",
        f"/v1/commerce/webhook-deliveries/{NOBODY}",
    ),
}
