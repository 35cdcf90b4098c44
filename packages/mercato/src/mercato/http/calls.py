"""Carries out an operation of the API for a caller who isn't its HTTP request: a page of the console, or a tool.

The operation is counted, decoded and refused as a request with the caller's key is.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from mercato.features.partners.limits import Quota
from mercato.features.partners.model import Caller
from mercato.http.head import Head
from mercato.http.operations import Answer, BodyForm, Call, Operation, Rate
from mercato.platform.errors import PayloadTooLarge, RateLimited
from mercato.services import Services
from mercato_contract.wire import Wire, as_json, redacted

_NONE: Final[Mapping[str, Any]] = {}


@redacted("value", "raw")
class Performed(Struct, frozen=True):
    """An operation's answer: its status, which may be that of a refusal that was stored, and its value or its bytes."""

    status: int
    value: Wire | None
    raw: bytes | None

    @property
    def body(self) -> bytes:
        """The bytes of the answer."""
        if self.raw is not None:
            return self.raw
        return b"" if self.value is None else as_json(self.value)


def operation_of(operations: Iterable[Operation], operation_id: str) -> Operation:
    """Return the operation of that id."""
    return next(operation for operation in operations if operation.id == operation_id)


def api_head(head: Head, key: str | None = None) -> Head:
    """Return the head that a program's request would have. `key` is the Idempotency-Key."""
    sent = copy(head)
    own = {b"accept": b"application/json"} | ({} if key is None else {b"idempotency-key": key.encode()})
    sent.headers = head.headers | own
    return sent


async def count_request(app: Services, caller: Caller, rate: Rate) -> Quota | None:
    """Count a request in the limits of the caller's partner; None if there are no limits. Raises RateLimited."""
    limiter, shared = app.limiter, app.shared_limiter
    if limiter is None:
        return None
    quota = limiter.take(caller, rate.value) if shared is None else await shared.take(caller, rate.value)
    if quota.wait is not None:
        raise RateLimited(
            f"The limit is {quota.limit} requests of this kind a minute. Wait {quota.wait} s.",
            retry_after=quota.wait,
        )
    return quota


def quota_headers(quota: Quota) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers that say what a partner has left of a limit."""
    return (
        (b"x-ratelimit-limit", b"%d" % quota.limit),
        (b"x-ratelimit-remaining", b"%d" % quota.remaining),
        (b"x-ratelimit-reset", b"%d" % quota.reset),
    )


async def perform(
    app: Services,
    caller: Caller,
    operation: Operation,
    *,
    head: Head,
    action: str,
    body: bytes = b"",
    query: bytes = b"",
    ids: Mapping[str, UUID] = _NONE,
    is_counted: bool = False,
) -> Performed:
    """Carry out an operation with a caller of its surface. Raises what the API answers as a problem.

    `head` is what `api_head` returns, `action` what the log and the audit trail say was done. `is_counted`: the caller
    has counted the request.
    """
    if operation.rate is not None and not is_counted:
        await count_request(app, caller, operation.rate)
    limit = operation.body_limit or app.settings.body_limit
    if len(body) > limit:
        raise PayloadTooLarge(limit)
    call: Call[Any, Any] = Call(app, caller, None, None, ids, _NONE, head, action)
    if operation.decode_query is not None:
        call.query = operation.decode_query(query)
    if operation.body_form is BodyForm.UPLOAD:
        call.body = partial(_write_all, body)
    elif operation.decode is not None and (body or not operation.body_optional):
        call.body = operation.decode(body)
    result = await operation.handler(call)
    answer: Answer[Any] = result if isinstance(result, Answer) else Answer(result)
    assert answer.parts is None, f"{operation.id} is sent as it is made"
    return Performed(operation.status if answer.status is None else answer.status, answer.value, answer.raw)


async def _write_all(body: bytes, write: Callable[[bytes], Awaitable[None]]) -> None:
    """Pass on a whole body, as one that is uploaded in parts."""
    await write(body)
