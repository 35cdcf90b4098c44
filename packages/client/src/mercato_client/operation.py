"""One declaration of each operation, for both clients: `Client` returns its answer, `AsyncClient` awaits it."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, get_args, get_type_hints, overload

from mercato_client.core import Core
from mercato_client.errors import UnreadableError
from mercato_client.exchange import Request, Sent, Steps

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Runs(ABC):
    """A client that performs steps before it returns."""

    core: Core

    @abstractmethod
    def run(self, steps: Steps[R]) -> R:
        """Perform the steps; return their result."""


class RunsAsync(ABC):
    """A client that performs steps while other tasks run."""

    core: Core

    @abstractmethod
    async def run(self, steps: Steps[R]) -> R:
        """Perform the steps; return their result."""


class Flow(Generic[P, R]):
    """A method of both clients, written once as steps."""

    def __init__(self, steps: Callable[Concatenate[Core, P], Steps[R]]) -> None:
        self._steps = steps
        self.__name__ = steps.__name__
        self.__doc__ = steps.__doc__
        self.__signature__ = inspect.Signature(list(inspect.signature(steps).parameters.values())[1:])

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    def __call__(self, client: Runs | RunsAsync, *args: P.args, **options: P.kwargs) -> Any:
        """Call the method of a client, as a function of the class: what `help` and `inspect` need to show it."""
        return self.__get__(client, type(client))(*args, **options)

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Runs, owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, client: RunsAsync, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, client: Runs | RunsAsync | None, owner: type) -> Any:
        if client is None:
            return self

        def method(*args: Any, **options: Any) -> Any:
            return client.run(self.steps(client.core, *args, **options))

        return self._shown(method)

    def _shown(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method with the name, docstring and signature that `help` shows."""
        shown = wraps(self._steps)(method)
        shown.__name__ = self.__name__
        setattr(shown, "__signature__", self.__signature__)  # noqa: B010  # mypy knows no such attribute
        return shown

    @property
    def returned(self) -> Any:
        """What a call returns, as a type."""
        return get_args(get_type_hints(inspect.unwrap(self._steps))["return"])[-1]

    def steps(self, core: Core, *args: P.args, **options: P.kwargs) -> Steps[R]:
        """Return the steps of one call."""
        return self._steps(core, *args, **options)


class Operation(Flow[P, R]):
    """An operation of the service. `repeats` says whether a request is safe to send twice."""

    def __init__(
        self,
        build: Callable[Concatenate[Any, P], Sent],
        *,
        method: str,
        path: str,
        returns: type[R],
        repeats: bool,
    ) -> None:
        super().__init__(build)  # type: ignore[arg-type]  # its signature, name and docstring are the method's
        self._build = build
        self.method = method
        self.path = path
        self.returns = returns
        self.repeats = repeats

    def request(self, *args: P.args, **options: P.kwargs) -> Request[R]:
        """Return what a call with these arguments sends."""
        sent = self._build(None, *args, **options)
        return Request(
            **vars(sent), method=self.method, path=self.path, repeats=self.repeats, returns=self.returns
        )

    def steps(self, core: Core, *args: P.args, **options: P.kwargs) -> Steps[R]:
        """Return the steps of one call."""
        return core.perform(self.request(*args, **options))

    @property
    def returned(self) -> type[R]:
        """What a call returns."""
        return self.returns


def operation(
    method: str, path: str, returns: type[R], *, repeats: bool | None = None
) -> Callable[[Callable[Concatenate[Any, P], Sent]], Operation[P, R]]:
    """Declare the method below as an operation; GETs may be repeated, others only if declared so."""

    def declare(build: Callable[Concatenate[Any, P], Sent]) -> Operation[P, R]:
        again = method == "GET" if repeats is None else repeats
        return Operation(build, method=method, path=path, returns=returns, repeats=again)

    return declare


def by_cursor(request: Request[R], page: Any) -> Request[R] | None:
    """Return the request of the next page, None after the last.

    Raises UnreadableError for a page that would be asked for without an end.
    """
    if page.next_cursor is None:
        return None
    if page.next_cursor == request.query.get("cursor"):
        raise UnreadableError("The answer to a list names its own cursor as the next one.")
    return replace(request, query={**request.query, "cursor": page.next_cursor})


class Listing(Operation[P, R], Generic[P, R, T]):
    """An operation that answers with a page of a list. Its answer can be iterated, over all pages."""

    def __init__(
        self,
        build: Callable[Concatenate[Any, P], Sent],
        *,
        method: str,
        path: str,
        returns: type[R],
        entries: Callable[[R], Sequence[T]],
        following: Callable[[Request[R], R], Request[R] | None],
    ) -> None:
        super().__init__(build, method=method, path=path, returns=returns, repeats=True)
        self.entries = entries
        self.following = following

    @overload  # type: ignore[override]  # its call returns pages, where another operation's returns the answer
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Runs, owner: type) -> "Callable[P, Pages[R, T]]": ...
    @overload
    def __get__(self, client: RunsAsync, owner: type) -> "Callable[P, AsyncPages[R, T]]": ...
    def __get__(self, client: Runs | RunsAsync | None, owner: type) -> Any:
        if client is None:
            return self
        pages: Any = Pages if isinstance(client, Runs) else AsyncPages

        def method(*args: Any, **options: Any) -> Any:
            return pages(client, self, self.request(*args, **options))

        return self._shown(method)


def listing(
    method: str,
    path: str,
    returns: type[R],
    entries: Callable[[R], Sequence[T]],
    *,
    following: Callable[[Request[R], R], Request[R] | None] = by_cursor,
) -> Callable[[Callable[Concatenate[Any, P], Sent]], Listing[P, R, T]]:
    """Declare the method below as an operation that lists the entries of its page. It may be repeated."""

    def declare(build: Callable[Concatenate[Any, P], Sent]) -> Listing[P, R, T]:
        return Listing(build, method=method, path=path, returns=returns, entries=entries, following=following)

    return declare


class Pages(Generic[R, T]):
    """A list: `page` is its first page, and iterating it yields every entry of every page.

    Further pages are read as they are needed.
    """

    page: R

    def __init__(self, client: Runs, of: Listing[..., R, T], request: Request[R]) -> None:
        self._client = client
        self._of = of
        self._request = request
        self.page = client.run(client.core.perform(request))

    def __iter__(self) -> Iterator[T]:
        page = self.page
        yield from self._of.entries(page)
        request = self._request
        while following := self._of.following(request, page):
            request = following
            page = self._client.run(self._client.core.perform(request))
            yield from self._of.entries(page)


class AsyncPages(Generic[R, T]):
    """A list: `await` returns its first page, and `async for` yields every entry of every page.

    Nothing is sent before; further pages are read as they are needed.
    """

    def __init__(self, client: RunsAsync, of: Listing[..., R, T], request: Request[R]) -> None:
        self._client = client
        self._of = of
        self._request = request

    def __await__(self) -> Generator[Any, None, R]:
        return self._client.run(self._client.core.perform(self._request)).__await__()

    async def __aiter__(self) -> AsyncIterator[T]:
        following: Request[R] | None = self._request
        while following is not None:
            page = await self._client.run(self._client.core.perform(following))
            for entry in self._of.entries(page):
                yield entry
            following = self._of.following(following, page)
