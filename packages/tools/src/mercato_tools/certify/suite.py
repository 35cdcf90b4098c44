"""What a check is, how a suite is made of two tables (functions of the checks, and their texts), and how it runs.

Requests and responses are in its report shortened, and without secrets.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files
from string import Template
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from mercato_contract.certification import CheckOutcome, Exchange, Verdict
from mercato_contract.excerpts import excerpt

C_contra = TypeVar("C_contra", contravariant=True)

Run = Callable[[C_contra], Awaitable[str]]
"""Performs a check and returns what it found, in a few words. Raises Failed or Skipped."""

HERE: Final = "mercato_tools.certify"

CONCURRENCY: Final = 4
"""Checks at a time: an implementation has to serve more requests than that."""

_GONE_ADVICE: Final = (
    "Find in its log why it ended: one of these requests ended it, or something else did. Start it again, and run the "
    "checks that were skipped."
)

_OUT_OF_TIME: Final = "The certification ended before this check did."
_TOO_SLOW: Final = (
    "Responses take so long that the checks don't finish in time. Find out what makes them slow, or run one group at "
    "a time with --only."
)


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

    def __init__(
        self, name: str, groups: Mapping[str, Mapping[str, Run[C_contra]]], *, package: str = HERE
    ) -> None:
        """`groups` say what each check does; `receiver.toml` here, and `<name>.toml` of the package, its texts."""
        self.headings: dict[str, str] = {}
        self.checks: dict[str, Check[C_contra]] = {}
        texts = {**_load(HERE, "receiver"), **_load(package, name)}
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


def _load(package: str, name: str) -> dict[str, _GroupTexts]:
    """Read a file of texts: lines are joined, phrases filled in."""
    document = files(package).joinpath(f"{name}.toml").read_bytes()
    texts = msgspec.toml.decode(document, type=_Texts)
    for group in texts.groups.values():
        for check in group.checks.values():
            check.advice = " ".join(Template(check.advice).substitute(texts.phrases).split())
    return texts.groups


def _matches(identity: str, pattern: str) -> bool:
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(identity, pattern)
    return pattern in identity


class Context(Protocol):
    """What a check works with; it records what was sent and received."""

    @property
    def exchanges(self) -> Sequence[Exchange]: ...

    async def is_gone(self) -> bool:
        """Return whether nothing listens any more where the check found no answer."""
        ...


C = TypeVar("C", bound=Context)

Report = Callable[[CheckOutcome], None]


class Runner(Generic[C]):
    """One run of selected checks."""

    def __init__(
        self,
        checks: Sequence[Check[C]],
        *,
        context: Callable[[], C],
        seconds: float,
        concurrency: int = CONCURRENCY,
    ) -> None:
        """`context` makes the context of one check; `seconds` limit all of them together."""
        self._checks = checks
        self._context = context
        self._seconds = seconds
        self._slots = asyncio.Semaphore(concurrency)
        self._tasks: dict[str, asyncio.Task[CheckOutcome]] = {}
        self._running: dict[str, None] = {}
        self._ended_by: str | None = None
        """The check during which the implementation ended: it alone fails for that."""

    async def run(self, report: Report) -> tuple[CheckOutcome, ...]:
        """Return the outcomes in the order of the checks; each is reported as soon as those before it are."""
        self._tasks = {check.id: asyncio.create_task(self._run(check)) for check in self._checks}
        timer = asyncio.get_running_loop().call_later(self._seconds, self._cancel)
        outcomes: list[CheckOutcome] = []
        try:
            for check in self._checks:
                task = self._tasks[check.id]
                await asyncio.wait([task])
                late = task.cancelled()
                outcome = _outcome(check, Verdict.FAIL, _OUT_OF_TIME, _TOO_SLOW) if late else task.result()
                report(outcome)
                outcomes.append(outcome)
            return tuple(outcomes)
        finally:
            timer.cancel()
            self._cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _run(self, check: Check[C]) -> CheckOutcome:
        for name in check.needs or ():
            needed = await asyncio.shield(self._tasks[name])
            if needed.verdict is Verdict.FAIL:
                return _outcome(check, Verdict.SKIPPED, f"It needs {needed.id} to pass first.", needed.advice)
            if needed.verdict is Verdict.SKIPPED:
                # The first of a chain is the cause of all that follow.
                return _outcome(check, Verdict.SKIPPED, needed.seen, needed.advice)
        async with self._slots:
            context = self._context()
            self._running[check.id] = None
            try:
                verdict, seen, advice = Verdict.PASS, await check.run(context), None
            except NoAnswer as failure:
                verdict, seen, advice = await self._unanswered(check, str(failure), context)
            except Failed as failure:
                verdict, seen, advice = Verdict.FAIL, str(failure), check.advice
            except Skipped as why:
                verdict, seen, advice = Verdict.SKIPPED, str(why), str(why)
            finally:
                del self._running[check.id]
            return _outcome(check, verdict, seen, advice, tuple(context.exchanges))

    async def _unanswered(self, check: Check[C], seen: str, context: C) -> tuple[Verdict, str, str]:
        """Return what a missing answer means: a failure of the check, or the end of the implementation."""
        running = list(self._running)
        if self._ended_by is None and not await context.is_gone():
            return Verdict.FAIL, seen, check.advice
        if self._ended_by is not None:
            return (
                Verdict.SKIPPED,
                f"Nothing listened any more: it ended during {self._ended_by}.",
                _GONE_ADVICE,
            )
        self._ended_by = check.id
        return (
            Verdict.FAIL,
            f"It ended: nothing listens any more. Running were {', '.join(running)}.",
            _GONE_ADVICE,
        )


def _outcome(
    check: Check[C], verdict: Verdict, seen: str, advice: str | None, exchanges: tuple[Exchange, ...] = ()
) -> CheckOutcome:
    return CheckOutcome(
        id=check.id,
        title=check.title,
        proves=check.proves,
        section=check.section,
        verdict=verdict,
        seen=seen,
        advice=advice,
        exchanges=exchanges,
    )


MAX_BODY: Final = 600
"""Bytes of a body that are shown."""

MAX_HEADER: Final = 120
SHOWN_SIGNATURE: Final = 6
"""Characters that are enough to distinguish two signatures."""

_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_OMITTED_HEADERS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "user-agent", "date", "server", "content-length"}
)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Removes these secrets from everything that it formats."""

    secrets: tuple[str, ...] = field(repr=False)

    def message(self, first_line: str, headers: Mapping[str, str], body: bytes) -> str:
        """Return a request or a response: the first line, the headers that matter, the start of the body."""
        lines = [self.text(first_line)]
        for name, value in headers.items():
            if name.lower() in _SECRET_HEADERS:
                lines.append(f"{name}: ***")
            elif name.lower() not in _OMITTED_HEADERS:
                lines.append(f"{name}: {self._header(name.lower(), value)}")
        if body:
            lines += ["", _cut(excerpt(body, hidden=self.secrets))]
        return "\n".join(lines)

    def text(self, text: str) -> str:
        return excerpt(text.encode(), hidden=self.secrets)

    def _header(self, name: str, value: str) -> str:
        text = self.text(value)
        if name == "webhook-signature":
            # A signature reveals no secret, but what it signs could be sent again with it for some minutes.
            return " ".join(_cut_signature(part) for part in text.split(" "))
        return text if len(text) <= MAX_HEADER else text[:MAX_HEADER] + "…"


def without_credentials(url: str) -> str:
    """Return a URL without what could grant access: its user, its query and its fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "***" if parts.query else "", ""))


def _cut(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= MAX_BODY else raw[:MAX_BODY].decode("utf-8", "ignore") + "…"


def _cut_signature(part: str) -> str:
    version, comma, value = part.partition(",")
    return f"{version}{comma}{value[:SHOWN_SIGNATURE]}…" if len(value) > SHOWN_SIGNATURE else part
