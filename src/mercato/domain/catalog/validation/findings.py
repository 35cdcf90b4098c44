"""The findings of a check: a limited list of faults, and warnings, limited by kind."""

from collections import Counter
from typing import Final
from unicodedata import category

from msgspec import Struct, field

from mercato.domain.catalog.model import Finding
from mercato.domain.catalog.validation.rules import Rule

Kind = tuple[Rule, str]
"""A group of warnings: a rule, and for some rules the table."""

MAX_FAULTS: Final = 100
"""Faults listed of one document; the last one has the count of the others."""

MAX_PER_KIND: Final = 200
"""Warnings listed of one kind; a menu without prices has as many as items."""

_SHOWN: Final = 80
"""Characters of a name or an id that a message repeats."""

_MAX_PATH: Final = 2_000
"""Characters of a pointer."""

_REPLACED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, marks of direction and other formats, halves of surrogate pairs, separators of lines and paragraphs."""

_JOINERS: Final = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""They make one emoji of several, and shape letters."""


class Findings(Struct):
    """Collects while a document is checked."""

    fault_count: int = 0
    broken_at: int | None = None
    """The offset, after a byte order mark, from which the document can't be read."""
    listed_faults: list[Finding] = field(default_factory=list)
    listed_warnings: dict[Kind, list[Finding]] = field(default_factory=dict)
    counts: Counter[Kind] = field(default_factory=Counter)

    def fault(self, rule: Rule, message: str, path: str) -> None:
        """Report why the document can't be served."""
        self.fault_count += 1
        if len(self.listed_faults) < MAX_FAULTS:
            self.listed_faults.append(_finding(rule, message, path))

    def warn(self, rule: Rule, message: str, path: str, *, of: str = "") -> None:
        """Report a probable mistake. `rule` and `of` group warnings that every item of a menu may have."""
        kind = rule, of
        self.counts[kind] += 1
        listed = self.listed_warnings.setdefault(kind, [])
        if len(listed) < MAX_PER_KIND:
            listed.append(_finding(rule, message, path))

    def count_unlisted(self, count: int) -> None:
        """Count faults that aren't listed."""
        self.fault_count += count

    def extend(self, later: "Findings") -> None:
        """Append the findings of another check."""
        self.fault_count += later.fault_count
        self.listed_faults += later.listed_faults[: MAX_FAULTS - len(self.listed_faults)]
        for kind, found in later.listed_warnings.items():
            listed = self.listed_warnings.setdefault(kind, [])
            listed += found[: MAX_PER_KIND - len(listed)]
        self.counts += later.counts

    @property
    def warning_count(self) -> int:
        return self.counts.total()

    def faults(self) -> tuple[Finding, ...]:
        """Return the faults in the order found, at most MAX_FAULTS."""
        if self.fault_count <= MAX_FAULTS:
            return tuple(self.listed_faults)
        kept = self.listed_faults[: MAX_FAULTS - 1]
        more = f"{self.fault_count - len(kept)} more faults are not listed. Fix these first."
        return (*kept, _finding(Rule.NOT_LISTED, more, ""))

    def warnings(self) -> tuple[Finding, ...]:
        """Return the warnings by kind; if a kind has too many, its last one has the count of the others."""
        listed: list[Finding] = []
        for (rule, of), found in self.listed_warnings.items():
            listed += found
            if more := self.counts[rule, of] - len(found):
                listed.append(_finding(rule, f"{more} more warnings like the one before.", ""))
        return tuple(listed)


def _finding(rule: Rule, message: str, path: str) -> Finding:
    while len(path) > _MAX_PATH:
        # A key of absurd length: the pointer ends before it.
        path = path.rpartition("/")[0]
    return Finding(rule.id, clean(message), clean(path))


def shorten(text: str) -> str:
    """Return a partner's id or name for a message, shortened if it is long."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def quote(text: str) -> str:
    """Return the same between double quotes."""
    return f'"{shorten(text)}"'


def clean(text: str) -> str:
    """Return the text with the characters replaced that columns, terminals or logs can't show.

    These are control characters, halves of surrogate pairs, separators of lines and marks of direction.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one in _JOINERS or category(one) not in _REPLACED else "\N{REPLACEMENT CHARACTER}"
        for one in text
    )
