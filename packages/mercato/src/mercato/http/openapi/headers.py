"""The headers of requests and answers, for the OpenAPI document."""

from collections.abc import Iterable
from typing import Any, Final

from mercato.features.stores.errors import StoreAlreadyRegistered
from mercato.http.operations import Access, Operation
from mercato.http.problems import PROBLEM_DETAILS
from mercato.platform import errors
from mercato.platform.errors import Problem

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}

RESPONSE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "Location": ("The resource's address.", {"type": "string", "format": "uri-reference"}),
    "Retry-After": ("Seconds to wait.", _NUMBER),
    "Cache-Control": ("How long the answer may be cached.", _TEXT),
    "ETag": ("The version of the answer.", _TEXT),
    "Last-Modified": ("When the CatalogSet was made, as an HTTP date.", _TEXT),
    "Vary": ("The request's headers that the answer depends on.", _TEXT),
    "Content-Encoding": ("How the body is compressed: `zstd`, `br` or `gzip`. Absent if it isn't.", _TEXT),
    "Pragma": ("`no-cache`, as RFC 6749 requires.", _TEXT),
    "X-Content-Type-Options": ("`nosniff`.", _TEXT),
    "Content-Security-Policy": ("What a browser allows the page.", _TEXT),
    "Referrer-Policy": ("What a browser sends about the page to others.", _TEXT),
    "Idempotent-Replayed": ("`true` if this is the answer of an earlier request.", _TEXT),
    "WWW-Authenticate": ("The accepted credentials.", _TEXT),
    "X-Request-Id": ("The request's id: the client's own, if it sent a valid one.", _TEXT),
    "X-RateLimit-Limit": ("Requests of this kind per minute that the account may send.", _NUMBER),
    "X-RateLimit-Remaining": ("Requests that are left.", _NUMBER),
    "X-RateLimit-Reset": ("When the full limit is available again, in Unix seconds.", _NUMBER),
    "Accept-Encoding": ("`identity`, if the body's coding is what is refused: send it as it is.", _TEXT),
    "Access-Control-Allow-Origin": ("The request's `Origin`, if this service allows it to call.", _TEXT),
    "Access-Control-Expose-Headers": ("The headers that a page of an allowed origin may read.", _TEXT),
}

REQUEST: Final[dict[str, dict[str, Any]]] = {
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

_UNCOUNTED: Final = frozenset({errors.Unauthenticated.status, errors.Forbidden.status})
"""Statuses of refusals that come before a request counts against a limit."""

_PINNED: Final = frozenset({400, 409, 422})
"""Statuses of refusals that are stored under an Idempotency-Key."""


def parameter(name: str) -> dict[str, Any]:
    """Return a request header as a parameter."""
    return {"name": name, "in": "header", "required": False} | REQUEST[name]


def definitions() -> dict[str, Any]:
    """Return every header of answers by its name."""
    return {name: {"description": words, "schema": schema} for name, (words, schema) in RESPONSE.items()}


def answer_headers(operation: Operation, *, bodiless: bool = False) -> dict[str, Any]:
    """Return the headers of an operation's success, or of its 304."""
    own = [name for name in operation.reply_headers if not (bodiless and name == "Content-Encoding")]
    return _references([*own, *_common(operation, operation.status)])


def refusal_headers(operation: Operation, status: int, kinds: Iterable[type[Problem]]) -> dict[str, Any]:
    """Return the headers of an operation's refusals with one status."""
    own = {
        "WWW-Authenticate": errors.Unauthenticated in kinds,
        "Retry-After": any(kind.retryable for kind in kinds) and status != _BUG,
        "Location": StoreAlreadyRegistered in kinds,
        "Accept-Encoding": errors.UnsupportedMediaType in kinds,
        "Idempotent-Replayed": "Idempotent-Replayed" in operation.reply_headers and status in _PINNED,
    }
    if operation.refusals is PROBLEM_DETAILS:
        own["Vary"] = True
    else:
        own |= {"Cache-Control": True, "Pragma": True}
    names = [name for name, there in own.items() if there]
    return _references([*names, *_common(operation, status)])


_BUG: Final = errors.InternalError.status
"""The answer to a bug has no Retry-After."""


def _common(operation: Operation, status: int) -> tuple[str, ...]:
    """Return the headers that an answer with this status has, whatever the operation."""
    limits = _LIMITS if operation.rate is not None and status not in _UNCOUNTED else ()
    cors = _CORS if operation.access is Access.MARKETFRONT else ()
    return ("X-Request-Id", *limits, *cors)


def _references(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
