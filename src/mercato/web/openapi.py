"""The OpenAPI 3.1 document, made from the operations alone."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mercato import errors
from mercato.errors import Problem
from mercato.web.operations import Access, Operation
from mercato.web.problems import ProblemDetail

REF: Final = "#/components/schemas/{name}"

_SECURITY: Final[dict[Access, list[dict[str, list[str]]]]] = {
    Access.COMMERCE: [{"commerceKey": []}],
    Access.MARKETFRONT: [{"marketfrontToken": []}],
    Access.PUBLIC: [],
}

_HEADERS: Final = {
    "Location": ("Where the resource is.", {"type": "string", "format": "uri-reference"}),
    "Retry-After": ("Seconds to wait.", {"type": "integer"}),
    "Cache-Control": ("How long the answer may be kept.", {"type": "string"}),
    "ETag": ("The version of what is answered.", {"type": "string"}),
    "Idempotent-Replayed": ("`true` when this is the answer of an earlier request.", {"type": "string"}),
}


def document(operations: Iterable[Operation], *, version: str) -> dict[str, Any]:
    """Return the document of the given operations."""
    operations = list(operations)
    types = [
        kind
        for op in operations
        for kind in (op.takes, op.returns, op.query, op.refusals.shape)
        if _is_named(kind)
    ]
    schemas = _schemas([*types, ProblemDetail])
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    for query in {op.query.__name__ for op in operations if op.query is not None}:
        schemas.pop(query, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mercato",
            "version": version,
            "summary": "The commerce network you can run yourself.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(op.tag for op in operations)],
        "paths": paths,
        "components": {
            "schemas": schemas,
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
    """Return every refusal that an operation can answer with: its own, and those of every request like it."""
    kinds: list[type[Problem]] = [*operation.problems]
    if operation.access is not Access.PUBLIC:
        kinds += [errors.Unauthenticated, errors.RateLimited, errors.Forbidden]
    if operation.reads_body:
        kinds += [errors.InvalidRequest, errors.ValidationFailed]
        kinds += [errors.PayloadTooLarge, errors.UnsupportedMediaType]
    if operation.query is not None:
        kinds += [errors.InvalidRequest, errors.ValidationFailed]
    kinds += [errors.InternalError, errors.ServiceUnavailable]
    return list(dict.fromkeys(kinds))


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "security": _security(operation),
        "parameters": [*_path_parameters(operation), *_query_parameters(operation, schemas)],
        "responses": _responses(operation),
    }
    for name in operation.request_headers:
        out["parameters"].append(
            {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        )
    if operation.takes is not None:
        out["requestBody"] = {
            "required": not operation.body_optional,
            "content": {operation.body_type: {"schema": _schema(operation.takes)}},
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
            "schema": {"type": "string"} | ({"format": "uuid"} if name in operation.missing else {}),
        }
        for name in operation.names
    ]


def _query_parameters(operation: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    schema = schemas[operation.query.__name__]
    required = set(schema.get("required", ()))
    out = []
    for name, member in schema["properties"].items():
        kind = dict(member)
        described = kind.pop("description", None)
        parameter = {"name": name, "in": "query", "required": name in required, "schema": _not_null(kind)}
        out.append(parameter | ({"description": described} if described else {}))
    return out


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a query parameter: absent is not written as null there."""
    schema = {name: value for name, value in schema.items() if name != "default" or value is not None}
    options = [option for option in schema.pop("anyOf", ()) if option != {"type": "null"}]
    return schema | options[0] if len(options) == 1 else schema | ({"anyOf": options} if options else {})


def _responses(operation: Operation) -> dict[str, Any]:
    good: dict[str, Any] = {"description": operation.summary}
    if operation.returns is not None:
        good["content"] = {operation.media_type: {"schema": _schema(operation.returns)}}
    if operation.reply_headers:
        good["headers"] = {
            name: {"description": _HEADERS[name][0], "schema": _HEADERS[name][1]}
            for name in operation.reply_headers
        }
    responses = {str(operation.status): good}
    for status in operation.also:
        responses[str(status)] = {"description": "Not modified."}
    by_status: dict[int, list[type[Problem]]] = {}
    for kind in problems_of(operation):
        by_status.setdefault(kind.status, []).append(kind)
    for status, kinds in sorted(by_status.items()):
        responses[str(status)] = {
            "description": " ".join(f"`{kind.code}`: {kind.title}." for kind in kinds),
            "content": {operation.refusals.media_type: {"schema": _schema(operation.refusals.shape)}},
        }
    return responses


def _is_named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _schemas(types: list[Any]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components(list(dict.fromkeys(types)), ref_template=REF)
    return components


def _schema(kind: Any) -> dict[str, Any]:
    if _is_named(kind):
        return {"$ref": REF.format(name=kind.__name__)}
    if kind is str:
        return {"type": "string"}
    return {"type": "object"}
