"""One declaration for each operation: routes, decoding, authentication, limits and OpenAPI come from it.

Refusals are rendered as `application/problem+json`, or as Markdown for clients that prefer it.
"""

import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Generic,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
)
from uuid import UUID

from msgspec import Struct
from msgspec.inspect import type_info

from mercato.features.partners.model import Caller, Surface
from mercato.http.head import Head
from mercato.platform.errors import MethodNotAllowed, Unauthenticated, UnsupportedMediaType
from mercato.platform.problem_details import Context, represent
from mercato.platform.telemetry import tracing
from mercato.platform.telemetry.context import WorkContext
from mercato.services import Services
from mercato_contract.decoding import Decoder, QueryDecoder
from mercato_contract.decoding.unknown import find_unknown
from mercato_contract.problems import ProblemDetail
from mercato_contract.refusals import Problem
from mercato_contract.wire import Wire, parse_uuid, redacted

VARY: Final = (b"vary", b"Accept")


def render(problem: Problem, context: Context) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of a refusal."""
    media_type, body = represent(problem, context)
    return problem.status, [(b"content-type", media_type.encode()), VARY, *problem_headers(problem)], body


class Refusals(Struct, frozen=True):
    """How an operation renders its refusals: their type on the wire, their media type, and the function."""

    shape: type[Wire]
    media_type: str
    render: Callable[[Problem, Context], tuple[int, list[tuple[bytes, bytes]], bytes]]


PROBLEM_DETAILS: Final = Refusals(ProblemDetail, "application/problem+json", render)


def problem_headers(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return the headers of a refusal, whatever its media type."""
    headers: list[tuple[bytes, bytes]] = []
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    if problem.location is not None:
        headers.append((b"location", problem.location.encode()))
    if isinstance(problem, MethodNotAllowed):
        headers.append((b"allow", problem.allow.encode()))
    if isinstance(problem, Unauthenticated):
        headers.append((b"www-authenticate", problem.challenge.encode()))
    if isinstance(problem, UnsupportedMediaType) and problem.accept_encoding is not None:
        headers.append((b"accept-encoding", problem.accept_encoding.encode()))
    return headers


Upload = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
"""Reads a body and passes each part to the given function. It may be as large as a catalog."""


class ReadBody(Protocol):
    """Reads a body, whole or as it arrives. Raises PayloadTooLarge, and what `Body.read` raises."""

    @property
    def was_slow(self) -> bool:
        """Whether it took so long to arrive that its sender may have lost its rights meanwhile."""

    async def __call__(self, limit: int, /) -> bytes:
        """Return a body of at most `limit` bytes, and of as many as requests may have."""

    async def into(self, write: Callable[[bytes], Awaitable[None]], limit: int) -> None:
        """Pass each part of a body of at most `limit` bytes to `write`."""


Body = TypeVar("Body", bound=Wire | bytes | Upload | ReadBody | None)
Query = TypeVar("Query", bound=Wire | None)
R = TypeVar("R")


class Rate(Enum):
    """The rate limit that a request counts against."""

    READ = "reads"
    WRITE = "writes"
    DISCOVERY = "discovery"


class Access(Enum):
    """The credentials that an operation requires. `ANY`: of either surface."""

    COMMERCE = Surface.COMMERCE
    MARKETFRONT = Surface.MARKETFRONT
    ANY = "any"
    PUBLIC = "public"


@dataclass(slots=True)
class Call(Generic[Body, Query]):
    """A request as a handler gets it: authenticated, counted and decoded.

    Not frozen: a frozen dataclass takes a microsecond longer to create.
    """

    app: Services
    authenticated: Caller | None
    body: Body = field(repr=False)
    query: Query
    ids: Mapping[str, UUID]
    texts: Mapping[str, str]
    head: Head
    action: str = ""
    unknown: tuple[str, ...] = ()
    """Pointers to members of the body that its type doesn't have, at an operation that `names_unknown`."""

    @property
    def caller(self) -> Caller:
        """The authenticated caller. A public operation has none and must not use it."""
        assert self.authenticated is not None, self.action
        return self.authenticated

    def context(self) -> WorkContext:
        """Return the actor of this change, for the log and the audit trail."""
        caller = self.caller
        return WorkContext(
            action=self.action,
            key_id=caller.key_id,
            surface=caller.surface,
            partner_id=caller.partner_id,
            subjects={"store_id": self._store_id()},
            request_id=self.head.request_id,
            trace_id=self.head.trace_id,
        )

    def _store_id(self) -> UUID | None:
        """Return the store that the path, the query or the body names."""
        named = self.ids.get("storeId")
        for part in (self.query, self.body, getattr(self.body, "cart", None)):
            named = named or getattr(part, "store_id", None)
        return parse_uuid(named) if isinstance(named, str) else named or None

    @property
    def trace(self) -> str:
        """A `traceparent` for what this request causes."""
        return tracing.current(self.head.child())

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """The request's headers, names in lower case."""
        return self.head.headers


@redacted("headers")
class Answer(Struct, Generic[R], frozen=True):
    """An answer with its own status or headers, or with bytes that are already encoded. `R` is its declared type.

    `parts` are the bytes of one that is sent as it is made: the first is ready, and each of the others is made when the
    client has taken those before. If one raises, the connection is cut, so that nobody takes the answer for whole.

    `refusal` is what the request log records of a refusal that is returned rather than raised.
    """

    value: R | None = None
    status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    raw: bytes | None = None
    parts: AsyncGenerator[bytes] | None = None
    media_type: bytes = b"application/json"
    refusal: ProblemDetail | None = None


async def begun(parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Return the same parts with the first one made: what that raises is still answered as a refusal."""
    return _after(await anext(parts), parts)


async def _after(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for part in rest:
            yield part


Result = TypeVar("Result", bound=Wire | Answer[Any] | None)

Handler = Callable[[Call[Body, Query]], Awaitable[Result]]
"""What answers an operation. Its annotations declare the body, the query and the result."""


class BodyForm(Enum):
    """How a handler gets the body: decoded, or by one of the types that it decodes itself."""

    NONE = "none"
    DECODED = "decoded"
    BYTES = "bytes"
    UPLOAD = "upload"
    FUNCTION = "function"


_FORMS: Final[dict[object, BodyForm]] = {
    NoneType: BodyForm.NONE,
    bytes: BodyForm.BYTES,
    Upload: BodyForm.UPLOAD,
    ReadBody: BodyForm.FUNCTION,
}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The declaration of an operation. `Options` describes what isn't plain."""

    id: str
    method: str
    path: str
    access: Access
    handler: Callable[[Call[Any, Any]], Awaitable[object]]
    summary: str
    description: str
    tag: str
    rate: Rate | None
    takes: type | None = None
    body_form: BodyForm = BodyForm.NONE
    body_optional: bool = False
    query: type[Wire] | None = None
    returns: type | None = None
    media_type: str = "application/json"
    other_media_types: tuple[str, ...] = ()
    status: int = 200
    also: tuple[int, ...] = ()
    answer_headers: tuple[str, ...] = ()
    request_headers: tuple[str, ...] = ()
    required_query: tuple[str, ...] = ()
    problems: tuple[type[Problem], ...] = ()
    body_limit: int | None = None
    body_type: str = "application/json"
    refusals: Refusals = PROBLEM_DETAILS
    reads: tuple[str, ...] = ()
    checks_head: Callable[[Head], object] | None = None
    reader: Callable[[bytes], Wire] | None = None
    names_unknown: bool = False
    from_pages: bool = False
    carries_out_others: bool = False
    for_agents: bool = True
    waits: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the path's parameters."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    @cached_property
    def surface(self) -> Surface | None:
        return self.access.value if isinstance(self.access.value, Surface) else None

    @cached_property
    def decode(self) -> Decoder[Any] | None:
        if self.takes is None or self.body_form is not BodyForm.DECODED:
            return None
        assert self.reader is None or inspect.get_annotations(self.reader)["return"] is self.takes, self.id
        return Decoder(self.takes, self.reader)

    @cached_property
    def find_unknown(self) -> Callable[[bytes], tuple[str, ...]] | None:
        """Finds unknown members in a body, at an operation that `names_unknown`."""
        return partial(find_unknown, kind=type_info(self.takes)) if self.names_unknown else None

    @cached_property
    def decode_query(self) -> QueryDecoder[Any] | None:
        return None if self.query is None else QueryDecoder(self.query)

    @cached_property
    def is_public(self) -> bool:
        return self.access is Access.PUBLIC

    @property
    def decodes_itself(self) -> bool:
        """Whether the handler decodes the body."""
        return self.body_form not in {BodyForm.NONE, BodyForm.DECODED}

    @cached_property
    def is_read_by_handler(self) -> bool:
        """Whether the handler gets a function that reads the body."""
        return self.body_form in {BodyForm.UPLOAD, BodyForm.FUNCTION}

    @cached_property
    def reads_body(self) -> bool:
        """Whether the body is read. An operation that reads none accepts any body."""
        return self.body_form is not BodyForm.NONE


class _Types(TypedDict):
    takes: type | None
    body_form: BodyForm
    body_optional: bool
    query: type[Wire] | None
    returns: type | None


def _types_of(handler: Callable[..., object], schema: type | None) -> _Types:
    """Return the types that a handler's annotations name: `Call[body, query]`, and the result or an `Answer` of it."""
    annotations = inspect.get_annotations(handler)
    result = annotations.pop("return")
    (call,) = annotations.values()
    body, query = get_args(call)
    takes, optional = body, False
    if isinstance(body, UnionType):
        (takes,) = (kind for kind in get_args(body) if kind is not NoneType)
        optional = True
    form = _FORMS.get(takes, BodyForm.DECODED)
    origin: object = get_origin(result)
    if origin is Answer:
        (result,) = get_args(result)
    return {
        "takes": takes if form is BodyForm.DECODED else schema,
        "body_form": form,
        "body_optional": optional,
        "query": None if query is NoneType else query,
        "returns": None if result in {None, NoneType} else result,
    }


class Options(TypedDict, total=False):
    """What a declaration says besides its path and its summary.

    - `id`: by default, the handler's name.
    - `rate`: by default, a read for GET and a write for others.
    - `body_limit`: bytes, below the limit of the settings.
    - `reader`: decodes the body faster than msgspec alone.
    - `checks_head`: refuses a request by its headers, before the body is read.
    - `required_query`: parameters whose absence has its own refusal.
    - `other_media_types`: in which clients that prefer them get the answer.
    - `also`: other statuses of its answers: 202 and 304 have no body.
    - `reads`: the security schemes that a public operation checks itself.
    - `from_pages`: pages of MERCATO_CORS_ORIGINS may call it; by default, if it is of the Marketfront surface.
    - `carries_out_others`: what a request does is the action of its context, which the log and the metrics then name.
    - `names_unknown`: answers name the body's unknown members, which are ignored, in `X-Unknown-Members`.
    - `waits`: it may wait for something new, so its time says nothing: it is never recorded as slow.
    """

    id: str
    rate: Rate | None
    body_limit: int
    body_type: str
    reader: Callable[[bytes], Wire]
    checks_head: Callable[[Head], object]
    required_query: tuple[str, ...]
    request_headers: tuple[str, ...]
    status: int
    also: tuple[int, ...]
    media_type: str
    other_media_types: tuple[str, ...]
    answer_headers: tuple[str, ...]
    problems: tuple[type[Problem], ...]
    refusals: Refusals
    reads: tuple[str, ...]
    names_unknown: bool
    from_pages: bool
    waits: bool
    carries_out_others: bool


class Declare(Protocol):
    """Declares the decorated handler, whose annotations are the types of the operation."""

    def __call__(self, handler: Handler[Body, Query, Result], /) -> Handler[Body, Query, Result]: ...


class Operations:
    """The operations of one surface, in the order of their declaration.

    Those that aren't `for_agents` are about the whole account: they refuse the keys of a storefront's agents.
    """

    def __init__(
        self, *, access: Access, tag: str, refusals: Refusals = PROBLEM_DETAILS, for_agents: bool = True
    ) -> None:
        self._access = access
        self._tag = tag
        self._for_agents = for_agents
        self._refusals = refusals
        self._all: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._all)

    def declare(
        self, method: str, path: str, *, summary: str, schema: type | None = None, **options: Unpack[Options]
    ) -> Declare:
        """Declare the decorated handler as an operation; its docstring is the description.

        `schema` is the type of a body that the handler decodes itself, for the OpenAPI document.
        """

        def add(handler: Handler[Body, Query, Result]) -> Handler[Body, Query, Result]:
            words = handler.__name__.split("_")
            own: Options = {
                "id": words[0] + "".join(word.title() for word in words[1:]),
                "rate": Rate.READ if method == "GET" else Rate.WRITE,
                "refusals": self._refusals,
                "from_pages": self._access is Access.MARKETFRONT,
                **options,
            }
            if self._access is Access.PUBLIC:
                own["rate"] = None
            self._all.append(
                Operation(
                    method=method,
                    path=path,
                    access=self._access,
                    handler=handler,
                    summary=summary,
                    description=inspect.cleandoc(handler.__doc__ or ""),
                    tag=self._tag,
                    for_agents=self._for_agents,
                    **_types_of(handler, schema),
                    **own,
                )
            )
            return handler

        return add

    def get(self, path: str, *, summary: str, **options: Unpack[Options]) -> Declare:
        """Declare a GET, which also answers HEAD."""
        return self.declare("GET", path, summary=summary, **options)

    def post(
        self, path: str, *, summary: str, schema: type | None = None, **options: Unpack[Options]
    ) -> Declare:
        return self.declare("POST", path, summary=summary, schema=schema, **options)

    def put(
        self, path: str, *, summary: str, schema: type | None = None, **options: Unpack[Options]
    ) -> Declare:
        return self.declare("PUT", path, summary=summary, schema=schema, **options)

    def delete(self, path: str, *, summary: str, **options: Unpack[Options]) -> Declare:
        return self.declare("DELETE", path, summary=summary, **options)
