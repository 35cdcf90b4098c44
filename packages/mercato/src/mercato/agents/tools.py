"""How a tool is declared: a handler that gets its arguments decoded, and calls operations of the API.

A tool is counted in the limits of its first operation, decoded before anything is done, and refused with the problems
of the API. What it answers is written twice: as text for a model to read, and as the same facts in JSON.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final, TypeVar, get_args
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.inspect import Type, type_info
from msgspec.structs import replace

from mercato.agents.protocol import Consent
from mercato.agents.schemas import input_schema, output_schema
from mercato.features.partners.model import Surface
from mercato.http.calls import api_head, perform
from mercato.http.operations import Call, Operation, Rate
from mercato.platform.errors import InvalidCursor
from mercato_contract.decoding import Decoder
from mercato_contract.decoding.decode import has_nul
from mercato_contract.decoding.unknown import find_unknown, refuses_unknown
from mercato_contract.member_hints import member_fault
from mercato_contract.problems import Reason
from mercato_contract.refusals import Problem, ValidationFailed
from mercato_contract.wire import Wire, as_json

Input = TypeVar("Input", bound=Wire)
Output = TypeVar("Output", bound=Wire)
Entry = TypeVar("Entry")

SMALL: Final = 12_000
LARGE: Final = 32_000
"""Bytes of an answer: LARGE only if the call asked for more entries than it gets without saying so."""

ENVELOPE: Final = 600
"""Bytes of an answer around a result: the message, its id, the server, and what a page says beside its entries."""


@cache
def _decoder_of(kind: type[Wire]) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


_NO_IDS: Final[Mapping[str, UUID]] = {}


class Hints(Struct, frozen=True, rename={
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}):  # fmt: skip
    """What a client may tell a person about a tool before it is called."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


READS: Final = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
"""Changes nothing, and calls nobody."""


class RefusedError(Exception):
    """An operation's answer that is a refusal which was stored: its problem, in JSON."""

    def __init__(self, problem: bytes) -> None:
        super().__init__()
        self.problem = problem


class ExplainedError(Exception):
    """A problem with members that the API doesn't answer, and its own text; both within the bound of an answer."""

    def __init__(self, problem: Problem, members: Mapping[str, Any], text: str) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.members = members
        self.text = text


class Elicitation(Struct, frozen=True):
    """What a tool returns in place of a result: a person must open this URL, after which the call is repeated."""

    message: str
    url: str


H = TypeVar("H", bound=Callable[[Any], Awaitable[Wire | Elicitation]])


@dataclass(slots=True)
class ToolCall(Call[Input, None]):
    """A call of a tool, authenticated, counted and decoded. `body` are its arguments."""

    tool: "Tool | None" = None
    takes_urls: bool = False
    """Whether the client shows a person a URL, so that the handler may return an Elicitation."""
    consent: Consent | None = None
    """What the person answered to the Elicitation, in a repeated call."""
    is_counted: bool = field(default=True, repr=False)

    async def perform(
        self,
        operation: Operation,
        body: Wire | Mapping[str, Any] | None = None,
        *,
        returns: type[Output],
        ids: Mapping[str, UUID] = _NO_IDS,
        query: bytes = b"",
        key: str | None = None,
    ) -> Output:
        """Carry out an operation of the API, one that the tool is declared with; return what it answers.

        `returns` may have fewer members than the answer, which is then decoded anew. `key` is the Idempotency-Key.
        Raises the operation's problems, and RefusedError. The first operation was counted when the tool was called.
        """
        assert self.tool is not None
        assert operation in self.tool.operations, operation.id
        is_counted = self.is_counted and operation is self.tool.operations[0]
        self.is_counted = self.is_counted and not is_counted
        try:
            done = await perform(
                self.app,
                self.caller,
                operation,
                head=self.head if key is None else api_head(self.head, key),
                action=self.action,
                body=b"" if body is None else as_json(body),
                query=query,
                ids=ids,
                is_counted=is_counted,
            )
        except (ValidationFailed, InvalidCursor) as refusal:
            if query:
                refusal.errors = _of_arguments(refusal, query)
            raise
        if done.status >= 400:  # noqa: PLR2004  # HTTP's own line
            raise RefusedError(done.body)
        if isinstance(done.value, returns):
            return done.value
        read: Callable[[bytes], Output] = _decoder_of(returns)
        return read(done.body)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """The declaration of a tool. `Tools.declare` describes what isn't plain."""

    name: str
    title: str
    description: str
    surface: Surface
    hints: Hints
    operations: tuple[Operation, ...]
    takes: type[Wire]
    returns: type[Wire]
    render: Callable[[Any], str]
    handler: Callable[[ToolCall[Any]], Awaitable[Wire | Elicitation]]

    @cached_property
    def rate(self) -> Rate:
        """The limit that a call counts against: that of its first operation."""
        return self.operations[0].rate or Rate.READ

    @cached_property
    def action(self) -> str:
        """What the log and the audit trail say was done."""
        return f"mcp.{self.name}"

    @cached_property
    def _decode(self) -> Decoder[Any]:
        return Decoder(self.takes)

    @cached_property
    def _info(self) -> Type:
        return type_info(self.takes)

    @cached_property
    def _read(self) -> Callable[[bytes], Wire]:
        return msgspec.json.Decoder(self.takes).decode

    @cached_property
    def _refuses_unknown(self) -> bool:
        """Whether the types of all arguments refuse what they don't have: then what was read needs no second look."""
        return refuses_unknown(self.takes)

    def decode(self, arguments: bytes) -> Wire:
        """Return the arguments. Raises InvalidRequest, ValidationFailed, also for one that the tool doesn't have."""
        if self._refuses_unknown and not has_nul(arguments):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                return self._read(arguments)
        unknown = find_unknown(arguments, self._info)
        if unknown:
            # Nothing is ignored: what was meant by it would be lost in silence.
            reasons = [
                Reason(code=ValidationFailed.code, message=member_fault(self.takes, pointer), pointer=pointer)
                for pointer in unknown
            ]
            raise ValidationFailed(
                f"{self.name} doesn't take every argument that was sent: see errors.", errors=reasons
            )
        decoded: Wire = self._decode(arguments)
        return decoded

    @cached_property
    def described(self) -> dict[str, Any]:
        """What `tools/list` says of the tool."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": input_schema(self.takes),
            "outputSchema": output_schema(self.returns),
            "annotations": msgspec.to_builtins(self.hints),
        }


class Tools:
    """The tools of one module, in the order of their declaration."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._all: list[Tool] = []

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._all)

    def declare(
        self,
        *,
        title: str,
        calls: Sequence[Operation],
        hints: Hints,
        render: Callable[[Any], str],
    ) -> Callable[[H], H]:
        """Declare the decorated handler as a tool: its name is the tool's, its docstring the description.

        - `calls`: the operations of the API that it carries out. It is counted as the first of them.
        - `render`: writes the result as text, for a model: compact, and not JSON.

        The handler is `async def name(call: ToolCall[Arguments]) -> Result`, with two Wire types. That of the arguments
        has `forbid_unknown_fields`: one decode then says that there is nothing unknown in them.
        """

        def add(handler: H) -> H:
            annotations = inspect.get_annotations(handler)
            result = annotations.pop("return")
            (call,) = annotations.values()
            (takes,) = get_args(call)
            assert takes.__struct_config__.forbid_unknown_fields, takes
            returns = next(kind for kind in get_args(result) or (result,) if kind is not Elicitation)
            self._all.append(
                Tool(
                    name=handler.__name__,
                    title=title,
                    description=" ".join(inspect.cleandoc(handler.__doc__ or "").split()),
                    surface=self._surface,
                    hints=hints,
                    operations=tuple(calls),
                    takes=takes,
                    returns=returns,
                    render=render,
                    handler=handler,
                )
            )
            return handler

        return add


def query_of(**parameters: object) -> bytes:
    """Return a query with these parameters, named as in Python, without those that are None."""
    sent = {_camel(name): value for name, value in parameters.items() if value is not None}
    return urlencode(sent).encode()


def _of_arguments(refusal: Problem, query: bytes) -> tuple[Reason, ...]:
    """Return the faults of a query with pointers to the arguments that it was made of.

    A parameter has no pointer in the API: its faults begin with its name, which is that of the argument. Every
    tool's cursor is `cursor`.
    """
    if isinstance(refusal, InvalidCursor):
        return (Reason(code=refusal.code, message=refusal.detail, pointer="/cursor"),)
    sent = dict(parse_qsl(query.decode()))
    faults = refusal.errors
    names = [fault.message.partition(" ")[0] for fault in faults]
    return tuple(
        replace(fault, pointer=f"/{name}") if fault.pointer is None and name in sent else fault
        for fault, name in zip(faults, names, strict=True)
    )


MOST_OF_JSON: Final = 2.5
"""Times the bytes of entries in JSON that they and their lines never have together."""


def take_within(
    entries: Iterable[Entry], line_of: Callable[[Entry], str], *, most: int
) -> tuple[list[Entry], bool]:
    """Return the first entries whose JSON and lines of text have this many bytes together, and whether more are left.

    The first entry is always taken: it is bounded by its members.
    """
    found = list(entries)
    # A line says what the entry's JSON says, with fewer words around it. Most lists are far from their bound.
    if not found or ENVELOPE + MOST_OF_JSON * len(as_json(found)) <= most:
        return found, False
    taken: list[Entry] = []
    size = ENVELOPE
    for entry in found:
        size += len(as_json(entry)) + _bytes_in_json(line_of(entry))
        if taken and size > most:
            return taken, True
        taken.append(entry)
    return taken, False


PARTS: Final = (1, 2, 4, 8)
"""What the characters of texts are divided by that have no room, and the bytes of the lists beside them."""


def cut_to_fit(
    make: Callable[[int], Output], render: Callable[[Output], str], *, most: int = SMALL
) -> Output:
    """Return what `make` makes with the first of PARTS with which it has this many bytes, its text included.

    Texts are cut by their characters, of which each may have four bytes. With the last of PARTS everything has room.
    """
    for part in PARTS:
        made = make(part)
        size = ENVELOPE + len(as_json(made))
        # Most answers are far from their bound, as lists are.
        if MOST_OF_JSON * size <= most or size + len(as_json(render(made))) <= most:
            break
    return made


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _bytes_in_json(line: str) -> int:
    """Return the bytes of a line of text in JSON, and of its end. Line feeds are its only control characters."""
    return len(line.encode()) + line.count('"') + line.count("\\") + line.count("\n") + len("\\n,")
