"""Implementations with one bug each, by the check that has to find it."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import pytest

from mercato_contract.certification import CheckOutcome, Verdict

T = TypeVar("T")
M = TypeVar("M")


class Mutants(dict[str, type[T]], Generic[T]):
    """Mutants by the id of their check."""

    def fails(self, check: str) -> Callable[[type[M]], type[M]]:
        """Return a decorator that registers the mutant which fails a check."""

        def add(mutant: type[M]) -> type[M]:
            assert check not in self, check
            self[check] = mutant  # type: ignore[assignment]  # M is a T, which type variables can't say
            return mutant

        return add


def one_of_each_group(mutants: Mapping[str, object]) -> list[Any]:
    """Return the checks as parameters: `make test` tries the first of each group, `make test-long` the others."""
    groups: set[str] = set()
    parameters = []
    for check in mutants:
        group = check.rpartition(".")[0]
        parameters.append(pytest.param(check, marks=[pytest.mark.long] if group in groups else []))
        groups.add(group)
    return parameters


def ids(outcomes: dict[str, CheckOutcome], verdict: Verdict) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome.verdict is verdict}
