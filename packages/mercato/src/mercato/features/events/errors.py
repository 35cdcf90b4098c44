"""Refusals about feeds."""

from mercato.platform.errors import Problem
from mercato_contract import problems


class CursorExpired(Problem):
    kind = problems.CURSOR_EXPIRED

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} after this cursor are no longer kept. Read on without `after`: from the oldest that is. "
            "What happened between is lost to this list, so compare with the resources themselves."
        )
