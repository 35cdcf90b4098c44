"""Reads the three headers of a Standard Webhook, and finds what is wrong with each. Pure."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from mercato_contract.debugger.findings import Finding, finding

PARTS: Final = ("id", "timestamp", "signature")

MAX_SIGNATURES: Final = 10
"""Signatures of one header that are read; a rotation has two."""

DIGEST_BYTES: Final = 32
BASE64_LENGTH: Final = 44

_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")
_SECONDS: Final = re.compile(r"\d{1,12}", re.ASCII)
_VERSION: Final = re.compile(r"v\d\w*", re.ASCII)
_MAX_SECONDS: Final = 100_000_000_000
"""A larger number is in milliseconds: as seconds it would be a year beyond 5000."""

_NAMES: Final = {
    "svix-{}": "Svix's own name: this service and Standard Webhooks use webhook-{}.",
    "x-webhook-{}": "There is no x- before it.",
    "http-webhook-{}": "This is how CGI and WSGI pass a header: the header itself is webhook-{}.",
    "webhook{}": "There is a hyphen in it.",
    "x-svix-{}": "This service and Standard Webhooks use webhook-{}.",
}
_OTHERS: Final = {
    "stripe-signature": "Stripe",
    "x-hub-signature-256": "GitHub and Meta",
    "x-hub-signature": "GitHub and Meta",
    "x-shopify-hmac-sha256": "Shopify",
    "x-twilio-signature": "Twilio",
    "x-slack-signature": "Slack",
    "x-hubrise-hmac-sha256": "HubRise",
}


class Given(Struct, frozen=True):
    """A digest in the header. `flaw` is why a verifier can't use it as it is."""

    digest: bytes
    flaw: Finding | None = None


class SignedHeaders(Struct, frozen=True):
    """The values of the headers. A missing one is None; `seconds` too if it isn't a time."""

    id: str | None
    timestamp: str | None
    seconds: int | None
    given: tuple[Given, ...]
    findings: tuple[Finding, ...]


def read_headers(headers: Mapping[str, str]) -> SignedHeaders:
    """Return the values of the headers, and everything that is wrong with them."""
    by_name: dict[str, str] = {}
    findings: list[Finding] = []
    for name, value in headers.items():
        plain = name.strip().rstrip(":").strip().lower()
        if plain in by_name and plain.removeprefix("webhook-") in PARTS:
            findings.append(finding("header-repeated", name=plain))
        by_name[plain] = value.strip()
    found: dict[str, str] = {}
    for part in PARTS:
        text, problem = _part(by_name, part)
        if text is not None:
            found[part] = text
        if problem is not None:
            findings.append(problem)
    seconds, of_timestamp = _seconds(found.get("timestamp"))
    given, of_signatures = _signatures(found.get("signature"))
    return SignedHeaders(
        id=found.get("id"),
        timestamp=found.get("timestamp"),
        seconds=seconds,
        given=tuple(given),
        findings=(*findings, *of_timestamp, *of_signatures),
    )


def read_signature(text: str) -> list[Given]:
    """Return the digests of a signature that the receiver computed, in any form."""
    return [Given(given.digest) for given in _signatures(text.strip().strip("\"'"))[0]]


def _part(headers: Mapping[str, str], part: str) -> tuple[str | None, Finding | None]:
    name = f"webhook-{part}"
    if headers.get(name):
        return headers[name], None
    plain = {known.replace("_", "-"): known for known in headers}
    for form, hint in {"webhook-{}": "There are hyphens in it.", **_NAMES}.items():
        sent = plain.get(form.format(part))
        if sent is not None and headers[sent]:
            return headers[sent], finding("header-renamed", name=name, other=sent, hint=hint.format(part))
    if name in headers:
        return None, finding("header-empty", name=name)
    others = [service for other, service in _OTHERS.items() if other in headers]
    if part == "signature" and others:
        return None, finding("header-of-another-service", name=name, service=others[0])
    return None, finding("header-missing", name=name)


def _seconds(text: str | None) -> tuple[int | None, list[Finding]]:
    if text is None:
        return None, []
    if _SECONDS.fullmatch(text) and int(text) < _MAX_SECONDS:
        return int(text), []
    if re.fullmatch(r"\d{12,15}", text, re.ASCII):
        return int(text) // 1000, [finding("timestamp-in-milliseconds")]
    return None, [finding("timestamp-unreadable")]


def _signatures(header: str | None) -> tuple[list[Given], list[Finding]]:
    """Return the digests in the header, and what is wrong with it as a whole."""
    if header is None:
        return [], []
    given: list[Given] = []
    findings: list[Finding] = []
    texts = header.split()
    for version, text, intact in _pairs(texts[:MAX_SIGNATURES]):
        if version not in {"v1", ""}:
            asymmetric = version == "v1a"
            findings.append(finding("signature-asymmetric" if asymmetric else "signature-of-another-version"))
            continue
        read_as = _digest(text)
        if read_as is None:
            is_short = len(text) < BASE64_LENGTH
            name = "signature-short" if is_short else "signature-unreadable"
            findings.append(finding(name, length=len(text)))
            continue
        flaw = read_as.flaw
        if flaw is None and not version:
            flaw = finding("signature-without-version")
        elif flaw is None and not intact:
            flaw = finding("signature-joined")
        given.append(Given(read_as.digest, flaw))
    if len(texts) > MAX_SIGNATURES:
        findings.append(finding("signatures-too-many", count=len(texts), limit=MAX_SIGNATURES))
    elif len(given) > 1:
        findings.append(finding("signatures-several", count=len(given)))
    return given, findings


def _pairs(texts: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield version ('' if missing), signature, and whether both are written as they were sent."""
    for text in texts:
        bare = text.strip("\"'").rstrip(",")
        parts = bare.split(",")
        if len(parts) > 2 and len(parts) % 2 == 0:  # noqa: PLR2004  # v1,…,v1,…: joined by a comma
            yield from zip(parts[::2], parts[1::2], [False] * (len(parts) // 2), strict=True)
        elif _VERSION.fullmatch(parts[0]):
            yield parts[0], ",".join(parts[1:]), bare == text
        elif (match := re.fullmatch(r"(v\d\w*|sha256)=(.*)", bare)) is not None:
            yield "", match[2], False
        else:
            yield "", bare, False


def _digest(text: str) -> Given | None:
    """Return the digest that the text holds, in any form."""
    if _HEX.fullmatch(text):
        return Given(bytes.fromhex(text), finding("signature-in-hex"))
    for candidate, flaw in (
        (text, None),
        (text.rstrip("=") + "=", "signature-not-padded"),
        (text.replace("-", "+").replace("_", "/").rstrip("=") + "=", "signature-url-safe"),
    ):
        try:
            digest = base64.b64decode(candidate, validate=True)
        except (binascii.Error, ValueError):
            continue
        if len(digest) == DIGEST_BYTES:
            return Given(digest, None if flaw is None else finding(flaw))
        if len(digest) == 2 * DIGEST_BYTES and _HEX.fullmatch(digest.decode("latin-1")):
            return Given(bytes.fromhex(digest.decode()), finding("signature-hex-in-base64"))
    return None
