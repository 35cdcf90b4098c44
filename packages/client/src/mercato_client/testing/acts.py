"""The script of a double: what it does in place of the correct thing, and when, one act a line.

`decline:ITEM_UNAVAILABLE` once, `500 x3` three times, `slow:2 always` from then on, `drop 20%` by chance.
"""

import random
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

ACCEPT: Final = "accept"
DECLINE: Final = "decline"
WRONG: Final = "wrong"
SLOW: Final = "slow"
STATUS: Final = "status"
BAD_JSON: Final = "bad-json"
DROP: Final = "drop"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"
CANCEL: Final = "cancel"
LEAVE: Final = "leave"
REFUND: Final = "refund"
REPEAT: Final = "repeat"
UNVALIDATED: Final = "unvalidated"
DECLINED: Final = "declined"

MAX_TIMES: Final = 10_000

_ANSWERED: Final = (ACCEPT, SLOW, STATUS, BAD_JSON, DROP)
MERCHANT: Final[Mapping[str, tuple[str, ...]]] = {
    "validate": (*_ANSWERED, DECLINE, WRONG),
    "place": (*_ANSWERED, DECLINE, WRONG, LATE, DUPLICATE),
    "cancel": (*_ANSWERED, DECLINE),
    "catalog-sync": _ANSWERED,
    "order-cancelled": _ANSWERED,
    "event": _ANSWERED,
    "catalog": _ANSWERED,
    "cook": (ACCEPT, SLOW, CANCEL, LEAVE, REFUND),
}
"""A merchant's operations, and the acts of each."""

STOREFRONT: Final[Mapping[str, tuple[str, ...]]] = {
    "event": _ANSWERED,
    "order": (ACCEPT, SLOW, REPEAT, WRONG, UNVALIDATED, DECLINED, DROP, CANCEL),
}
"""A storefront's operations, and the acts of each."""

_WRITTEN: Final = re.compile(
    r"(?P<name>[a-z][a-z-]*|\d{3})(?::(?P<argument>.*?))?(?:\s+(?:(?P<always>always)|x(?P<times>\d{1,5})"
    r"|(?P<percent>\d{1,3})%))?"
)


class _Form(NamedTuple):
    """How an act is written: its argument's pattern, and what to say when the argument doesn't match."""

    shown: str
    argument: str
    advice: str


_FORMS: Final[Mapping[str, _Form]] = {
    name: _Form(name, "", f"{name} takes no argument.")
    for name in (ACCEPT, BAD_JSON, LEAVE, REPEAT, UNVALIDATED, DECLINED)
} | {
    DECLINE: _Form(
        "decline:CODE", r"[A-Z0-9_]{1,64}", "Write the code of the refusal, as decline:ITEM_UNAVAILABLE."
    ),
    WRONG: _Form(
        "wrong[:total|subTotal|taxes]",
        "(total|subTotal|taxes)?",
        "wrong takes one of: total, subTotal, taxes.",
    ),
    SLOW: _Form(
        "slow:SECONDS",
        r"(\d{1,2}|[0-5]\d\d)(\.\d{1,3})?|600(\.0{1,3})?",
        "Write the seconds, as slow:2.5; 600 at most.",
    ),
    STATUS: _Form("500", r"[45]\d\d", "Write a status from 400 to 599."),
    DROP: _Form("drop[:BYTES]", r"\d*", "Write a number, as drop:3, or nothing."),
    LATE: _Form("late[:TIMES]", r"\d*", "Write a number, as late:3, or nothing."),
    DUPLICATE: _Form("duplicate[:number]", "(number)?", "Write number, as duplicate:number, or nothing."),
    REFUND: _Form("refund:AMOUNT", r"\d{1,12}(\.\d{1,4})?", "Write the amount, as refund:1.50."),
    CANCEL: _Form("cancel:REASON", ".+", "Write the reason, as cancel:Out of dough."),
}


class ActError(ValueError):
    """The line isn't an act of that operation; the message lists its acts."""


@dataclass(frozen=True, slots=True)
class Act:
    """What to do once: a name, and the argument after its colon."""

    name: str = ACCEPT
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    @property
    def seconds(self) -> float:
        """Return the delay of a slow act."""
        return float(self.argument) if self.name == SLOW else 0.0

    @property
    def is_silent(self) -> bool:
        """Return whether the connection is closed without any answer."""
        return self.name == DUPLICATE or (self.name == DROP and not self.argument)

    @property
    def count(self) -> int:
        """Return the number in the argument: bytes before a drop, or how often an order is late."""
        return int(self.argument or (1 if self.name == LATE else 0))


HONEST: Final = Act()


@dataclass(slots=True)
class _Plan:
    """The acts of one operation: first the queue, then those by chance, then the permanent one."""

    queue: deque[Act] = field(default_factory=deque)
    chances: list[tuple[int, Act]] = field(default_factory=list)
    always: Act = HONEST
    calls: int = 0


@dataclass(slots=True)
class Script:
    """Acts by operation. The same seed draws the same acts, call by call."""

    operations: Mapping[str, tuple[str, ...]]
    seed: int = 0
    codes: set[str] = field(default_factory=set)
    """The codes of all `decline` acts."""
    _plans: dict[str, _Plan] = field(default_factory=dict)

    def read(self, lines: Iterable[str]) -> Self:
        """Add lines of an operation and an act each; empty lines and comments (#) are skipped. Raises ActError."""
        for line in lines:
            text = line.partition("#")[0].strip()
            if text:
                operation, _, act = text.partition(" ")
                self.on(operation, act.strip())
        return self

    def on(self, operation: str, act: str) -> Self:
        """Add an act for an operation; its acts are done in their order. Raises ActError."""
        known = self.operations.get(operation)
        if known is None:
            raise ActError(
                f"There is no operation {operation!r}. Write one of: {', '.join(self.operations)}."
            )
        match = _WRITTEN.fullmatch(act)
        if match is None:
            raise ActError(f"{act!r} isn't an act. Write one like {known[-1]}, or 500 x3, or slow:2 always.")
        planned = _act(operation, match["name"], match["argument"] or "", known)
        plan = self._plans.setdefault(operation, _Plan())
        if planned.name == DECLINE:
            self.codes.add(planned.argument)
        if match["always"]:
            plan.always = planned
        elif match["percent"]:
            plan.chances.append((int(match["percent"]), planned))
        else:
            plan.queue.extend([planned] * min(MAX_TIMES, int(match["times"] or 1)))
        return self

    def clear(self, operation: str) -> None:
        """Remove all acts of an operation."""
        self._plans.pop(operation, None)

    def next(self, operation: str) -> Act:
        """Return the act for this call."""
        plan = self._plans.get(operation)
        if plan is None:
            return HONEST
        plan.calls += 1
        if plan.queue:
            return plan.queue.popleft()
        # Each call has a generator of its own, so calls of other operations don't change its draw.
        lot = random.Random(f"{self.seed}/{operation}/{plan.calls}").uniform(0, 100)  # noqa: S311  # no secret
        for percent, act in plan.chances:
            lot -= percent
            if lot < 0:
                return act
        return plan.always


def _act(operation: str, name: str, argument: str, known: tuple[str, ...]) -> Act:
    if name.isdigit():
        name, argument = STATUS, name
    if name not in known:
        forms = ", ".join(_FORMS[act].shown for act in known)
        raise ActError(f"{operation} cannot be {name!r}. It can be: {forms}.")
    if re.fullmatch(_FORMS[name].argument, argument, re.ASCII) is None:
        raise ActError(_FORMS[name].advice)
    return Act(name, argument)
