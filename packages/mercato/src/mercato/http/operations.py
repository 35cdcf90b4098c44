"""One declaration for each operation: routes, decoding, authentication, limits and OpenAPI come from it."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from mercato.features.partners.model import Caller, Surface
from mercato.http.head import Head
from mercato.http.problems import PROBLEM_DETAILS, Refusals
from mercato.platform.errors import Problem
from mercato.platform.telemetry import tracing
from mercato.platform.telemetry.context import WorkContext
from mercato.platform.wire import Decoder, QueryDecoder
from mercato_contract.wire import Wire, parse_uuid, redacted

if TYPE_CHECKING:
    from mercato.services import Services

B = TypeVar("B")
Q = TypeVar("Q")


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
class Call(Generic[B, Q]):
    """A request as a handler gets it: authenticated, counted and decoded.

    Not frozen: a frozen dataclass takes a microsecond longer to create.
    """

    app: "Services"
    authenticated: Caller | None
    body: B = field(repr=False)
    query: Q
    ids: Mapping[str, UUID]
    texts: Mapping[str, str]
    head: Head
    action: str = ""

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
class Answer(Struct, frozen=True):
    """A reply with a status or headers of its own, or with bytes that are already encoded."""

    value: Any = None
    status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    raw: bytes | None = None
    media_type: bytes = b"application/json"


Handler = Callable[[Any], Awaitable[Any]]

Upload = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
"""Reads a body and passes each part to the given function."""

ReadBody = Callable[[int], Awaitable[bytes]]
"""Reads a body of at most so many bytes. Raises PayloadTooLarge, and what `Body.read` raises."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The declaration of an operation.

    - `returns`: None means that the answer has no body.
    - `other_media_types`: in which clients that prefer them get the answer.
    - `raw_body`: the handler decodes the body itself.
    - `streams_body`: the handler gets an `Upload` of up to a whole catalog.
    - `late_body`: the handler gets a `ReadBody`, because how much is read depends on who sends it.
    - `body_limit`: bytes, below the limit of the settings.
    - `required_query`: parameters whose absence has a refusal of its own.
    - `reads`: the security schemes that a public operation checks itself.
    - `checks_head`: refuses a request by its headers, before the body is read.
    - `reader`: decodes `takes` faster than msgspec alone.
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
    other_media_types: tuple[str, ...] = ()
    status: int = 200
    also: tuple[int, ...] = ()
    reply_headers: tuple[str, ...] = ()
    request_headers: tuple[str, ...] = ()
    required_query: tuple[str, ...] = ()
    problems: tuple[type[Problem], ...] = ()
    rate: Rate | None = None
    raw_body: bool = False
    streams_body: bool = False
    late_body: bool = False
    body_limit: int | None = None
    body_type: str = "application/json"
    refusals: Refusals = PROBLEM_DETAILS
    reads: tuple[str, ...] = ()
    checks_head: Callable[[Head], object] | None = None
    reader: Callable[[bytes], Any] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the path's parameters."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    @cached_property
    def surface(self) -> Surface | None:
        return self.access.value if isinstance(self.access.value, Surface) else None

    @cached_property
    def decode(self) -> Decoder[Any] | None:
        if self.takes is None or self.raw_body or self.streams_body or self.late_body:
            return None
        return Decoder(self.takes, self.reader)

    @cached_property
    def decode_query(self) -> QueryDecoder[Any] | None:
        return None if self.query is None else QueryDecoder(self.query)

    @cached_property
    def is_public(self) -> bool:
        return self.access is Access.PUBLIC

    @cached_property
    def reads_body(self) -> bool:
        """Whether the body is read. An operation that reads none accepts any body."""
        return self.takes is not None or self.raw_body or self.streams_body or self.late_body


class Operations:
    """The operations of one surface, in the order of their declaration."""

    def __init__(self, *, access: Access, tag: str) -> None:
        self._access = access
        self._tag = tag
        self._all: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._all)

    def declare(
        self, method: str, path: str, *, summary: str, **options: Any
    ) -> Callable[[Handler], Handler]:
        """Declare the decorated handler as an operation; its docstring is the description."""

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
        """Declare a GET, which also answers HEAD."""
        return self.declare("GET", path, summary=summary, **options)

    def post(self, path: str, *, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.declare("POST", path, summary=summary, **options)

    def put(self, path: str, *, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.declare("PUT", path, summary=summary, **options)

    def delete(self, path: str, *, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        return self.declare("DELETE", path, summary=summary, **options)
