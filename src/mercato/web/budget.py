"""Bounds the bytes of request bodies that one process holds in memory."""

from typing import Final

from mercato.errors import RateLimited, ServiceUnavailable

Owner = int | str
"""Whose body it is: the number of a partner's id, or the network of a client whose partner isn't known."""

SHARES: Final = 4
"""One owner gets a quarter of the budget, so that four have to send at once before anybody else is refused."""

RETRY_AFTER: Final = 2
"""Seconds until a refused client tries again: a body has left memory once its request is answered."""


class BodyBudget:
    """Counts bytes as they arrive, not as they are declared: a length without bytes takes nothing from anybody.

    A body that arrives in one piece never comes here: it's in memory already, and the server bounds its size.
    """

    def __init__(self, total: int, *, largest: int) -> None:
        """`largest` is the limit of one body: an owner may always send one."""
        self._total = total
        self._share = max(total // SHARES, largest)
        self._taken = 0
        self._by_owner: dict[Owner, int] = {}

    @property
    def taken(self) -> int:
        """The bytes that are held now."""
        return self._taken

    def take(self, owner: Owner, size: int) -> None:
        """Count bytes that have arrived. Raises RateLimited, or ServiceUnavailable if others hold too much."""
        own = self._by_owner.get(owner, 0) + size
        if own > self._share:
            raise RateLimited(
                f"The request bodies that you are sending have more than {self._share} bytes together. "
                f"Send fewer at a time: wait {RETRY_AFTER} s.",
                retry_after=RETRY_AFTER,
            )
        if self._taken + size > self._total:
            raise ServiceUnavailable(
                f"The service is receiving too many large request bodies. Try again in {RETRY_AFTER} s.",
                retry_after=RETRY_AFTER,
            )
        self._by_owner[owner] = own
        self._taken += size

    def release(self, owner: Owner, size: int) -> None:
        """Give bytes back that were taken."""
        self._taken -= size
        left = self._by_owner[owner] - size
        if left:
            self._by_owner[owner] = left
        else:
            del self._by_owner[owner]
