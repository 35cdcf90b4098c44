"""POST /v1/webhooks/explain, the signature debugger, over the wire."""

import base64
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook
from tests.databases import mostly_sqlite, only_sqlite
from tests.service import CATALOG, Client, MerchantServer, Service
from tests.sharing import shared

from mercato.features.partners import accounts
from mercato.features.partners.accounts import NewPartner
from mercato.features.partners.credentials import OVERLAP
from mercato.features.partners.model import PartnerKind
from mercato_client.testing.caller import Answer
from mercato_contract.signing import webhook_headers

pytestmark = [shared, mostly_sqlite]

PATH = "/v1/webhooks/explain"
STRANGE = "whsec_" + base64.b64encode(b"s" * 32).decode()


async def received(
    mercato: Service, shop: MerchantServer
) -> tuple[NewPartner, Client, dict[str, str], bytes]:
    """Return a partner, its client, and a webhook that it was sent."""
    made, client = await mercato.partner(PartnerKind.BOTH)
    store = await mercato.live(client, shop.host(CATALOG), webhook=shop.base + "/hooks")
    await mercato.run(client, store["storeId"], shop.host(CATALOG))
    _, headers, body = await shop.webhook()
    return made, client, headers, body


async def ask(client: Client, headers: dict[str, str], body: bytes, **more: Any) -> Any:
    reply: Answer = await client.post(PATH, {"headers": headers, "body": body.decode()} | more)
    assert reply.status == 200, reply.body
    return reply.json()


async def test_a_genuine_webhook_is_valid_with_the_accounts_own_secret(
    mercato: Service, shop: MerchantServer
):
    made, client, headers, body = await received(mercato, shop)
    Webhook(made.signing_secret).verify(body, headers)
    told = await ask(client, headers, body)
    assert (told["valid"], told["code"], told["findings"], told["signedWith"]) == (
        True,
        "VALID",
        [],
        "current",
    )
    # Found by its webhook-id, and named so that it can be looked at.
    assert (await client.get(f"/v1/commerce/webhook-deliveries/{told['deliveryId']}")).status == 200
    told = await ask(client, headers, body, secrets=[made.signing_secret], deliveryId=headers["webhook-id"])
    assert (told["valid"], told["signedWith"], told["secretIndex"]) == (True, "given", 0)


async def test_a_body_that_was_changed_is_compared_with_what_was_sent(mercato: Service, shop: MerchantServer):
    _, client, headers, body = await received(mercato, shop)
    told = await ask(client, headers, body.replace(b'"type":', b'"type": '))
    assert (told["code"], told["difference"]["offset"]) == ("BODY_RESERIALISED", body.index(b":") + 1)
    told = await ask(client, headers, body.replace(b"succeeded", b"failed"))
    assert (told["code"], told["difference"]["offset"]) == ("BODY_CHANGED", body.index(b"succeeded"))
    assert told["deliveryId"] is not None


async def test_the_old_secret_and_a_wrong_one_are_distinguished(mercato: Service, shop: MerchantServer):
    made, client, headers, body = await received(mercato, shop)
    async with mercato.app.db.write() as tx:
        new = await accounts.rotate_signing_secret(tx, mercato.app.vault, made.id, overlap=OVERLAP)
    told = await ask(client, headers, body)
    assert (told["valid"], told["findings"][0]["code"], told["signedWith"]) == (True, "OLD_KEY", "previous")
    told = await ask(client, headers, body, secrets=[new])
    assert (told["valid"], told["code"]) == (False, "OLD_KEY")
    told = await ask(client, headers, body, secrets=[STRANGE])
    assert (told["valid"], told["code"], told["signedWith"]) == (False, "OLD_KEY", "previous")
    assert made.signing_secret[6:] not in str(told)


async def test_another_partners_delivery_is_404(mercato: Service, shop: MerchantServer):
    _, client, headers, body = await received(mercato, shop)
    _, stranger = await mercato.partner(PartnerKind.BOTH)
    told = await ask(stranger, headers, body.replace(b"succeeded", b"failed"))
    assert (told["code"], told["deliveryId"], told["difference"]) == ("WRONG_KEY", None, None)
    own = (await ask(client, headers, body))["deliveryId"]
    for named in (own, headers["webhook-id"]):
        request = {"headers": headers, "body": "{}", "deliveryId": named}
        assert (await stranger.post(PATH, request)).json()["errorCode"] == "DELIVERY_NOT_FOUND"


@only_sqlite
async def test_keys_of_both_surfaces_are_accepted_and_no_other_caller(mercato: Service):
    made, client = await mercato.partner(PartnerKind.BOTH)
    assert made.marketfront_key is not None
    body, request = b"{}", {"bodyBase64": "e30="}
    headers = webhook_headers(
        webhook_id="x",
        timestamp=int(datetime.now(UTC).timestamp()),
        body=body,
        secrets=[made.signing_secret],
        token=None,
        traceparent=None,
    )
    for key in (client.key, made.marketfront_key.text):
        reply = await Client(client.base, key, client.session).post(PATH, request | {"headers": headers})
        assert (reply.status, reply.json()["valid"]) == (200, True)
    assert (await mercato.anonymous().post(PATH, request | {"headers": headers})).status == 401


@only_sqlite
async def test_what_cannot_be_explained_is_refused_by_its_pointer(mercato: Service):
    _, client = await mercato.partner(PartnerKind.BOTH)
    for request, status, pointer in (
        ({"headers": {}}, 422, "/body"),
        ({"headers": {}, "body": "", "bodyBase64": ""}, 422, "/body"),
        ({"headers": {}, "bodyBase64": "?"}, 422, "/bodyBase64"),
        ({"headers": {}, "body": "", "receivedAt": "now"}, 422, "/receivedAt"),
        ({"headers": {}, "body": "", "secrets": ["a"] * 6}, 422, "/secrets"),
        ({"headers": {str(i): "" for i in range(101)}, "body": ""}, 422, "/headers"),
        ({"headers": {"a": 1}, "body": ""}, 400, "/headers/a"),
        ({"headers": {}, "body": "x" * (128 * 1024 + 1)}, 422, "/body"),
        ({"body": ""}, 400, "/headers"),
    ):
        reply = await client.post(PATH, request)
        assert reply.status == status, (request, reply.body)
        assert reply.json()["errors"][0]["pointer"] == pointer
