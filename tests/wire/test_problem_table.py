"""Each code has the status, category and chance of a retry that clients were promised."""

import pytest

from mercato_contract.problems import PROBLEMS

PROMISED = {
    (400, "validation", False): (
        "INVALID_REQUEST MISSING_IDEMPOTENCY_KEY MISSING_STORE_ID CATALOGSET_REQUIRED CART_EMPTY MODIFIER_REQUIRED "
        "MODIFIER_LIMIT_EXCEEDED ORDER_BELOW_MINIMUM ORDER_TOTAL_DIFFERENT ADDRESS_INVALID ADDRESS_OUT_OF_RANGE "
        "ORDER_TOKEN_INVALID"
    ),
    (400, "availability", False): "STORE_CLOSED ITEM_UNAVAILABLE ITEM_PRICE_CHANGED",
    (400, "payment", False): "PAYMENT_DECLINED PAYMENT_METHOD_INVALID",
    (400, "payment", True): "PAYMENT_FAILED",
    (401, "authentication", False): "UNAUTHENTICATED",
    (403, "authorization", False): "FORBIDDEN SPEND_LIMIT_EXCEEDED",
    (404, "not_found", False): (
        "NOT_FOUND STORE_NOT_FOUND CATALOGSET_NOT_FOUND LINE_ITEM_NOT_FOUND ORDER_NOT_FOUND ONBOARDING_NOT_FOUND "
        "CATALOG_INGEST_NOT_FOUND DELIVERY_NOT_FOUND"
    ),
    (405, "validation", False): "METHOD_NOT_ALLOWED",
    (409, "conflict", False): (
        "CONFLICT ORDER_ALREADY_PLACED ORDER_CLOSED INVALID_STATUS_TRANSITION ONBOARDING_NOT_READY ONBOARDING_ACTIVE "
        "ONBOARDING_NOT_FAILED STORE_ALREADY_REGISTERED CANCELLATION_REFUSED CATALOGSET_EXPIRED"
    ),
    (409, "conflict", True): "REQUEST_IN_PROGRESS",
    (410, "not_found", False): "CURSOR_EXPIRED",
    (413, "validation", False): "PAYLOAD_TOO_LARGE",
    (415, "validation", False): "UNSUPPORTED_MEDIA_TYPE",
    (422, "validation", False): "VALIDATION_FAILED IDEMPOTENCY_KEY_REUSED",
    (429, "rate_limit", True): "RATE_LIMITED",
    (500, "server_error", True): "INTERNAL_ERROR",
    (503, "availability", True): "SERVICE_UNAVAILABLE STORE_UNREACHABLE",
}


@pytest.mark.parametrize(
    ("code", "promised"),
    [(code, promised) for promised, codes in PROMISED.items() for code in codes.split(" ")],
)
def test_a_code_has_the_status_category_and_retry_that_were_promised(
    code: str, promised: tuple[int, str, bool]
):
    kind = PROBLEMS[code]
    assert (kind.status, kind.category, kind.retryable) == promised
