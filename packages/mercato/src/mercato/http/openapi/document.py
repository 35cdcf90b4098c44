"""The OpenAPI 3.1 document, generated from the operations and the events."""

from collections.abc import Iterable
from functools import cache
from types import new_class
from typing import Any, Final, Literal

from mercato.features.stores.model import StoreAlreadyRegistered
from mercato.http.openapi.schemas import components, schema_of
from mercato.http.operations import PROBLEM_DETAILS, Access, Operation
from mercato.http.routing import PATH_PARAMETERS
from mercato.platform import errors
from mercato_contract.decoding.unknown import NAMED_WITH
from mercato_contract.events import EVENTS, Event, StoreRefusal
from mercato_contract.problems import ProblemDetail
from mercato_contract.refusals import InvalidRequest, Problem, ValidationFailed
from mercato_contract.replies import REFUSALS
from mercato_contract.wire import Instant, Wire

_SECURITY: Final[dict[Access, list[dict[str, list[str]]]]] = {
    Access.COMMERCE: [{"commerceKey": []}],
    Access.MARKETFRONT: [{"marketfrontToken": []}],
    Access.ANY: [{"commerceKey": []}, {"marketfrontToken": []}],
    Access.PUBLIC: [],
}

TAGS: Final = {
    "Commerce": "For merchants: stores, their registration and status, and their catalogs.",
    "Orders": "Orders: validated, placed and read by storefronts; read and updated by merchants.",
    "Webhooks": "Your webhook deliveries, and help with signatures that don't verify.",
    "Reports": "What was sold on which days, an order a row, as JSON or CSV.",
    "Feeds": "What happened, in the order of commits: read it at your own pace, from a cursor.",
    "Requests": "Your requests that were refused in the last days.",
    "Marketfront": "For storefronts: find stores, and read them and their catalogs.",
    "Agents": "A storefront's agents: programs that order with keys of their own, within limits.",
    "Carts": "Optional cart helpers for storefronts. Carts aren't stored: the client keeps them.",
    "Tokens": "Access tokens for marketfront keys (OAuth 2.0 client credentials).",
    "Console": "Links that sign a browser in to the console.",
    "MCP": "For AI agents: the Model Context Protocol, and how its clients get access.",
    "System": "Health, metrics and documentation. No credentials needed, except for metrics.",
    "Events": "Webhooks that partners receive, signed by Standard Webhooks.",
}

_ABOUT: Final = """
Merchants' systems use the Commerce surface, storefronts the Marketfront surface; each has credentials of its own.

- Refusals are `application/problem+json` (RFC 9457), or Markdown for clients that prefer `text/markdown`.
  `errorCode` says what happened, and `type` links to its page.
- Money is a decimal string in the currency's own scale. Instants are RFC 3339 in UTC.
- Null on an optional member of a request is the same as leaving it out, except in Update Store. Unknown members are
  ignored. New members, codes, categories and event types may appear at any time.
- Every GET also answers HEAD.
""".strip()

_WEBHOOK_HEADERS: Final = {
    "webhook-id": "The same in all attempts: remember the ids that you have seen.",
    "webhook-timestamp": "Unix seconds of this attempt.",
    "webhook-signature": "`v1,` and the base64 HMAC-SHA256 of `id.timestamp.body` (Standard Webhooks); several, "
    "separated by spaces, while a secret rotates.",
    "Idempotency-Key": "The same as `webhook-id`.",
    "traceparent": "The trace of the cause (W3C Trace Context).",
    "Authorization": "`Bearer` and the `webhookToken` of the store, if it has one.",
}

_OPTIONAL_HEADERS: Final = frozenset({"Authorization"})


def document(
    operations: Iterable[Operation], *, version: str, public_url: str | None = None
) -> dict[str, Any]:
    """Return the document of the operations as served at `public_url`."""
    operations = list(operations)
    sent_events, replies = _event_types()
    schemas = components(
        sent=[kind for op in operations for kind in (op.takes, op.query)] + replies,
        answered=[kind for op in operations for kind in (op.returns, op.refusals.shape)]
        + [ProblemDetail, *sent_events],
    )
    paths: dict[str, dict[str, Any]] = {}
    shared: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(
            operation, schemas, shared
        )
    for query in {op.query.__name__ for op in operations if op.query is not None}:
        schemas.pop(query, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mercato",
            "version": version,
            "summary": "The commerce network you can run yourself.",
            "description": _ABOUT,
            "contact": {"name": "The operator of this service"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": public_url or "/"}],
        "tags": [{"name": tag, "description": words} for tag, words in TAGS.items()],
        "paths": paths,
        "webhooks": {event.name: {"post": _webhook(event)} for event in EVENTS},
        "components": {
            "schemas": schemas,
            "responses": dict(sorted(shared.items())),
            "headers": {
                name: {"description": words, "schema": schema} for name, (words, schema) in RESPONSE.items()
            },
            "securitySchemes": {
                "commerceKey": {"type": "http", "scheme": "bearer", "description": "A Commerce API key."},
                "marketfrontToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A marketfront key, or an access token made from one.",
                },
                "clientSecret": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "The id of a marketfront key, and the key.",
                },
            },
        },
    }


def problems_of(operation: Operation) -> list[type[Problem]]:
    """Return every refusal of an operation: its own, and those that its kind of request has."""
    of_path = (PATH_PARAMETERS[name].not_found for name in operation.names)
    kinds: list[type[Problem]] = [kind for kind in of_path if kind is not None]
    kinds += operation.problems
    if operation.access is not Access.PUBLIC:
        kinds += [errors.Unauthenticated, errors.RateLimited]
    if operation.access not in {Access.PUBLIC, Access.ANY}:
        kinds.append(errors.Forbidden)
    if operation.reads_body:
        kinds += [InvalidRequest, ValidationFailed]
        kinds += [errors.PayloadTooLarge, errors.UnsupportedMediaType]
    if operation.query is not None:
        kinds += [InvalidRequest, ValidationFailed]
    # Any request can have a head that can't be read.
    kinds += [InvalidRequest, errors.InternalError, errors.ServiceUnavailable]
    return list(dict.fromkeys(kinds))


def _operation(operation: Operation, schemas: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "security": _security(operation),
        "parameters": [*_path_parameters(operation), *_query_parameters(operation, schemas)],
        "responses": _responses(operation, shared),
    }
    out["parameters"] += [
        {"name": name, "in": "header", "required": False} | REQUEST[name]
        for name in operation.request_headers
    ]
    if operation.takes is not None:
        out["requestBody"] = {
            "required": not operation.body_optional,
            "content": {operation.body_type: {"schema": schema_of(operation.takes)}},
        }
    return out


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    own: list[dict[str, list[str]]] = [{name: []} for name in operation.reads]
    return [*own, {}] if own else _SECURITY[operation.access]


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_PARAMETERS[name].description,
            "schema": {"type": "string"}
            | ({"format": "uuid"} if PATH_PARAMETERS[name].not_found is not None else {}),
        }
        for name in operation.names
    ]


def _query_parameters(operation: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    schema = schemas[operation.query.__name__]
    required = {*schema.get("required", ()), *operation.required_query}
    members = {name: _not_null(member) for name, member in schema["properties"].items()}
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": member.pop("description"),
            "schema": member,
        }
        for name, member in members.items()
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a query parameter, which can be absent but not null."""
    schema = {name: value for name, value in schema.items() if name != "default" or value is not None}
    options = [option for option in schema.pop("anyOf", ()) if option != {"type": "null"}]
    return schema | options[0] if len(options) == 1 else schema | ({"anyOf": options} if options else {})


def _responses(operation: Operation, shared: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of an operation by status. Refusals that operations have in common are added to `shared`."""
    success: dict[str, Any] = {"description": operation.summary}
    if operation.returns is not None:
        media_types = (operation.media_type, *operation.other_media_types)
        schema = schema_of(operation.returns)
        # A table is text, whatever the type of the same as JSON.
        success["content"] = {
            kind: {"schema": _TEXT if kind == "text/csv" else schema} for kind in media_types
        }
    success["headers"] = _answer_headers(operation)
    responses = {str(operation.status): success}
    for status in _BODILESS.keys() & operation.also:
        responses[str(status)] = {
            "description": _BODILESS[status],
            "headers": _answer_headers(operation, bodiless=True),
        }
    by_status: dict[int, list[type[Problem]]] = {}
    for kind in problems_of(operation):
        by_status.setdefault(kind.status, []).append(kind)
    for status, kinds in sorted(by_status.items()):
        response = {
            "description": " ".join(f"`{kind.code}`: {kind.title}." for kind in kinds),
            "headers": _references([*_own_headers(operation, status, kinds), *_common(operation, status)]),
            "content": _refusal_content(operation),
        }
        name = _shared_name(operation, status, kinds)
        if name is not None:
            assert shared.setdefault(name, response) == response, name
            response = {"$ref": f"#/components/responses/{name}"}
        responses[str(status)] = response
    for status in sorted({*operation.also} - _BODILESS.keys()):
        refusal = responses.get(
            str(status), {"description": "The same answer.", "headers": {}, "content": {}}
        )
        responses[str(status)] = refusal | {
            "headers": refusal["headers"] | success["headers"],
            "content": refusal["content"] | success["content"],
        }
    return responses


_BODILESS: Final = {202: "Accepted.", 304: "Not modified."}
"""Other statuses of success that have no body. Any other has the body of a success."""


def _shared_name(operation: Operation, status: int, kinds: list[type[Problem]]) -> str | None:
    """Return the name of a refusal that is the same at every operation with this access, or None.

    It is the same if the status has one code, and no header depends on the operation.
    """
    if len(kinds) > 1 or operation.refusals is not PROBLEM_DETAILS:
        return None
    if not _BY_OPERATION.isdisjoint(_own_headers(operation, status, kinds)):
        return None
    named = "WithUnknownMembers" if operation.names_unknown and status in NAMED_WITH else ""
    return _ACCESS_PREFIXES.get(operation.access, "") + kinds[0].code.title().replace("_", "") + named


def _refusal_content(operation: Operation) -> dict[str, Any]:
    content = {operation.refusals.media_type: {"schema": schema_of(operation.refusals.shape)}}
    if operation.refusals.media_type == PROBLEM_DETAILS.media_type:
        content["text/markdown"] = {"schema": schema_of(str)}
    return content


def _webhook(event: Event) -> dict[str, Any]:
    headers = [name for name in _WEBHOOK_HEADERS if event.to == "Commerce" or name != "Authorization"]
    return {
        "operationId": event.name + "Webhook",
        "tags": ["Events"],
        "summary": event.summary,
        "description": event.description,
        "security": [],
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": name not in _OPTIONAL_HEADERS,
                "description": _WEBHOOK_HEADERS[name],
                "schema": {"type": "string"},
            }
            for name in headers
        ],
        "requestBody": {"required": True, "content": _json(envelope(event))},
        "responses": _webhook_responses(event),
    }


def _webhook_responses(event: Event) -> dict[str, Any]:
    if event.reply is None:
        return {
            "2XX": {"description": "Received. After any other answer the webhook is sent again, for days."}
        }
    refusal: dict[str, Any] = {"description": "A refusal with its reasons.", "content": _json(StoreRefusal)}
    return {
        "2XX": {"description": "Accepted or refused.", "content": _json(event.reply)},
        **{str(status.value): refusal for status in sorted(REFUSALS)},
        "default": {"description": "The storefront gets STORE_UNREACHABLE and may try again."},
    }


@cache
def envelope(event: Event) -> type[Wire]:
    """Return the type of the event's body, which only describes: the code that sends an event creates its body."""
    members = {
        "type": Literal[tuple(str(kind) for kind in event.types)],
        "timestamp": Instant,
        "data": event.data,
    }

    def fill(namespace: dict[str, Any]) -> None:
        namespace |= {"__doc__": event.meaning, "__annotations__": members}

    return new_class(event.envelope, (Wire,), {}, fill)


def _json(kind: type[Wire]) -> dict[str, Any]:
    return {"application/json": {"schema": schema_of(kind)}}


def _event_types() -> tuple[list[Any], list[Any]]:
    """Return the types of the events, and those of their replies."""
    replies: list[Any] = [event.reply for event in EVENTS if event.reply is not None]
    return [envelope(event) for event in EVENTS], [*replies, StoreRefusal]


# --- headers ------------------------------------------------------------------------------------------

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}

RESPONSE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "Location": ("The resource's address.", {"type": "string", "format": "uri-reference"}),
    "Retry-After": ("Seconds to wait.", _NUMBER),
    "Cache-Control": ("How long the answer may be cached.", _TEXT),
    "ETag": ("The version of the answer.", _TEXT),
    "Last-Modified": ("When the CatalogSet was made, as an HTTP date.", _TEXT),
    "Content-Disposition": ("The name of the file, if the answer is CSV.", _TEXT),
    "Vary": ("The request's headers that the answer depends on.", _TEXT),
    "Content-Encoding": ("How the body is compressed: `zstd`, `br` or `gzip`. Absent if it isn't.", _TEXT),
    "Pragma": ("`no-cache`, as RFC 6749 requires.", _TEXT),
    "X-Content-Type-Options": ("`nosniff`.", _TEXT),
    "Content-Security-Policy": ("What a browser allows the page.", _TEXT),
    "Referrer-Policy": ("What a browser sends about the page to others.", _TEXT),
    "Idempotent-Replayed": ("`true` if this is the answer of an earlier request.", _TEXT),
    "WWW-Authenticate": ("The accepted credentials.", _TEXT),
    "X-Request-Id": ("The request's id: the client's own, if it sent a valid one.", _TEXT),
    "X-Unknown-Members": (
        "JSON Pointers to unknown members of the body, which are ignored: percent-encoded, at most 20.",
        _TEXT,
    ),
    "X-RateLimit-Limit": ("Requests of this kind per minute that the account may send.", _NUMBER),
    "X-RateLimit-Remaining": ("Requests that are left.", _NUMBER),
    "X-RateLimit-Reset": ("When the full limit is available again, in Unix seconds.", _NUMBER),
    "Accept-Encoding": ("`identity`, if the body's coding is what is refused: send it as it is.", _TEXT),
    "Access-Control-Allow-Origin": ("The request's `Origin`, if this service allows it to call.", _TEXT),
    "Access-Control-Expose-Headers": ("The headers that a page of an allowed origin may read.", _TEXT),
}

REQUEST: Final[dict[str, dict[str, Any]]] = {
    "MCP-Protocol-Version": {
        "description": "The revision of the protocol. Only `initialize` doesn't need it.",
        "schema": _TEXT,
    },
    "Mcp-Method": {"description": "The body's `method`; needed from 2026-07-28 on.", "schema": _TEXT},
    "Mcp-Name": {
        "description": "The tool's name; needed from 2026-07-28 on, for `tools/call`.",
        "schema": _TEXT,
    },
    "If-Match": {
        "description": "Strong ETags of the CatalogSet, in any coding, or `*`: 412 if none matches.",
        "schema": _TEXT,
    },
    "If-Unmodified-Since": {
        "description": "An HTTP date: 412 if the CatalogSet was made later. Ignored beside `If-Match`.",
        "schema": _TEXT,
    },
    "If-Modified-Since": {
        "description": "An HTTP date: 304 if the CatalogSet wasn't made later. Ignored beside `If-None-Match`.",
        "schema": _TEXT,
    },
    "If-None-Match": {
        "description": "ETags of the CatalogSet that the client has, or `*`: 304 if one matches, in any coding.",
        "schema": _TEXT,
    },
    "Idempotency-Key": {
        "required": True,
        "description": "Identifies this request among all of the account for 24 hours: a repeat gets the first answer. "
        "1 to 255 printable ASCII characters; a UUID v4 is best.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        "example": "6b3f2a0e-8a1c-4d52-9d7a-2f4f0c1b7e55",
    },
}

_LIMITS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
_CORS: Final = ("Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Vary")

_BY_OPERATION: Final = frozenset({"Location", "Idempotent-Replayed"})
"""Headers that a refusal has at some operations alone."""

_ACCESS_PREFIXES: Final = {Access.MARKETFRONT: "Marketfront", Access.PUBLIC: "Public"}
"""What the names of shared refusals begin with where their common headers differ: CORS, and no limits."""

_UNCOUNTED: Final = frozenset({errors.Unauthenticated.status, errors.Forbidden.status})
"""Statuses of refusals that come before a request counts against a limit."""

_PINNED: Final = frozenset({400, 409, 422})
"""Statuses of refusals that are stored under an Idempotency-Key."""


def _answer_headers(operation: Operation, *, bodiless: bool = False) -> dict[str, Any]:
    """Return the headers of an operation's success, or of its 304."""
    own = [name for name in operation.answer_headers if not (bodiless and name == "Content-Encoding")]
    unknown = ["X-Unknown-Members"] if operation.names_unknown else []
    return _references([*own, *unknown, *_common(operation, operation.status)])


def _own_headers(operation: Operation, status: int, kinds: Iterable[type[Problem]]) -> list[str]:
    """Return the headers that an operation's refusals with one status have beside the common ones."""
    own = {
        "WWW-Authenticate": errors.Unauthenticated in kinds,
        "Retry-After": any(kind.retryable for kind in kinds) and status != _BUG,
        "Location": StoreAlreadyRegistered in kinds,
        "Accept-Encoding": errors.UnsupportedMediaType in kinds,
        "Idempotent-Replayed": "Idempotent-Replayed" in operation.answer_headers and status in _PINNED,
        "X-Unknown-Members": operation.names_unknown and status in NAMED_WITH,
    }
    if operation.refusals.media_type == PROBLEM_DETAILS.media_type:
        own["Vary"] = True
    else:
        own |= {"Cache-Control": True, "Pragma": True}
    return [name for name, there in own.items() if there]


_BUG: Final = errors.InternalError.status
"""The answer to a bug has no Retry-After."""


def _common(operation: Operation, status: int) -> tuple[str, ...]:
    """Return the headers that an answer with this status has, whatever the operation."""
    limits = _LIMITS if operation.rate is not None and status not in _UNCOUNTED else ()
    cors = _CORS if operation.from_pages else ()
    return ("X-Request-Id", *limits, *cors)


def _references(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
