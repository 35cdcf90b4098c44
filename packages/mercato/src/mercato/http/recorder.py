"""Chooses the requests for the request log, and says of each who sent it and why it was refused."""

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mercato.features.requests.log import RequestRecord
from mercato.http.head import Head
from mercato.http.operations import Operation, Rate
from mercato.platform.errors import Problem
from mercato.platform.telemetry.context import WorkContext, current_context, set_context
from mercato.services import Services
from mercato_contract.problems import OTHER, OrderError, ProblemDetail

NO_OPERATION: Final = "none"
"""Stands for the operation of a request whose path or method has none."""

FIRST_REFUSAL: Final = 400


class Reason(Struct, frozen=True):
    """Why a request was refused: the answer's code, faults and detail. No detail is a store's words."""

    error_code: str
    errors: tuple[OrderError, ...] = ()
    detail: str | None = None


def reason_of(problem: Problem) -> Reason:
    return Reason(problem.error_code, problem.errors, problem.detail)


def reason_of_stored(refusal: ProblemDetail) -> Reason:
    """Return the reason of a stored refusal in our own words: its messages may be a store's."""
    errors = (replace(error, message=refusal.title) for error in refusal.errors or ())
    return Reason(refusal.error_code or OTHER, tuple(errors))


class Recorder:
    """Requests are recorded that are refused, that take `slow` seconds, or whose operation is among `operations`."""

    def __init__(self, app: Services, operations: Iterable[Operation]) -> None:
        self._app = app
        mode = app.settings.request_log
        self.slow = math.inf if mode == "off" else app.settings.slow_ms / 1000
        self.operations = frozenset(
            op.id for op in operations if mode == "all" or (mode == "notable" and op.rate is Rate.WRITE)
        )

    def record(
        self,
        method: str,
        head: Head,
        operation_id: str,
        status: int,
        seconds: float,
        reason: Reason | None,
    ) -> None:
        """Record a request that was answered."""
        if operation_id == NO_OPERATION and current_context() is None:
            self._set_known_caller(head)
        self._app.request_log.record(
            RequestRecord(
                request_id=head.request_id,
                operation=None if operation_id == NO_OPERATION else operation_id,
                method=method,
                path=head.path,
                status=status,
                seconds=seconds,
                error_code=None if reason is None else reason.error_code,
                errors=() if reason is None else reason.errors,
                detail=None if reason is None else reason.detail,
            )
        )

    def _set_known_caller(self, head: Head) -> None:
        """Set the caller of a request without an operation, if its key is in memory: the database isn't read."""
        token = head.headers.get(b"authorization", b"").partition(b" ")[2].strip()
        caller = self._app.callers.find_cached(token)
        if caller is not None:
            set_context(
                WorkContext(
                    action=NO_OPERATION,
                    key_id=caller.key_id,
                    surface=caller.surface,
                    partner_id=caller.partner_id,
                    request_id=head.request_id,
                    trace_id=head.trace_id,
                )
            )
