"""Texts of merchants as agents get them: data, which can't pass for instructions, hide characters or grow.

Their names and descriptions stand only in the results of tools, never in what describes a tool.
"""

import re
from typing import Final

MAX_NAME: Final = 120
MAX_DESCRIPTION: Final = 300
"""Characters that are kept of a name, and of a description."""

_HIDDEN: Final = re.compile(
    # Control characters, of which those that separate words are replaced by a space before; a soft hyphen.
    r"[\x00-\x1f\x7f-\x9f\xad"
    # Characters without a width, marks and overrides of direction, fillers, a byte order mark, annotations.
    r"\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    # Musical controls, tags and selectors of variants: they can carry a text that nobody sees.
    r"\ufe00-\ufe0f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACES: Final = re.compile(r"[\s\x85\u2028\u2029]+")


def plain(text: str, most: int = MAX_NAME) -> str:
    """Return the text on one line, without characters that nobody sees, cut to a number of characters."""
    if not (text.isascii() and text.isprintable()):
        text = _HIDDEN.sub("", _SPACES.sub(" ", text))
    text = text.strip()
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def described(text: str) -> str:
    """Return a description, cut to its number of characters."""
    return plain(text, MAX_DESCRIPTION)
