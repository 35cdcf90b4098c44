"""Refusals as exceptions: the base class of all, and those of a body and of a value that can't be read.

Each class has its code, status and category, which are a contract. Nothing here knows HTTP beyond the status.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from mercato_contract import problems
from mercato_contract.problems import ProblemKind, Reason


class Problem(Exception):  # noqa: N818  # RFC 9457's own word
    """A refusal for the client: `detail` says what happened and what to do next."""

    kind: ClassVar[ProblemKind]
    status: ClassVar[int]
    code: ClassVar[str]
    category: ClassVar[str]
    title: ClassVar[str]
    retryable: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = cls.kind
        cls.code, cls.status, cls.category = kind.code, kind.status, kind.category
        cls.title, cls.retryable = kind.title, kind.retryable

    def __init__(
        self,
        detail: str,
        *,
        errors: Iterable[Reason] = (),
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
        """Return the refusal of a single value, at `pointer` in the request body."""
        return cls(message, errors=[Reason(code=cls.code, message=message, pointer=pointer)])

    @property
    def error_code(self) -> str:
        """The code on the wire; `code` is that of the refusal's documentation page."""
        return self.code


class ValidationFailed(Problem):
    kind = problems.VALIDATION_FAILED


class InvalidRequest(Problem):
    kind = problems.INVALID_REQUEST
