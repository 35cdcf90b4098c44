"""Find the operation of a method and path, and the ids in the path."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from mercato.features.catalogs.errors import CatalogIngestNotFound, CatalogSetNotFound
from mercato.features.orders.errors import OrderNotFound
from mercato.features.stores.errors import OnboardingNotFound, StoreNotFound
from mercato.features.webhooks.errors import DeliveryNotFound
from mercato.http.operations import Operation
from mercato.platform import errors
from mercato.platform.errors import Problem
from mercato_contract.wire import parse_uuid

CACHED_PATHS: Final = 8192
CACHED_LENGTH: Final = 160
"""How many paths are cached, and of how many characters. The longest path of ours with two ids is shorter, and a
client may send 64 KiB."""

_NONE: Final[Mapping[str, Any]] = {}


COMMERCE_STORES: Final = "/v1/commerce/stores"

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
"""The methods of RFC 9110 and RFC 5789. Any other is answered with 501, on every path."""

_WHOLE_SERVICE: Final = "*"
"""The target of `OPTIONS *`: the service itself (RFC 9110, 9.3.7)."""

_NO_PATH: Final = "There is nothing at this path. See /docs for the operations."


class PathParameter(Struct, frozen=True):
    """A parameter of paths. `not_found` refuses an unknown id; None if the parameter isn't an id."""

    description: str
    not_found: type[Problem] | None = None


PATH_PARAMETERS: Final = {
    "onboardingId": PathParameter("The onboarding's id, as Register Store returned it.", OnboardingNotFound),
    "storeId": PathParameter("The store's id.", StoreNotFound),
    "catalogIngestId": PathParameter(
        "The run's id, as Notify Catalog Update returned it.", CatalogIngestNotFound
    ),
    "catalogSetId": PathParameter("The CatalogSet's id, as the store names it.", CatalogSetNotFound),
    "orderId": PathParameter("The order's id.", OrderNotFound),
    "deliveryId": PathParameter("The delivery's id, as the list of deliveries names it.", DeliveryNotFound),
    "name": PathParameter("The file's name, as the page names it."),
    "errorCode": PathParameter("The code, as a problem's `errorCode` has it, in any letter case."),
}


class Match(Struct, frozen=True):
    """The operation and parameters of a path. `invalid_id` creates the refusal of the first id that isn't a UUID."""

    operation: Operation
    ids: Mapping[str, UUID]
    texts: Mapping[str, str]
    invalid_id: Callable[[], Problem] | None = None


class _Node:
    __slots__ = ("children", "methods", "mounted", "param")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.param: _Node | None = None
        self.methods: dict[str, Operation] = {}
        self.mounted: Operation | None = None


class Routes:
    """All operations by path: one dictionary look-up per segment, a literal segment before a parameter.

    A mounted operation gets every method and all paths below its own, as the texts `method` and `path`.
    """

    def __init__(self, operations: list[Operation], mounted: Sequence[Operation] = ()) -> None:
        self.operations = [*operations, *mounted]
        self._root = _Node()
        self._methods = {"HEAD", *(operation.method for operation in self.operations)}
        self._cached = lru_cache(maxsize=CACHED_PATHS)(self._find)
        for operation in operations:
            self._add(operation)
        for operation in mounted:
            self._node(operation).mounted = operation

    def _node(self, operation: Operation) -> _Node:
        node = self._root
        for segment in operation.path.split("/")[1:]:
            if segment.startswith("{"):
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.children.setdefault(segment, _Node())
        return node

    def _add(self, operation: Operation) -> None:
        node = self._node(operation)
        assert operation.method not in node.methods, operation.path
        node.methods[operation.method] = operation
        if operation.method == "GET":
            node.methods["HEAD"] = operation

    def find(self, method: str, path: str) -> Match:
        """Return the operation and its parameters. Raises NotFound, MethodNotAllowed or MethodNotImplemented."""
        return self._cached(method, path) if len(path) <= CACHED_LENGTH else self._find(method, path)

    def _find(self, method: str, path: str) -> Match:
        if method not in METHODS:
            raise errors.MethodNotImplemented(method)
        if path == _WHOLE_SERVICE and method == "OPTIONS":
            raise errors.MethodNotAllowed(method, self._methods)
        node, texts = self._root, []
        segments = path.split("/")[1:]
        for number, segment in enumerate(segments, 1):
            child = node.children.get(segment)
            if child is None:
                child = node.param
                if child is None or not segment:
                    raise errors.NotFound(_NO_PATH)
                texts.append(segment)
            node = child
            if node.mounted is not None:
                below = {"method": method, "path": "/".join(segments[number:])}
                return Match(node.mounted, _NONE, below)
        operation = node.methods.get(method)
        if operation is None:
            if not node.methods:
                raise errors.NotFound(_NO_PATH)
            raise errors.MethodNotAllowed(method, node.methods)
        return _match(operation, texts)


def _match(operation: Operation, texts: list[str]) -> Match:
    if not texts:
        return Match(operation, _NONE, _NONE)
    ids: dict[str, UUID] = {}
    other: dict[str, str] = {}
    for name, text in zip(operation.names, texts, strict=True):
        not_found = PATH_PARAMETERS[name].not_found
        if not_found is None:
            other[name] = text
            continue
        parsed = parse_uuid(text)
        if parsed is None:
            return Match(operation, _NONE, _NONE, invalid_id=partial(not_found, text))
        ids[name] = parsed
    return Match(operation, ids, other)
