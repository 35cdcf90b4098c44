"""What can be wrong with a webhook's signature: a code for programs, words for people, and what to do. Pure."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from mercato.wire import Wire


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


def error(code: Code, message: str, advice: str) -> Finding:
    """Return what keeps the webhook from being verified."""
    return Finding(code=code.value, level=ERROR, message=message, advice=advice)


def note(code: Code, message: str, advice: str) -> Finding:
    """Return what is good to know."""
    return Finding(code=code.value, level=NOTE, message=message, advice=advice)
