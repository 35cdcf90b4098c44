"""A proxy before the real service: it writes down what a storefront asks, and lets go wrong what a script says."""

import asyncio
import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp import hdrs, web
from yarl import URL

from mercato import clock
from mercato.certify.grown import grown
from mercato.certify.shop import Shop
from mercato.certify.storefront.service import Service
from mercato.errors import Problem
from mercato.web.problems import render
from mercato.wire import as_json
from mercato.wire.problem import Context, members_of

MOST_BODY: Final = 4 << 20
MOST_CALLS: Final = 5000
"""Calls of one purchase that are kept; nobody who means it well makes as many."""

DROPPED: Final = 0
"""The status of a call whose connection was closed without an answer."""

FRONT: Final = "/v1/marketfront"

_OF_ONE_CONNECTION: Final = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "upgrade"}
)
"""Headers that are not passed on, in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as it arrived, and what was answered; header names are lower-case.

    `ended` is when it was answered, never for one that was not waited for.
    """

    operation: str
    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    began: float
    ended: float
    status: int
    answer_headers: Mapping[str, str]
    answer: bytes

    def json(self) -> Any:
        """Return the body's value, None if it has none."""
        return _value(self.body)

    def said(self) -> Any:
        """Return the answer's value."""
        return _value(self.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What happens once: a problem in place of the service's answer, or a change of the answer's value.

    `drop`: the connection is closed without an answer. `seconds` pass before it.
    """

    problem: Callable[[], Problem] | None = None
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    drop: bool = False
    seconds: float = 0.0


Script = Mapping[str, Sequence[Turn]]
"""What happens at an operation, call by call; `*` is at every call, for ever."""

OPERATIONS: Final = tuple(
    (operation, method, re.compile(FRONT + path.replace("{}", "[^/]+")))
    for operation, method, path in (
        ("discover", "POST", "/stores/discover"),
        ("store", "GET", "/stores/{}"),
        ("availability", "GET", "/stores/{}/availability"),
        ("catalog", "GET", "/catalog-sets/{}"),
        ("cart", "POST", "/carts/(add|remove|update)"),
        ("validate", "POST", "/orders/validate"),
        ("place", "POST", "/orders/place"),
        ("timeline", "GET", "/orders/{}/timeline"),
        ("order", "GET", "/orders/{}"),
    )
)
"""By their names in scripts and checks: method and path."""


class Network:
    """Passes requests on to the service, and writes down what it was asked."""

    def __init__(
        self, service: Service, session: aiohttp.ClientSession, *, key: str, script: Script, is_later: bool
    ) -> None:
        """`key` is the storefront's key here. `is_later`: all answers have members that nobody knows yet."""
        self._service = service
        self._session = session
        self._key = key
        self._always = tuple(script.get("*", ()))
        self._turns = {name: deque(turns) for name, turns in script.items()}
        self._is_later = is_later
        self._calls: dict[int, Call] = {}
        self.news = asyncio.Event()
        self.under_way = 0
        self.base = ""

    @property
    def shops(self) -> Sequence[Shop]:
        """Return the stores of the service."""
        return self._service.shops

    @property
    def calls(self) -> tuple[Call, ...]:
        """Return what was asked, in the order in which it came."""
        return tuple(self._calls.values())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, and write it down."""
        self.under_way += 1
        try:
            return await self._handle(request)
        finally:
            self.under_way -= 1
            self.news.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        began = monotonic()
        body = await request.read()
        operation = _operation_of(request.method, request.path)
        call = Call(
            operation=operation,
            method=request.method,
            path=request.path_qs,
            headers={name.lower(): text for name, text in request.headers.items()},
            body=body,
            began=began,
            ended=math.inf,
            status=DROPPED,
            answer_headers={},
            answer=b"",
        )
        number = len(self._calls)
        # Written down now: who hangs up before the answer has asked all the same.
        self._note(number, call)
        turn = self._turn(operation)
        answer = await self._answer(request, call, turn)
        await asyncio.sleep(turn.seconds)
        if turn.drop and request.transport is not None:
            self._note(number, replace(call, ended=monotonic()))
            request.transport.abort()
        else:
            answered = replace(
                call,
                ended=monotonic(),
                status=answer.status,
                answer_headers=dict(answer.headers),
                answer=answer.body,
            )
            self._note(number, answered)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body or None)

    def _note(self, number: int, call: Call) -> None:
        if number < MOST_CALLS:
            self._calls[number] = call

    async def _answer(self, request: web.Request, call: Call, turn: Turn) -> Answer:
        if turn.problem is not None:
            answer = self._problem(turn.problem(), call, turn)
        else:
            answer = await self._passed_on(request, call)
            if turn.change is not None and answer.status == HTTPStatus.OK:
                answer = _changed(answer, turn.change)
        return _changed(answer, grown) if self._is_later else answer

    async def _passed_on(self, request: web.Request, call: Call) -> Answer:
        """Return the service's answer: it knows the storefront by another key."""
        passed = request.headers.copy()
        for name in (*_OF_ONE_CONNECTION, hdrs.ACCEPT_ENCODING):
            passed.popall(name, None)
        scheme, _, key = call.headers.get("authorization", "").partition(" ")
        if key.strip() == self._key:
            passed[hdrs.AUTHORIZATION] = f"{scheme} {self._service.key}"
        async with self._session.request(
            request.method,
            URL(self._service.base + request.raw_path, encoded=True),
            headers=passed,
            data=call.body or None,
            allow_redirects=False,
            skip_auto_headers=(hdrs.CONTENT_TYPE, hdrs.USER_AGENT, hdrs.ACCEPT_ENCODING),
        ) as reply:
            headers = tuple(
                (name, text) for name, text in reply.headers.items() if name.lower() not in _OF_ONE_CONNECTION
            )
            return Answer(status=reply.status, headers=headers, body=await reply.read())

    def _problem(self, problem: Problem, call: Call, turn: Turn) -> Answer:
        context = Context(
            base_url=self.base,
            request_id=call.headers.get("x-request-id", "") or clock.new_id().hex,
            trace_id=clock.new_id().hex,
            accept=call.headers.get("accept", "").encode("latin-1", "replace"),
        )
        status, headers, body = render(problem, context)
        if turn.change is not None:
            members = turn.change(members_of(problem, context))
            status, body = members["status"], as_json(members)
        return Answer(
            status=status,
            headers=tuple((name.decode(), text.decode()) for name, text in headers),
            body=body,
        )

    def _turn(self, operation: str) -> Turn:
        if self._always:
            return self._always[0]
        turns = self._turns.get(operation)
        return turns.popleft() if turns else _HONEST


_HONEST: Final = Turn()


def _operation_of(method: str, path: str) -> str:
    """Return the operation's name. The first that fits counts: an order's id is not `validate`."""
    method = "GET" if method == "HEAD" else method
    return next(
        (name for name, verb, known in OPERATIONS if verb == method and known.fullmatch(path)), "unknown"
    )


def _changed(answer: Answer, change: Callable[[Any], Any]) -> Answer:
    value = _value(answer.body)
    return answer if value is None else replace(answer, body=as_json(change(value)))


def _value(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
