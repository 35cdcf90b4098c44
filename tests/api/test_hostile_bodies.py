"""Whatever the content of a body within its limit, it costs no more CPU than a few plain decodings of 1 MiB."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import islice
from time import thread_time
from typing import Any, Final

import msgspec
import pytest
from backports import zstd
from msgspec import inspect as info
from tests.api.hostile_bodies import shapes
from tests.api.table import BODIES
from tests.calibration import plain_decoding_seconds
from tests.generated import RUN

from mercato.agents.protocol import ProtocolError, read_message
from mercato.agents.registry import TOOLS
from mercato.api import oauth
from mercato.asgi import operations
from mercato.features.catalogs.dry_run import callback_url
from mercato.features.orders import store_messages
from mercato.features.partners.model import Surface
from mercato.http.operations import Operation
from mercato_contract.decoding import decode, walk
from mercato_contract.decoding.checks import alternatives
from mercato_contract.placements import MAX_BYTES
from mercato_contract.refusals import Problem
from mercato_tools.settings import MiB

MOST: Final = 9
"""Plain decodings of 1 MiB of JSON, measured beside the body. Where this takes 5.5 ms, that is 50 ms."""
TRIES: Final = 5
"""Other load only makes a run slower, so the fastest counts."""


def _read_call(body: bytes) -> None:
    """Read a message as the agents' door does, and its arguments as a tool does."""
    find = TOOLS[Surface.MARKETFRONT]["find_stores"]
    with suppress(ProtocolError):
        read_message(body, {b"mcp-protocol-version": b"2025-11-25"})
    find.decode(body)


READ_BY_HANDLERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "validateCatalogSet": callback_url,
    "putCatalog": zstd.compress,
    "getAccessToken": lambda body: oauth._form(body, b""),  # the handler does nothing else with it
    "sendMcpMessage": _read_call,
}
"""What the operations do with a body that they read themselves; the rest of a catalog's check has its own process."""

WITH_BODY: Final = [operation for operation in operations() if operation.reads_body]
DECODED: Final = [operation for operation in WITH_BODY if operation.decode is not None]


def size_of(operation: Operation) -> int:
    return min(operation.body_limit or MiB, MiB)


def seconds_to_read(
    read: Callable[[bytes], Any], body: bytes, *, enough: float
) -> tuple[float, Problem | None]:
    """Return the CPU time of the fastest of a few tries, and the refusal; one try of `enough` seconds is the last."""
    best, problem = float("inf"), None
    for _ in range(TRIES):
        started = thread_time()
        problem = adjustment_refusal(read, body)
        best = min(best, thread_time() - started)
        if best <= enough:
            break
    return best, problem


def adjustment_refusal(read: Callable[[bytes], Any], body: bytes) -> Problem | None:
    try:
        read(body)
    except Problem as problem:
        return problem
    return None


def decodings_to_read(read: Callable[[bytes], Any], body: bytes) -> float:
    """Return the CPU time of the fastest of a few tries, in plain decodings of 1 MiB."""
    plain = plain_decoding_seconds()
    seconds, _ = seconds_to_read(read, body, enough=0)
    return seconds / max(plain, plain_decoding_seconds())


@cache
def plain_seconds() -> float:
    """Return about how long a plain decoding takes: what takes half of what it may is measured beside one."""
    return plain_decoding_seconds()


@pytest.mark.parametrize("share", [32, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
def test_no_body_costs_more_than_nine_plain_decodings(operation: Operation, share: int):
    """And its refusal lists at most 100 faults, and repeats little of it.

    `make test` tries one of 32 bodies, each operation and each run other ones; `make test-long` tries all.
    """
    read = operation.decode or READ_BY_HANDLERS[operation.id]
    enough = MOST / 2 * plain_seconds()
    tried, slow = 0, []
    for name, body in islice(
        shapes(operation, size_of(operation)), (WITH_BODY.index(operation) + RUN) % share, None, share
    ):
        assert len(body) <= size_of(operation), name
        tried += 1
        seconds, problem = seconds_to_read(read, body, enough=enough)
        if problem is not None and operation.decode is not None:
            assert 1 <= len(problem.errors) <= decode.MAX_FAULTS, name
            assert len(msgspec.json.encode(problem.errors)) < 64 * 1024, name
        if seconds > enough:
            decodings = decodings_to_read(read, body)
            if decodings > MOST:
                slow.append(f"{name}: {decodings:.1f} plain decodings")
    assert slow == []
    assert tried >= 50 // share


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("operation", DECODED, ids=lambda operation: operation.id)
def test_the_search_for_faults_ends_at_its_bounds(operation: Operation, share: int):
    """`make test` tries every fourth body, each operation and each run other ones; `make test-long` tries all."""
    kind = msgspec.inspect.type_info(operation.takes)
    first = (DECODED.index(operation) + RUN) % share
    for name, body in islice(shapes(operation, min(size_of(operation), 64 * 1024)), first, None, share):
        try:
            checked = walk.check(body, kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        assert checked.values <= walk.REQUEST.values + 1, name
        assert len(checked.faults) <= walk.REQUEST.faults, name


@pytest.mark.parametrize("operation", DECODED, ids=lambda operation: operation.id)
def test_every_list_and_dictionary_of_a_request_has_a_maximum(operation: Operation):
    assert list(_unbounded(msgspec.inspect.type_info(operation.takes), set())) == []


def _unbounded(kind: info.Type, seen: set[type]) -> Any:
    for option in alternatives(kind):
        match option:
            case info.StructType(cls=cls, fields=fields) if cls not in seen:
                seen.add(cls)
                for field in fields:
                    yield from (f"{field.name}: {below}" for below in _unbounded(field.type, seen))
            case info.ListType(item_type=item, max_length=most):
                if most is None or most > walk.REQUEST.faults:
                    yield "a list"
                yield from _unbounded(item, seen)
            case info.DictType(value_type=item, max_length=most):
                if most is None:
                    yield "a dictionary"
                yield from _unbounded(item, seen)
            case _:
                pass


def test_every_operation_that_takes_a_body_has_a_sample():
    assert {operation.id for operation in DECODED} <= set(BODIES)


def read_by(operation_id: str) -> Callable[[bytes], Any]:
    operation = next(operation for operation in DECODED if operation.id == operation_id)
    assert operation.decode is not None
    return operation.decode


def refused(operation_id: str, body: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        read_by(operation_id)(body)
    return caught.value


def test_a_list_that_is_too_long_is_one_fault_and_its_entries_are_not_examined():
    cart = b'{"cart":{"lineItems":[%s]}}' % b",".join([b"1"] * 500_000)
    problem = refused("removeCartItem", cart)
    assert [(fault.pointer, fault.message) for fault in problem.errors] == [
        ("/cart/catalogSetId", "catalogSetId is required."),
        ("/cart/lineItems", "lineItems may have at most 200 entries."),
        ("/cart/storeId", "storeId is required."),
        ("/lineItemId", "lineItemId is required."),
    ]


def test_1000_entries_of_a_list_are_allowed_and_1001_are_422():
    entry = b'{"itemId":"0190f5fe-7e3b-7ccc-8000-00000000000a","available":true,"until":null}'
    operation = next(operation for operation in DECODED if operation.id == "setItemAvailability")
    assert operation.decode is not None
    assert len(operation.decode(b'{"items":[%s]}' % b",".join([entry] * 1000)).items) == 1000
    problem = refused("setItemAvailability", b'{"items":[%s]}' % b",".join([entry] * 1001))
    assert (problem.status, problem.errors[0].pointer) == (422, "/items")


def test_faults_of_a_list_that_is_as_long_as_it_may_be_are_all_found():
    entry = (
        b'{"itemId":"0190f5fe-7e3b-7ccc-8000-00000000000a","available":true,"until":"2099-01-01T00:00:00Z"}'
    )
    last = b'{"itemId":"x","available":"yes"}'
    problem = refused("setItemAvailability", b'{"items":[%s]}' % b",".join([entry] * 999 + [last]))
    assert [fault.pointer for fault in problem.errors] == ["/items/999/available"]


def test_a_fault_beyond_the_examined_values_has_its_own_refusal():
    group = b'{"modifierGroupId":"0190f5fe-7e3b-7ccc-8000-00000000000a","lineItems":[]}'
    line = b'{"itemId":"0190f5fe-7e3b-7ccc-8000-00000000000a","quantity":1,"modifierGroups":[%s]}'
    lines = b",".join([line % b",".join([group] * 50)] * 100)
    body = b'{"cart":{"catalogSetId":"0190f5fe-7e3b-7ccc-8000-00000000000a","lineItems":[%s]}}' % lines
    problem = refused("removeCartItem", body)
    assert problem.status == 422
    assert "first 5000 values" in problem.detail


@pytest.mark.parametrize("number", [b"1e300", b"5e-324", b"1", b"[[]]"])
def test_a_payment_as_large_as_an_order_costs_less_than_nine_plain_decodings(number: bytes):
    sent = msgspec.Raw(b'{"a":[%s]}' % b",".join([number] * (MAX_BYTES // (len(number) + 1) - 10)))
    assert (
        decodings_to_read(
            lambda _: (store_messages.payment_fault(sent), store_messages.canonical_payment(sent)), b""
        )
        < MOST
    )


def test_a_number_where_none_is_allowed_is_not_converted():
    numbers = b",".join([b"9" * 4000] * 260)
    problem = refused("addCartItem", body := b'{"item":{"modifierGroups":[%s]}}' % numbers)
    assert "modifierGroups[0] must be an object, not a number." in {fault.message for fault in problem.errors}
    assert decodings_to_read(read_by("addCartItem"), body) < 1.5


def test_the_position_of_a_fault_costs_less_than_two_plain_decodings():
    body = b"\n" * (MiB - 1) + b"x"
    assert "line 1048576, column 1" in refused("addCartItem", body).detail
    assert decodings_to_read(read_by("addCartItem"), body) < 2


@pytest.mark.long
def test_the_costliest_body_of_each_operation_is_printed(capsys: pytest.CaptureFixture[str]):
    """The table of docs/reliability.md: `pytest -n 0 -m long tests/api/test_hostile_bodies.py`."""
    rows = []
    for operation in WITH_BODY:
        read = operation.decode or READ_BY_HANDLERS[operation.id]
        plain = plain_decoding_seconds()
        costs = [
            (seconds_to_read(read, body, enough=plain / 2)[0], name)
            for name, body in shapes(operation, size_of(operation))
        ]
        most, name = max(costs)
        rows.append(f"| {operation.id} | {len(costs)} | {name} | {most * 1000:.1f} ms | {most / plain:.1f} |")
        assert most < MOST * plain
    head = "\n| operation | bodies tried | the costliest | its CPU | plain decodings |\n|---|---|---|---|---|"
    with capsys.disabled():
        print(head, *rows, sep="\n")  # noqa: T201  # the table is what it is for
