"""Refused requests."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from mercato_contract.pages import Page
from mercato_contract.problems import OrderError
from mercato_contract.wire import Instant, Wire


class RefusedRequest(Wire):
    """A request that was refused. `errors` has the faults of its body, as the answer had them; no body is kept.

    One that was accepted is listed if its body had members that are unknown: `errorCode` is `UNKNOWN_MEMBER`.
    `operation` is null if there is no such path; of an agent's call it is `mcp.` and the tool's name, and `status` 200.
    `path` has no query.
    """

    request_id: str
    at: Instant
    operation: str | None
    method: str
    path: str
    status: int
    error_code: str
    errors: list[OrderError]
    key_id: UUID | None
    milliseconds: int


class RefusedRequestPage(Wire):
    """A page of refused requests, newest first."""

    requests: list[RefusedRequest]
    next_cursor: str | None


class RefusedRequestQuery(Page):
    """Filters of the list of refused requests."""

    error_code: Annotated[str, Meta(description="Only requests refused with this code.")] | None = None
    since: (
        Annotated[
            str,
            Meta(description="Only requests since this instant.", extra_json_schema={"format": "date-time"}),
        ]
        | None
    ) = None
    store_id: Annotated[UUID, Meta(description="Only requests that name this store.")] | None = None
