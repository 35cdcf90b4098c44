"""One declaration of each operation, for both clients: `Client` returns its answer, `AsyncClient` awaits it."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, get_args, get_type_hints, overload

from mercato_client.core import Core
from mercato_client.exchange import Request, Script, Sent

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Runs(ABC):
    """A client that performs a script before it returns."""

    core: Core

    @abstractmethod
    def run(self, script: Script[R]) -> R:
        """Perform the steps of the script; return its result."""

    def each(self, request: Request[R], entries: "Each[..., R, T]") -> Iterator[T]:
        """Yield every entry of every page."""
        following: Request[R] | None = request
        while following is not None:
            page = self.run(self.core.perform(following))
            yield from entries.of(page)
            following = entries.following(following, page)


class RunsAsync(ABC):
    """A client that performs a script while other tasks run."""

    core: Core

    @abstractmethod
    async def run(self, script: Script[R]) -> R:
        """Perform the steps of the script; return its result."""

    async def each(self, request: Request[R], entries: "Each[..., R, T]") -> AsyncIterator[T]:
        """Yield every entry of every page."""
        following: Request[R] | None = request
        while following is not None:
            page = await self.run(self.core.perform(following))
            for entry in entries.of(page):
                yield entry
            following = entries.following(following, page)


class Flow(Generic[P, R]):
    """A method of both clients, written once as a script."""

    def __init__(self, script: Callable[Concatenate[Core, P], Script[R]]) -> None:
        self._script = script
        self.__name__ = script.__name__
        self.__doc__ = script.__doc__
        self.__signature__ = inspect.Signature(list(inspect.signature(script).parameters.values())[1:])

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
            return client.run(self.script(client.core, *args, **options))

        shown = wraps(self._script)(method)
        setattr(shown, "__signature__", self.__signature__)  # noqa: B010  # mypy knows no such attribute
        return shown

    @property
    def returned(self) -> Any:
        """What a call returns, as a type."""
        return get_args(get_type_hints(inspect.unwrap(self._script))["return"])[-1]

    def script(self, core: Core, *args: P.args, **options: P.kwargs) -> Script[R]:
        """Return the script of one call."""
        return self._script(core, *args, **options)


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

    def script(self, core: Core, *args: P.args, **options: P.kwargs) -> Script[R]:
        """Return the script of one call."""
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
    """Return the request of the next page, None after the last."""
    if page.next_cursor is None:
        return None
    return replace(request, query={**request.query, "cursor": page.next_cursor})


class Each(Generic[P, R, T]):
    """Every entry of a list, page after page as they are needed."""

    def __init__(
        self,
        pages: Operation[P, R],
        entries: Callable[[R], Sequence[T]],
        doc: str,
        *,
        following: Callable[[Request[R], R], Request[R] | None] = by_cursor,
    ) -> None:
        self._pages = pages
        self.of = entries
        self.following = following
        self.__doc__ = doc
        self.__signature__ = pages.__signature__

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    def __call__(self, client: Runs | RunsAsync, *args: P.args, **options: P.kwargs) -> Any:
        """Call the method of a client, as a function of the class: what `help` and `inspect` need to show it."""
        return self.__get__(client, type(client))(*args, **options)

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Runs, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: RunsAsync, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Runs | RunsAsync | None, owner: type) -> Any:
        if client is None:
            return self
        return lambda *args, **options: client.each(self._pages.request(*args, **options), self)
