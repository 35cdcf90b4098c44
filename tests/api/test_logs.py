"""Logs never contain a key, token, secret, address or partner's URL, not even when everything fails."""

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.databases import mostly_sqlite
from tests.logs import log_plainly
from tests.service import CATALOG, ITEM, Client, MerchantServer, Service

from mercato.features.stores import queries
from mercato.features.stores.model import Onboarding
from mercato.platform.db.engine import Write
from mercato.platform.telemetry import configure_logs

pytestmark = mostly_sqlite

ONBOARDING = "/v1/commerce/onboarding/stores"
STORES = "/v1/commerce/stores"
STREET = "221B Baker Street"
TOKEN = "the-token-of-the-shop"


@pytest.fixture(autouse=True, params=["json", "console"])
def _everything_is_logged(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    # Libraries log through the standard module, whose level the service leaves as it is.
    caplog.set_level(logging.WARNING)
    configure_logs(level="debug", form=request.param)
    yield
    log_plainly()


BROKEN = CATALOG | {"sections": {"s1": {"sectionId": "s1", "itemIds": ["gone"]}}}


def logged(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> str:
    """Return everything that was logged, by the service and by libraries."""
    output = capsys.readouterr()
    sys.stderr.write(output.err)
    return output.out + output.err + caplog.text


def assert_silent(text: str, *secrets: str) -> None:
    for secret in secrets:
        assert secret not in text, f"{secret[:6]}… is in {text[:2000]}"


def onboarding_request(shop: MerchantServer, url: str, name: str = "store-1") -> dict[str, Any]:
    return {
        "partnerStoreId": name,
        "name": "Sherlock's",
        "address": {"street": STREET, "city": "London", "postalCode": "NW1 6XE", "country": "GB"},
        "catalogCallbackUrl": url,
        "webhookUrl": shop.base + "/hooks?signed=hush",
    }


async def test_a_whole_onboarding_leaves_no_secret_in_the_logs(
    mercato: Service,
    shop: MerchantServer,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    partner, client = await mercato.partner(webhook_token=TOKEN)
    assert client.key is not None
    url = shop.host(CATALOG, "/c.json?signed=hush")
    shop.documents["/c.json"] = CATALOG
    started = (await client.post(ONBOARDING, onboarding_request(shop, url))).json()
    path = f"{ONBOARDING}/{started['onboardingId']}"
    await mercato.until(client, path, lambda now: now["status"] == "ready_to_activate")
    store = (await client.post(f"{path}/activate")).json()
    for document in (CATALOG | {"new": True}, BROKEN):
        shop.documents["/c.json"] = document
        await mercato.run(client, store["storeId"], url)
        await shop.webhook()
    at = f"{STORES}/{store['storeId']}"
    await client.post(f"{at}/status", {"status": "paused", "pauseReason": "private words"})
    await client.post(f"{at}/item-availability", {"items": [{"itemId": ITEM, "available": False}]})
    await client.call("PUT", at, {"phone": "+44 20 7224 3688"})
    await mercato.anonymous().get(STORES, headers={"Authorization": f"Bearer {client.key[:-1]}x"})
    assert_silent(
        logged(capsys, caplog), client.key, client.key[:-1], TOKEN, partner.signing_secret,
        partner.signing_secret.removeprefix("whsec_"), STREET, "NW1 6XE", "hush", "private words", "7224 3688",
    )  # fmt: skip


async def test_a_bug_is_logged_in_full_and_without_the_requests_secrets(
    mercato: Service, pos: Client, shop: MerchantServer, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):  # fmt: skip
    assert pos.key is not None
    insert = queries.insert_onboarding

    async def twice(tx: Write, onboarding: Onboarding) -> None:
        await insert(tx, onboarding)
        await insert(tx, replace(onboarding, partner_store_id="same id, other name"))

    monkeypatch.setattr(queries, "insert_onboarding", twice)
    reply = await pos.post(ONBOARDING, onboarding_request(shop, shop.base + "/none?signed=hush"))
    assert (reply.status, reply.json()["errorCode"]) == (500, "INTERNAL_ERROR")
    text = logged(capsys, caplog)
    assert reply.headers["X-Request-Id"] in text
    assert "IntegrityError" in text
    assert_silent(text, pos.key, STREET, "NW1 6XE", "hush", "Sherlock")
    assert_silent(reply.body.decode(), "Integrity", "sql", "SQL", STREET)
