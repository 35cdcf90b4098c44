"""The signature debugger of a delivery's page: a secret that is pasted is used for the answer, and nowhere else."""

import pytest
from tests.api.test_explain_signature import STRANGE, received
from tests.console.visiting import enter_as_partner
from tests.databases import only_sqlite
from tests.service import MerchantServer, Service
from tests.sharing import shared

pytestmark = shared


@only_sqlite
@pytest.mark.parametrize(
    ("secret", "verdict"),
    [
        (STRANGE, "WRONG_KEY"),
        ("mk_commerce_not-a-signing-secret", "KEY_UNUSABLE"),
        ("", "Signed with the account's current secret."),
        ("own", "Signed with the secret that you gave."),
        ("x" * 600, "characters"),
    ],
)
async def test_a_pasted_secret_is_judged_and_is_on_no_page_in_no_url_and_no_log(
    mercato: Service, shop: MerchantServer, capfd: pytest.CaptureFixture[str], secret: str, verdict: str
):
    made, client, headers, body = await received(mercato, shop)
    sent = made.signing_secret if secret == "own" else secret
    browser = await enter_as_partner(mercato, client)
    deliveries = (await client.get("/v1/commerce/webhook-deliveries")).json()["deliveries"]
    delivery = next(one for one in deliveries if one["webhookId"] == headers["webhook-id"])
    page = await browser.open(f"/console/webhooks/{delivery['deliveryId']}/signature")
    lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
    shown = await browser.press(page, "Explain", headers=lines, body=body.decode(), secret=sent)
    assert verdict in shown.text
    if sent:
        printed = "".join(capfd.readouterr())
        assert not [text for text in (shown.body.decode(), shown.url, printed) if sent in text]
    if shown.status == 200:
        assert shown.field("Signing secret").attributes.get("value") is None


async def test_a_signature_that_was_not_pasted_is_asked_for_and_no_proxy_is_blamed(
    mercato: Service, shop: MerchantServer
):
    _, client, headers, _ = await received(mercato, shop)
    browser = await enter_as_partner(mercato, client)
    deliveries = (await client.get("/v1/commerce/webhook-deliveries")).json()["deliveries"]
    delivery = next(one for one in deliveries if one["webhookId"] == headers["webhook-id"])
    path = f"/v1/commerce/webhook-deliveries/{delivery['deliveryId']}"
    # The attempt's time, which the page has, is written after its answer has come.
    await mercato.until(client, path, lambda found: found["attemptLog"])
    page = await browser.open(f"/console/webhooks/{delivery['deliveryId']}/signature")
    filled = page.field("Headers").text
    assert f"webhook-id: {headers['webhook-id']}" in filled
    assert "webhook-signature" not in filled
    shown = await browser.press(
        page, "Explain", headers=filled.replace(" webhook-timestamp", "\r\nwebhook-timestamp")
    )
    assert "[U+" not in shown.text, "a browser's line ends stay line ends"
    assert (shown.status, "proxy" in shown.text) == (200, False)
    assert "Add the header webhook-signature as your server received it" in shown.text
    pasted = f"webhook-id: {headers['webhook-id']}\nwebhook-timestamp: 1\nuser-agent: x"
    assert "proxy" in (await browser.press(shown, "Explain", headers=pasted)).text, "the server received none"
