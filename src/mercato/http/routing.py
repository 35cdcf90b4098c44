"""From a method and a path to an operation and the ids in the path."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from mercato.http.operations import Operation
from mercato.kernel import errors
from mercato.kernel.errors import Problem
from mercato.kernel.wire import parse_uuid

MOST_KEPT: Final = 8192
LONGEST_KEPT: Final = 160
"""Paths, and characters of one, whose meaning is kept: most come again, as a store's and its CatalogSet's do. The
longest with two ids has fewer characters, and what anybody sends may have 64 KiB."""

NOTHING: Final[Mapping[str, Any]] = {}


class PathParameter(Struct, frozen=True):
    """A parameter in paths. `not_found` refuses an id that names nothing; it is None for what isn't an id."""

    description: str
    not_found: type[Problem] | None = None


PATH_PARAMETERS: Final = {
    "onboardingId": PathParameter(
        "The onboarding's id, as Register Store answered it.", errors.OnboardingNotFound
    ),
    "storeId": PathParameter("The store's id.", errors.StoreNotFound),
    "catalogIngestId": PathParameter(
        "The run's id, as Notify Catalog Update answered it.", errors.CatalogIngestNotFound
    ),
    "catalogSetId": PathParameter("The CatalogSet's id, as the store names it.", errors.CatalogSetNotFound),
    "orderId": PathParameter("The order's id.", errors.OrderNotFound),
    "deliveryId": PathParameter(
        "The delivery's id, as the list of deliveries names it.", errors.DeliveryNotFound
    ),
    "name": PathParameter("The file's name, as the page names it."),
    "errorCode": PathParameter("The code, as a problem's `errorCode` has it, in any letter case."),
}


class Found(Struct, frozen=True):
    """What a path means. `not_an_id` makes the refusal of the first parameter that has to be an id and isn't one."""

    operation: Operation
    ids: Mapping[str, UUID]
    texts: Mapping[str, str]
    not_an_id: Callable[[], Problem] | None = None


class _Node:
    __slots__ = ("children", "methods", "param")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.param: _Node | None = None
        self.methods: dict[str, Operation] = {}


class Routes:
    """All operations by path: one dictionary look-up a segment, literal before parameter."""

    def __init__(self, operations: list[Operation]) -> None:
        self._root = _Node()
        self._kept = lru_cache(maxsize=MOST_KEPT)(self._find)
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        node = self._root
        for segment in operation.path.split("/")[1:]:
            if segment.startswith("{"):
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.children.setdefault(segment, _Node())
        assert operation.method not in node.methods, operation.path
        node.methods[operation.method] = operation
        if operation.method == "GET":
            node.methods["HEAD"] = operation

    def find(self, method: str, path: str) -> Found:
        """Return the operation and its parameters. Raises NotFound or MethodNotAllowed."""
        return self._kept(method, path) if len(path) <= LONGEST_KEPT else self._find(method, path)

    def _find(self, method: str, path: str) -> Found:
        node, texts = self._root, []
        for segment in path.split("/")[1:]:
            child = node.children.get(segment)
            if child is None:
                child = node.param
                if child is None or not segment:
                    raise errors.NotFound("There is nothing at this path. See /docs for what there is.")
                texts.append(segment)
            node = child
        operation = node.methods.get(method)
        if operation is None:
            if not node.methods:
                raise errors.NotFound("There is nothing at this path. See /docs for what there is.")
            raise errors.MethodNotAllowed(method, node.methods)
        return _found(operation, texts)


def _found(operation: Operation, texts: list[str]) -> Found:
    if not texts:
        return Found(operation, NOTHING, NOTHING)
    ids: dict[str, UUID] = {}
    named: dict[str, str] = {}
    for name, text in zip(operation.names, texts, strict=True):
        not_found = PATH_PARAMETERS[name].not_found
        if not_found is None:
            named[name] = text
            continue
        read = parse_uuid(text)
        if read is None:
            return Found(operation, NOTHING, NOTHING, not_an_id=partial(not_found, text))
        ids[name] = read
    return Found(operation, ids, named)
