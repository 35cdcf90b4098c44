"""What every refusal is made of, and the list of all."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self

import msgspec

OTHER: Final = "OTHER"
"""What a client takes an unknown order error code for, and what an unreadable refusal of a store becomes."""


class OrderError(msgspec.Struct, frozen=True, kw_only=True):
    """One reason of a refusal: a code, a sentence, and where it was found (RFC 6901), if in the body."""

    code: str
    message: str
    pointer: str | None = None


class Problem(Exception):  # noqa: N818  # RFC 9457's own word
    """A refusal made for the client: `detail` says what happened here and what to do next."""

    status: ClassVar[int]
    code: ClassVar[str]
    category: ClassVar[str]
    title: ClassVar[str]
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        detail: str,
        *,
        errors: Iterable[OrderError] = (),
        retry_after: int | None = None,
        location: str | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after
        self.location = location
        self.extensions = dict(extensions or {})

    @classmethod
    def at(cls, pointer: str | None, message: str) -> Self:
        """Return the refusal of a single value, found at `pointer` of the request body."""
        return cls(message, errors=[OrderError(code=cls.code, message=message, pointer=pointer)])

    @property
    def error_code(self) -> str:
        """The code on the wire; `code` alone is what the page of the refusal goes by."""
        return self.code


def all_problems() -> Iterable[type[Problem]]:
    """Return every refusal there is, in the order of their status and code."""
    return sorted(Problem.__subclasses__(), key=lambda kind: (kind.status, kind.code))


def shown(value: object) -> str:
    """Return an id from a path as it may stand in a sentence: short, and without control characters."""
    text = str(value)
    return repr(text if len(text) <= 64 else text[:61] + "...")  # noqa: PLR2004
