"""The one router of operations and screens: finds the endpoint of a method and a path, and the ids in the path."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from mercato.features.catalogs.errors import CatalogIngestNotFound, CatalogSetNotFound
from mercato.features.orders.errors import OrderNotFound
from mercato.features.partners.agents import AgentNotFound
from mercato.features.stores.model import OnboardingNotFound, StoreNotFound
from mercato.features.webhooks.model import DeliveryNotFound, EndpointNotFound
from mercato.http.operations import Operation
from mercato.platform import errors
from mercato_contract.refusals import Problem
from mercato_contract.wire import parse_uuid

E = TypeVar("E")

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

_NAME: Final = re.compile(r"\{(\w+)(?::path)?\}")

REST: Final = "path"
"""The name of a parameter that is the rest of a path."""

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
    "endpointId": PathParameter("The endpoint's id, as the list of endpoints names it.", EndpointNotFound),
    "agentId": PathParameter("The agent's id, as the list of agents names it.", AgentNotFound),
    "name": PathParameter("The file's name, as the page names it."),
    "errorCode": PathParameter("The code, as a problem's `errorCode` has it, in any letter case."),
}


class Match(Struct, Generic[E], frozen=True):
    """What a method and a path lead to. `invalid_id` is the first id that isn't a UUID: its name and its text."""

    endpoint: E
    ids: Mapping[str, UUID]
    texts: Mapping[str, str]
    invalid_id: tuple[str, str] | None = None


class _Node(Generic[E]):
    __slots__ = ("children", "endpoints", "names", "parameter", "rest")

    def __init__(self) -> None:
        self.children: dict[str, _Node[E]] = {}
        self.parameter: _Node[E] | None = None
        self.rest: _Node[E] | None = None
        self.names: tuple[str, ...] = ()
        self.endpoints: dict[str, E] = {}


class Routes(Generic[E]):
    """Endpoints by path and method: one dictionary look-up per segment, a literal segment before a parameter.

    Of a path, `{name}` is a segment, which is an id unless the name is among `texts`, and `{name:path}` at its end is
    all the rest, which may be empty. An endpoint for GET also answers HEAD.
    """

    def __init__(
        self, endpoints: Iterable[tuple[str, str, E]], *, texts: Collection[str] = (), missing: str
    ) -> None:
        """`endpoints` are methods, paths and endpoints. `missing` says what to do about a path that has none."""
        self._root: _Node[E] = _Node()
        self._texts = texts
        self._missing = missing
        self._methods = {"HEAD"}
        self._cached = lru_cache(maxsize=CACHED_PATHS)(self._find)
        for method, path, endpoint in endpoints:
            self._add(method, path, endpoint)

    def _add(self, method: str, path: str, endpoint: E) -> None:
        node = self._root
        for segment in path.split("/")[1:]:
            if segment.endswith(":path}"):
                node.rest = node.rest or _Node()
                node = node.rest
            elif segment.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.children.setdefault(segment, _Node())
        names = tuple(_NAME.findall(path))
        assert not node.endpoints or node.names == names, path
        assert method not in node.endpoints, path
        node.names = names
        node.endpoints[method] = endpoint
        if method == "GET":
            node.endpoints["HEAD"] = endpoint
        self._methods.add(method)

    def find(self, method: str, path: str) -> Match[E]:
        """Return the endpoint and the path's parameters.

        Raises NotFound, MethodNotAllowed or MethodNotImplemented.
        """
        return self._cached(method, path) if len(path) <= CACHED_LENGTH else self._find(method, path)

    def find_among(self, method: str, path: str, is_visible: Callable[[E], bool]) -> Match[E]:
        """Return what `find` returns if there were no other endpoints than those that are visible."""
        node, texts = self._walk(path)
        visible = {name: endpoint for name, endpoint in node.endpoints.items() if is_visible(endpoint)}
        return self._match(node, visible, method, texts)

    def _find(self, method: str, path: str) -> Match[E]:
        if method not in METHODS:
            raise errors.MethodNotImplemented(method)
        if path == _WHOLE_SERVICE and method == "OPTIONS":
            raise errors.MethodNotAllowed(method, self._methods)
        node, texts = self._walk(path)
        return self._match(node, node.endpoints, method, texts)

    def _walk(self, path: str) -> tuple[_Node[E], list[str]]:
        """Return the place of a path and the texts of its parameters. Raises NotFound."""
        node, texts = self._root, list[str]()
        wider: tuple[_Node[E], list[str]] | None = None
        segments = path.split("/")[1:]
        for number, segment in enumerate(segments):
            if node.rest is not None:
                wider = node.rest, [*texts, "/".join(segments[number:])]
            child = node.children.get(segment)
            if child is None:
                child = node.parameter
                if child is None or not segment:
                    break
                texts.append(segment)
            node = child
        else:
            if node.endpoints:
                return node, texts
        if wider is None:
            raise errors.NotFound(self._missing)
        return wider

    def _match(
        self, node: _Node[E], endpoints: Mapping[str, E], method: str, texts: Sequence[str]
    ) -> Match[E]:
        endpoint = endpoints.get(method)
        if endpoint is None:
            if not endpoints:
                raise errors.NotFound(self._missing)
            raise errors.MethodNotAllowed(method, endpoints)
        if not texts:
            return Match(endpoint, _NONE, _NONE)
        ids: dict[str, UUID] = {}
        others: dict[str, str] = {}
        for name, text in zip(node.names, texts, strict=True):
            if name in self._texts:
                others[name] = text
                continue
            parsed = parse_uuid(text)
            if parsed is None:
                return Match(endpoint, _NONE, _NONE, invalid_id=(name, text))
            ids[name] = parsed
        return Match(endpoint, ids, others)


def routes_of(operations: Iterable[Operation]) -> Routes[Operation]:
    """Return the routes of operations."""
    texts = {name for name, parameter in PATH_PARAMETERS.items() if parameter.not_found is None}
    endpoints = ((operation.method, operation.path, operation) for operation in operations)
    return Routes(endpoints, texts={*texts, REST}, missing=_NO_PATH)
