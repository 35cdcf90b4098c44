"""A report that nobody can change unseen: signed with Ed25519, and what that proves.

What is signed is the report as canonical JSON (keys sorted, no white space, UTF-8), so that a file that is laid out
anew still verifies. The key is derived from the encryption key of the installation that made the report.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mercato.certify.model import Report
from mercato.partners.vault import Vault
from mercato.wire import Wire

PURPOSE: Final = "mercato certify report"
ALGORITHM: Final = "Ed25519"

PROVES: Final = (
    "Whoever holds the private key of this public key has signed exactly this report. It proves no more: know whose "
    "the key is before you trust what the report says."
)

MOST_BYTES: Final = 8 << 20
"""Bytes of a report that are looked at."""


class Signature(Wire):
    """Who signed a report. The public key is the 32 raw bytes in base64, and so is the signature's 64."""

    algorithm: str
    public_key: str
    signature: str
    proves: str


class SignedReport(Wire):
    """A report with its signature."""

    report: Report
    signature: Signature


class _Unread(Wire):
    report: msgspec.Raw
    signature: Signature


class Trust(StrEnum):
    """What a report's signature is worth here."""

    OURS = "ours"
    STRANGER = "stranger"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of looking at a signed report."""

    trust: Trust
    fingerprint: str
    report: Report | None


class UnreadableError(Exception):
    """The file is no signed report; the message says why."""


def sign(report: Report, vault: Vault) -> SignedReport:
    """Return the report, signed with the key that the vault's first key makes."""
    key = Ed25519PrivateKey.from_private_bytes(vault.derive(PURPOSE)[0])
    signature = key.sign(canonical(msgspec.json.encode(report)))
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
    """Return the public keys of an installation, one of each of its encryption keys."""
    return tuple(
        _text(Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())
        for seed in vault.derive(PURPOSE)
    )


def verify(document: bytes, *, trusted: Collection[str]) -> Verified:
    """Return what a signed report is worth. `trusted` are public keys. Raises UnreadableError."""
    try:
        unread = msgspec.json.decode(document, type=_Unread)
        signed = canonical(bytes(unread.report))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise UnreadableError("It is no report that `mercato certify` has written.") from None
    said = unread.signature
    public, signature = _bytes(said.public_key), _bytes(said.signature)
    if said.algorithm != ALGORITHM or public is None or signature is None:
        raise UnreadableError("Its signature is none that is known here.")
    mark = fingerprint(said.public_key)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return Verified(Trust.BROKEN, mark, None)
    try:
        report = msgspec.json.decode(unread.report, type=Report)
    except msgspec.DecodeError:
        raise UnreadableError("It was written by another version, and can't be read by this one.") from None
    return Verified(Trust.OURS if said.public_key in trusted else Trust.STRANGER, mark, report)


def canonical(document: bytes) -> bytes:
    """Return a JSON document as the bytes that are signed: keys sorted, no white space, UTF-8."""
    value = json.loads(document)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def fingerprint(public_key: str) -> str:
    """Return a short name of a public key, to be compared by eye."""
    digest = hashlib.sha256(public_key.encode()).hexdigest()
    return ":".join(digest[at : at + 4] for at in range(0, 32, 4))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
