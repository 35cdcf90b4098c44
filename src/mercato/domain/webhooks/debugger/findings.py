"""What can be wrong with a webhook's signature: a code for programs, words for people, and what to do. Pure."""

from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato.domain.webhooks.debugger.bodies import BodyDifference
from mercato.kernel.wire import Wire


class Code(StrEnum):
    """What was found. More may be added."""

    VALID = "VALID"
    WRONG_KEY = "WRONG_KEY"
    OLD_KEY = "OLD_KEY"
    KEY_UNUSABLE = "KEY_UNUSABLE"
    WRONG_PREFIX = "WRONG_PREFIX"
    KEY_NOT_DECODED = "KEY_NOT_DECODED"
    BODY_RESERIALISED = "BODY_RESERIALISED"
    BODY_CHANGED = "BODY_CHANGED"
    ID_CHANGED = "ID_CHANGED"
    TIMESTAMP_CHANGED = "TIMESTAMP_CHANGED"
    TIMESTAMP_UNREADABLE = "TIMESTAMP_UNREADABLE"
    CLOCK_SKEW = "CLOCK_SKEW"
    MISSING_HEADER = "MISSING_HEADER"
    WRONG_HEADER = "WRONG_HEADER"
    REPEATED_HEADER = "REPEATED_HEADER"
    WRONG_CONTENT = "WRONG_CONTENT"
    SIGNATURE_VERSION = "SIGNATURE_VERSION"
    SIGNATURE_HEX = "SIGNATURE_HEX"
    SIGNATURE_UNREADABLE = "SIGNATURE_UNREADABLE"
    SEVERAL_SIGNATURES = "SEVERAL_SIGNATURES"
    COMPUTED_RIGHT = "COMPUTED_RIGHT"
    COMPUTED_UNKNOWN = "COMPUTED_UNKNOWN"


ERROR: Final = "error"
NOTE: Final = "note"


class Finding(Wire, frozen=True):
    """One thing that was found."""

    code: Annotated[
        str, Meta(description="What it is, for programs. More may be added.", examples=["WRONG_KEY"])
    ]
    level: Annotated[
        str, Meta(description="`error` when a verifier refuses the webhook for it, else `note`.")
    ]
    message: str
    advice: Annotated[str, Meta(description="What to do; empty when there is nothing to do.")]


class SignatureExplanation(Wire, frozen=True):
    """What is wrong with a webhook's signature, or that nothing is."""

    valid: Annotated[
        bool,
        Meta(description="Whether a Standard Webhooks verifier with one of the secrets accepts it."),
    ]
    code: Annotated[str, Meta(description="`VALID`, or the code of the first error.", examples=["VALID"])]
    message: Annotated[str, Meta(description="The same in words.")]
    findings: Annotated[list[Finding], Meta(description="Everything that was found, errors first.")]
    difference: Annotated[
        BodyDifference | None,
        Meta(description="Where the body differs from what was signed, if that is known."),
    ]
    skew_seconds: Annotated[
        int | None,
        Meta(
            description="`webhook-timestamp` less the time of receipt, in seconds; null without a timestamp."
        ),
    ]
    signed_with: Annotated[
        str | None,
        Meta(
            description="Whose secret made the signature: `given` by the caller, or the account's `current` or "
            "`previous` one; null if none that was tried did."
        ),
    ]
    secret_index: Annotated[
        int | None, Meta(description="Which of them, from 0, the newest first; null like `signedWith`.")
    ]
    delivery_id: Annotated[
        UUID | None, Meta(description="The delivery that it was compared with; null if it was with none.")
    ]


def error(code: Code, message: str, advice: str) -> Finding:
    """Return what keeps the webhook from being verified."""
    return Finding(code=code.value, level=ERROR, message=message, advice=advice)


def note(code: Code, message: str, advice: str) -> Finding:
    """Return what is good to know."""
    return Finding(code=code.value, level=NOTE, message=message, advice=advice)
