"""HMAC-SHA256, and Standard Webhooks: secrets, signatures and the headers of an outgoing call. Pure.

Uses `hmac` and not the `standardwebhooks` package: that one signs text where we sign the exact bytes that are sent,
knows one secret where a rotation has two, and accepts a secret with stray characters as a shorter one. The tests check
these signatures with its verifier, and Svix's.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from urllib.parse import urlsplit, urlunsplit

from mercato_contract import USER_AGENT

PREFIX = "whsec_"
SECRET_BYTES = 32


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """Return the HMAC-SHA256 of the message (RFC 2104). Keys are few and messages short, so a key's state is cached."""
    state = _keyed(key).copy()
    state.update(message)
    return state.digest()


@lru_cache(maxsize=1024)
def _keyed(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod=sha256)


def new_secret(random: Callable[[int], bytes]) -> str:
    """Return a new signing secret, `whsec_` and the base64 of 32 bytes from `random`."""
    return PREFIX + base64.b64encode(random(SECRET_BYTES)).decode("ascii")


def signing_key(secret: str) -> bytes:
    """Return the key in a secret. Raises ValueError, which doesn't repeat the secret, if it isn't one."""
    encoded = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key or encoded == secret:
        raise ValueError(f"A signing secret is {PREFIX} followed by base64.")
    return key


def sign(*, webhook_id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> str:
    """Return the `webhook-signature`: one `v1,<base64>` per secret, so that during a rotation either one verifies.

    `timestamp` is in Unix seconds. Raises ValueError for an id with a dot, which would make the signed text ambiguous.
    """
    if not secrets or not webhook_id or "." in webhook_id:
        raise ValueError("A signature needs a secret, and an id without a dot.")
    signed = b"%s.%d.%s" % (webhook_id.encode(), timestamp, body)
    return " ".join(f"v1,{_digest(signing_key(secret), signed)}" for secret in secrets)


def _digest(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac_sha256(key, signed)).decode("ascii")


def webhook_headers(
    *,
    webhook_id: str,
    timestamp: int,
    body: bytes,
    secrets: Sequence[str],
    token: str | None,
    traceparent: str | None,
) -> dict[str, str]:
    """Return all headers of one attempt; `timestamp` is the attempt's.

    `token` is sent as `Authorization: Bearer`; without one that header is left out.
    """
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(webhook_id=webhook_id, timestamp=timestamp, body=body, secrets=secrets),
        "Idempotency-Key": webhook_id,
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if traceparent is not None:
        headers["traceparent"] = traceparent
    return headers


@lru_cache(maxsize=1024)
def target(webhook_url: str, suffix: str) -> str:
    """Return the URL with `suffix` appended to its path after one slash; a query is kept, a fragment dropped."""
    parts = urlsplit(webhook_url)
    path = f"{parts.path.rstrip('/')}/{suffix.strip('/')}"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def base_of(url: str, suffix: str) -> str:
    """Return a URL whose `target` with the suffix is this one."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix(f"/{suffix}"), parts.query, ""))
