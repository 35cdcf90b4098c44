"""HMAC-SHA256 for what is signed on the way of a request.

`hmac.digest` gives the interpreter up for each message, however short. To get it back from the server's thread costs
more than the digest itself. Hashing in pieces does not, and the key's own blocks are hashed once.
"""

import hashlib
from functools import lru_cache
from typing import Any, Final

_BLOCK: Final = 64
_PIECE: Final = 2047
"""Bytes that are hashed at once: from 2,048 on the interpreter is given up."""


def sign(key: bytes, said: bytes) -> bytes:
    """Return the HMAC-SHA256 of the bytes (RFC 2104)."""
    inner, outer = _begun(key)
    digest = inner.copy()
    if len(said) <= _PIECE:
        digest.update(said)
    else:
        view = memoryview(said)
        for start in range(0, len(said), _PIECE):
            digest.update(view[start : start + _PIECE])
    whole = outer.copy()
    whole.update(digest.digest())
    found: bytes = whole.digest()
    return found


@lru_cache(maxsize=1024)
def _begun(key: bytes) -> tuple[Any, Any]:
    if len(key) > _BLOCK:
        key = hashlib.sha256(key).digest()
    padded = key.ljust(_BLOCK, b"\0")
    return tuple(hashlib.sha256(bytes(byte ^ pad for byte in padded)) for pad in (0x36, 0x5C))  # type: ignore[return-value]
