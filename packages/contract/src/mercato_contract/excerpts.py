"""Text of others as it may be stored and shown: shortened, its secrets masked, its unseen characters made visible."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

from mercato_contract.wire import as_json

EXCERPT_BYTES: Final = 1024
"""Bytes of a reply's body in the delivery log."""

_MIN_MASKED: Final = 4
"""Characters: a shorter beginning of a secret at the end of a reply is no leak."""

_SHOWN: Final = "\t\r\n\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""Characters that aren't printable and stay: white space of JSON, and those that shape letters and emoji."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]*")


def excerpt(body: bytes, *, hidden: Sequence[str]) -> str:
    """Return the beginning of a reply as text that can be stored, with the `hidden` strings masked."""
    if not body:
        return ""
    text = _visible(body.decode("utf-8", "replace").replace("\x00", "\ufffd"))
    # Longest first: one may be a part of another.
    for secret in sorted(hidden, key=len, reverse=True):
        for form in _forms(secret):
            text = _mask_end(text.replace(form, "***"), form)
    return text.encode()[:EXCERPT_BYTES].decode("utf-8", "ignore")


def masked(text: str, *, hidden: Sequence[str]) -> str:
    """Return a message about a reply with the `hidden` strings masked."""
    for secret in sorted(hidden, key=len, reverse=True):
        for form in _forms(secret):
            text = text.replace(form, "***")
    return text


def _visible(text: str) -> str:
    """Return the text with the code in place of each character that nobody sees, as in [U+FEFF]."""
    if text.isprintable():
        return text
    return "".join(
        character if character in _SHOWN or character.isprintable() else f"[U+{ord(character):04X}]"
        for character in text
    )


def _forms(secret: str) -> Iterable[str]:
    """Return the secret, and its forms in JSON and URLs, longest first; nothing for ''."""
    if _PLAIN.fullmatch(secret):
        return (secret,) if secret else ()
    # Some encoders escape characters outside ASCII, and PHP's escapes the slash.
    in_json = as_json(secret)[1:-1].decode(), json.dumps(secret)[1:-1]
    forms = (secret, *in_json, *(form.replace("/", "\\/") for form in in_json), quote(secret, safe=""))
    return sorted(dict.fromkeys(forms), key=len, reverse=True)


def _mask_end(text: str, secret: str) -> str:
    """Mask the beginning of the secret at the end of the text, which may have been cut there."""
    if not text or text[-1] not in secret:
        return text
    for length in range(min(len(secret) - 1, len(text)), _MIN_MASKED - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + "***"
    return text
