"""Pages of a list: an opaque cursor with the last entry of a page, and the bounds of `limit`."""

import base64
from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeVar
from uuid import UUID

from msgspec import Meta

from mercato.kernel.errors import ValidationFailed
from mercato.kernel.wire.base import Wire
from mercato.kernel.wire.checks import validator

PAGE: Final = 50
"""Entries of a page when the request names no `limit`."""

MAX_PAGE: Final = 100

PageLimit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Entries a page may have.")]
"""The query parameter `limit`: `limit: PageLimit = PAGE`."""

MALFORMED: Final = "cursor is not a nextCursor of this list. Leave it out to start from the first page."

T = TypeVar("T")


def cursor_of(last: UUID) -> str:
    """Return the cursor of the page after the entry with this id: base64url without padding."""
    return base64.urlsafe_b64encode(last.bytes).rstrip(b"=").decode()


def read_cursor(text: str | None) -> UUID | None:
    """Return the id of the last entry of the page before; None for the first page. Raises ValidationFailed."""
    if text is None:
        return None
    last = _last(text)
    if last is None:
        raise ValidationFailed.at(None, MALFORMED)
    return last


def page_of(rows: Sequence[T], limit: int, id_of: Callable[[T], UUID]) -> tuple[Sequence[T], str | None]:
    """Return the page and its `nextCursor`, from the rows of a query with `limit + 1`."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], cursor_of(id_of(rows[limit - 1]))


def _last(text: str) -> UUID | None:
    try:
        last = UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except ValueError:  # characters that aren't base64, or a wrong length
        return None
    # 22 characters hold 132 bits, and the last four must be zero: each id has one cursor.
    return last if cursor_of(last) == text else None


Cursor = Annotated[
    str,
    Meta(
        description="The `nextCursor` of the page before; without it, the first page.",
        extra=validator(lambda text: MALFORMED if _last(text) is None else None),
    ),
]
"""The query parameter `cursor`: `cursor: Cursor | None = None`."""


class Page(Wire):
    """The query parameters of a list, and the base of those with more."""

    limit: PageLimit = PAGE
    cursor: Cursor | None = None
