"""Texts that show nothing."""

import re
from typing import Final

# White space, controls, and Unicode's property Default_Ignorable_Code_Point (fillers, joiners, marks of direction,
# variation selectors, tags); beside them the braille pattern without dots and the interlinear annotations.
# https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point
_UNSEEN: Final = (
    r"\s\x00-\x20\x7f-\xa0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_seen: Final = re.compile(f"[^{_UNSEEN}]").search


def is_blank(text: str) -> bool:
    """Return whether nothing of the text is seen: it is empty, or has blanks and characters of no width alone."""
    return _seen(text) is None


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a thing that people read, or None."""
    return "name must have a character that can be seen." if is_blank(name) else None
