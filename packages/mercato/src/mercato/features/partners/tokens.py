"""Signed access tokens, verified without a database. See `callers` for how they are used."""

import base64
import hmac
import re
import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato.features.partners.keys import ACCESS_BEGIN
from mercato_contract.signing import hmac_sha256
from mercato_contract.wire import redacted

LIFETIME: Final = timedelta(hours=1)

PURPOSE: Final = "mercato access token"
"""The purpose of the derived signing keys: what is signed for another purpose isn't a valid token."""

_VERSION: Final = 1
_CLAIMS: Final = struct.Struct(">B16s16sI")
_SIGNATURE: Final = 32
# 69 bytes fill 92 characters exactly: every token has one spelling.
_TOKEN: Final = re.compile(
    rf"{ACCESS_BEGIN}([0-9A-Za-z_-]{{{(_CLAIMS.size + _SIGNATURE) * 4 // 3}}})".encode()
)


class Claims(Struct, frozen=True):
    """A token's content: its key, the key's partner, and the Unix second at which it expires."""

    key_id: UUID
    partner_id: UUID
    expires_at: int


@redacted("text")
class AccessToken(Struct, frozen=True):
    """A new token and its lifetime in seconds. Its repr redacts the text."""

    text: str
    seconds: int


class Tokens:
    """Signs with the first key and verifies with any, so that keys can be rotated."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    def sign(self, claims: Claims) -> str:
        """Return the token: `mt_` and 92 characters of base64url, of which the last 43 are the signature's."""
        packed = _CLAIMS.pack(_VERSION, claims.key_id.bytes, claims.partner_id.bytes, claims.expires_at)
        signature = hmac_sha256(self._keys[0], packed)
        return ACCESS_BEGIN + base64.urlsafe_b64encode(packed + signature).decode()

    def find(self, token: bytes) -> Claims | None:
        """Return a token's claims if its signature is valid. It may have expired."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        raw = base64.urlsafe_b64decode(match[1])
        packed, signature = raw[: _CLAIMS.size], raw[_CLAIMS.size :]
        if not any(hmac.compare_digest(hmac_sha256(key, packed), signature) for key in self._keys):
            return None
        version, key_id, partner_id, expires_at = _CLAIMS.unpack(packed)
        return Claims(UUID(bytes=key_id), UUID(bytes=partner_id), expires_at) if version == _VERSION else None
