"""Examples of one sentence that one test tries in turn, because their set-up costs more than they do."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

Test = Callable[..., Awaitable[None]]


@contextmanager
def example(name: object) -> Iterator[None]:
    """Name the example that fails."""
    try:
        yield
    except Exception as error:
        error.add_note(f"The example is {name!r:.500}.")
        raise


def in_turn(names: str | tuple[str, ...], examples: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but one test tries all examples, with the same fixtures."""
    tried = [(one,) if isinstance(names, str) else one for one in examples]
    named = (names,) if isinstance(names, str) else names

    def decorate(test: Test) -> Test:
        @wraps(test)
        async def try_all(**fixtures: Any) -> None:
            for values in tried:
                with example(values[0] if len(values) == 1 else values):
                    await test(**fixtures, **dict(zip(named, values, strict=True)))

        # Without the examples: pytest would look for fixtures with their names.
        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in named]
        try_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return try_all

    return decorate
