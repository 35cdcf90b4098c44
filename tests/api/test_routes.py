"""Matched paths are cached, within bounds that no client can exceed."""

import re

import pytest

from mercato.asgi import operations
from mercato.http.operations import Operation
from mercato.http.routing import Routes

ID = "0190f5fe-7e3b-7ccc-8000-abcdef012345"


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.id)
def test_a_path_is_matched_once_unless_it_is_longer_than_any_route(operation: Operation):
    routes = Routes(operations())
    usual = re.sub(r"\{\w+\}", ID, operation.path)
    assert routes.find(operation.method, usual) is routes.find(operation.method, usual)
    endless = re.sub(r"\{\w+\}", ID * 10, operation.path)
    if endless != usual:
        first, again = (routes.find(operation.method, endless) for _ in range(2))
        assert first is not again
        assert first.operation is operation
