"""What a double does instead of what it should, and when: a small language of one line for each act.

`decline:ITEM_UNAVAILABLE` once, `500 x3` three times, `slow:2 always` from then on, `drop 20%` by chance.
"""

import random
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

ACCEPT: Final = "accept"
DECLINE: Final = "decline"
WRONG: Final = "wrong"
SLOW: Final = "slow"
STATUS: Final = "status"
BAD_JSON: Final = "bad-json"
DROP: Final = "drop"
LATE: Final = "late"
CANCEL: Final = "cancel"
LEAVE: Final = "leave"
REPEAT: Final = "repeat"
UNVALIDATED: Final = "unvalidated"
DECLINED: Final = "declined"

MOST_SECONDS: Final = 600.0
MOST_TIMES: Final = 10_000

_ANSWERED: Final = (ACCEPT, SLOW, STATUS, BAD_JSON, DROP)
MERCHANT: Final[Mapping[str, tuple[str, ...]]] = {
    "validate": (*_ANSWERED, DECLINE, WRONG),
    "place": (*_ANSWERED, DECLINE, WRONG, LATE),
    "catalog-sync": _ANSWERED,
    "order-cancelled": _ANSWERED,
    "catalog": _ANSWERED,
    "cook": (ACCEPT, SLOW, CANCEL, LEAVE),
}
"""What a merchant is asked to do, and what it can do then."""

STOREFRONT: Final[Mapping[str, tuple[str, ...]]] = {
    "event": _ANSWERED,
    "order": (ACCEPT, SLOW, REPEAT, WRONG, UNVALIDATED, DECLINED, DROP),
}
"""The same of a storefront."""

_WRITTEN: Final = re.compile(
    r"(?P<name>[a-z][a-z-]*|\d{3})(?::(?P<argument>.*?))?(?:\s+(?:(?P<always>always)|x(?P<times>\d{1,5})"
    r"|(?P<percent>\d{1,3})%))?"
)
_CODE: Final = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII)
_BARE: Final = frozenset({ACCEPT, BAD_JSON, LEAVE, REPEAT, UNVALIDATED, DECLINED})
_AMOUNTS: Final = ("total", "subTotal", "taxes")


class ActError(ValueError):
    """The line is no act of that operation; the message says what would be."""


@dataclass(frozen=True, slots=True)
class Act:
    """What is done once, by its name, with what stood behind the colon."""

    name: str = ACCEPT
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    @property
    def seconds(self) -> float:
        """Return how long a slow act takes."""
        return float(self.argument) if self.name == SLOW else 0.0

    @property
    def count(self) -> int:
        """Return the number behind the colon: bytes before a drop, or how often an order is late."""
        return int(self.argument or (1 if self.name == LATE else 0))


HONEST: Final = Act()


@dataclass(slots=True)
class _Lane:
    """What is still to be done for one operation: first the queue, then by chance, then always."""

    queue: deque[Act] = field(default_factory=deque)
    chances: list[tuple[int, Act]] = field(default_factory=list)
    always: Act = HONEST
    calls: int = 0


@dataclass(slots=True)
class Script:
    """Acts for each operation. The same seed draws the same lots, call by call."""

    operations: Mapping[str, tuple[str, ...]]
    seed: int = 0
    codes: set[str] = field(default_factory=set)
    """The codes that something is declined with."""
    _lanes: dict[str, _Lane] = field(default_factory=dict)

    def read(self, lines: Iterable[str]) -> Self:
        """Take lines of an operation and an act; empty ones and those behind a # say nothing. Raises ActError."""
        for line in lines:
            text = line.partition("#")[0].strip()
            if text:
                operation, _, act = text.partition(" ")
                self.on(operation, act.strip())
        return self

    def on(self, operation: str, act: str) -> Self:
        """Do that when the operation comes; acts of one operation are done in their order. Raises ActError."""
        known = self.operations.get(operation)
        if known is None:
            raise ActError(
                f"There is no operation {operation!r}. Write one of: {', '.join(self.operations)}."
            )
        match = _WRITTEN.fullmatch(act)
        if match is None:
            raise ActError(f"{act!r} is no act. Write one as {known[-1]}, or 500 x3, or slow:2 always.")
        one = _checked(operation, match["name"], match["argument"] or "", known)
        lane = self._lanes.setdefault(operation, _Lane())
        if one.name == DECLINE:
            self.codes.add(one.argument)
        if match["always"]:
            lane.always = one
        elif match["percent"]:
            lane.chances.append((int(match["percent"]), one))
        else:
            lane.queue.extend([one] * min(MOST_TIMES, int(match["times"] or 1)))
        return self

    def clear(self, operation: str) -> None:
        """Do again what is right when the operation comes."""
        self._lanes.pop(operation, None)

    def next(self, operation: str) -> Act:
        """Return what to do this time."""
        lane = self._lanes.get(operation)
        if lane is None:
            return HONEST
        lane.calls += 1
        if lane.queue:
            return lane.queue.popleft()
        # A lot for each call and not a series of draws: what other operations do in between changes nothing.
        lot = random.Random(f"{self.seed}/{operation}/{lane.calls}").uniform(0, 100)  # noqa: S311  # no secret
        for percent, act in lane.chances:
            lot -= percent
            if lot < 0:
                return act
        return lane.always


def script_of(
    acts: "Script | Iterable[str]", operations: Mapping[str, tuple[str, ...]], *, seed: int = 0
) -> Script:
    """Return the acts as a script. Raises ActError."""
    return acts if isinstance(acts, Script) else Script(operations, seed).read(acts)


def _checked(operation: str, name: str, argument: str, known: tuple[str, ...]) -> Act:
    if name.isdigit():
        name, argument = STATUS, name
    if name not in known:
        raise ActError(f"{operation} cannot be {name!r}. It can be: {', '.join(map(_shown, known))}.")
    fault = _fault(name, argument)
    if fault is not None:
        raise ActError(fault)
    return Act(name, argument)


def _shown(name: str) -> str:
    forms = {DECLINE: "decline:CODE", SLOW: "slow:SECONDS", STATUS: "500", DROP: "drop[:BYTES]"}
    more = {WRONG: "wrong[:total|subTotal|taxes]", LATE: "late[:TIMES]", CANCEL: "cancel:REASON"}
    return (forms | more).get(name, name)


def _fault(name: str, argument: str) -> str | None:
    match name:
        case _ if name == DECLINE and not _CODE.fullmatch(argument):
            return "Write the code of the refusal, as decline:ITEM_UNAVAILABLE."
        case _ if name == SLOW and not _is_seconds(argument):
            return f"Write the seconds, as slow:2.5; {MOST_SECONDS:g} at most."
        case _ if name == STATUS and not "400" <= argument <= "599":
            return "A status to fail with is one from 400 to 599."
        case _ if name in {DROP, LATE} and argument and not (argument.isascii() and argument.isdigit()):
            return f"Write a number, as {name}:3, or nothing."
        case _ if name == WRONG and argument and argument not in _AMOUNTS:
            return f"Wrong can be one of: {', '.join(_AMOUNTS)}."
        case _ if name == CANCEL and not argument:
            return "Write the reason, as cancel:Out of dough."
        case _ if name in _BARE and argument:
            return f"Nothing can stand behind {name}."
    return None


def _is_seconds(text: str) -> bool:
    return re.fullmatch(r"\d{1,3}(\.\d{1,3})?", text, re.ASCII) is not None and float(text) <= MOST_SECONDS
