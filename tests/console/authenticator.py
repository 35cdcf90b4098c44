"""A software authenticator: it makes and uses passkeys as a browser does (WebAuthn, level 3, without attestation)."""

import hashlib
import json
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any, Final

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

PRESENT_AND_VERIFIED: Final = 0x05
WITH_KEY: Final = 0x40


@dataclass
class Authenticator:
    """One passkey for one site. `counter` stays 0 where the passkey is shared between devices."""

    host: str
    origin: str
    counter: int = 0
    id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def create(self, options: Any) -> str:
        """Return what `navigator.credentials.create` gives, as JSON."""
        at = self.key.public_key().public_numbers()
        cose = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: at.x.to_bytes(32, "big"), -3: at.y.to_bytes(32, "big")})
        known = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cose
        data = self._data(PRESENT_AND_VERIFIED | WITH_KEY) + known
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        said = self._said("webauthn.create", options["challenge"])
        return self._credential({"clientDataJSON": _text(said), "attestationObject": _text(attestation)})

    def get(self, options: Any) -> str:
        """Return what `navigator.credentials.get` gives, as JSON."""
        said, data = self._said("webauthn.get", options["challenge"]), self._data(PRESENT_AND_VERIFIED)
        signature = self.key.sign(data + hashlib.sha256(said).digest(), ec.ECDSA(hashes.SHA256()))
        return self._credential(
            {
                "clientDataJSON": _text(said),
                "authenticatorData": _text(data),
                "signature": _text(signature),
            }
        )

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(self.host.encode()).digest() + bytes([flags]) + self.counter.to_bytes(4, "big")

    def _said(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _credential(self, response: dict[str, str]) -> str:
        return json.dumps(
            {"id": _text(self.id), "rawId": _text(self.id), "type": "public-key", "response": response}
        )


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
