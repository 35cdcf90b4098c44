"""A body ends with its length or its last chunk, and the service waits for nothing after that."""

import asyncio
import gc
import weakref
from collections.abc import MutableMapping
from typing import Any

import pytest

from mercato.http.body import Body, BodyBudget, Receive, TimeLimit
from mercato.http.head import Head
from mercato.platform.errors import RateLimited, ServiceUnavailable
from mercato_contract.refusals import InvalidRequest

LENGTH = (b"content-length", b"4")
CHUNKED = (b"transfer-encoding", b"chunked")


class Coming:
    """A body in parts as the server passes it: only the message after the last part says that it ends."""

    def __init__(self, *parts: bytes) -> None:
        self.left = [*parts, b""]

    async def __call__(self) -> MutableMapping[str, Any]:
        part = self.left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.left)}


def of(receive: Receive, headers: list[tuple[bytes, bytes]], limit: TimeLimit) -> Body:
    return Body(receive, Head({"headers": headers, "path": "/"}, None), limit, BodyBudget(1000, largest=100))


async def test_a_body_ends_with_the_last_byte_of_its_length():
    coming = Coming(b"ab", b"cd")
    body = of(coming, [LENGTH], TimeLimit(1))
    assert (await body.read(100, ""), body.is_unread, coming.left) == (b"abcd", False, [b""])


@pytest.mark.parametrize("headers", [[CHUNKED], [LENGTH, CHUNKED]], ids=["chunks", "chunks, and a length"])
async def test_a_body_in_chunks_ends_where_the_server_says(headers: list[tuple[bytes, bytes]]):
    coming = Coming(b"ab", b"cd", b"ef")
    body = of(coming, headers, TimeLimit(1))
    assert (await body.read(100, ""), body.is_unread, coming.left) == (b"abcdef", False, [])


async def never() -> MutableMapping[str, Any]:
    """Receive nothing, as from a client that stopped sending."""
    await asyncio.Event().wait()
    raise AssertionError("nothing sets it")


async def test_each_body_has_its_own_time_to_arrive_and_one_that_arrived_is_left_alone():
    limit, ends = TimeLimit(0.05), []

    async def refused(number: int) -> None:
        with pytest.raises(InvalidRequest, match="arrive within"):
            await of(never, [LENGTH], limit).read(100, "")
        ends.append(number)

    async def one_after_the_other() -> None:
        for number in (1, 2):
            await refused(number)

    first = asyncio.create_task(one_after_the_other())
    await of(Coming(b"abcd"), [LENGTH], limit).read(100, "")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(first, refused(3))
    # Nobody waits longer than from its own beginning, nor is the limit used up by those before.
    assert (sorted(ends), ends[-1]) == ([1, 2, 3], 2)
    assert loop.time() - began >= 2 * limit.seconds - 0.01


async def test_a_body_that_is_cancelled_while_it_arrives_is_cancelled_and_not_late():
    task = asyncio.create_task(of(never, [LENGTH], TimeLimit(0.05)).read(100, ""))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_body_that_is_late_and_cancelled_by_another_at_once_is_cancelled():
    async def cancelled_at_its_end() -> MutableMapping[str, Any]:
        try:
            return await never()
        finally:
            task.cancel()

    task = asyncio.create_task(of(cancelled_at_its_end, [LENGTH], TimeLimit(0.05)).read(100, ""))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_request_whose_body_is_late_goes_on():
    with pytest.raises(InvalidRequest, match="arrive within"):
        await of(never, [LENGTH], TimeLimit(0.05)).read(100, "")
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    await asyncio.sleep(0)


class Silent:
    """Receives nothing. It stands for the connection, which what refers to it keeps open."""

    async def __call__(self) -> MutableMapping[str, Any]:
        return await never()


async def test_a_late_body_is_freed_without_the_garbage_collector():
    async def refused(receive: Receive) -> None:
        with pytest.raises(InvalidRequest, match="arrive within"):
            await of(receive, [LENGTH], TimeLimit(0.05)).read(100, "")

    silent = Silent()
    connection = weakref.ref(silent)
    gc.disable()
    try:
        task = asyncio.create_task(refused(silent))
        del silent
        await task
        assert connection() is None
    finally:
        gc.enable()


def test_an_owner_has_a_quarter_of_the_budget_and_may_always_send_one_body():
    budget = BodyBudget(100, largest=40)
    budget.take("a", 40)
    with pytest.raises(RateLimited):
        budget.take("a", 1)
    budget.take("b", 40)
    with pytest.raises(ServiceUnavailable):
        budget.take("c", 21)
    budget.release("a", 40)
    budget.take("c", 21)
    for owner, size in (("b", 40), ("c", 21)):
        budget.release(owner, size)
    assert budget.taken == 0
