"""Requests that cannot be read or are not allowed."""

from typing import Final

from mercato.web.explained.commands import LINE, NOBODY, call, script, throw_away
from mercato.web.explained.model import Explained

STATUS: Final = f"/v1/commerce/stores/{NOBODY}/status"

_EMPTY: Final = '{"storeId": "$STORE", "catalogSetId": "$SET", "lineItems": []}'

PAGES: Final = {
    "INVALID_REQUEST": Explained(
        "The body is no JSON document, a member is missing, or a value has another JSON type than the "
        "operation reads.",
        "Compare the request with the operation's example in `/docs`. Each entry of `errors` points to a "
        "member that is missing or wrong.",
        script(call(STATUS, '{"status": ')),
    ),
    "VALIDATION_FAILED": Explained(
        "The request can be read, but a value is not allowed: out of range, malformed, unknown, or against "
        "a rule of the catalog.",
        "Every fault is listed in `errors` with a pointer into your request. Mend them all, then send it "
        "again.",
        script(call(STATUS, '{"status": "closed"}')),
    ),
    "METHOD_NOT_ALLOWED": Explained(
        "There is something at this path, but not for this method.",
        "Use one of the methods that the header `Allow` lists.",
        script(call("/v1/commerce/stores", options="-X DELETE")),
    ),
    "PAYLOAD_TOO_LARGE": Explained(
        "The body has more bytes than the operation reads: 1 MiB, unless `MERCATO_BODY_LIMIT` says "
        "otherwise; the form of Get Access Token, 8 KiB. A `Content-Length` over the limit is refused before the "
        "body is read.",
        "Send less. A whole catalog is not sent, it is hosted: name its URL with Notify Catalog Update. "
        "Validate a CatalogSet reads as much as a pull does.",
        script(
            "head -c 1048577 /dev/zero | " + call(STATUS, "@-").replace("-d @-", "--data-binary @-"),
        ),
    ),
    "UNSUPPORTED_MEDIA_TYPE": Explained(
        "The `Content-Type` is not that of the operation, or the body is compressed.",
        "Send `Content-Type: application/json`, and no `Content-Encoding`.",
        script(call(STATUS, '{"status": "online"}', media="text/plain")),
    ),
    "MISSING_STORE_ID": Explained(
        "The operation is about a store and none is named, neither in the query nor in the cart.",
        "Name the store: `?storeId=…` for Notify Catalog Update, `storeId` for the first item of a cart.",
        script(
            call(
                "/v1/commerce/catalogset-notification",
                '{"callbackUrl": "https://partner.example.com/catalog.json"}',
            )
        ),
    ),
    "CATALOGSET_REQUIRED": Explained(
        "The first item of a cart comes without the CatalogSet that its id is from.",
        "Send `catalogSetId`: the one that the store names, and that you showed the customer.",
        script(
            call("/v1/marketfront/carts/add", f'{{"storeId": "{NOBODY}", "item": {LINE}}}', key="SHOP_KEY")
        ),
    ),
    "LINE_ITEM_NOT_FOUND": Explained(
        "The cart in the request has no top-level line with this `lineItemId`.",
        "Take the `lineItemId` from the cart that you send: from the latest answer, not from an earlier one.",
        throw_away(
            call(
                "/v1/marketfront/carts/remove",
                f'{{"cart": {_EMPTY}, "lineItemId": "{NOBODY}"}}',
                key="SHOP_KEY",
            )
        ),
    ),
}
