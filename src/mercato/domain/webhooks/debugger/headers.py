"""The three headers of a Standard Webhook as they came: found, read, and what is wrong with each. Pure."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from mercato.domain.webhooks.debugger.findings import Code, Finding, error, note

PARTS: Final = ("id", "timestamp", "signature")

MOST_SIGNATURES: Final = 10
"""Signatures of one header that are looked at; a rotation makes two."""

DIGEST_BYTES: Final = 32

_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")
_SECONDS: Final = re.compile(r"\d{1,12}", re.ASCII)
_VERSION: Final = re.compile(r"v\d\w*", re.ASCII)
_MOST_SECONDS: Final = 100_000_000_000
"""Seconds of a year beyond 5000: such a number is in milliseconds."""

_NAMES: Final = {
    "svix-{}": "Svix's own name: this service, and Standard Webhooks, say webhook-{}.",
    "x-webhook-{}": "There is no x- before it.",
    "http-webhook-{}": "This is how CGI and WSGI hand a header over: the header itself is webhook-{}.",
    "webhook{}": "There is a hyphen in it.",
    "x-svix-{}": "This service, and Standard Webhooks, say webhook-{}.",
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
    """A digest that the header holds. `flaw` is what keeps a verifier from using it as it stands."""

    digest: bytes
    flaw: Finding | None = None


class Envelope(Struct, frozen=True):
    """What was read of the headers. A part that is not there is None; `seconds` too when it is no time."""

    id: str | None
    timestamp: str | None
    seconds: int | None
    given: tuple[Given, ...]
    findings: tuple[Finding, ...]


def read_headers(headers: Mapping[str, str]) -> Envelope:
    """Return what the headers hold, and all that is wrong with them."""
    by_name: dict[str, str] = {}
    findings: list[Finding] = []
    for name, value in headers.items():
        plain = name.strip().rstrip(":").strip().lower()
        if plain in by_name and plain.removeprefix("webhook-") in PARTS:
            findings.append(
                error(
                    Code.REPEATED_HEADER,
                    f"The header {plain} is there twice.",
                    "Only the last of them is looked at here. Find out who adds the other one.",
                )
            )
        by_name[plain] = value.strip()
    found: dict[str, str] = {}
    for part in PARTS:
        text, finding = _part(by_name, part)
        if text is not None:
            found[part] = text
        if finding is not None:
            findings.append(finding)
    seconds, complaint = _seconds(found.get("timestamp"))
    given, more = _signatures(found.get("signature"))
    return Envelope(
        id=found.get("id"),
        timestamp=found.get("timestamp"),
        seconds=seconds,
        given=tuple(given),
        findings=(*findings, *complaint, *more),
    )


def read_signature(text: str) -> list[Given]:
    """Return the digests of a signature that somebody computed, in whatever form it was printed."""
    return [Given(given.digest) for given in _signatures(text.strip().strip("\"'"))[0]]


def _part(headers: Mapping[str, str], part: str) -> tuple[str | None, Finding | None]:
    name = f"webhook-{part}"
    if headers.get(name):
        return headers[name], None
    plain = {known.replace("_", "-"): known for known in headers}
    for form, words in {"webhook-{}": "There are hyphens in it.", **_NAMES}.items():
        sent = plain.get(form.format(part))
        if sent is not None and headers[sent]:
            return headers[sent], error(
                Code.WRONG_HEADER,
                f"The header {name} is missing, but there is {sent}. {words.format(part)}",
                f"Read the header {name}.",
            )
    if name in headers:
        return None, error(Code.MISSING_HEADER, f"The header {name} is empty.", _TAKE_ALL)
    others = [whose for other, whose in _OTHERS.items() if other in headers]
    if part == "signature" and others:
        return None, error(
            Code.WRONG_HEADER,
            f"The header {name} is missing; there is one of {others[0]}.",
            "A webhook of this service has webhook-id, webhook-timestamp and webhook-signature: is it one of ours?",
        )
    return None, error(Code.MISSING_HEADER, f"The header {name} is missing.", _TAKE_ALL)


_TAKE_ALL: Final = (
    "Pass on all of webhook-id, webhook-timestamp and webhook-signature: a proxy or framework may drop headers that "
    "it does not know."
)


def _seconds(text: str | None) -> tuple[int | None, list[Finding]]:
    if text is None:
        return None, []
    if _SECONDS.fullmatch(text) and int(text) < _MOST_SECONDS:
        return int(text), []
    advice = "Pass the header on as it came: whole seconds since 1970."
    if re.fullmatch(r"\d{12,15}", text, re.ASCII):
        words = "webhook-timestamp is in milliseconds; it is sent in seconds."
        return int(text) // 1000, [error(Code.TIMESTAMP_UNREADABLE, words, advice)]
    words = "webhook-timestamp is not a number of seconds since 1970."
    return None, [error(Code.TIMESTAMP_UNREADABLE, words, advice)]


def _signatures(header: str | None) -> tuple[list[Given], list[Finding]]:
    """Return the digests that the header holds, and what is wrong with it as a whole."""
    if header is None:
        return [], []
    given: list[Given] = []
    findings: list[Finding] = []
    texts = header.split()
    for version, text, intact in _pairs(texts[:MOST_SIGNATURES]):
        if version not in {"v1", ""}:
            findings.append(_other_version(version))
            continue
        read_as = _digest(text)
        if read_as is None:
            findings.append(_unreadable(text))
            continue
        flaw = read_as.flaw or (None if version else _NO_VERSION) or (None if intact else _JOINED)
        given.append(Given(read_as.digest, flaw))
    if len(texts) > MOST_SIGNATURES:
        findings.append(
            note(
                Code.SEVERAL_SIGNATURES,
                f"webhook-signature holds {len(texts)} signatures; the first {MOST_SIGNATURES} are looked at.",
                "",
            )
        )
    elif len(given) > 1:
        findings.append(
            note(
                Code.SEVERAL_SIGNATURES,
                f"webhook-signature holds {len(given)} signatures: a secret is being rotated. One of them has to fit.",
                "Compare with each of them, not with the header as a whole.",
            )
        )
    return given, findings


def _pairs(texts: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield version, signature, and whether the two stand there as they were sent; a version of '' is missing."""
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
    """Return the digest that the text is, in whatever form."""
    if _HEX.fullmatch(text):
        return Given(bytes.fromhex(text), _IN_HEX)
    for candidate, flaw in (
        (text, None),
        (text.rstrip("=") + "=", _NOT_PADDED),
        (text.replace("-", "+").replace("_", "/").rstrip("=") + "=", _URL_SAFE),
    ):
        try:
            digest = base64.b64decode(candidate, validate=True)
        except (binascii.Error, ValueError):
            continue
        if len(digest) == DIGEST_BYTES:
            return Given(digest, flaw)
        if len(digest) == 2 * DIGEST_BYTES and _HEX.fullmatch(digest.decode("latin-1")):
            return Given(bytes.fromhex(digest.decode()), _HEX_IN_BASE64)
    return None


def _unreadable(text: str) -> Finding:
    if len(text) < 44:  # noqa: PLR2004  # base64 of 32 bytes
        words = f"A signature has {len(text)} characters; the base64 of 32 bytes has 44. Was it cut off?"
    else:
        words = "A signature is not the base64 of 32 bytes."
    return error(Code.SIGNATURE_UNREADABLE, words, "Pass webhook-signature on as it came.")


def _other_version(version: str) -> Finding:
    if version == "v1a":
        words = (
            "A signature is of version v1a, which is asymmetric (Ed25519): a signing secret cannot verify it."
        )
    else:
        words = "A signature is of a version other than v1."
    return note(
        Code.SIGNATURE_VERSION,
        words,
        "This service signs with v1 (HMAC-SHA256). Leave out versions you do not know.",
    )


_NO_VERSION: Final = error(
    Code.SIGNATURE_VERSION,
    "The signature has no version in front: it is written v1,<base64>.",
    "Pass webhook-signature on as it came, and compare with what follows each v1, in it.",
)
_JOINED: Final = error(
    Code.SIGNATURE_UNREADABLE,
    "There are commas or quotes around the signatures; between them stands a blank, and nothing else.",
    "Pass webhook-signature on as it came: something joins headers, or quotes them.",
)
_IN_HEX: Final = error(
    Code.SIGNATURE_HEX,
    "The signature is written in hexadecimal digits; it is sent in base64.",
    "Write the digest in base64, of the 32 bytes and not of their hexadecimal digits.",
)
_HEX_IN_BASE64: Final = error(
    Code.SIGNATURE_HEX,
    "The signature is the base64 of hexadecimal digits; it is sent as the base64 of the 32 bytes themselves.",
    "Take the digest, not the hexdigest, and write that in base64.",
)
_NOT_PADDED: Final = error(
    Code.SIGNATURE_UNREADABLE,
    "The signature lacks the = at its end.",
    "Pass webhook-signature on as it came: something takes its last character off.",
)
_URL_SAFE: Final = error(
    Code.SIGNATURE_UNREADABLE,
    "The signature is written in the URL-safe alphabet of base64 (- and _); it is sent in the standard one (+ and /).",
    "Pass webhook-signature on as it came, and write yours in standard base64.",
)
