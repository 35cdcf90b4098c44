"""A body ends with its length or its last chunk, and the service waits for nothing after that."""

from collections.abc import MutableMapping
from typing import Any

import pytest

from mercato.http.body import Body, BodyBudget
from mercato.http.head import Head
from mercato.platform.errors import RateLimited, ServiceUnavailable

LENGTH = (b"content-length", b"4")
CHUNKED = (b"transfer-encoding", b"chunked")


class Coming:
    """A body in parts as the server passes it: only the message after the last part says that it ends."""

    def __init__(self, *parts: bytes) -> None:
        self.left = [*parts, b""]

    async def __call__(self) -> MutableMapping[str, Any]:
        part = self.left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.left)}


async def test_a_body_ends_with_the_last_byte_of_its_length():
    coming = Coming(b"ab", b"cd")
    body = Body(coming, Head({"headers": [LENGTH], "path": "/"}, None), 1, BodyBudget(1000, largest=100))
    assert (await body.read(100, ""), body.is_unread, coming.left) == (b"abcd", False, [b""])


@pytest.mark.parametrize("headers", [[CHUNKED], [LENGTH, CHUNKED]], ids=["chunks", "chunks, and a length"])
async def test_a_body_in_chunks_ends_where_the_server_says(headers: list[tuple[bytes, bytes]]):
    coming = Coming(b"ab", b"cd", b"ef")
    body = Body(coming, Head({"headers": headers, "path": "/"}, None), 1, BodyBudget(1000, largest=100))
    assert (await body.read(100, ""), body.is_unread, coming.left) == (b"abcdef", False, [])


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
