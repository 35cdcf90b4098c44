"""The doubles at servers that are no Mercato: whatever these answer is said in a sentence, with what to do next."""

import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import Script, endless, redirect, reply, serve
from tests.testing.test_commands import started

from mercato_client.testing import MerchantDouble, StorefrontDouble
from mercato_client.testing.agent import AgentDouble
from mercato_client.testing.caller import MAX_ANSWER, Caller, ServiceError, open_session
from mercato_client.testing.opening import Opening
from mercato_client.testing.shops import SHOPS
from mercato_client.testing.subscription import Subscription
from mercato_tools.cli import FAILED

WRONG = [
    {"stores": 1},
    {"stores": [1], "hasMore": True},
    {"errors": 7, "order": [], "isValid": "yes"},
    {"title": [], "status": {}, "errorCode": {}},
    {"result": 1},
    {"result": {"structuredContent": {"stores": 1, "status": []}, "isError": True}},
    {"result": {"structuredContent": {"stores": None, "amounts": "x", "order": 0}}},
    {"events": {}, "nextCursor": 5, "endpoints": [[]], "onboardingId": 1, "statusUrl": "@example.com"},
]
BAD = [json.dumps(value).encode() for value in WRONG] + [b"[]", b"null", b"<html>", b"\xff", b"[" * 5000]

Step = Callable[[StorefrontDouble], Awaitable[object]]
STORE: dict[str, Any] = {"storeId": "s", "catalogSetId": "c"}
STEPS: dict[str, Step] = {
    "discover": lambda double: double.discover(),
    "store": lambda double: double.read_store("s"),
    "catalog": lambda double: double.read_catalog("c"),
    "cart": lambda double: double.fill_cart(STORE, [{}]),
    "validate": lambda double: double.validate({}),
    "order": lambda double: double.read_order("o"),
    "purchase": lambda double: double.buy(store_id="s"),
}


@pytest.mark.parametrize("kind", [StorefrontDouble, AgentDouble])
@pytest.mark.parametrize("status", [200, 201])
async def test_a_storefront_says_that_a_wrong_answer_is_of_no_mercato(
    kind: type[StorefrontDouble], status: int
) -> None:
    for body in BAD:
        async with (
            serve(reply(status, body)) as server,
            kind(api=server.url, key="k", pace=0) as double,
        ):
            for name, step in STEPS.items():
                with pytest.raises(ServiceError, match=r"Is this the URL of a Mercato service\?"):
                    await step(double)
                assert server.requests, name


async def test_a_merchant_says_that_a_wrong_answer_is_of_no_mercato() -> None:
    for body in BAD:
        for status in (200, 201, 202, 409):
            async with (
                serve(reply(status, body)) as server,
                MerchantDouble() as double,
                open_session() as session,
            ):
                caller = Caller(server.url, "k", session)
                opening = Opening(double, caller, lambda _: None)
                subscription = Subscription(double, caller, "commerce")
                for work in (
                    opening.open(SHOPS["ramen"]),
                    opening.publish(),
                    opening.take_up(),
                    subscription.drain(),
                ):
                    with pytest.raises(ServiceError):
                        await work
                with pytest.raises(ServiceError):
                    async with subscription.endpoint():
                        pass


@pytest.mark.parametrize(
    "script",
    [
        endless(b"x" * 65_536),
        reply(200, gzip.compress(b" " * (MAX_ANSWER + 1)), content_encoding="gzip"),
    ],
    ids=["endless", "bomb"],
)
async def test_an_answer_is_read_up_to_a_bound(script: Script) -> None:
    async with serve(script) as server, open_session() as session:
        with pytest.raises(ServiceError, match="has more than 16,777,216 bytes"):
            await Caller(server.url, "k", session).get("/")


async def test_the_key_follows_no_redirect() -> None:
    async with serve(reply(200, b"{}")) as other, serve(redirect(other.url + "/v1", 307)) as server:
        async with StorefrontDouble(api=server.url, key="k") as double:
            with pytest.raises(ServiceError, match="Use the address that this one leads to"):
                await double.discover()
        assert other.requests == []


async def test_a_command_at_a_wrong_server_ends_with_a_sentence(tmp_path: Path) -> None:
    async with serve(reply(200, b'{"stores": 1}')) as server:
        given = ["--port", "0", "--key", "k", "--api", server.url]
        async with started("storefront", *given, directory=tmp_path) as process:
            _, err = await process.communicate()
    assert process.returncode == FAILED
    assert "Traceback" not in err.decode()
    assert "Is this the URL of a Mercato service?" in " ".join(err.decode().split())
