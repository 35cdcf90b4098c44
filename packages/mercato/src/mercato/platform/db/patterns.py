"""Texts as patterns of LIKE, for searches in any letter case."""

import re
from typing import Final

ESCAPE: Final = "\\"

_SPECIAL: Final = re.compile(r"([\\%_])")
"""The wildcards of LIKE, and its escape character."""

_NON_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
"""Databases lower these characters differently."""


def pattern_of(text: str) -> str:
    """Return the pattern of a column's lower-case text; it fits more than the text, so compare what is found."""
    return _NON_ASCII.sub("%", _SPECIAL.sub(r"\\\1", text)).lower()
