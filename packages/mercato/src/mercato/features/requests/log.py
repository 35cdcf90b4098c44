"""The request log: a line for each notable request, and the refused requests, stored in batches by one task."""

import re
from collections import Counter
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final, Literal
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from mercato.features.metrics import CommerceMetrics
from mercato.features.partners.model import Caller
from mercato.features.requests import queries
from mercato.features.requests.queries import Filter, Refusal
from mercato.platform.db.engine import Database, Write
from mercato.platform.db.write_behind import WriteBehind
from mercato.platform.telemetry.context import current_context
from mercato.platform.telemetry.logs import EventLog
from mercato_contract.clock import Clock, MakeId
from mercato_contract.decoding.decode import page_of, read_cursor
from mercato_contract.member_hints import UNKNOWN_MEMBER
from mercato_contract.problems import OrderError
from mercato_contract.refusals import ValidationFailed
from mercato_contract.requests import RefusedRequest, RefusedRequestPage, RefusedRequestQuery
from mercato_contract.texts import without_secrets
from mercato_contract.wire import instant_fault, parse_instant, rfc3339, uuid_text

Mode = Literal["off", "notable", "all"]

DAYS: Final = 7
"""How long refused requests are kept."""

PER_MINUTE: Final = 60
"""Refused requests of one partner that a process stores in a minute. All without a valid key count as one partner."""

MAX_WAITING: Final = 5_000
"""Refused requests that may wait to be stored."""

MAX_TOLD: Final = 10_000
"""Combinations of partner, operation and unknown members that a process remembers for an hour."""

MAX_PATH: Final = 512
MAX_ERRORS: Final = 20
MAX_TEXT: Final = 300
"""Characters of a detail, message or pointer that are kept: each may repeat what the partner sent."""


class RequestRecord(Struct, frozen=True, kw_only=True):
    """A request and its answer. `operation` is None if there is no such path; `path` has no query."""

    request_id: str
    operation: str | None
    method: str
    path: str
    status: int
    seconds: float
    error_code: str | None = None
    errors: tuple[OrderError, ...] = ()
    detail: str | None = None
    unknown: tuple[OrderError, ...] = ()
    """A warning about each member of the body that is unknown."""


class RequestLog:
    """Logs and stores requests. Nothing here makes a request wait: what can't be queued is dropped and counted."""

    def __init__(
        self,
        db: Database,
        event_log: EventLog,
        metrics: CommerceMetrics,
        *,
        clock: Clock,
        new_id: MakeId,
        mode: Mode,
    ) -> None:
        self._event_log = event_log
        self._metrics = metrics
        self._clock = clock
        self._new_id = new_id
        self._writes_lines = mode != "off"
        self._waiting: WriteBehind[Refusal] = WriteBehind(
            db, _insert, name="refused requests", max_size=MAX_WAITING, dropped=metrics.request_not_logged
        )
        self._minute = 0.0
        self._stored: Counter[UUID | None] = Counter()
        self._hour = 0.0
        self._told: set[tuple[UUID | None, str | None, tuple[str, ...]]] = set()

    def record(self, request: RequestRecord) -> None:
        """Log a notable request, and queue it to be stored if it was refused or had members that are unknown."""
        milliseconds = round(request.seconds * 1000)
        context = current_context()
        key_id = None if context is None else context.key_id
        if self._writes_lines:
            refusal = (
                {} if request.error_code is None else {"error_code": queries.public_code(request.error_code)}
            )
            key = {} if key_id is None else {"key_id": uuid_text(key_id)}
            self._event_log.record(
                "request",
                request_id=request.request_id,
                operation=request.operation,
                status=request.status,
                ms=milliseconds,
                **refusal,
                **key,
            )
        partner_id = None if context is None else context.partner_id
        is_api = partner_id is not None or request.path.startswith("/v1/")
        error_code = request.error_code
        if error_code is None and request.unknown and self._is_news(partner_id, request):
            error_code = UNKNOWN_MEMBER
        if error_code is None or not is_api or not self._may_store(partner_id):
            return
        self._waiting.put(
            Refusal(
                id=self._new_id(),
                at=self._clock(),
                request_id=request.request_id,
                partner_id=partner_id,
                key_id=key_id,
                surface=None if context is None else context.surface,
                operation=request.operation,
                method=request.method[:MAX_TEXT],
                path=_bounded(request.path, MAX_PATH),
                status=request.status,
                error_code=_bounded(error_code),
                errors=tuple(
                    _bounded_error(error) for error in (*request.errors, *request.unknown)[:MAX_ERRORS]
                ),
                store_id=None if context is None else context.subjects.get("store_id"),
                milliseconds=milliseconds,
                detail=None if request.detail is None else _bounded(request.detail),
            )
        )

    def _may_store(self, partner_id: UUID | None) -> bool:
        if monotonic() - self._minute >= 60:  # noqa: PLR2004  # seconds of a minute
            self._minute = monotonic()
            self._stored.clear()
        if self._stored[partner_id] >= PER_MINUTE:
            self._metrics.request_not_logged("partner_limit")
            return False
        self._stored[partner_id] += 1
        return True

    def _is_news(self, partner_id: UUID | None, request: RequestRecord) -> bool:
        """Return whether the same unknown members weren't stored within the hour: many send them in every request."""
        if monotonic() - self._hour >= 3600 or len(self._told) >= MAX_TOLD:  # noqa: PLR2004  # seconds of an hour
            self._hour = monotonic()
            self._told.clear()
        # Entries of a list differ in their number alone.
        members = tuple(sorted({re.sub(r"/\d+/", "/", error.pointer or "") for error in request.unknown}))
        key = partner_id, request.operation, members
        if key in self._told:
            return False
        self._told.add(key)
        return True

    async def run(self) -> None:
        """Store refused requests until cancelled, and at the end those that still wait."""
        await self._waiting.run()

    async def flush(self) -> None:
        """Store the refused requests that wait."""
        await self._waiting.flush()


async def _insert(tx: Write, refusals: Sequence[Refusal]) -> None:
    for refusal in refusals:
        queries.insert(tx, refusal)


async def list_own_requests(db: Database, caller: Caller, query: RefusedRequestQuery) -> RefusedRequestPage:
    """Return a page of the caller's refused requests. Raises ValidationFailed."""
    since = None if query.since is None else parse_instant(query.since)
    if query.since is not None and since is None:
        raise ValidationFailed.at(None, instant_fault("since", query.since))
    wanted = Filter(caller=caller, error_code=query.error_code, since=since, store_id=query.store_id)
    async with db.read() as tx:
        rows = await queries.list_refused(tx, wanted, before=read_cursor(query.cursor), limit=query.limit + 1)
    page, cursor = page_of(rows, query.limit, lambda row: row.id)
    return RefusedRequestPage(requests=[entry_of(row) for row in page], next_cursor=cursor)


def entry_of(refusal: Refusal) -> RefusedRequest:
    """Return a refused request as it is listed."""
    members: dict[str, Any] = {name: getattr(refusal, name) for name in RefusedRequest.__struct_fields__}
    return RefusedRequest(**members | {"at": rfc3339(refusal.at), "errors": list(refusal.errors)})


def _bounded(text: str, length: int = MAX_TEXT) -> str:
    """Return the text shortened, without keys, and without control characters, which a terminal would obey."""
    masked = without_secrets(text[:length])
    return "".join(char if char.isprintable() else "\ufffd" for char in masked)


def _bounded_error(error: OrderError) -> OrderError:
    pointer = None if error.pointer is None else _bounded(error.pointer)
    return replace(error, code=_bounded(error.code), message=_bounded(error.message), pointer=pointer)
