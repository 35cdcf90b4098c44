"""What the signature clinic says: the words for what it found. Pure."""

from collections.abc import Sequence
from typing import Final

from mercato.domain.webhooks.debugger.bodies import BodyDifference
from mercato.domain.webhooks.debugger.findings import NOTE, Code, Finding, error, note
from mercato.domain.webhooks.debugger.mistakes import Secret, SecretOrigin, usable_key
from mercato.kernel.outbound.signing import PREFIX

TOLERANCE: Final = 300
"""Seconds that a timestamp may be off, as in the libraries of Standard Webhooks."""


def of_secret(secret: Secret) -> Finding | None:
    text, number = secret.text, secret.index + 1
    if usable_key(text) is None:
        hint = "It is whsec_ and base64."
        if text.startswith(("whpk_", "whsk_")):
            hint = "It is a key of an asymmetric signature, which this service does not use."
        elif text.startswith(("mk_", "mt_")):
            hint = "It is an API key or access token; the signing secret begins with whsec_."
        elif text != text.strip() or text.strip("\"'") != text:
            hint = "There are blanks or quotes around it."
        return error(Code.KEY_UNUSABLE, f"Secret {number} is no signing secret. {hint}", GET_IT)
    if not text.startswith(PREFIX):
        return note(
            Code.WRONG_PREFIX,
            f"Secret {number} has no prefix whsec_: it is taken for the base64 of the key.",
            "Some libraries need the prefix: keep the secret as it was shown.",
        )
    return None


def of_owner(signer: Secret, tried: Sequence[Secret]) -> Finding | None:
    """Return what it means that this secret signed, and not another."""
    if signer in tried:
        if signer.index == 0 and signer.origin is not SecretOrigin.PREVIOUS:
            return None
        return note(
            Code.OLD_KEY,
            "It is signed with an older secret, not with the first of those tried: a secret is being rotated.",
            "Keep both until the overlap is over, and the new one after it.",
        )
    if signer.origin is SecretOrigin.PREVIOUS:
        return error(
            Code.OLD_KEY,
            "It is signed with the account's secret of before the rotation, which is none of those given.",
            "Verify with both secrets until the overlap is over.",
        )
    return error(
        Code.WRONG_KEY,
        "It is signed with the account's present secret, which is none of those given.",
        GET_IT,
    )


def of_key(code: Code, mistake: str) -> Finding:
    return error(code, f"The signature was made with a wrong key: {mistake}.", RIGHT_KEY)


def of_body(way: str | None, found: BodyDifference | None) -> Finding:
    at = (
        ""
        if found is None
        else f" They first differ at byte {found.offset} (line {found.line}, column {found.column})."
    )
    if way is None:
        return error(
            Code.BODY_CHANGED,
            f"The body is not the one that was signed.{at}",
            "Verify the bytes as they came, and see what changes them on the way.",
        )
    return error(
        Code.BODY_RESERIALISED,
        f"The body was written anew after it was signed: {way}.{at}",
        "Verify the bytes as they came, before any framework parses, decodes or prints them.",
    )


def of_clock(skew: int, *, known: bool) -> Finding:
    off, allowed = abs(skew), f"{TOLERANCE} s are allowed."
    if skew > 0:
        words = (
            f"The timestamp is {off} s ahead of the {'time of receipt' if known else 'clock here'}; {allowed}"
        )
        return error(Code.CLOCK_SKEW, words, "Set the receiver's clock by NTP: it is slow.")
    if known:
        words = f"The timestamp is {off} s before the time of receipt; {allowed}"
        return error(
            Code.CLOCK_SKEW,
            words,
            "Set the receiver's clock by NTP: it is fast. Or is the webhook kept for long before it is verified, or "
            "sent again by somebody else?",
        )
    words = f"The timestamp is {off} s before now; {allowed}"
    return error(
        Code.CLOCK_SKEW,
        words,
        "If it came in time and only the question comes late, say when it was received. Else the receiver's clock is "
        "fast, or the webhook was kept for long before it was verified.",
    )


def only_noted(finding: Finding) -> Finding:
    return Finding(code=finding.code, level=NOTE, message=finding.message, advice=finding.advice)


def only_noted_signature(finding: Finding) -> Finding:
    return only_noted(finding) if finding.code.startswith("SIGNATURE_") else finding


def of_another(finding: Finding) -> Finding:
    """Return the note that something differs from a delivery that this webhook, being rightly signed, is not."""
    return note(
        Code(finding.code),
        f"{finding.message} The signature is right all the same: this is another webhook than that delivery.",
        "",
    )


VALID: Final = "The signature is right, and the timestamp is recent enough."
GET_IT: Final = (
    "Take the signing secret from where the partner was made, or have it shown or rotated by who runs the service: "
    "mercato secret list NAME --reveal, mercato secret rotate NAME."
)
RIGHT_KEY: Final = "Take what follows whsec_ and decode it from base64: those bytes are the key."
RIGHT_WAY: Final = (
    "The key is what follows whsec_, decoded from base64; what is signed is webhook-id, a dot, webhook-timestamp, "
    "a dot, and the bytes of the body; the signature is the base64 of the HMAC-SHA256."
)
AS_THEY_CAME: Final = "Pass the three webhook- headers on as they came."
COMPARE: Final = (
    "To have it compared with what was sent, ask POST /v1/webhooks/explain with a key of the account, and give "
    "deliveryId."
)
NO_V1: Final = error(
    Code.SIGNATURE_VERSION,
    "webhook-signature holds no signature of version v1.",
    "Pass webhook-signature on as it came: v1, a comma, and base64.",
)
COMPUTED_RIGHT: Final = note(
    Code.COMPUTED_RIGHT,
    "The signature that you computed is right for these headers, this body and this secret.",
    "If your code still refuses, look at how it compares: with each signature of the header, without v1, in front.",
)
COMPUTED_UNKNOWN: Final = note(
    Code.COMPUTED_UNKNOWN,
    "The signature that you computed comes from none of these secrets, by no mistake that is known here.",
    RIGHT_WAY,
)
