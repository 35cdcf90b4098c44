"""The report of a certification, and its Ed25519 signature.

What is signed is the report as canonical JSON (keys sorted, no white space, UTF-8), so that a file with another layout
still verifies. The key is derived from the encryption key of the installation that made the report.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Collection
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from mercato.features.partners.vault import Vault
from mercato_contract.certification import Report, Signature, SignedReport
from mercato_contract.wire import Wire, as_json

PURPOSE: Final = "mercato certify report"
ALGORITHM: Final = "Ed25519"

PROVES: Final = (
    "Whoever holds the private key of this public key signed exactly this report. It proves no more: make sure whose "
    "key it is before you trust what the report says."
)

MAX_BYTES: Final = 8 << 20
"""The longest report that is read."""


class _ReportFile(Wire):
    report: msgspec.Raw
    signature: Signature | None = None


class Verified(Struct, frozen=True):
    """The result of verifying a signed report, which is None when the signature is wrong."""

    is_trusted: bool
    fingerprint: str
    report: Report | None


class UnreadableReportError(Exception):
    """The file isn't a signed report; the message says why."""


def sign(report: Report, vault: Vault) -> SignedReport:
    """Return the report, signed with the key that the vault's first key makes."""
    key = Ed25519PrivateKey.from_private_bytes(vault.derive(PURPOSE)[0])
    signature = key.sign(canonical(as_json(report)))
    return SignedReport(
        report=report,
        signature=Signature(
            algorithm=ALGORITHM,
            public_key=_text(key.public_key().public_bytes_raw()),
            signature=_text(signature),
            proves=PROVES,
        ),
    )


def public_keys(vault: Vault) -> tuple[str, ...]:
    """Return the public keys of an installation, one for each of its encryption keys."""
    return tuple(
        _text(Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())
        for seed in vault.derive(PURPOSE)
    )


def verify(document: bytes, *, trusted: Collection[str]) -> Verified:
    """Check the signature of a report. `trusted` are public keys. Raises UnreadableReportError."""
    try:
        file = msgspec.json.decode(document, type=_ReportFile)
        signed = canonical(bytes(file.report))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise UnreadableReportError("It isn't a report of a certification.") from None
    claimed = file.signature
    if claimed is None:
        raise UnreadableReportError("It isn't signed, so anyone may have written it.")
    public, signature = _bytes(claimed.public_key), _bytes(claimed.signature)
    if claimed.algorithm != ALGORITHM or public is None or signature is None:
        raise UnreadableReportError("Its signature has an unknown algorithm, or isn't base64.")
    short = fingerprint(claimed.public_key)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return Verified(is_trusted=False, fingerprint=short, report=None)
    try:
        report = msgspec.json.decode(file.report, type=Report)
    except msgspec.DecodeError:
        raise UnreadableReportError(
            "Another version of Mercato wrote it, and this one can't read it."
        ) from None
    return Verified(is_trusted=claimed.public_key in trusted, fingerprint=short, report=report)


def canonical(document: bytes) -> bytes:
    """Return a JSON document as the bytes that are signed: keys sorted, no white space, UTF-8."""
    value = json.loads(document)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def fingerprint(public_key: str) -> str:
    """Return a short name of a public key that people can compare."""
    digest = hashlib.sha256(public_key.encode()).hexdigest()
    return ":".join(digest[at : at + 4] for at in range(0, 32, 4))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
