"""What holds for every operation: these tests read the same table as the service."""

import gc
import json
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import ClientSession
from tests.api.table import (
    GUARDED,
    REQUIRED_QUERY,
    SHARED,
    body_for,
    call,
    headers_for,
    owned,
    takes_store,
    target,
)
from tests.api.world import World, ids_for
from tests.databases import only_postgresql, only_sqlite
from tests.generated import RUN
from tests.service import ITEM, Client, Service
from tests.sharing import shared

from mercato.asgi import operations
from mercato.http.operations import Access, Operation
from mercato.http.routing import PATH_PARAMETERS
from mercato_contract.refusals import Problem

pytestmark = shared


async def test_another_partners_ids_are_404_on_every_operation_that_takes_one(world: World):
    for operation in GUARDED:
        filters = operation.method == "GET" and not operation.names
        if filters or not (owned(operation) or takes_store(operation)):
            continue
        path = target(operation, await ids_for(world, operation), store=world.ids["storeId"])
        refused = await call(world.stranger[operation.access], operation, path)
        assert (refused.status, refused.json()["errorCategory"]) == (404, "not_found"), operation.id
        # Only the caller differs: the owner's same request is accepted.
        assert (await call(world.owner[operation.access], operation, path)).status != 404, operation.id
        # An unknown id gets the same message.
        nobody = target(operation, {name: str(uuid4()) for name in world.ids}, store=str(uuid4()))
        unknown = await call(world.stranger[operation.access], operation, nobody)
        assert unknown.json()["errorCode"] == refused.json()["errorCode"], operation.id


async def test_lists_show_nothing_of_another_partners(world: World):
    for operation in GUARDED:
        if operation.method != "GET" or operation.names:
            continue
        # A report of another partner's store is refused, as the store itself is.
        for store in (None,) if operation.id in REQUIRED_QUERY else (None, world.ids["storeId"]):
            path = target(operation, world.ids, store=store)
            told = await call(world.stranger[operation.access], operation, path)
            assert told.status == 200, operation.id
            shared = SHARED if operation.access is Access.MARKETFRONT else set()
            ids = {name: one for name, one in world.ids.items() if name not in shared}
            assert not [name for name, one in ids.items() if one.encode() in told.body], operation.id


@only_sqlite
async def test_path_ids_that_are_not_uuids_are_404_on_every_operation(world: World):
    for operation in GUARDED:
        for name in operation.names:
            for wrong in (
                "x",
                "%00",
                "%ff",
                "%ED%A0%80",
                "a" * 5000,
                world.ids[name] + "%20",
                f"{{{world.ids[name]}}}",
            ):
                path = target(operation, await ids_for(world, operation) | {name: wrong})
                reply = await call(world.owner[operation.access], operation, path)
                not_found = PATH_PARAMETERS[name].not_found
                assert not_found is not None
                expected = not_found.code
                assert (reply.status, reply.json()["errorCode"]) == (404, expected), (operation.id, wrong)


@only_sqlite
@pytest.mark.parametrize("id_", ["notifyCatalogUpdate", "validateCatalogSet"])
async def test_a_store_id_in_the_query_that_is_not_a_uuid_is_404(world: World, id_: str):
    [operation] = [one for one in GUARDED if one.id == id_]
    known = world.ids["storeId"]
    for wrong in ("x", "%00", f"{known}%00", "%00" * 3000, "a" * 10_000, "%F0%9F%98%80", f"{known}%20"):
        reply = await call(
            world.owner[operation.access], operation, f"{operation.path}?storeId={wrong}", world.ids
        )
        assert (reply.status, reply.json()["errorCode"]) == (404, "STORE_NOT_FOUND"), wrong
        assert len(reply.body) < 1_500
    for unreadable in ("%ff", "%ED%A0%80"):
        path = f"{operation.path}?storeId={unreadable}"
        reply = await call(world.owner[operation.access], operation, path, world.ids)
        assert (reply.status, reply.json()["errorCode"]) == (400, "INVALID_REQUEST"), unreadable


@only_sqlite
async def test_path_ids_are_read_in_any_case(world: World):
    for operation in GUARDED:
        if operation.method != "GET" or not operation.names:
            continue
        ids = await ids_for(world, operation)
        client = world.owner[operation.access]
        # Answers about the present would differ by the millisecond, so an instant is given where possible.
        query = "?at=2026-01-31T18:30:00Z"
        lower = await call(client, operation, target(operation, ids) + query)
        upper = await call(
            client, operation, target(operation, {name: ids[name].upper() for name in ids}) + query
        )
        assert (upper.status, upper.body) == (200, lower.body), operation.id


@only_sqlite
async def test_every_path_refuses_every_method_it_does_not_know_with_allow(mercato: Service):
    methods: dict[str, set[str]] = {}
    for operation in operations():
        known = methods.setdefault(operation.path, set())
        known |= {operation.method, "HEAD"} if operation.method == "GET" else {operation.method}
    for path, known in methods.items():
        for method in {"GET", "HEAD", "OPTIONS", "PUT", "POST", "DELETE", "PATCH", "TRACE"} - known:
            reply = await mercato.anonymous().call(method, path.replace("{", "").replace("}", ""))
            assert (reply.status, reply.headers["Allow"]) == (405, ", ".join(sorted(known))), (method, path)
            assert method == "HEAD" or reply.json()["errorCode"] == "METHOD_NOT_ALLOWED"


@only_sqlite
async def test_every_guarded_operation_refuses_no_key_a_wrong_key_and_one_of_the_other_surface(
    world: World, mercato: Service
):
    for operation in GUARDED:
        path = target(operation, world.ids)
        others = {Access.COMMERCE: Access.MARKETFRONT, Access.MARKETFRONT: Access.COMMERCE}
        for client, status in (
            (mercato.anonymous(), 401),
            (Client(mercato.base, "mk_commerce_wrong", mercato.session), 401),
            (world.owner[others.get(operation.access, Access.ANY)], 403),
        ):
            if operation.access is Access.ANY and status == 403:
                continue
            reply = await client.call(operation.method, path)
            assert reply.status == status, operation.id


# --- hostile bodies -------------------------------------------------------------------------------

HUGE = b"9" * 400
ALONE: list[bytes] = [
    b"", b" ", b"null", b"true", b"3", b'"x"', b"[]", b"{}", b"{", b'{"a"', b"\xff", b"\xef\xbb\xbf{}",
    b"\x00", b"NaN",
    HUGE, b"1e400", b'"\\ud800"', b'{"\\ud800":1}', b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
]  # fmt: skip
VALUES: list[bytes] = [
    b"null", b"true", b"0", b"-1", b"1.5", HUGE, b"-" + HUGE, b"1e308", b"1e400", b"-0.0", b"NaN", b"[]",
    b"{}", b"[null]",
    b"[{}]", b'""', b'" "', b'"\\u0000"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"',
    b'"\\uffff"', b'"\x7f"',
    b'"' + "\u202e".encode() + b'"', b'"' + b"a" * 300 + b'"', b'"' + b"a" * 10_000 + b'"',
    b'"http://[::1/"',
    b'"http://\\ud800/"', b'"http://a\\u0000/"', b'"http://ex\\u2100mple.com/"', b'"file:///etc/passwd"',
    b'"9999-12-31T23:59:59.999Z"', b'"9999-12-31T23:59:60Z"', b'"9999-12-31T23:59:59-23:59"',
    b'"0001-01-01T00:00:00+23:59"',
    b'"2099-02-30T00:00:00Z"', b'"2099-01-01T24:00:00Z"', b'"2099-01-01T00:00:00+24:00"',
    b'"92233720368547758.08"',
    b'"1e5"', b'"Infinity"', '"\uff11"'.encode(), b"[" * 5000 + b"]" * 5000,
    b'{"lat":1e308,"lng":0}', b'{"coordinates":{"lat":' + HUGE + b',"lng":0}}',
    b'[{"itemId":"\\u0000","available":false}]',
    b'[{"itemId":"' + ITEM.encode() + b'","available":false,"until":"9999-12-31T23:59:59.999Z"}]',
]  # fmt: skip


Share = Callable[[], list[bytes]]
"""Return the value at the next place."""


def shares(number: int, *, first: int = 0) -> Share:
    """Return one of so many parts of the values for each place, and another one for the next."""
    places = count(first)
    return lambda: VALUES[next(places) % number :: number]


def members_of(operation: Operation) -> list[str]:
    fields = getattr(operation.takes, "__struct_encode_fields__", ("callbackUrl", "items", "currency"))
    return list(fields)


def hostile(operation: Operation, body: dict[str, Any], share: Share) -> list[bytes]:
    """Return the good body with each member hostile, then repeated."""
    good = {name: json.dumps(value).encode() for name, value in body.items()}
    made = []
    for name in members_of(operation):
        for value in share():
            one = good | {name: value}
            made.append(
                b"{" + b",".join(b'"%s":%s' % (key.encode(), text) for key, text in one.items()) + b"}"
            )
        made.append(made[-1][:-1] + b',"%s":3,"%s":null}' % (name.encode(), name.encode()))
    return made


def hostile_within(body: dict[str, Any], share: Share) -> list[bytes]:
    """Return the good body with each nested value hostile."""
    made: list[bytes] = []
    for at in _deeper(body):
        marked = json.loads(json.dumps(body))
        inside = marked
        for step in at[:-1]:
            inside = inside[step]
        inside[at[-1]] = "HOSTILE"
        before, after = json.dumps(marked).encode().split(b'"HOSTILE"')
        made += [before + value + after for value in share()]
    return made


def _deeper(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if len(at) > 1:
        yield at
    if isinstance(value, dict | list):
        for step, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _deeper(below, (*at, step))


TAKEN = [operation for operation in GUARDED if operation.takes is not None]
TAKING = pytest.mark.parametrize("operation", TAKEN, ids=lambda operation: operation.id)


@TAKING
def test_no_body_has_another_end_than_to_be_read_or_refused(operation: Operation, uncollected: None):
    good = body_for(operation, dict.fromkeys(("storeId", "catalogSetId", "orderId"), ITEM))
    assert is_read(operation, json.dumps(good).encode())
    for body in every_body(operation, good, shares(8, first=RUN % 8)):
        is_read(operation, body)


@only_sqlite
@pytest.mark.parametrize("operation", TAKEN[RUN % 2 :: 2], ids=lambda operation: operation.id)
async def test_no_body_causes_a_5xx(
    world: World, operation: Operation, session: ClientSession, uncollected: None
):
    """Half of the operations on each database, the other half in the next run."""
    await try_share(world, operation, session, unread=True)


@only_postgresql
@pytest.mark.parametrize("operation", TAKEN[1 - RUN % 2 :: 2], ids=lambda operation: operation.id)
async def test_no_body_causes_a_5xx_on_postgresql(
    world: World, operation: Operation, session: ClientSession, uncollected: None
):
    await try_share(world, operation, session, unread=False)


async def try_share(world: World, operation: Operation, session: ClientSession, *, unread: bool) -> None:
    """Try a 24th of the values for each place, in each run another one."""
    share = shares(24, first=RUN // 2 % 24)
    good = body_for(operation, world.ids)
    bodies = [*hostile(operation, good, share), *hostile_within(good, share)]
    read = [body for body in bodies if is_read(operation, body)]
    if unread:
        # It never reaches a database, and how it is refused was seen without a service.
        read += [*ALONE, *[body for body in bodies if body not in read][::4]]
    await try_bodies(world, operation, session, read)


@pytest.mark.long
@TAKING
async def test_no_body_of_the_full_set_causes_a_5xx(
    world: World, operation: Operation, session: ClientSession, uncollected: None
):
    bodies = every_body(operation, body_for(operation, world.ids), lambda: VALUES)
    await try_bodies(world, operation, session, bodies)


def every_body(operation: Operation, good: dict[str, Any], share: Share) -> list[bytes]:
    return [*ALONE, *hostile(operation, good, share), *hostile_within(good, share)]


def is_read(operation: Operation, body: bytes) -> bool:
    """Return whether a body reaches the operation's handler: it is decoded before."""
    if operation.decode is not None:
        try:
            operation.decode(body)
        except Problem as problem:
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return False
    return True


async def try_bodies(world: World, operation: Operation, session: ClientSession, bodies: list[bytes]) -> None:
    path = target(operation, world.ids, store=world.ids["storeId"])
    client = Client(world.owner[operation.access].base, world.owner[operation.access].key, session)
    for body in bodies:
        reply = await client.call(operation.method, path, body, headers=headers_for(operation))
        assert reply.status < 500 or reply.status == 503, (body[:200], reply.body)
        # Errors of JSON-RPC are answers.
        refusals = {"application/problem+json"} | ({"application/json"} if operation.tag == "MCP" else set())
        expected = {"application/json"} if reply.status < 300 else refusals
        assert reply.headers["Content-Type"] in expected, body[:200]
        assert reply.json() is not None


@pytest.fixture
async def session() -> Any:
    async with ClientSession() as made:
        yield made


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Pause the garbage collector: destructors need stack that a deeply nested body has used up."""
    gc.disable()
    yield
    gc.enable()


QUERIES = [
    "%", "%ff", "%ED%A0%80", "a;b", "&&&=", "limit=", "limit=%00", f"limit={'9' * 400}", "limit=1e1",
    "limit=-1", "cursor=",
    "cursor=%00", "cursor=AAAAAAAAAAAAAAAAAAAAAA", "cursor=_____________________w",
    f"cursor={'A' * 6000}", "status=%00",
    "status=%F0%9F%98%80", "partnerStoreId=%00", "partnerStoreId=%EF%BF%BF",
    f"partnerStoreId={'x' * 6000}", "storeId=%00",
    "storeId=", "storeId=x", "type=%00", f"type={'x' * 6000}", "&".join(["limit=1"] * 99),
    "&".join(["limit=1"] * 101),
]  # fmt: skip


async def test_no_query_causes_a_5xx(world: World, database_kind: str):
    """Half of the queries on each database, each run the other ones."""
    first = RUN + (database_kind == "sqlite")
    for number, operation in enumerate(GUARDED):
        if operation.query is None:
            continue
        path = target(operation, await ids_for(world, operation))
        for query in QUERIES[(first + number) % 2 :: 2]:
            reply = await call(world.owner[operation.access], operation, f"{path}?{query}")
            assert reply.status < 500, (operation.id, query, reply.body)
            assert reply.json() is not None


def test_every_operation_that_can_be_told_to_wait_is_no_slow_request():
    told = {one.id for one in operations() if one.query is not None and "wait" in one.query.__struct_fields__}
    assert told == {"listCommerceEvents", "listMarketfrontEvents", "listStoreChanges"}
    assert {one.id for one in operations() if one.waits} >= told
