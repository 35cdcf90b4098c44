"""A request is refused for what its types forbid, whichever of the two readers of bodies has read it.

The typed decode is fast and says neither where nor everything; the walk finds every fault, but runs only on what the
decode refuses. What only the walk would refuse is refused where it is used.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import islice
from typing import Any, Final

import msgspec
import pytest
from msgspec import inspect as info
from tests.api.table import BODIES, GUARDED, body_for, headers_for, target
from tests.api.world import World, ids_for
from tests.databases import only_sqlite
from tests.generated import RUN
from tests.service import ITEM
from tests.sharing import shared

from mercato.http.operations import Operation
from mercato_contract.decoding import walk
from mercato_contract.decoding.checks import alternatives
from mercato_contract.refusals import Problem

pytestmark = shared

TEXTS: Final = (
    *("", " ", "\n", "\u00a0\u2003", "\u200b", "\u00ad\u2060", "\u2800", "\u3164", "\U000e0041", "\u202e"),
    *(
        "x\u0007",
        "x\n",
        "x\u0085",
        "\u0663",
        "-1",
        "1.234",
        "1e3",
        "x" * 300,
        "Nowhere/Town",
        "QQQ",
        "paused ",
    ),
    *(
        "http://",
        "http://a b/",
        "ftp://example.com/",
        "2026-02-30T00:00:00Z",
        "2026-01-01T00:00:00",
        "above:",
    ),
)
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 1, 1.5, 2.0, -1, 1e300, 2**31, 2**63, 2**64, 10**30, "", [], {}, [[]], [None], {"": None}),
    *TEXTS,
)
DECODED: Final = [
    operation for operation in GUARDED if operation.decode is not None and operation.id in BODIES
]


def changed(operation: Operation, body: Any) -> Iterator[tuple[str, Any]]:
    """Yield good bodies in which one member has another value: the member's pointer, and the body."""
    for steps in _members(_kind(operation.takes), body, ()):
        for value in VALUES:
            other = deepcopy(body)
            part = other
            for step in steps[:-1]:
                part = part[step]
            part[steps[-1]] = value
            yield "/" + "/".join(map(str, steps)), other


def _members(kind: info.Type, body: Any, at: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the steps to every member that the type has beside those that the body has."""
    for option in alternatives(kind):
        match option, body:
            case info.StructType(fields=fields, tag=tag, tag_field=tag_field), dict() if (
                tag_field is None or body.get(tag_field) == tag
            ):
                for field in fields:
                    steps = (*at, field.encode_name)
                    yield steps
                    yield from _members(field.type, body.get(field.encode_name), steps)
            case info.ListType(item_type=item), [first, *_]:
                yield from _members(item, first, (*at, 0))
            case _:
                pass


def verdict(operation: Operation, body: bytes) -> tuple[bool, list[walk.FieldFault]]:
    """Return whether the typed decode takes the body, and the faults that the walk finds."""
    try:
        msgspec.json.decode(body, type=operation.takes)
    except msgspec.ValidationError:
        is_taken = False
    else:
        is_taken = True
    return is_taken, walk.check(body, _kind(operation.takes)).faults


# To look at a type takes longer than to check a body of it.
_kind = cache(info.type_info)


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("operation", DECODED, ids=lambda operation: operation.id)
def test_a_body_that_is_refused_says_which_member_it_is_refused_for(operation: Operation, share: int):
    """`make test` tries every fourth body, each run other ones; `make test-long` tries all."""
    ids = dict.fromkeys(("storeId", "catalogSetId", "orderId"), ITEM)
    for pointer, body in islice(changed(operation, body_for(operation, ids)), RUN % share, None, share):
        problem = _refusal(operation, json.dumps(body).encode())
        pointers = {pointer} if problem is None else {error.pointer or "" for error in problem.errors}
        assert pointers, body
        assert all(found.startswith(pointer) for found in pointers), (body, pointers)


def _refusal(operation: Operation, body: bytes) -> Problem | None:
    assert operation.decode is not None
    try:
        operation.decode(body)
    except Problem as problem:
        return problem
    return None


@only_sqlite
@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)])
async def test_what_only_the_walk_refuses_is_refused_all_the_same(world: World, share: int):
    """`make test` sends each operation every eighth of its bodies, each run other ones; `make test-long` all."""
    sent, accepted = 0, []
    for operation in DECODED:
        ids = await ids_for(world, operation)
        path = target(operation, ids, store=world.ids["storeId"])
        for _, body in islice(changed(operation, body_for(operation, world.ids)), RUN % share, None, share):
            text = json.dumps(body).encode()
            is_taken, faults = verdict(operation, text)
            if not is_taken or not faults:
                continue
            sent += 1
            client, headers = world.owner[operation.access], headers_for(operation)
            answer = await client.call(operation.method, path, body, headers=headers)
            if faults[0].pointer not in _refused(answer.json() if answer.body else {}):
                accepted.append((operation.id, faults[0], answer.status))
    assert not accepted
    assert sent > 100 // share


def _refused(said: Any) -> set[str]:
    """Return the pointers of the faults of a problem, or of every problem in an answer to several updates."""
    problems = [said, *(result.get("problem") or {} for result in said.get("results") or ())]
    return {error["pointer"] for problem in problems for error in problem.get("errors") or ()}
