"""Structs whose secrets no repr shows: neither a log line, nor an exception's text, nor a debugger's."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

_Kind = TypeVar("_Kind", bound=type[Struct])


def unshown(*names: str) -> Callable[[_Kind], _Kind]:
    """Return a decorator for Structs: these members are `***` in a repr. A dataclass has `field(repr=False)`."""

    def hide(kind: _Kind) -> _Kind:
        missing = set(names) - set(kind.__struct_fields__)
        assert not missing, f"{kind.__name__} has no {missing}"

        def shown(self: Struct) -> str:
            told = (
                f"{name}={'***' if name in names else repr(getattr(self, name))}"
                for name in self.__struct_fields__
            )
            return f"{type(self).__name__}({', '.join(told)})"

        setattr(kind, "__repr__", shown)  # noqa: B010  # a Struct's own repr is no method that can be overridden
        return kind

    return hide
