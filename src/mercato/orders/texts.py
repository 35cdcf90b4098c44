"""Texts of somebody else's: read without trust, and made fit to be kept and shown."""

import re
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

Member = msgspec.Raw | UnsetType
"""A member of a JSON object, unread, if it was there."""

_CONTROLS: Final = re.compile(r"[\x00-\x20\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
"""What breaks a line, or turns the direction of what follows; runs of it become one space."""


def readable(text: str, most: int) -> str:
    """Return a text of somebody else's on one line, without control characters, cut to `most` characters."""
    return _CONTROLS.sub(" ", text[: 4 * most]).strip()[:most]


def decoded(raw: msgspec.Raw | UnsetType, kind: Any = Any) -> Any:
    """Return what a member holds, null being the same as absent. Raises msgspec.ValidationError, no other."""
    if raw is UNSET:
        return None
    try:
        return _decoder(kind).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise msgspec.ValidationError from fault


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type: one for each place that reads a member, so that there are few."""
    return msgspec.json.Decoder(kind | None if kind is not Any else Any)
