"""On whose behalf a task works: a partner's request, a command, or a job. For log lines and the audit trail.

Each request and each job is a separate task with its own context.
"""

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Final, Protocol
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato_contract.wire import uuid_text

SERVICE: Final = "service"
"""The actor of changes that no caller requested: a job that gives up, an endpoint that is disabled."""


class WorkContext(Struct, frozen=True, kw_only=True):
    """An actor and its action. `action` is an operation's id, a command, or a job's kind."""

    action: str
    key_id: UUID | None = None
    user: str | None = None
    """The operating system's user who runs a command."""
    console: str | None = None
    """The actor who made the sign-in link of a console session: `key:<id>` or `cli:<user>`."""
    surface: str | None = None
    partner_id: UUID | None = None
    subjects: Mapping[str, UUID | None] = {}
    """Ids of what it is about, by the names of their log fields."""
    request_id: str | None = None
    trace_id: str | None = None

    @property
    def actor(self) -> str:
        """Return `key:<id>`, `cli:<user>`, `console:` and one of these, or `service`."""
        if self.console is not None:
            return f"console:{self.console}"
        if self.key_id is not None:
            return f"key:{uuid_text(self.key_id)}"
        return SERVICE if self.user is None else f"cli:{self.user}"

    def log_fields(self) -> Iterator[tuple[str, str]]:
        """Yield the fields that every log line gets."""
        yield "action", self.action
        ids = {name: getattr(self, name) for name in ("request_id", "trace_id", "partner_id")}
        for name, value in (ids | dict(self.subjects)).items():
            if value is not None:
                yield name, str(value)


class Work(Protocol):
    """Makes its context when that is first read: most requests never read theirs."""

    @property
    def action(self) -> str:
        """What is done, as the context will say."""

    def context(self) -> WorkContext: ...


_context: ContextVar[WorkContext | Work | None] = ContextVar("context", default=None)


def set_partner(*, partner_id: UUID, traceparent: str, **subjects: UUID) -> None:
    """Set the partner, the subjects and the trace of the job that this task runs, once its row has been read."""
    context = current_context() or WorkContext(action=SERVICE)
    trace_id = traceparent[3:35] or None
    _context.set(replace(context, partner_id=partner_id, subjects=subjects, trace_id=trace_id))


set_context: Final = _context.set
"""Set the context of this task and of those that it starts, or what makes it."""


def current_context() -> WorkContext | None:
    """Return this task's context; None if none was set."""
    found = _context.get()
    if found is None or isinstance(found, WorkContext):
        return found
    context = found.context()
    _context.set(context)
    return context


def current_action() -> str | None:
    """Return the action of this task's context, which needn't be made for it; None if none was set."""
    found = _context.get()
    return None if found is None else found.action
