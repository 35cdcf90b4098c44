"""Place order returns an order's errors as a problem."""

import msgspec
import pytest

from mercato.features.orders.errors import StoreClosed, problem_of
from mercato.platform.problem_details import Context, members_of
from mercato_contract.problems import ORDER_ERROR_CODES, PROBLEMS, OrderError

HERE = Context(base_url="https://x.example", request_id="r", trace_id="0" * 32, accept=b"")


def reason(code: str, message: str = "No.") -> OrderError:
    return OrderError(code=code, message=message, pointer=None)


@pytest.mark.parametrize("code", sorted(ORDER_ERROR_CODES))
def test_every_order_error_has_a_problem_with_its_code(code: str):
    problem = problem_of([reason(code)])
    assert (problem.error_code, problem.code) == (code, code)
    assert problem.status == (422 if code == "VALIDATION_FAILED" else 400)
    assert problem.retryable is (code == "PAYMENT_FAILED")


def test_the_first_error_determines_code_and_status_and_all_are_listed():
    reasons = [reason("STORE_CLOSED", "Back at six."), reason("VALIDATION_FAILED"), reason("PAYMENT_FAILED")]
    problem = problem_of(reasons)
    assert isinstance(problem, StoreClosed)
    assert list(problem.errors) == reasons
    assert problem.detail == "Back at six. (3 reasons: see errors.)"
    assert problem_of(reasons[:1]).detail == "Back at six."


def test_an_unknown_code_stays_and_has_the_page_of_other():
    members = members_of(problem_of([reason("KITCHEN_ON_FIRE", "Smoke.")]), HERE)
    assert members | {"timestamp": None} == {
        "type": "https://x.example/errors/OTHER",
        "title": "The store refused the order for a reason of its own",
        "status": 400,
        "detail": "Smoke.",
        "errorCategory": "validation",
        "errorCode": "KITCHEN_ON_FIRE",
        "errors": [msgspec.to_builtins(reason("KITCHEN_ON_FIRE", "Smoke."))],
        "instance": "urn:mercato:request:r",
        "requestId": "r",
        "retryAfter": None,
        "retryable": False,
        "timestamp": None,
        "traceId": "0" * 32,
    }


def test_codes_that_do_not_apply_to_orders_become_other():
    assert set(PROBLEMS) >= ORDER_ERROR_CODES
    assert {PROBLEMS[code].category for code in ORDER_ERROR_CODES} == {
        "validation",
        "availability",
        "payment",
    }
    assert not ORDER_ERROR_CODES & {
        "INVALID_REQUEST",
        "MISSING_STORE_ID",
        "IDEMPOTENCY_KEY_REUSED",
        "STORE_UNREACHABLE",
    }
