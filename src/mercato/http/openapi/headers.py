"""The headers of requests and answers, as the OpenAPI document describes them."""

from collections.abc import Iterable
from typing import Any, Final

from mercato.http.operations import Access, Operation
from mercato.http.problems import PROBLEM_DETAILS
from mercato.kernel import errors
from mercato.kernel.errors import Problem

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}

RESPONSE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "Location": ("Where the resource is.", {"type": "string", "format": "uri-reference"}),
    "Retry-After": ("Seconds to wait.", _NUMBER),
    "Cache-Control": ("How long the answer may be kept.", _TEXT),
    "ETag": ("The version of what is answered.", _TEXT),
    "Vary": ("The request's headers that the answer depends on.", _TEXT),
    "Content-Encoding": ("How the body is compressed: `zstd`, `br` or `gzip`; absent, it is not.", _TEXT),
    "Pragma": ("`no-cache`, as RFC 6749 asks for.", _TEXT),
    "X-Content-Type-Options": ("`nosniff`.", _TEXT),
    "Content-Security-Policy": ("What a browser lets the page do.", _TEXT),
    "Referrer-Policy": ("What a browser tells of the page to others.", _TEXT),
    "Idempotent-Replayed": ("`true` when this is the answer of an earlier request.", _TEXT),
    "WWW-Authenticate": ("How to sign in.", _TEXT),
    "X-Request-Id": ("The request's id: the caller's own, if it sent a sane one.", _TEXT),
    "X-RateLimit-Limit": ("Requests of this kind that the account may make in a minute.", _NUMBER),
    "X-RateLimit-Remaining": ("Those that are left.", _NUMBER),
    "X-RateLimit-Reset": ("When all of them are there again, in Unix seconds.", _NUMBER),
}

REQUEST: Final[dict[str, dict[str, Any]]] = {
    "If-None-Match": {
        "description": "ETags of the CatalogSet that the client has, or `*`: 304 if one is right, in whatever coding.",
        "schema": _TEXT,
    },
    "Idempotency-Key": {
        "required": True,
        "description": "Names this request, for 24 hours, among all of the account: a repeat gets the first answer. "
        "1 to 255 printable ASCII characters; a UUID v4 is best.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        "example": "6b3f2a0e-8a1c-4d52-9d7a-2f4f0c1b7e55",
    },
}

_LIMITS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")

_PINNED: Final = frozenset({400, 409, 422})
"""Refusals that an Idempotency-Key gets again."""


def parameter(name: str) -> dict[str, Any]:
    """Return the parameter of a request's header."""
    return {"name": name, "in": "header", "required": False} | REQUEST[name]


def definitions() -> dict[str, Any]:
    """Return every header of answers by its name."""
    return {name: {"description": words, "schema": schema} for name, (words, schema) in RESPONSE.items()}


def of_answer(operation: Operation, *, bodiless: bool = False) -> dict[str, Any]:
    """Return the headers of an operation's good answer, or of its 304."""
    own = [name for name in operation.reply_headers if not (bodiless and name == "Content-Encoding")]
    return _named([*own, *_everywhere(operation)])


def of_refusals(operation: Operation, status: int, kinds: Iterable[type[Problem]]) -> dict[str, Any]:
    """Return the headers of an operation's refusals with one status."""
    own = {
        "WWW-Authenticate": errors.Unauthenticated in kinds,
        "Retry-After": any(kind.retryable for kind in kinds) and status != _CLEAR_FAULT,
        "Location": errors.StoreAlreadyRegistered in kinds,
        "Idempotent-Replayed": "Idempotent-Replayed" in operation.reply_headers and status in _PINNED,
    }
    if operation.refusals is PROBLEM_DETAILS:
        own["Vary"] = True
    else:
        own |= {"Cache-Control": True, "Pragma": True}
    names = [name for name, there in own.items() if there]
    # Every refusal of somebody known has the limits, too; to say so dozens of times helps nobody.
    limits = _LIMITS if errors.RateLimited in kinds else ()
    return _named([*names, "X-Request-Id", *limits])


_CLEAR_FAULT: Final = errors.InternalError.status
"""A bug does not say how long to wait."""


def _everywhere(operation: Operation) -> tuple[str, ...]:
    return ("X-Request-Id",) if operation.access is Access.PUBLIC else ("X-Request-Id", *_LIMITS)


def _named(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
