"""On whose behalf this task works: a partner's request, a command, or a job. Log lines and the audit trail say it.

Each request and each job is a task of its own, so what one of them sets no other sees.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

SERVICE: Final = "service"
"""The actor of what nobody asked for: a job that gives up, a receiver that is called no more."""


class Acting(Struct, frozen=True, kw_only=True):
    """Who does what. `action` is an operation's id, a command, or a job's kind."""

    action: str
    key_id: UUID | None = None
    user: str | None = None
    """The operating system's name of who typed a command."""
    console: str | None = None
    """Who made the link of the console's session in which it is done: an actor, as `key:<id>` or `cli:<user>`."""
    surface: str | None = None
    partner_id: UUID | None = None
    store_id: UUID | None = None
    request_id: str | None = None
    trace_id: str | None = None

    @property
    def actor(self) -> str:
        """Return who it is: `key:<id>`, `cli:<user>`, one of both after `console:`, or `service`."""
        if self.console is not None:
            return f"console:{self.console}"
        if self.key_id is not None:
            return f"key:{self.key_id}"
        return SERVICE if self.user is None else f"cli:{self.user}"

    def told(self) -> Iterator[tuple[str, str]]:
        """Yield what a log line says of it."""
        yield "action", self.action
        for name in ("request_id", "trace_id", "partner_id", "store_id"):
            value = getattr(self, name)
            if value is not None:
                yield name, str(value)


_acting: ContextVar[Acting | Callable[[], Acting] | None] = ContextVar("acting", default=None)


def act_for(*, partner_id: UUID, store_id: UUID | None = None, traceparent: str) -> None:
    """Say whose the job is that this task carries out, once its row has told."""
    acting = acting_now() or Acting(action=SERVICE)
    trace_id = traceparent[3:35] or None
    _acting.set(replace(acting, partner_id=partner_id, store_id=store_id, trace_id=trace_id))


act_as: Final = _acting.set
"""Say who is at work from here on in this task, and in the tasks that it starts; or what tells it when it is asked.

Most requests are answered without anybody asking.
"""


def acting_now() -> Acting | None:
    """Return who is at work; None where nobody said."""
    found = _acting.get()
    if found is None or isinstance(found, Acting):
        return found
    acting = found()
    _acting.set(acting)
    return acting
