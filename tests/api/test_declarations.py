"""An operation's types are those of its handler. The ignored lines are errors that mypy must report (`make check`)."""

from typing import Any, assert_type

import pytest

from mercato.asgi import operations
from mercato.http.operations import Access, Answer, BodyForm, Call, Operation, Operations, ReadBody, Upload
from mercato_contract.wire import Wire

BY_ID = {operation.id: operation for operation in operations()}


class Sent(Wire):
    """A body."""

    name: str


class Asked(Wire):
    """A query."""

    limit: int


class Returned(Wire):
    """A result."""

    name: str


def declared(declare: Any) -> Operation:
    group = Operations(access=Access.PUBLIC, tag="Test")
    group.post("/x", summary="x")(declare)
    (operation,) = group
    return operation


def test_body_query_and_result_of_an_operation_are_its_handlers():
    async def handler(call: Call[Sent, Asked]) -> Returned:
        assert_type(call.body, Sent)
        assert_type(call.query, Asked)
        return Returned(name=call.body.name)

    operation = declared(handler)
    assert (operation.takes, operation.query, operation.returns) == (Sent, Asked, Returned)
    assert (operation.body_form, operation.body_optional) == (BodyForm.DECODED, False)


def test_an_answer_declares_what_its_bytes_are():
    async def handler(_call: Call[Sent | None, None]) -> Answer[Returned]:
        return Answer(raw=b"{}")

    operation = declared(handler)
    assert (operation.takes, operation.body_optional) == (Sent, True)
    assert (operation.query, operation.returns) == (None, Returned)


@pytest.mark.parametrize("form", [bytes, Upload, ReadBody])
def test_a_body_that_the_handler_decodes_has_no_type_but_its_schema(form: Any):
    async def handler(_call: Any) -> None: ...

    handler.__annotations__["_call"] = Call[form, None]
    operation = declared(handler)
    assert operation.decodes_itself
    assert (operation.takes, operation.decode, operation.returns) == (None, None, None)
    assert BY_ID["getAccessToken"].takes is not None


def test_a_handler_of_other_types_is_an_error_of_mypy():
    group = Operations(access=Access.PUBLIC, tag="Test")

    @group.get("/number", summary="x")  # type: ignore[type-var]
    async def takes_a_number(_call: Call[int, None]) -> None: ...  # type: ignore[type-var]

    @group.get("/text", summary="x")  # type: ignore[type-var]
    async def queries_a_text(_call: Call[None, str]) -> None: ...  # type: ignore[type-var]

    @group.get("/list", summary="x")  # type: ignore[type-var]
    async def returns_a_list(_call: Call[None, None]) -> list[Sent]:
        return []

    @group.get("/answer", summary="x")
    async def answers_with_another(_call: Call[None, None]) -> Answer[Returned]:
        return Answer(Sent(name="x"))  # type: ignore[arg-type]

    @group.get("/option", summary="x", status="200")  # type: ignore[arg-type]
    async def has_a_wrong_option(_call: Call[None, None]) -> None: ...

    assert len(list(group)) == 5
