"""A list of checks that is written down beside what each of them does."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from mercato.certify.model import Check, Run

B = TypeVar("B")


class Group(Generic[B]):
    """The checks of one subject; their ids begin with its name."""

    def __init__(self, name: str, *, heading: str, section: str, needs: str = "") -> None:
        """`section` and `needs` are those of every check that says nothing else."""
        self.name = name
        self.heading = heading
        self._section = section
        self._needs = needs
        self.checks: list[Check[B]] = []

    def add(
        self,
        name: str,
        title: str,
        *,
        run: Run[B],
        proves: str,
        advice: str,
        section: str | None = None,
        needs: str | tuple[str, ...] | None = None,
    ) -> None:
        """Add a check."""
        identity = f"{self.name}.{name}"
        wanted = self._needs if needs is None else needs
        named = (wanted,) if isinstance(wanted, str) else wanted
        self.checks.append(
            Check(
                id=identity,
                title=title,
                proves=proves,
                section=section or self._section,
                advice=advice,
                needs=tuple(one for one in named if one not in {identity, ""}),
                run=run,
            )
        )

    def check(
        self,
        name: str,
        title: str,
        *,
        proves: str,
        advice: str,
        section: str | None = None,
        needs: str | tuple[str, ...] | None = None,
    ) -> Callable[[Run[B]], Run[B]]:
        """Return a decorator: the function becomes the check of that name."""

        def add(run: Run[B]) -> Run[B]:
            self.add(name, title, run=run, proves=proves, advice=advice, section=section, needs=needs)
            return run

        return add

    def under(self, prefix: str) -> "Group[Any]":
        """Return the same checks for one kind of implementation."""
        group = Group[Any](f"{prefix}.{self.name}", heading=self.heading, section=self._section)
        group.checks = [
            replace(
                check,
                id=f"{prefix}.{check.id}",
                needs=tuple(f"{prefix}.{one}" for one in check.needs),
            )
            for check in self.checks
        ]
        return group


class Suite(Generic[B]):
    """All checks of one kind of implementation, in the order in which they are told."""

    def __init__(self, *groups: Group[B]) -> None:
        self.groups = groups
        self.checks: dict[str, Check[B]] = {check.id: check for group in groups for check in group.checks}
        missing = {one for check in self.checks.values() for one in check.needs} - self.checks.keys()
        assert not missing, f"checks that are needed but not there: {missing}"

    def heading(self, group: str) -> str:
        """Return the words that stand above a group."""
        return next(one.heading for one in self.groups if one.name == group)

    def select(self, patterns: Iterable[str]) -> tuple[Check[B], ...]:
        """Return the checks that fit one of the patterns, and those that they need; without any, all."""
        wanted = list(patterns)
        named = [
            one for one in self.checks.values() if not wanted or any(_fits(one.id, text) for text in wanted)
        ]
        chosen = {needed.id for one in named for needed in self._with_needs(one)}
        return tuple(check for check in self.checks.values() if check.id in chosen)

    def _with_needs(self, check: Check[B]) -> Iterator[Check[B]]:
        yield check
        for name in check.needs:
            yield from self._with_needs(self.checks[name])


def _fits(identity: str, pattern: str) -> bool:
    """Tell whether a pattern fits: with `*` and `?`, else as a part of the id."""
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(identity, pattern)
    return pattern in identity
