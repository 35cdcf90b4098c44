"""The one ASGI application in front of every operation.

Each request passes the same steps: head, caller, rate limit, ids, query, body, handler, answer. `render`, or what
the operation declares in its place, renders every refusal. A bug becomes a bare 500.

A recorder chooses the requests for the request log, and says of each who sent it and why it was refused. If traces are
exported, `Traced` makes a span for each request, around the edge.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, MutableMapping
from contextlib import aclosing
from functools import partial
from time import perf_counter
from typing import Any, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mercato.features.partners.callers import SuspendedPartner
from mercato.features.partners.limits import Limiter, network_of
from mercato.features.partners.model import Caller
from mercato.features.requests.log import RequestRecord
from mercato.http.body import Body, BodyBudget, Message, Receive, TimeLimit
from mercato.http.browsers import Cors, explain_preflight, prefix_location
from mercato.http.calls import quota_headers
from mercato.http.head import Head, Hosts, TrustedProxies, bearer_token, check_query, path_prefix
from mercato.http.operations import PROBLEM_DETAILS, Answer, BodyForm, Call, Operation, Rate, ReadBody, Upload
from mercato.http.routing import PATH_PARAMETERS, Match, routes_of
from mercato.platform import errors
from mercato.platform.db.errors import is_unavailable
from mercato.platform.errors import MethodNotAllowed, NotFound
from mercato.platform.telemetry import tracing
from mercato.platform.telemetry.context import WorkContext, current_action, current_context, set_context
from mercato.services import Services
from mercato.settings import MiB
from mercato_contract.decoding.unknown import unknown_header
from mercato_contract.member_hints import UNKNOWN_MEMBER, member_hint
from mercato_contract.problems import OTHER, OrderError, ProblemDetail
from mercato_contract.refusals import Problem
from mercato_contract.texts import count_of, without_secrets
from mercato_contract.wire import as_json

NO_OPERATION: Final = "none"
"""The operation's id of a request whose path or method has no operation."""

FIRST_REFUSAL: Final = 400


class Reason(Struct, frozen=True):
    """Why a request was refused: the answer's code, faults and detail. No detail is a store's words."""

    error_code: str
    errors: tuple[OrderError, ...] = ()
    detail: str | None = None


def reason_of(problem: Problem) -> Reason:
    return Reason(problem.error_code, problem.errors, problem.detail)


def _done(operation_id: str) -> str:
    """Return what a request of an operation that carries out others did; the operation itself before it is known."""
    return current_action() or operation_id


def reason_of_stored(refusal: ProblemDetail) -> Reason:
    """Return the reason of a stored refusal in our own words: its messages may be a store's."""
    errors = (replace(error, message=refusal.title) for error in refusal.errors or ())
    return Reason(refusal.error_code or OTHER, tuple(errors))


class Recorder:
    """Requests are recorded that are refused, that take `slow` seconds, or whose operation is among `operations`.

    Those are the ones that the log has a line for, and the ones whose unknown members are stored.
    """

    def __init__(self, app: Services, operations: Collection[Operation]) -> None:
        self._app = app
        mode = app.settings.request_log
        self.slow = math.inf if mode == "off" else app.settings.slow_ms / 1000
        self.operations = frozenset(
            op.id
            for op in operations
            if op.names_unknown or mode == "all" or (mode == "notable" and op.rate is Rate.WRITE)
        )
        self.waiting = frozenset(op.id for op in operations if op.waits)
        self.of_others = frozenset(op.id for op in operations if op.carries_out_others)
        self._bodies = {op.id: op.takes for op in operations if op.names_unknown and op.takes is not None}

    def record(
        self,
        method: str,
        head: Head,
        operation_id: str,
        status: int,
        seconds: float,
        reason: Reason | None,
        body_in: Body | None,
    ) -> None:
        """Record a request that was answered."""
        if operation_id == NO_OPERATION and current_context() is None:
            self._set_known_caller(head)
        if operation_id in self.of_others:
            operation_id = _done(operation_id)
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
                unknown=tuple(
                    OrderError(
                        code=UNKNOWN_MEMBER,
                        message=member_hint(self._bodies[operation_id], pointer),
                        pointer=pointer,
                    )
                    for pointer in (body_in.unknown if body_in is not None else ())
                ),
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


Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

log = structlog.get_logger("mercato.web")


_NOT_ENCODED: Final = frozenset({b"", b"identity"})
_JSON: Final = (b"content-type", b"application/json")

_REQUESTS: Final = {
    Rate.READ: "read request",
    Rate.WRITE: "write request",
    Rate.DISCOVERY: "discovery request",
}
_BODILESS: Final = frozenset({204, 304})
"""Statuses of answers without a body, which have no Content-Length."""

PART_SECONDS: Final = 60.0
"""How long a client may take for a part of an answer that is sent while it is made."""

DATABASE_RETRY_SECONDS: Final = 2
"""Retry-After while the database is busy, full or restarting."""


class Edge:
    """The ASGI application over the services of one network.

    Few functions on purpose: each call between them costs a short request a hundredth of its time.
    """

    def __init__(self, app: Services, operations: Collection[Operation]) -> None:
        self._app = app
        self._find = routes_of(operations).find
        self._callers = app.callers
        self._limiter = app.limiter
        self._answered = app.metrics.answered
        recorder = Recorder(app, operations)
        self._record, self._recorded, self._slow = recorder.record, recorder.operations, recorder.slow
        self._waiting = recorder.waiting
        self._of_others = recorder.of_others
        self._public_url = app.settings.public_url
        proxies, origins = app.settings.trusted_proxies, app.settings.cors_origins
        self._proxies = TrustedProxies(proxies) if proxies else None
        self._cors = Cors(origins) if origins else None
        self._prefix = path_prefix(self._public_url or "").encode()
        self._hosts = Hosts()
        self._body_time = TimeLimit(app.settings.body_seconds)
        self._body_limit = app.settings.body_limit
        self._budget = BodyBudget(app.settings.body_memory, largest=app.settings.body_limit)
        self.in_flight: set[asyncio.Task[Any]] = set()
        """Tasks that answer requests, including those whose clients have gone, which the server doesn't track."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request. The server handles the lifespan."""
        started = perf_counter()
        head = Head(scope, self._public_url, self._proxies)
        extra: Headers = []
        body_in = Body(receive, head, self._body_time, self._budget) if head.has_body else None
        operation_id, render = NO_OPERATION, PROBLEM_DETAILS.render
        # Of a refusal only what is plain: a variable with the exception would keep this frame, and with it the
        # connection, until the garbage collector comes by.
        reason: Reason | None = None
        task = asyncio.current_task()
        assert task is not None
        self.in_flight.add(task)
        try:
            if head.headers.get(b"host") not in self._hosts.valid:
                self._hosts.check(head, scope["http_version"])
            match = self._find(scope["method"], head.path)
            operation = match.endpoint
            operation_id, render = operation.id, operation.refusals.render
            if self._cors is not None:
                extra += self._cors.headers(head, operation)
            if head.query:
                check_query(head.query)
            status, headers, body, refusal = await self._answer(operation, match, head, body_in, extra)
            reason = None if refusal is None else reason_of_stored(refusal)
        except Problem as problem:
            preflight = self._preflight(problem, scope, head, extra) if operation_id == NO_OPERATION else None
            status, headers, body = (
                (204, preflight, b"")
                if preflight
                else render(explain_preflight(problem, scope["method"], head), head.context)
            )
            reason = None if preflight else reason_of(problem)
        except Exception as bug:  # noqa: BLE001  # the one place where a bug becomes a bare 500, logged in full
            fault = self._fault(bug, head)
            status, headers, body = render(fault, head.context)
            reason = reason_of(fault)
        finally:
            self.in_flight.discard(task)
        seconds = perf_counter() - started
        self._answered(
            operation_id if operation_id not in self._of_others else _done(operation_id), status, seconds
        )
        if (
            status >= FIRST_REFUSAL
            or reason is not None
            or operation_id in self._recorded
            or (seconds >= self._slow and operation_id not in self._waiting)
        ):
            self._record(scope["method"], head, operation_id, status, seconds, reason, body_in)
        if body_in is not None:
            body_in.release()
            if body_in.is_unread:
                await body_in.drain()
        if self._prefix:
            headers = prefix_location(headers, self._prefix)
        # Most bodies have none, and a call between functions costs a short request a hundredth of its time.
        headers += (
            extra
            if body_in is None or not body_in.unknown
            else [*extra, *unknown_header(status, body_in.unknown)]
        )
        headers.append((b"x-request-id", head.request_id.encode()))
        if isinstance(body, bytes) and status not in _BODILESS:
            headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await (
            send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
            if isinstance(body, bytes)
            else self._send_parts(body, head, receive, send, has_body=scope["method"] != "HEAD")
        )

    async def _send_parts(
        self, parts: AsyncGenerator[bytes], head: Head, receive: Receive, send: Send, *, has_body: bool
    ) -> None:
        """Send an answer while it is made, as fast as its client takes it.

        One that stops taking it, or goes away, ends it. So does an error: without its last, empty part the connection
        is cut, and the client knows that something is missing.
        """
        task = asyncio.current_task()
        assert task is not None
        self.in_flight.add(task)
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            async with aclosing(parts):
                async for part in parts:
                    # Whatever the parts wait for, others get their turn, and it is seen that a client has gone.
                    await asyncio.sleep(0)
                    if gone.done():
                        return
                    if not has_body:
                        break
                    try:
                        async with asyncio.timeout(PART_SECONDS):
                            await send({"type": "http.response.body", "body": part, "more_body": True})
                    except TimeoutError:
                        log.info("answer not taken", request_id=head.request_id, seconds=PART_SECONDS)
                        return
                await send({"type": "http.response.body", "body": b""})
        except Exception as bug:  # noqa: BLE001  # the answer has begun: all that is left is to log it, and to cut it off
            self._fault(bug, head)
        finally:
            gone.cancel()
            self.in_flight.discard(task)

    async def _answer(
        self, operation: Operation, match: Match[Operation], head: Head, body_in: Body | None, extra: Headers
    ) -> tuple[int, Headers, bytes | AsyncGenerator[bytes], ProblemDetail | None]:
        caller = None
        if not operation.is_public:
            token = bearer_token(head)
            try:
                caller = await self._callers.get(token)
            except SuspendedPartner as refusal:
                # Known, though refused: the request log says whose request it was.
                known = Call(
                    self._app, refusal.caller, None, None, match.ids, match.texts, head, operation.id
                )
                set_context(known)
                raise
        call: Call[Any, Any] = Call(self._app, caller, None, None, match.ids, match.texts, head, operation.id)
        if caller is not None:
            set_context(call)
            if (operation.surface is not None and caller.surface is not operation.surface) or (
                caller.agent is not None and not operation.for_agents
            ):
                raise _forbidden(caller, operation)
            if self._limiter is not None and operation.rate is not None:
                await self._count(self._limiter, caller, operation.rate, extra)
        if match.invalid_id is not None:
            raise _unknown(*match.invalid_id)
        if operation.decode_query is not None:
            call.query = operation.decode_query(head.query)
        if operation.checks_head is not None:
            operation.checks_head(head)
        if operation.reads_body:
            call.body = (
                self._reader(operation, head, body_in, caller)
                if operation.is_read_by_handler
                else _decoded(
                    operation, await self._body(head, body_in, caller, operation.body_limit), call, body_in
                )
            )
        result = await operation.handler(call)
        if isinstance(result, Answer):
            return _encoded(operation, result)
        if result is None:
            return operation.status, [], b"", None
        return operation.status, [_JSON], as_json(result), None

    def _preflight(self, problem: Problem, scope: Scope, head: Head, extra: Headers) -> Headers | None:
        """Return the headers of an allowed preflight, None for another request that has no operation.

        The 404 of an unknown path gets `extra` headers, so that the page of an allowed origin can read it.
        """
        if self._cors is None or not isinstance(problem, NotFound | MethodNotAllowed):
            return None
        allowed = self._cors.preflight(head, self._find) if scope["method"] == "OPTIONS" else None
        if allowed is None and isinstance(problem, NotFound):
            extra += self._cors.headers(head, None)
        return allowed

    async def _count(self, limiter: Limiter, caller: Caller, rate: Rate, extra: Headers) -> None:
        shared = self._app.shared_limiter
        quota = limiter.take(caller, rate.value) if shared is None else await shared.take(caller, rate.value)
        extra += quota_headers(quota)
        if quota.wait is not None:
            raise errors.RateLimited(
                f"The limit is {count_of(quota.limit, _REQUESTS[rate])} a minute. Wait {quota.wait} s.",
                retry_after=quota.wait,
            )

    def _reader(
        self, operation: Operation, head: Head, body_in: Body | None, caller: Caller | None
    ) -> Upload | ReadBody:
        """Return the function by which the handler reads the body.

        It doesn't know the call, whose body it is: the two would keep the connection until the garbage collector comes
        by.
        """
        if operation.body_form is BodyForm.FUNCTION:
            return _Reader(partial(self._body, head, body_in, caller), head, body_in)
        _check_coding(head)
        if body_in is None:
            return _read_nothing
        limit = max(self._app.settings.pull_bytes, MiB)
        body_in.check_length(limit)

        async def read(write: Callable[[bytes], Awaitable[None]]) -> None:
            await body_in.read_into(write, limit)
            await self._check_again(head, body_in, caller)

        return read

    async def _body(
        self, head: Head, body_in: Body | None, caller: Caller | None, limit: int | None
    ) -> bytes:
        _check_coding(head)
        if body_in is None:
            return b""
        # Only when needed: the client's address is computed anew on each access.
        owner = caller.partner_id.int if caller is not None else network_of(head.address)
        most = self._body_limit
        body = await body_in.read(most if limit is None else min(limit, most), owner)
        await self._check_again(head, body_in, caller)
        return body

    async def _check_again(self, head: Head, body_in: Body, caller: Caller | None) -> None:
        """Raise what a key is refused with that ended, or whose partner did, while a slow body arrived."""
        if caller is not None and body_in.was_slow:
            await self._callers.get(bearer_token(head))

    def _fault(self, bug: Exception, head: Head) -> Problem:
        if is_unavailable(bug):
            log.warning("database unavailable", request_id=head.request_id, error=type(bug).__name__)
            return errors.ServiceUnavailable(
                "The database is busy or unavailable. Try again.", retry_after=DATABASE_RETRY_SECONDS
            )
        path = without_secrets(head.path)
        log.error("bug", request_id=head.request_id, trace_id=head.trace_id, path=path, exc_info=bug)
        return errors.InternalError(
            "This is an error in the service, and it was logged. Try again. If it happens again, report the requestId."
        )


class _Reader:
    """The body of an operation whose handler decides how much of it is read."""

    def __init__(self, whole: Callable[[int], Awaitable[bytes]], head: Head, body_in: Body | None) -> None:
        self._whole = whole
        self._head = head
        self._body_in = body_in

    @property
    def was_slow(self) -> bool:
        return self._body_in is not None and self._body_in.was_slow

    async def __call__(self, limit: int, /) -> bytes:
        return await self._whole(limit)

    async def into(self, write: Callable[[bytes], Awaitable[None]], limit: int) -> None:
        _check_coding(self._head)
        if self._body_in is not None:
            await self._body_in.read_into(write, limit)


async def _read_nothing(_write: Callable[[bytes], Awaitable[None]]) -> None:
    """Read the body of a request that has none."""


def _check_coding(head: Head) -> None:
    if head.headers.get(b"content-encoding", b"").strip().lower() not in _NOT_ENCODED:
        raise errors.UnsupportedMediaType(
            "Compressed request bodies aren't supported. Send the body as it is.", accept_encoding="identity"
        )


def _unknown(name: str, text: str) -> Problem:
    """Return the refusal of a text that isn't an id, as of one that is unknown."""
    not_found = PATH_PARAMETERS[name].not_found
    assert not_found is not None, name
    return not_found(text)


def _forbidden(caller: Caller, operation: Operation) -> errors.Forbidden:
    if operation.surface not in {None, caller.surface}:
        return errors.Forbidden(
            f"This is a {caller.surface} key; the operation is of the {operation.surface} surface. "
            f"Use a key made for it: mercato key create … --surface {operation.surface}."
        )
    assert caller.agent is not None, "only agents are refused on their own surface"
    return errors.Forbidden(
        f"This is a key of the agent {caller.agent.name}, which reads stores, and places, reads and cancels its own "
        "orders. This operation is about the whole account. Use a key of the storefront itself."
    )


def _decoded(operation: Operation, raw: bytes, call: Call[Any, Any], body_in: Body | None) -> Any:
    """Return the body as the handler gets it: decoded, or its bytes."""
    if operation.decode is None:
        return raw
    if operation.body_optional and not raw.strip():
        return None
    if operation.find_unknown is not None and body_in is not None:
        # Before it is decoded: a refused body may be one whose members are misspelled.
        call.unknown = body_in.unknown = operation.find_unknown(raw)
    kind = call.head.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        raise errors.UnsupportedMediaType(
            "Send the body as JSON with the header Content-Type: application/json."
        )
    return operation.decode(raw)


async def _until_gone(receive: Receive) -> None:
    """Wait until the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _encoded(
    operation: Operation, answer: Answer[Any]
) -> tuple[int, Headers, bytes | AsyncGenerator[bytes], ProblemDetail | None]:
    status = operation.status if answer.status is None else answer.status
    headers = list(answer.headers)
    if answer.parts is not None:
        headers.append((b"content-type", answer.media_type))
        return status, headers, answer.parts, answer.refusal
    if answer.raw is not None:
        headers.append((b"content-type", answer.media_type))
        return status, headers, answer.raw, answer.refusal
    if answer.value is None:
        return status, headers, b"", None
    headers.append(_JSON)
    return status, headers, as_json(answer.value), None


HEADER = b"traceparent"
FIRST_SERVER_ERROR = 500


class Traced:
    """The application with a span for each request, the parent of what the request causes."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    @property
    def in_flight(self) -> set[asyncio.Task[Any]]:
        return self._edge.in_flight

    async def __call__(
        self, scope: Any, receive: Receive, send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Serve one request."""
        sent = [value for name, value in scope["headers"] if name == HEADER]
        parent = sent[-1].decode("latin-1") if sent else None
        method = scope["method"]
        with tracing.span(method, parent=parent, kind="SERVER") as span:

            async def observed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, method, message["status"])
                await send(message)

            headers = [pair for pair in scope["headers"] if pair[0] != HEADER]
            headers.append((HEADER, tracing.current("").encode()))
            await self._edge({**scope, "headers": headers}, receive, observed)


def _describe(span: Any, method: str, status: int) -> None:
    """Set the span's name and attributes. Not the path, which may hold anything; the operation's id says as much."""
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.response.status_code", status)
    if status >= FIRST_SERVER_ERROR:
        from opentelemetry.trace import StatusCode

        span.set_status(StatusCode.ERROR)
    context = current_context()
    if context is not None:
        span.update_name(context.action)
        for name, value in context.log_fields():
            span.set_attribute(f"mercato.{name}", value)
