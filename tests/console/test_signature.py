"""The signature debugger of a delivery's page: a secret that is pasted is used for the answer, and nowhere else."""

import pytest
from tests.api.test_explain_signature import STRANGE, received
from tests.console.visiting import enter_as_partner
from tests.service import Merchant, Service


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
    mercato: Service, shop: Merchant, capfd: pytest.CaptureFixture[str], secret: str, verdict: str
):
    made, client, headers, body = await received(mercato, shop)
    sent = made.signing_secret if secret == "own" else secret
    browser, _ = await enter_as_partner(mercato, client)
    deliveries = (await client.get("/v1/commerce/webhook-deliveries")).json()["deliveries"]
    delivery = next(one for one in deliveries if one["webhookId"] == headers["webhook-id"])
    page = await browser.open(f"/console/deliveries/{delivery['deliveryId']}/signature")
    lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
    shown = await browser.press(page, "Explain", headers=lines, body=body.decode(), secret=sent)
    assert verdict in shown.text
    if sent:
        printed = "".join(capfd.readouterr())
        assert not [text for text in (shown.body.decode(), shown.url, printed) if sent in text]
    if shown.status == 200:
        assert shown.field("Signing secret").attributes.get("value") is None
