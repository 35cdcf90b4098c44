"""What a check finds: faults, of which a bounded number is listed, and warnings, bounded by kind."""

from collections import Counter
from collections.abc import Iterator
from typing import Final
from unicodedata import category

from mercato.catalog.model import CatalogFault, CatalogWarning
from mercato.catalog.rules import Rule

Kind = tuple[Rule, str]
"""What warnings are counted by: a rule, and for some what it is about."""

MOST_FAULTS: Final = 100
"""Faults listed of one document; the last of them says how many more there are."""

MOST_ALIKE: Final = 200
"""Warnings listed of one kind; a menu without any price would have as many as items."""

_SHOWN: Final = 80
"""Characters of a name or an id that a message repeats."""

_LONGEST_PATH: Final = 2_000
"""Characters of a pointer."""

_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, marks of direction and other formats, halves of surrogate pairs, separators of lines and paragraphs."""

_JOINERS: Final = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""They make one emoji of several, and shape letters."""


def escape(step: str) -> str:
    """Return a member's name as a step of an RFC 6901 pointer."""
    return step.replace("~", "~0").replace("/", "~1") if "~" in step or "/" in step else step


class Findings:
    """Collects while a document is checked."""

    def __init__(self) -> None:
        self._faults: list[tuple[Rule, CatalogFault]] = []
        self._warnings: dict[Kind, list[CatalogWarning]] = {}
        self._alike: Counter[Kind] = Counter()
        self.fault_count = 0

    def fault(self, rule: Rule, message: str, path: str) -> None:
        """Note why the document cannot be served."""
        self.fault_count += 1
        if len(self._faults) < MOST_FAULTS:
            self._faults.append((rule, CatalogFault(message=clean(message), path=_place(path))))

    def warn(self, rule: Rule, message: str, path: str, *, of: str = "") -> None:
        """Note what is odd. `rule` and `of` group what would be repeated for every item of a menu."""
        kind = rule, of
        self._alike[kind] += 1
        listed = self._warnings.setdefault(kind, [])
        if len(listed) < MOST_ALIKE:
            listed.append(CatalogWarning(message=clean(message), path=_place(path)))

    def unlisted(self, count: int) -> None:
        """Note faults that were counted but not looked at one by one."""
        self.fault_count += count

    def extend(self, later: "Findings") -> None:
        """Add what another check found, behind what was found so far."""
        faults, warnings, alike = later._faults, later._warnings, later._alike  # noqa: SLF001  # of its own kind
        self.fault_count += later.fault_count
        self._faults += faults[: MOST_FAULTS - len(self._faults)]
        for kind, found in warnings.items():
            listed = self._warnings.setdefault(kind, [])
            listed += found[: MOST_ALIKE - len(listed)]
        self._alike += alike

    @property
    def warning_count(self) -> int:
        return self._alike.total()

    def faults(self) -> tuple[CatalogFault, ...]:
        """Return the faults in the order found, at most MOST_FAULTS."""
        return tuple(fault for _, fault in self._listed_faults())

    def fault_rules(self) -> tuple[str, ...]:
        """Return the id of each listed fault's rule."""
        return tuple(rule.id for rule, _ in self._listed_faults())

    def warnings(self) -> tuple[CatalogWarning, ...]:
        """Return the warnings by kind; where a kind has too many, its last one says how many more."""
        return tuple(warning for _, warning in self._listed_warnings())

    def warning_rules(self) -> tuple[str, ...]:
        """Return the id of each listed warning's rule."""
        return tuple(rule.id for rule, _ in self._listed_warnings())

    def _listed_faults(self) -> list[tuple[Rule, CatalogFault]]:
        if self.fault_count <= MOST_FAULTS:
            return self._faults
        kept = self._faults[: MOST_FAULTS - 1]
        more = f"{self.fault_count - len(kept)} more faults are not listed. Mend these first."
        return [*kept, (Rule.NOT_LISTED, CatalogFault(message=more, path=""))]

    def _listed_warnings(self) -> Iterator[tuple[Rule, CatalogWarning]]:
        for (rule, of), found in self._warnings.items():
            more = self._alike[rule, of] - len(found)
            yield from ((rule, warning) for warning in found)
            if more:
                yield rule, CatalogWarning(message=f"{more} more warnings like the one before.", path="")


def clipped(text: str) -> str:
    """Return an id or a name of somebody else's for use in a message: a long one is cut."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def quoted(text: str) -> str:
    """Return the same between double quotes."""
    return f'"{clipped(text)}"'


def clean(text: str) -> str:
    """Return the text without what a text column, a terminal or a log can't show as it is.

    Control characters, halves of surrogate pairs, separators of lines and marks of direction are replaced.
    """
    if text.isprintable():
        return text
    return "".join(one if _can_be_shown(one) else "\N{REPLACEMENT CHARACTER}" for one in text)


def _can_be_shown(character: str) -> bool:
    return character in _JOINERS or category(character) not in _UNSHOWN


def _place(path: str) -> str:
    """Return the pointer; one through keys of absurd length ends at the last step that is none."""
    while len(path) > _LONGEST_PATH:
        path = path.rpartition("/")[0]
    return clean(path)
