"""What a check is, and how a suite is made of two tables: what each check does, and what is said about it."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files
from string import Template
from typing import Generic, TypeVar

import msgspec

C_contra = TypeVar("C_contra", contravariant=True)

Run = Callable[[C_contra], Awaitable[str]]
"""Performs a check and returns what it found, in a few words. Raises Failed or Skipped."""


class Failed(Exception):  # noqa: N818  # a verdict, not an error of ours
    """The implementation doesn't do what the check asks for; the message says what it did instead."""


class NoAnswer(Failed):
    """No response arrived in time."""


class Skipped(Exception):  # noqa: N818  # a verdict too
    """The check can't be made here; the message says why, and what it needs."""


class UnusableTargetError(Exception):
    """There is nothing to certify; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[C_contra]):
    """One thing that an implementation has to do. `needs` are the ids of checks that must pass first."""

    id: str
    title: str
    proves: str
    section: str
    advice: str
    needs: tuple[str, ...]
    run: Run[C_contra] = field(repr=False)

    @property
    def group(self) -> str:
        """The id without its last part."""
        return self.id.rpartition(".")[0]


class _CheckTexts(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    proves: str
    advice: str
    section: str = ""
    needs: tuple[str, ...] | None = None


class _GroupTexts(msgspec.Struct, forbid_unknown_fields=True):
    heading: str
    section: str
    needs: tuple[str, ...]
    checks: dict[str, _CheckTexts]


class _Texts(msgspec.Struct, forbid_unknown_fields=True):
    """A file of texts. `phrases` are used in several advices, as `$name`; needs lack the suite's name."""

    phrases: dict[str, str]
    groups: dict[str, _GroupTexts]


class Suite(Generic[C_contra]):
    """All checks of one kind of implementation, in the order of the report; their ids begin with its name."""

    def __init__(self, name: str, groups: Mapping[str, Mapping[str, Run[C_contra]]]) -> None:
        """`groups` say what each check does. What is said about it is in `receiver.toml` and `<name>.toml`."""
        self.headings: dict[str, str] = {}
        self.checks: dict[str, Check[C_contra]] = {}
        texts = {**_load("receiver"), **_load(name)}
        for group, runs in groups.items():
            self.headings[f"{name}.{group}"] = texts[group].heading
            assert list(runs) == list(texts[group].checks), f"checks and texts of {group} differ"
            for row, run in runs.items():
                text = texts[group].checks[row]
                needs = texts[group].needs if text.needs is None else text.needs
                check = Check(
                    id=f"{name}.{group}.{row}",
                    title=text.title,
                    proves=text.proves,
                    section=text.section or texts[group].section,
                    advice=text.advice,
                    needs=tuple(f"{name}.{need}" for need in needs if need != f"{group}.{row}"),
                    run=run,
                )
                self.checks[check.id] = check

    def select(self, patterns: Iterable[str]) -> tuple[Check[C_contra], ...]:
        """Return the checks that match a pattern (`*` and `?`, else a part of the id) and those they need.

        Without any pattern, all.
        """
        wanted = list(patterns)
        named = (
            check for check in self.checks if not wanted or any(_matches(check, text) for text in wanted)
        )
        chosen = {needed for check in named for needed in self._with_needs(check)}
        return tuple(check for identity, check in self.checks.items() if identity in chosen)

    def _with_needs(self, identity: str) -> Iterator[str]:
        yield identity
        for name in self.checks[identity].needs:
            yield from self._with_needs(name)


def _load(name: str) -> dict[str, _GroupTexts]:
    """Read a file of texts: lines are joined, phrases filled in."""
    document = files("mercato.devtools.certify").joinpath(f"{name}.toml").read_bytes()
    texts = msgspec.toml.decode(document, type=_Texts)
    for group in texts.groups.values():
        for check in group.checks.values():
            check.advice = " ".join(Template(check.advice).substitute(texts.phrases).split())
    return texts.groups


def _matches(identity: str, pattern: str) -> bool:
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(identity, pattern)
    return pattern in identity
