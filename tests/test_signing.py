"""Signatures are HMAC-SHA256 as Standard Webhooks has them, and nothing signed can be changed."""

import base64
import hashlib
import hmac
import time

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from mercato_contract import USER_AGENT
from mercato_contract.signing import (
    PREFIX,
    hmac_sha256,
    new_secret,
    sign,
    signing_key,
    target,
    webhook_headers,
)

OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
BODY = '{"type":"catalog.sync.succeeded","data":{"name":"Café ☕"}}'.encode()


def _headers(*, secrets: list[str], token: str | None = None, body: bytes = BODY) -> dict[str, str]:
    return webhook_headers(
        webhook_id="0190163d-8694-739b-aea5-966c26f8ad91",
        timestamp=int(time.time()),
        body=body,
        secrets=secrets,
        token=token,
        traceparent=None,
    )


def test_a_signature_is_the_hmac_of_id_timestamp_and_body() -> None:
    expected = hmac.new(b"o" * 32, b"msg_1.1700000000." + BODY, hashlib.sha256).digest()
    made = sign(webhook_id="msg_1", timestamp=1_700_000_000, body=BODY, secrets=[OLD])
    assert made == "v1," + base64.b64encode(expected).decode()


@pytest.mark.parametrize("length", [1, 24, 32, 63, 64, 65, 200])
def test_a_signature_is_the_hmac_whatever_the_length_of_the_key(length: int) -> None:
    key = bytes(range(length))
    secret = PREFIX + base64.b64encode(key).decode()
    expected = base64.b64encode(hmac.digest(key, b"msg_1.5.{}", "sha256")).decode()
    assert sign(webhook_id="msg_1", timestamp=5, body=b"{}", secrets=[secret]) == f"v1,{expected}"


def test_the_standards_own_example_is_signed_as_published() -> None:
    made = sign(
        webhook_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1_614_265_330,
        body=b'{"test": 2432232314}',
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_standard_webhooks_package_verifies_a_call() -> None:
    verified = standardwebhooks.Webhook(OLD).verify(BODY, _headers(secrets=[OLD]))
    assert verified["data"]["name"] == "Café ☕"


def test_the_svix_package_verifies_a_call() -> None:
    # It brings pydantic, which takes a twentieth of the time in which a worker collects the tests.
    import svix.webhooks

    svix.webhooks.Webhook(OLD).verify(BODY, _headers(secrets=[OLD]))
    with pytest.raises(svix.webhooks.WebhookVerificationError):
        svix.webhooks.Webhook(NEW).verify(BODY, _headers(secrets=[OLD]))


@pytest.mark.parametrize("known", [OLD, NEW])
def test_during_a_rotation_either_secret_verifies(known: str) -> None:
    import svix.webhooks

    headers = _headers(secrets=[NEW, OLD])
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert standardwebhooks.Webhook(known).verify(BODY, headers)
    svix.webhooks.Webhook(known).verify(BODY, headers)


@pytest.mark.parametrize("changed", ["body", "webhook-id", "webhook-timestamp", "secret"])
def test_nothing_that_is_signed_can_be_changed(changed: str) -> None:
    headers = _headers(secrets=[OLD])
    body = BODY + b" " if changed == "body" else BODY
    if changed == "webhook-id":
        headers[changed] = "another"
    if changed == "webhook-timestamp":
        headers[changed] = str(int(headers[changed]) - 1)
    verifier = standardwebhooks.Webhook(NEW if changed == "secret" else OLD)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verifier.verify(body, headers)


@given(st.binary(min_size=32, max_size=32), st.text(st.characters(codec="utf-8")))
def test_every_new_secret_and_every_text_verify(random: bytes, text: str) -> None:
    secret = new_secret(lambda count: random[:count])
    assert signing_key(secret) == random
    headers = _headers(secrets=[secret], body=text.encode())
    standardwebhooks.Webhook(secret).verify(text.encode(), headers, json_parse=False)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_%%%%", "whsec_YQ", "c2VjcmV0", "sk_c2VjcmV0", "whsec_é"]
)
def test_a_malformed_secret_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="base64") as refused:
        signing_key(secret)
    assert len(secret) <= len("whsec_") or secret not in str(refused.value)


def test_an_id_that_could_be_confused_with_its_timestamp_is_refused() -> None:
    with pytest.raises(ValueError, match="dot"):
        sign(webhook_id="a.1", timestamp=1, body=b"", secrets=[OLD])
    with pytest.raises(ValueError, match="secret"):
        sign(webhook_id="a", timestamp=1, body=b"", secrets=[])


def test_a_call_has_exactly_the_headers_of_the_contract() -> None:
    headers = webhook_headers(
        webhook_id="id-1",
        timestamp=1_700_000_000,
        body=b"{}",
        secrets=[OLD],
        token="partner-token",
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )
    assert headers == {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "Authorization": "Bearer partner-token",
        "webhook-id": "id-1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": sign(webhook_id="id-1", timestamp=1_700_000_000, body=b"{}", secrets=[OLD]),
        "Idempotency-Key": "id-1",
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }


def test_without_a_token_no_authorization_is_sent() -> None:
    assert "Authorization" not in _headers(secrets=[OLD])


@pytest.mark.parametrize(
    ("url", "expected"),
    {
        "https://h.example": "https://h.example/place",
        "https://h.example/": "https://h.example/place",
        "https://h.example/hooks": "https://h.example/hooks/place",
        "https://h.example/hooks/": "https://h.example/hooks/place",
        "https://h.example/hooks//": "https://h.example/hooks/place",
        "https://h.example/hooks?key=1&b=%2F": "https://h.example/hooks/place?key=1&b=%2F",
        "https://h.example?key=1": "https://h.example/place?key=1",
        "https://h.example/a%2Fb;v=1#top": "https://h.example/a%2Fb;v=1/place",
        "https://h.example:8443/x": "https://h.example:8443/x/place",
    }.items(),
)
def test_the_suffix_goes_after_the_path_with_one_slash_and_a_query_is_kept(url: str, expected: str) -> None:
    assert target(url, "place") == expected
    assert target(url, "/place") == expected


@pytest.mark.parametrize("key", [b"", b"k", b"k" * 32, b"k" * 64, b"k" * 65, b"k" * 1000])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 2046, 2047, 2048, 4094, 4095, 100_000])
def test_signatures_equal_those_of_the_standard_library(key: bytes, size: int):
    message = bytes(number % 251 for number in range(size))
    assert hmac_sha256(key, message) == hmac.digest(key, message, "sha256")
