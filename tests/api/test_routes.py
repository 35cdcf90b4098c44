"""A method and a path lead to one endpoint. Matches are cached, within bounds that no client can exceed."""

import re
from uuid import UUID

import pytest

from mercato.asgi import operations
from mercato.http.operations import Operation
from mercato.http.routing import Routes, routes_of
from mercato.platform.errors import MethodNotAllowed, NotFound

ID = "0190f5fe-7e3b-7ccc-8000-abcdef012345"


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.id)
def test_a_path_is_matched_once_unless_it_is_longer_than_any_route(operation: Operation):
    routes = routes_of(operations())
    usual = re.sub(r"\{\w+\}", ID, operation.path)
    assert routes.find(operation.method, usual) is routes.find(operation.method, usual)
    endless = re.sub(r"\{\w+\}", ID * 10, operation.path)
    if endless != usual:
        first, again = (routes.find(operation.method, endless) for _ in range(2))
        assert first is not again
        assert first.endpoint is operation


SCREENS = Routes(
    [
        ("GET", "/orders", "orders"),
        ("POST", "/orders", "operators' action"),
        ("GET", "/orders/{order}", "order"),
        ("GET", "/orders/new", "new"),
        ("GET", "/files/{path:path}", "file"),
        ("GET", "/files/index", "index"),
        ("POST", "/files/index/all", "all"),
    ],
    texts={"path"},
    missing="Nothing is here.",
)


def test_a_literal_segment_goes_before_a_parameter_and_a_parameter_before_the_rest():
    assert SCREENS.find("GET", "/orders/new").endpoint == "new"
    assert SCREENS.find("HEAD", f"/orders/{ID}").ids == {"order": UUID(ID)}
    assert SCREENS.find("GET", "/orders/nothing").invalid_id == ("order", "nothing")
    assert SCREENS.find("GET", "/files/index").endpoint == "index"
    for rest in ("", "index/", "index/all/of/them", "other"):
        match = SCREENS.find("GET", f"/files/{rest}")
        assert (match.endpoint, match.texts) == ("file", {"path": rest})


@pytest.mark.parametrize("path", ["/", "/files", "/orders/", f"/orders/{ID}/lines", "", "x"])
def test_a_path_without_an_endpoint_is_not_found(path: str):
    with pytest.raises(NotFound, match="Nothing is here"):
        SCREENS.find("GET", path)


def test_a_path_with_other_methods_says_which():
    with pytest.raises(MethodNotAllowed) as refused:
        SCREENS.find("PUT", "/orders")
    assert refused.value.allow == "GET, HEAD, POST"


def test_an_endpoint_that_is_not_visible_is_as_if_there_were_none():
    def is_visible(screen: str) -> bool:
        return screen != "operators' action"

    assert SCREENS.find_among("GET", "/orders", is_visible).endpoint == "orders"
    with pytest.raises(MethodNotAllowed) as refused:
        SCREENS.find_among("POST", "/orders", is_visible)
    assert refused.value.allow == "GET, HEAD"
    with pytest.raises(NotFound):
        SCREENS.find_among("POST", "/orders", lambda _screen: False)
