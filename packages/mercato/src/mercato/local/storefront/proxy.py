"""A proxy in front of the real service: it records the storefront's requests and injects faults into them."""

import asyncio
import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp import hdrs, web
from msgspec import Struct
from yarl import URL

from mercato.http.operations import render
from mercato.local.storefront.service import Service
from mercato.platform.problem_details import Context, members_of
from mercato_contract import clock
from mercato_contract.refusals import Problem
from mercato_contract.wire import as_json

MAX_CALLS: Final = 5000
"""Requests of one scenario that are recorded; no sane storefront sends as many."""

DROPPED: Final = 0
"""The status of a request whose connection was closed without a response."""

SURFACE: Final = "/v1/marketfront"

_HOP_HEADERS: Final = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "upgrade"}
)
"""Headers that aren't forwarded, in either direction."""

_AUTOMATIC_HEADERS: Final = (hdrs.CONTENT_TYPE, hdrs.USER_AGENT, hdrs.ACCEPT_ENCODING)

OPERATIONS: Final = tuple(
    (operation, method, re.compile(SURFACE + path.replace("{}", "[^/]+")))
    for operation, method, path in (
        ("discover", "POST", "/stores/discover"),
        ("store", "GET", "/stores/{}"),
        ("availability", "GET", "/stores/{}/availability"),
        ("catalog", "GET", "/catalog-sets/{}"),
        ("cart", "POST", "/carts/(add|remove|update)"),
        ("validate", "POST", "/orders/validate"),
        ("place", "POST", "/orders/place"),
        ("cancel", "POST", "/orders/{}/cancel"),
        ("timeline", "GET", "/orders/{}/timeline"),
        ("order", "GET", "/orders/{}"),
    )
)
"""The names that scripts and checks have for requests. The first match counts: `validate` isn't an order's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as it arrived, and its response; header names are lower-case.

    `ended` is when the response was sent, infinity while it isn't.
    """

    operation: str
    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    began: float
    ended: float = math.inf
    status: int = DROPPED
    response_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    response: bytes = field(default=b"", repr=False)

    def sent(self) -> Any:
        """Return the value of the request's body, None if it isn't JSON."""
        return _value(self.body)

    def answer(self) -> Any:
        """Return the value of the response's body, None if it isn't JSON."""
        return _value(self.response)


class Fault(Struct, frozen=True, kw_only=True):
    """What goes wrong once: a problem in place of the service's response, a change of the response's value.

    `drop` closes the connection without a response. `seconds` pass before any of it.
    """

    problem: Problem | None = None
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    drop: bool = False
    seconds: float = 0.0


_NO_FAULT: Final = Fault()

Faults = Mapping[str, Sequence[Fault]]
"""The faults of an operation, request by request; the one of `*` happens to every request."""


class FaultProxy:
    """Forwards requests to the service, records them, and injects faults."""

    def __init__(self, service: Service, session: aiohttp.ClientSession, *, key: str, faults: Faults) -> None:
        """`key` is the storefront's key here."""
        self.stores = service.stores
        self.key = key
        self.base = ""
        self.activity = asyncio.Event()
        self.in_progress = 0
        self._service = service
        self._session = session
        self._faults = {operation: deque(some) for operation, some in faults.items()}
        self._calls: list[Call] = []

    @property
    def calls(self) -> tuple[Call, ...]:
        """The requests in the order in which they arrived."""
        return tuple(self._calls)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.in_progress += 1
        try:
            return await self._handle(request)
        finally:
            self.in_progress -= 1
            self.activity.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(
            operation=_operation(request.method, request.path),
            method=request.method,
            path=request.path_qs,
            began=monotonic(),
            headers={name.lower(): text for name, text in request.headers.items()},
            body=await request.read(),
        )
        number = len(self._calls)
        # Recorded now: a client that disconnects before the response has sent the request all the same.
        self._calls += [call] if number < MAX_CALLS else []
        fault = self._next_fault(call.operation)
        response = await self._respond(request, call, fault)
        await asyncio.sleep(fault.seconds)
        body = response.body if isinstance(response.body, bytes) else b""
        ended = replace(call, ended=monotonic())
        if fault.drop and request.transport is not None:
            request.transport.abort()
        else:
            headers = dict(response.headers)
            ended = replace(ended, status=response.status, response_headers=headers, response=body)
        if number < MAX_CALLS:
            self._calls[number] = ended
        return response

    def _next_fault(self, operation: str) -> Fault:
        if "*" in self._faults:
            return self._faults["*"][0]
        faults = self._faults.get(operation)
        return faults.popleft() if faults else _NO_FAULT

    async def _respond(self, request: web.Request, call: Call, fault: Fault) -> web.Response:
        if fault.problem is not None:
            response = self._problem(fault.problem, call, fault)
        else:
            response = await self._forward(request, call)
            value = _value(response.body) if isinstance(response.body, bytes) else None
            if fault.change is not None and value is not None:
                response.body = as_json(fault.change(value))
        return response

    async def _forward(self, request: web.Request, call: Call) -> web.Response:
        """Return the service's response: it knows the storefront by another key."""
        headers = request.headers.copy()
        scheme, _, key = call.headers.get("authorization", "").partition(" ")
        if key.strip() == self.key:
            headers[hdrs.AUTHORIZATION] = f"{scheme} {self._service.key}"
        for name in (*_HOP_HEADERS, hdrs.ACCEPT_ENCODING):
            headers.popall(name, None)
        async with self._session.request(
            request.method,
            URL(self._service.base + request.raw_path, encoded=True),
            headers=headers,
            data=call.body or None,
            allow_redirects=False,
            skip_auto_headers=_AUTOMATIC_HEADERS,
        ) as reply:
            response = web.Response(
                status=reply.status, headers=reply.headers, body=await reply.read() or None
            )
        for name in _HOP_HEADERS:
            response.headers.popall(name, None)
        return response

    def _problem(self, problem: Problem, call: Call, fault: Fault) -> web.Response:
        context = Context(
            base_url=self.base,
            request_id=call.headers.get("x-request-id", "") or clock.new_id().hex,
            trace_id=clock.new_id().hex,
            accept=call.headers.get("accept", "").encode("latin-1", "replace"),
        )
        status, headers, body = render(problem, context)
        if fault.change is not None:
            members = fault.change(members_of(problem, context))
            status, body = members["status"], as_json(members)
        decoded = {name.decode(): text.decode() for name, text in headers}
        return web.Response(status=status, headers=decoded, body=body)


def _operation(method: str, path: str) -> str:
    method = "GET" if method == "HEAD" else method
    matches = (name for name, verb, known in OPERATIONS if verb == method and known.fullmatch(path))
    return next(matches, "unknown")


def _value(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
