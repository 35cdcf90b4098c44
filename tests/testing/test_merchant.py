"""The sandbox merchant does what a merchant's system has to do: host, version, verify."""

import asyncio
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.testing.calls import OLD_SECRET, SECRET, deliver

from mercato_client.testing import MerchantDouble
from mercato_contract.signing import webhook_headers

BODY = b'{"type":"catalog.sync.succeeded","data":{}}'


@pytest.fixture
async def shop() -> AsyncIterator[MerchantDouble]:
    async with MerchantDouble(secret=SECRET) as running:
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


def signed(
    *secrets: str, body: bytes = BODY, at: float | None = None, webhook_id: str = "01a1"
) -> dict[str, str]:
    timestamp = int(time.time() if at is None else at)
    return webhook_headers(
        webhook_id=webhook_id, timestamp=timestamp, body=body, secrets=secrets, token=None, traceparent=None
    )


async def delivered(shop: MerchantDouble, body: bytes, headers: dict[str, str]) -> int:
    return (await deliver(f"{shop.webhook_url}/catalog-sync", body, headers))[0]


async def test_a_hosted_document_has_an_etag_that_changes_with_it(
    shop: MerchantDouble, session: aiohttp.ClientSession
) -> None:
    url = shop.host("/menu.json", {"items": {}})
    async with session.get(url) as first:
        tag = first.headers["ETag"]
        assert await first.json() == {"items": {}}
    async with session.get(url, headers={"If-None-Match": tag}) as again:
        assert again.status == 304
    assert shop.host("/menu.json", {"items": {"1": {}}}) == url
    async with session.get(url, headers={"If-None-Match": tag}) as other:
        assert (other.status, await other.json()) == (200, {"items": {"1": {}}})
        assert other.headers["ETag"] != tag
    assert (shop.fetched, shop.unchanged) == (3, 1)


async def test_an_unknown_document_is_404(shop: MerchantDouble, session: aiohttp.ClientSession) -> None:
    async with session.get(shop.url + "/nothing.json") as reply:
        assert reply.status == 404
    assert shop.fetched == 0


async def test_a_webhook_with_a_valid_signature_is_accepted(shop: MerchantDouble) -> None:
    assert await delivered(shop, BODY, signed(SECRET)) == 204
    received = await shop.webhook()
    assert (received.path, received.body, received.fault) == ("/hooks/catalog-sync", BODY, None)
    assert received.headers["idempotency-key"] == "01a1"


@pytest.mark.parametrize("secrets", [(SECRET, OLD_SECRET), (OLD_SECRET, SECRET)])
async def test_one_valid_signature_of_a_rotation_is_enough(
    shop: MerchantDouble, secrets: tuple[str, str]
) -> None:
    assert await delivered(shop, BODY, signed(*secrets)) == 204


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (BODY + b" ", signed(SECRET)),
        (BODY, signed(OLD_SECRET)),
        (BODY, signed(SECRET) | {"webhook-id": "01a2"}),
        (BODY, {"Content-Type": "application/json"}),
        (BODY, signed(SECRET, at=0)),
        (b"\xff", signed(SECRET, body=b"\xff")),
    ],
    ids=["tampered", "another secret", "another id", "unsigned", "old", "not text"],
)
async def test_any_other_webhook_is_recorded_but_rejected(
    shop: MerchantDouble, body: bytes, headers: dict[str, str]
) -> None:
    assert await delivered(shop, body, headers) == 401
    assert (await shop.webhook()).fault is not None


async def test_a_merchant_without_a_secret_rejects_every_webhook() -> None:
    async with MerchantDouble() as shop:
        assert await delivered(shop, BODY, signed(SECRET)) == 401


async def test_the_newest_unread_events_are_kept(
    shop: MerchantDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop._unread = asyncio.Queue(1)
    for webhook_id in ("01a1", "01a2"):
        assert await delivered(shop, BODY, signed(SECRET, webhook_id=webhook_id)) == 204
    assert (await shop.webhook()).webhook_id == "01a2"
