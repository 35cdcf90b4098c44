"""A service for one purchase: the real types, prices and refusals, and a script of what goes wrong."""

import asyncio
import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

import msgspec
from aiohttp import web

from mercato import clock, errors
from mercato.certify.grown import grown
from mercato.errors import Problem
from mercato.web.problems import Context, members_of, render
from mercato.wire import as_json

MOST_BODY: Final = 4 << 20
MOST_CALLS: Final = 5000
"""Calls of one purchase that are kept; nobody who means it well makes as many."""

DROPPED: Final = 0
"""The status of a call whose connection was closed without an answer."""


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

    status: int = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What happens once, in place of the answer or after it is made. `problem` is made at the moment it is told.

    `after`: the operation is done first. `drop`: the connection is closed without an answer. `seconds` pass before.
    """

    problem: Callable[[], Problem] | None = None
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    after: bool = False
    drop: bool = False
    seconds: float = 0.0


Script = Mapping[str, Sequence[Turn]]
"""What happens at an operation, call by call; `*` is at every call, for ever."""

Handler = Callable[["Request"], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that an operation answers. `ids` are those of its path."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    ids: tuple[str, ...]
    base: str


@dataclass(frozen=True, slots=True)
class Route:
    """Which requests are an operation's."""

    operation: str
    method: str
    path: re.Pattern[str]
    handler: Handler


def route(operation: str, method: str, path: str, handler: Handler) -> Route:
    """Return a route; `{}` in the path stands for an id."""
    return Route(operation, method, re.compile(re.escape(path).replace(r"\{\}", "([^/]+)")), handler)


class Network:
    """Answers, and writes down what it was asked."""

    def __init__(self, routes: Sequence[Route], *, key: str, script: Script, is_later: bool) -> None:
        """`is_later`: all that is answered has members that nobody knows yet."""
        self._routes = routes
        self._key = key
        self._always = tuple(script.get("*", ()))
        self._turns = {name: deque(turns) for name, turns in script.items()}
        self._is_later = is_later
        self._calls: dict[int, Call] = {}
        self.news = asyncio.Event()
        self.under_way = 0
        self.base = ""

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
        found = self._find(request.method, request.path)
        operation = found[0].operation if found is not None else "unknown"
        headers = {name.lower(): text for name, text in request.headers.items()}
        turn = self._turn(operation)
        answer = self._answered(request, found, headers, body, turn)
        number = len(self._calls)
        # Written down now: who hangs up before the answer has asked all the same.
        self._note(number, request, operation, headers, body, began, ended=math.inf)
        await asyncio.sleep(turn.seconds)
        dropped = turn.drop and request.transport is not None
        told = None if dropped else answer
        self._note(number, request, operation, headers, body, began, ended=monotonic(), answer=told)
        if dropped:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(
            status=answer.status, headers=[*answer.headers, *_LIMITS], body=answer.body or None
        )

    def _note(
        self,
        number: int,
        request: web.Request,
        operation: str,
        headers: Mapping[str, str],
        body: bytes,
        began: float,
        *,
        ended: float,
        answer: Answer | None = None,
    ) -> None:
        if number < MOST_CALLS:
            self._calls[number] = Call(
                operation=operation,
                method=request.method,
                path=request.path_qs,
                headers=headers,
                body=body,
                began=began,
                ended=ended,
                status=DROPPED if answer is None else answer.status,
                answer_headers={} if answer is None else dict(answer.headers),
                answer=b"" if answer is None else answer.body,
            )

    def _answered(
        self,
        request: web.Request,
        found: tuple[Route, tuple[str, ...]] | None,
        headers: Mapping[str, str],
        body: bytes,
        turn: Turn,
    ) -> Answer:
        context = Context(
            base_url=self.base,
            request_id=headers.get("x-request-id", "") or clock.new_id().hex,
            trace_id=clock.new_id().hex,
            accept=headers.get("accept", "").encode("latin-1", "replace"),
        )
        try:
            self._check(request, found, headers)
            if turn.problem is not None and not turn.after:
                raise turn.problem()
            assert found is not None, "it was checked"
            asked = Request(headers=headers, body=body, ids=found[1], base=self.base)
            answer = found[0].handler(asked)
            if turn.problem is not None:
                raise turn.problem()
        except Problem as problem:
            answer = self._refusal(problem, context, turn)
        else:
            if turn.change is not None:
                answer = _with(answer, as_json(turn.change(msgspec.json.decode(answer.body))))
        if self._is_later and answer.body:
            answer = _with(answer, as_json(grown(msgspec.json.decode(answer.body))))
        return answer

    def _refusal(self, problem: Problem, context: Context, turn: Turn) -> Answer:
        status, headers, body = render(problem, context)
        if turn.change is not None and turn.problem is not None:
            members = turn.change(members_of(problem, context))
            status, body = members["status"], as_json(members)
        return Answer(
            status=status,
            headers=tuple((name.decode(), text.decode()) for name, text in headers),
            body=body,
        )

    def _check(
        self, request: web.Request, found: tuple[Route, tuple[str, ...]] | None, headers: Mapping[str, str]
    ) -> None:
        """Refuse what is not for anybody: another path, another method, another key."""
        if found is None:
            methods = {one.method for one in self._routes if one.path.fullmatch(request.path)}
            if methods:
                raise errors.MethodNotAllowed(request.method, methods)
            raise errors.NotFound(f"There is nothing at {request.path}.")
        if request.can_read_body and not _is_json(headers):
            raise errors.UnsupportedMediaType("Send the body as application/json.")
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or key.strip() != self._key:
            raise errors.Unauthenticated("Send the key as Authorization: Bearer …", sent=bool(key))

    def _find(self, method: str, path: str) -> tuple[Route, tuple[str, ...]] | None:
        method = "GET" if method == "HEAD" else method
        for one in self._routes:
            match = one.path.fullmatch(path)
            if match is not None and one.method == method:
                return one, match.groups()
        return None

    def _turn(self, operation: str) -> Turn:
        if self._always:
            return self._always[0]
        turns = self._turns.get(operation)
        return turns.popleft() if turns else _HONEST


_HONEST: Final = Turn()
_LIMITS: Final = (("X-RateLimit-Limit", "1000"), ("X-RateLimit-Remaining", "990"))


def _is_json(headers: Mapping[str, str]) -> bool:
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    return kind == "application/json"


def _with(answer: Answer, body: bytes) -> Answer:
    return Answer(status=answer.status, headers=answer.headers, body=body)


def _value(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
