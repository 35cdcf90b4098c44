"""The findings of the debugger: a code for programs, a message for people, and advice. Texts are in findings.toml."""

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato_contract.debugger.bodies import BodyDifference
from mercato_contract.wire import Wire


class Code(StrEnum):
    """What is wrong, for programs. More may be added."""

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
VALID: Final = "The signature is right, and the timestamp is recent enough."


class Finding(Wire, frozen=True):
    """One thing that is wrong or worth knowing."""

    code: Annotated[
        str, Meta(description="The kind of finding, for programs. More may be added.", examples=["WRONG_KEY"])
    ]
    level: Annotated[
        str, Meta(description="`error` if a verifier refuses the webhook because of it, else `note`.")
    ]
    message: str
    advice: Annotated[str, Meta(description="What to do; empty when there is nothing to do.")]


class SignatureExplanation(Wire, frozen=True):
    """Whether a webhook's signature is valid, and if not, why."""

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
            description="Which secret produced the signature: one `given` by the caller, or the account's `current` or "
            "`previous` one; null if none did."
        ),
    ]
    secret_index: Annotated[
        int | None, Meta(description="Which of them, from 0, the newest first; null like `signedWith`.")
    ]
    delivery_id: Annotated[
        UUID | None, Meta(description="The delivery that it was compared with; null if it was with none.")
    ]


@cache
def texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(resources.files(__package__).joinpath("findings.toml").read_text("utf-8"))


def finding(name: str, /, *, code: Code | None = None, **facts: object) -> Finding:
    """Return the finding of that name in findings.toml, with the facts in its text."""
    text, shared = texts()[name], texts()["shared"]
    return Finding(
        code=code.value if code is not None else text["code"],
        level=text.get("level", ERROR),
        message=text["message"].format(**facts),
        advice=text.get("advice", "").format(**facts, **shared),
    )
