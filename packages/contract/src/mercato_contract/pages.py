"""Pages of a list: an opaque cursor with the last entry of a page, and the bounds of `limit`."""

import base64
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato_contract.wire import Wire, validator

PAGE: Final = 50
"""Entries of a page when the request names no `limit`."""


MAX_PAGE: Final = 100


MAX_UPDATES: Final = 100
"""Updates of orders, or of stores, in one request."""


PageLimit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Entries a page may have.")]
"""The query parameter `limit`: `limit: PageLimit = PAGE`."""


MALFORMED: Final = "cursor is not a nextCursor of this list. Leave it out to start from the first page."


def cursor_of(last: UUID) -> str:
    """Return the cursor of the page after the entry with this id: base64url without padding."""
    return base64.urlsafe_b64encode(last.bytes).rstrip(b"=").decode()


def parse_cursor(text: str) -> UUID | None:
    """Return the id of the entry that a cursor names; None if the text isn't a cursor."""
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
        extra=validator(lambda text: MALFORMED if parse_cursor(text) is None else None),
    ),
]
"""The query parameter `cursor`: `cursor: Cursor | None = None`."""


class Page(Wire):
    """The query parameters of a list, and the base of those with more."""

    limit: PageLimit = PAGE
    cursor: Cursor | None = None
