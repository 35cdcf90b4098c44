"""Requests to the API that a page makes: the API's own operations answer them, and programs that repeat them are shown.

The account's key never appears: commands and programs read it from the environment variable `MERCATO_KEY`.
"""

import json
import shlex
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import Struct

from mercato.console.rendering import INVISIBLE
from mercato.console.screen import Visit
from mercato.console.session import with_stores
from mercato.features.partners.model import Surface
from mercato.http import calls
from mercato.http.operations import Operation
from mercato.platform.problem_details import represent
from mercato_contract.refusals import Problem
from mercato_contract.wire import as_json

MAX_SHOWN: Final = 20_000
"""Characters of an answer that a page shows."""


class Example(Struct, frozen=True):
    """A request as a command or as a program."""

    language: str
    code: str


class ApiExchange(Struct, frozen=True):
    """A request with its answer. `answer` are the answer's bytes, `shown` what a page shows of them."""

    request: str
    examples: tuple[Example, ...]
    status: int
    answer: bytes
    shown: str

    @property
    def succeeded(self) -> bool:
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def status_line(self) -> str:
        return f"{self.status} {HTTPStatus(self.status).phrase}"


async def perform(
    visit: Visit, operation: Operation, body: Mapping[str, Any], *, key: str | None = None
) -> ApiExchange:
    """Carry out an operation for the visit's storefront: decoded, counted and refused as the API does it.

    `key` is the Idempotency-Key. A refusal is the exchange's answer; faults of the service itself are raised.
    """
    raw, head = as_json(body), calls.api_head(visit.head, key)
    caller = await with_stores(visit.app, visit.caller(Surface.MARKETFRONT))
    try:
        done = await calls.perform(visit.app, caller, operation, head=head, action=visit.action, body=raw)
        status, answer = done.status, done.body
    except Problem as problem:
        status, answer = problem.status, represent(problem, head.context)[1]
    shown = _shown(raw)
    return ApiExchange(
        request="\n".join([f"POST {operation.path}", *_headers(key), "", shown]),
        examples=_examples(head.base_url, operation, shown, key),
        status=status,
        answer=answer,
        shown=_bounded(_shown(answer)),
    )


# --- how it is shown ----------------------------------------------------------------------------------


def _shown(body: bytes) -> str:
    """Return JSON with line breaks, and with escapes for characters that are invisible or turn text around."""
    text = msgspec.json.format(body, indent=2).decode()
    return INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _bounded(text: str) -> str:
    if len(text) <= MAX_SHOWN:
        return text
    return f"{text[:MAX_SHOWN]}\n… {len(text) - MAX_SHOWN:,} more characters"


def _headers(key: str | None) -> list[str]:
    headers = ["Authorization: Bearer $MERCATO_KEY", "Content-Type: application/json"]
    return headers if key is None else [*headers, f"Idempotency-Key: {key}"]


def _examples(base_url: str, operation: Operation, body: str, key: str | None) -> tuple[Example, ...]:
    return (
        Example("curl", _curl(base_url + operation.path, body, key)),
        Example("Python", _python(base_url, operation, body, key)),
        Example("TypeScript", _typescript(base_url, operation, body, key)),
    )


def _curl(url: str, body: str, key: str | None) -> str:
    # The shell puts the key in: double quotes. None of these headers has another character that it would replace.
    headers = "".join(f'  -H "{header}" \\\n' for header in _headers(key))
    return f"curl -sS -X POST {shlex.quote(url)} \\\n{headers}  --data-raw {shlex.quote(body)}"


def _python(base_url: str, operation: Operation, body: str, key: str | None) -> str:
    assert operation.takes is not None, operation.id
    option = "" if key is None else f', idempotency_key="{key}"'
    # JSON never has three quotes in a row.
    return f'''import os

import msgspec
from mercato_client import Client, as_json, types

BODY = r"""{body}"""

with Client({base_url!r}, os.environ["MERCATO_KEY"]) as client:
    request = msgspec.json.decode(BODY, type=types.{operation.takes.__name__})
    answer = client.{operation.handler.__name__}(request{option})
print(as_json(answer).decode())'''


def _typescript(base_url: str, operation: Operation, body: str, key: str | None) -> str:
    assert operation.takes is not None, operation.id
    option = "" if key is None else f', {{ idempotencyKey: "{key}" }}'
    # These two end a template, or begin an expression in it: JSON has them only in strings, and may escape them.
    quoted = body.replace("`", "\\u0060").replace("${", "\\u0024{")
    return f"""import {{ Mercato, type types }} from "@mercato/client";

const BODY = String.raw`{quoted}`;

const mercato = new Mercato({{ url: {as_json(base_url).decode()}, key: process.env.MERCATO_KEY }});
const request: types.{operation.takes.__name__} = JSON.parse(BODY);
const answer = await mercato.marketfront.{operation.id}(request{option});
console.log(JSON.stringify(answer, null, 2));"""
