"""Texts of merchants as agents get them: data, which can't pass for instructions, hide characters or grow.

Their names and descriptions stand only in the results of tools, never in what describes a tool.
"""

from typing import Final

from mercato_contract.ordering import MAX_NAME
from mercato_contract.texts import as_data

MAX_DESCRIPTION: Final = 300
"""Characters that are kept of a description."""


def plain(text: str, most: int = MAX_NAME) -> str:
    """Return the text on one line, without characters that nobody sees, cut to a number of characters."""
    return as_data(text, most=most)


def described(text: str, part: int = 1) -> str:
    """Return a description, cut to its number of characters, or to a part of it: half of it if `part` is 2."""
    return plain(text, MAX_DESCRIPTION // part)
