"""HMAC-SHA256 with cached key states: there are few keys, each of which signs many short messages."""

import hmac
from functools import lru_cache
from hashlib import sha256


def sign(key: bytes, message: bytes) -> bytes:
    """Return the HMAC-SHA256 of the message (RFC 2104)."""
    state = _keyed(key).copy()
    state.update(message)
    return state.digest()


@lru_cache(maxsize=1024)
def _keyed(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod=sha256)
