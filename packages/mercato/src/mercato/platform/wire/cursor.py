"""Reads the cursor of a request, and divides the rows of a query into a page and the cursor of the next."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from mercato.platform.errors import ValidationFailed
from mercato_contract.pages import MALFORMED, cursor_of, parse_cursor

T = TypeVar("T")


def read_cursor(text: str | None) -> UUID | None:
    """Return the id of the last entry of the page before; None for the first page. Raises ValidationFailed."""
    if text is None:
        return None
    last = parse_cursor(text)
    if last is None:
        raise ValidationFailed.at(None, MALFORMED)
    return last


def page_of(rows: Sequence[T], limit: int, id_of: Callable[[T], UUID]) -> tuple[Sequence[T], str | None]:
    """Return the page and its `nextCursor`, from the rows of a query with `limit + 1`."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], cursor_of(id_of(rows[limit - 1]))
