"""The Model Context Protocol over HTTP: messages, revisions, headers. It knows neither tools nor this service.

Revision 2026-07-28 says in each request which one it is, in `_meta` and in headers that must agree with the body. The
revisions before it begin with `initialize`. There are no sessions and no streams: each answer is one JSON object.

Source: modelcontextprotocol.io, its pages on streamable HTTP, versioning, tools, multi round-trip requests and
elicitation in these revisions.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from mercato_contract.json_texts import is_too_deep
from mercato_contract.wire import as_json

MODERN: Final = "2026-07-28"
INITIALIZED: Final = ("2025-11-25", "2025-06-18")
"""The revisions that begin with `initialize`, the newest first."""

SUPPORTED: Final = (MODERN, *INITIALIZED)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_REVISION: Final = -32022

_META: Final = "io.modelcontextprotocol/"
_BASE64: Final = ("=?base64?", "?=")
MAX_ID: Final = 256
"""Bytes of an id in JSON: its answer repeats it, and has a bound."""

MAX_SHOWN: Final = 100
"""Characters that a message repeats of what was sent."""

Id = int | str | UnsetType
"""The id of a request, which its answer repeats; UNSET if it couldn't be read."""

URL_REQUEST: Final = "open"
"""The key of the one input that this server requests: that a person opens a URL."""

Consent = Literal["accept", "decline", "cancel"]
"""What a person answered who was asked to open a URL: to accept is to open it, and not what its page asks."""

Method = Literal["initialize", "ping", "server/discover", "tools/list", "tools/call"]
_METHODS: Final[Mapping[bool, frozenset[str]]] = {
    True: frozenset({"server/discover", "tools/list", "tools/call"}),
    False: frozenset({"initialize", "ping", "tools/list", "tools/call"}),
}
"""The methods of revision 2026-07-28 (True), and of those before it."""


class ProtocolError(Exception):
    """A message that isn't carried out: an error of JSON-RPC, with the HTTP status of its answer."""

    def __init__(
        self, code: int, message: str, *, request_id: Id = UNSET, status: int = 400, data: Any = UNSET
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id
        self.status = status
        self.data = data

    @property
    def body(self) -> bytes:
        """The answer. Without an id if none could be read."""
        error = {"code": self.code, "message": self.message}
        members: dict[str, Any] = {"jsonrpc": "2.0"}
        if self.request_id is not UNSET:
            members["id"] = self.request_id
        return as_json(members | {"error": error if self.data is UNSET else error | {"data": self.data}})


class _Sent(Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    method: str
    id: Id = UNSET
    params: Raw | UnsetType = UNSET


class _Identified(Struct, frozen=True):
    id: Id = UNSET


class Meta(Struct, frozen=True, rename=lambda name: _META + name):
    """The members of `_meta` that this service reads."""

    protocolVersion: str | UnsetType = UNSET  # noqa: N815  # as the specification has it
    clientCapabilities: dict[str, Any] | UnsetType = UNSET  # noqa: N815  # as above


class _Response(Struct, frozen=True):
    action: Consent


class _Responses(Struct, frozen=True, rename={"opened": URL_REQUEST}):
    """The responses to input requests. Those to what this server never requests are ignored."""

    opened: _Response | UnsetType = UNSET


class Params(Struct, frozen=True, rename={"meta": "_meta", "revision": "protocolVersion"}):
    """The parameters of all methods. `revision` is that of `initialize`."""

    meta: Meta = Meta()
    name: str | UnsetType = UNSET
    arguments: Raw = Raw(b"{}")
    cursor: str | None = None
    inputResponses: Raw | UnsetType = UNSET  # noqa: N815  # as above
    revision: str | UnsetType = UNSET


class Request(Struct, frozen=True):
    """A request whose method is known and whose headers agree with it."""

    id: int | str
    method: Method
    params: Params
    is_modern: bool

    def answer(self, result: bytes) -> bytes:
        """Return the answer with this result, which is an object in JSON."""
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (as_json(self.id), result)

    def error(self, code: int, message: str, *, data: Any = UNSET) -> ProtocolError:
        """Return the error of this request. Clients of the older revisions read it from an answer with status 200."""
        status = 404 if code == METHOD_NOT_FOUND else 400
        return ProtocolError(
            code, message, request_id=self.id, status=status if self.is_modern else 200, data=data
        )

    @property
    def takes_urls(self) -> bool:
        """Whether the client shows a person a URL that it is given (`elicitation` in the mode `url`).

        Clients of the older revisions are asked by a stream, which this server hasn't.
        """
        capabilities = self.params.meta.clientCapabilities
        elicitation = None if capabilities is UNSET else capabilities.get("elicitation")
        return self.is_modern and isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)

    @property
    def consent(self) -> Consent | None:
        """What a person answered who was asked to open a URL; None before. Raises ProtocolError.

        The repeated call says it in `inputResponses`.
        """
        if isinstance(self.params.inputResponses, UnsetType) or not self.is_modern:
            return None
        try:
            response = _decode_responses(self.params.inputResponses).opened
        except msgspec.DecodeError as fault:
            raise self.error(
                INVALID_PARAMS, f"params.inputResponses aren't those to the input requests: {fault}."
            ) from None
        return None if isinstance(response, UnsetType) else response.action


_decode: Final = msgspec.json.Decoder(_Sent).decode
_decode_params: Final = msgspec.json.Decoder(Params).decode
_decode_responses: Final = msgspec.json.Decoder(_Responses).decode
_find_id: Final = msgspec.json.Decoder(_Identified).decode


def read_message(body: bytes, headers: Mapping[bytes, bytes]) -> Request | None:
    """Return the request in a body; None for a notification, which needs nothing. Raises ProtocolError."""
    sent = _read(body)
    if isinstance(sent.id, UnsetType):
        if not sent.method.startswith("notifications/"):
            raise ProtocolError(INVALID_REQUEST, f"{shown(sent.method)} needs an id: a number or a text.")
        return None
    if len(as_json(sent.id)) > MAX_ID:
        raise ProtocolError(INVALID_REQUEST, f"An id may have at most {MAX_ID} bytes.")
    version = headers.get(b"mcp-protocol-version", b"").strip().decode("latin-1")
    params = _read_params(sent, status=200 if version in INITIALIZED else 400)
    is_modern = _is_modern(sent, params, version)
    if is_modern:
        _check_meta(sent, params, version)
        _check_headers(sent, params, headers, version)
        if version != MODERN:
            raise _unsupported(version, sent.id)
    elif sent.method != "initialize" and version not in INITIALIZED:
        raise _unsupported(version, sent.id)
    if sent.method not in _METHODS[is_modern]:
        raise ProtocolError(
            METHOD_NOT_FOUND,
            f"{shown(sent.method)} isn't a method of this server. It has tools alone.",
            request_id=sent.id,
            status=404 if is_modern else 200,
        )
    return Request(sent.id, sent.method, params, is_modern)  # type: ignore[arg-type]  # checked above


def _read(body: bytes) -> _Sent:
    if is_too_deep(body):
        raise ProtocolError(INVALID_REQUEST, "The message is nested too deeply.")
    try:
        # The whole body: a decoder skips what it doesn't read, and that is read later.
        body.decode()
        return _decode(body)
    except msgspec.ValidationError:
        if body.lstrip()[:1] == b"[":
            raise ProtocolError(
                INVALID_REQUEST, "Batches aren't part of the protocol. Send each message alone."
            ) from None
        raise ProtocolError(
            INVALID_REQUEST,
            'This isn\'t a request of JSON-RPC 2.0: it needs "jsonrpc": "2.0", a method, and an id that is a '
            "number or a text.",
            request_id=_id_of(body),
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProtocolError(PARSE_ERROR, "The body isn't JSON.") from None


def _id_of(body: bytes) -> Id:
    """Return the id of a message that isn't a request, if it has one that can be repeated."""
    try:
        found = _find_id(body).id
    except msgspec.DecodeError:
        return UNSET
    return UNSET if found is UNSET or len(as_json(found)) > MAX_ID else found


def _read_params(sent: _Sent, *, status: int) -> Params:
    """Return the parameters, which may be null as well as absent. Raises ProtocolError with this status."""
    if isinstance(sent.params, UnsetType) or bytes(sent.params) == b"null":
        return Params()
    try:
        return _decode_params(sent.params)
    except msgspec.DecodeError as fault:
        raise ProtocolError(
            INVALID_PARAMS,
            f"params aren't as {shown(sent.method)} takes them: {fault}.",
            request_id=sent.id,
            status=status,
        ) from None


def _is_modern(sent: _Sent, params: Params, version: str) -> bool:
    """Tell the eras apart: the newer one says so in each request, the older ones begin with `initialize`."""
    if params.meta.protocolVersion is not UNSET:
        return True
    return sent.method != "initialize" and version != "" and version not in INITIALIZED


def _check_meta(sent: _Sent, params: Params, version: str) -> None:
    missing = [
        f"{_META}{name}"
        for name in ("protocolVersion", "clientCapabilities")
        if getattr(params.meta, name) is UNSET
    ]
    if missing and version != MODERN and params.meta.protocolVersion is UNSET:
        raise _unsupported(version, sent.id)
    if missing:
        raise ProtocolError(
            INVALID_PARAMS, f"params._meta needs {' and '.join(missing)}.", request_id=sent.id
        )


def _check_headers(sent: _Sent, params: Params, headers: Mapping[bytes, bytes], version: str) -> None:
    """Raise ProtocolError unless the headers, which proxies read, say the same as the body."""
    pairs: list[tuple[str, str | None, str | UnsetType]] = [
        ("MCP-Protocol-Version", version, params.meta.protocolVersion),
        ("Mcp-Method", headers.get(b"mcp-method", b"").strip().decode("latin-1"), sent.method),
    ]
    if sent.method == "tools/call" and params.name is not UNSET:
        pairs.append(("Mcp-Name", _header_text(headers.get(b"mcp-name", b"")), params.name))
    for name, header, value in pairs:
        if header != value:
            is_there = f"is {shown(header)}" if header else "is missing"
            raise ProtocolError(
                HEADER_MISMATCH,
                f"Header mismatch: {name} {is_there}, but the body has {shown(str(value))}.",
                request_id=sent.id,
            )


def _header_text(value: bytes) -> str | None:
    """Return a header's text, which may be written as base64 of UTF-8; None if it can't be read."""
    text = value.strip().decode("latin-1")
    begin, end = _BASE64
    if not (text.startswith(begin) and text.endswith(end) and len(text) >= len(begin) + len(end)):
        return text
    try:
        return base64.b64decode(text[len(begin) : -len(end)], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _unsupported(version: str, request_id: Id) -> ProtocolError:
    return ProtocolError(
        UNSUPPORTED_REVISION,
        f"Unsupported protocol version: send the header MCP-Protocol-Version with one of {', '.join(SUPPORTED)}.",
        request_id=request_id,
        data={"supported": SUPPORTED, "requested": version[:MAX_SHOWN]},
    )


def shown(text: str) -> str:
    """Return what was sent as a message repeats it: short, and without characters that nobody sees."""
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")
