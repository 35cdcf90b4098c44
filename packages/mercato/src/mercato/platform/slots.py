"""How many of one kind of work a process does for one partner at a time: what one has leaves room for the others'."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from mercato.platform.errors import RateLimited


class Slots:
    """Counts the work of a kind by partner. `full` says what to wait for, and `retry_after` how many seconds."""

    def __init__(self, limit: int, *, full: str, retry_after: int) -> None:
        self._limit = limit
        self._full = full
        self._retry_after = retry_after
        self._taken: Counter[UUID] = Counter()

    @contextmanager
    def slot(self, partner_id: UUID) -> Iterator[None]:
        """Take a slot for the block. Raises RateLimited if the partner has none left."""
        if self._taken[partner_id] >= self._limit:
            raise RateLimited(self._full, retry_after=self._retry_after)
        self._taken[partner_id] += 1
        try:
            yield
        finally:
            self._taken[partner_id] -= 1
            if not self._taken[partner_id]:
                del self._taken[partner_id]

    @property
    def in_use(self) -> int:
        """The slots that all partners have taken."""
        return self._taken.total()
