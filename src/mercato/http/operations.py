"""One declaration for each operation: routes, decoding, authentication, limits and OpenAPI come from it."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from mercato.domain.partners.model import Caller, Surface
from mercato.http.head import Head
from mercato.http.problems import PROBLEM_DETAILS, Refusals
from mercato.kernel.errors import Problem
from mercato.kernel.telemetry import tracing
from mercato.kernel.telemetry.acting import Acting
from mercato.kernel.wire import Decoder, QueryDecoder, Wire

if TYPE_CHECKING:
    from mercato.runtime import Runtime

B = TypeVar("B")
Q = TypeVar("Q")


class Rate(Enum):
    """Which of a partner's windows a request counts in."""

    READ = "reads"
    WRITE = "writes"
    DISCOVERY = "discovery"


class Access(Enum):
    """Whose credentials an operation asks for. `ANY`: of either surface."""

    COMMERCE = Surface.COMMERCE
    MARKETFRONT = Surface.MARKETFRONT
    ANY = "any"
    PUBLIC = "public"


@dataclass(slots=True)
class Call(Generic[B, Q]):
    """A request as a handler gets it: authenticated, counted and decoded.

    Not frozen, because a frozen one takes a microsecond more to make, for every request.
    """

    app: "Runtime"
    authenticated: Caller | None
    body: B = field(repr=False)
    query: Q
    ids: Mapping[str, UUID]
    texts: Mapping[str, str]
    head: Head
    action: str = ""

    @property
    def caller(self) -> Caller:
        """The caller that was authenticated. A public operation has none, and must not use it."""
        assert self.authenticated is not None, self.action
        return self.authenticated

    def acting(self) -> Acting:
        """Return who makes this change, for the log and the audit trail."""
        caller = self.caller
        return Acting(
            action=self.action,
            key_id=caller.key_id,
            surface=caller.surface,
            partner_id=caller.partner_id,
            store_id=self.ids.get("storeId"),
            request_id=self.head.request_id,
            trace_id=self.head.trace_id,
        )

    @property
    def trace(self) -> str:
        """A `traceparent` for what this request causes."""
        return tracing.current(self.head.child())

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """The request's headers, names in lower case."""
        return self.head.headers


class Answer(Struct, frozen=True):
    """A reply that is more than a struct: other status, headers, or bytes that are ready."""

    value: Any = None
    status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    raw: bytes | None = None
    media_type: bytes = b"application/json"


Handler = Callable[[Any], Awaitable[Any]]

Upload = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
"""Reads a body and gives each part of it to the function that it is called with."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What an operation is. `returns` None means no body; a `raw_body` is the handler's to decode.

    With `streams_body` the handler gets an `Upload` of up to a whole catalog; `body_limit` bounds any other body more
    narrowly than the settings do, in bytes.
    `required_query` are parameters whose absence has a refusal of its own. `reads` names the credentials that a public
    operation looks at by itself. `checks_head` refuses by the headers, before there is a body. A `reader` decodes what
    it `takes` faster than msgspec does by itself.
    """

    id: str
    method: str
    path: str
    access: Access
    handler: Handler
    summary: str
    description: str
    tag: str
    takes: type | None = None
    body_optional: bool = False
    query: type[Wire] | None = None
    returns: Any = None
    media_type: str = "application/json"
    status: int = 200
    also: tuple[int, ...] = ()
    reply_headers: tuple[str, ...] = ()
    request_headers: tuple[str, ...] = ()
    required_query: tuple[str, ...] = ()
    problems: tuple[type[Problem], ...] = ()
    rate: Rate | None = None
    raw_body: bool = False
    streams_body: bool = False
    body_limit: int | None = None
    body_type: str = "application/json"
    refusals: Refusals = PROBLEM_DETAILS
    reads: tuple[str, ...] = ()
    checks_head: Callable[[Head], object] | None = None
    reader: Callable[[bytes], Any] | None = None

    def __post_init__(self) -> None:
        names: Final = tuple(re.findall(r"\{(\w+)\}", self.path))
        put = object.__setattr__
        put(self, "names", names)
        put(
            self,
            "decode",
            Decoder(self.takes, self.reader)
            if self.takes is not None and not self.raw_body and not self.streams_body
            else None,
        )
        put(self, "surface", self.access.value if isinstance(self.access.value, Surface) else None)
        put(self, "decode_query", QueryDecoder(self.query) if self.query is not None else None)
        put(self, "is_public", self.access is Access.PUBLIC)
        put(self, "reads_body", self.takes is not None or self.raw_body or self.streams_body)

    names: tuple[str, ...] = field(init=False, default=())
    surface: Surface | None = field(init=False, default=None)
    decode: Decoder[Any] | None = field(init=False, default=None)
    decode_query: QueryDecoder[Any] | None = field(init=False, default=None)
    is_public: bool = field(init=False, default=False)
    reads_body: bool = field(init=False, default=False)
    """Whether the body is read at all; an operation without a body accepts any, unread."""


class Operations:
    """The operations of one surface, in the order they were declared."""

    def __init__(self, *, access: Access, tag: str) -> None:
        self._access = access
        self._tag = tag
        self._all: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._all)

    def declare(
        self, method: str, path: str, *, summary: str, **options: Any
    ) -> Callable[[Handler], Handler]:
        """Declare the handler below as an operation; its docstring is the description."""

        def add(handler: Handler) -> Handler:
            words = handler.__name__.split("_")
            options.setdefault("id", words[0] + "".join(word.title() for word in words[1:]))
            options.setdefault("access", self._access)
            options.setdefault("tag", self._tag)
            options.setdefault("rate", Rate.READ if method == "GET" else Rate.WRITE)
            if options["access"] is Access.PUBLIC:
                options["rate"] = None
            self._all.append(
                Operation(
                    method=method,
                    path=path,
                    summary=summary,
                    description=inspect.cleandoc(handler.__doc__ or ""),
                    handler=handler,
                    **options,
                )
            )
            return handler

        return add

    def get(self, path: str, *, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a GET (which answers HEAD too)."""
        return self.declare("GET", path, summary=summary, **options)

    def post(self, path: str, *, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a POST."""
        return self.declare("POST", path, summary=summary, **options)

    def put(self, path: str, *, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a PUT."""
        return self.declare("PUT", path, summary=summary, **options)

    def delete(self, path: str, *, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a DELETE."""
        return self.declare("DELETE", path, summary=summary, **options)
