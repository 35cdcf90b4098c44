"""What a kind of database offers: `sqlite` and `postgresql` are the two."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from sqlalchemy import Executable

from mercato.platform.db.statements import Parameters, Result
from mercato.platform.db.types import Dialect


class Connection(Protocol):
    """The part of a backend's connection that readers use."""

    async def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Return the buffered result; its `rowcount` is the number of rows that a change touched."""


class WritingConnection(Connection, Protocol):
    """The part of a backend's connection that transactions use."""

    def defer(self, statement: Executable, parameters: Parameters) -> None:
        """Run a prepared statement whose result isn't needed, before the next statement or the commit.

        On PostgreSQL all deferred statements are one round trip. Each sees the rows as they were before all of them,
        so no two of them may change the same row.
        """


class Handle(Protocol):
    """What a transaction's block works with. The backend calls `committed` after the commit."""

    def committed(self) -> None: ...


H = TypeVar("H", bound=Handle)


class Backend(Protocol):
    """A kind of database."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def reading(self) -> Callable[[], AbstractAsyncContextManager[Connection]]:
        """Open a connection that can't write."""

    def writing(self, begin: Callable[[WritingConnection], H], /) -> AbstractAsyncContextManager[H]:
        """Open a transaction, with the handle that `begin` makes on its connection."""

    async def close(self) -> None: ...
