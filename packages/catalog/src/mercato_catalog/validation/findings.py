"""The findings of a check: limited lists of faults and of warnings, each with the rule that is broken."""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, TypeVar
from unicodedata import category

from msgspec import Struct, field

from mercato_catalog.model import Finding

T = TypeVar("T")


class Rule(Enum):
    """The rule of a fault or a warning."""

    EMPTY = "empty", "Write the catalog as a JSON object with the member items."
    NOT_JSON = "not-json", "Write JSON with a library, not by hand. The message says where it breaks."
    NOT_UTF8 = "not-utf-8", "Save or send the document as UTF-8."
    COMPRESSED = (
        "compressed",
        "Send it with the header Content-Encoding, such as gzip, or decompress the file first.",
    )
    TOO_DEEP = "too-deep", "Refer to sections and groups by id instead of nesting them."
    TOO_LARGE = "too-large", "Split the menu: one store needs only what it sells itself."
    NOT_FETCHED = (
        "not-fetched",
        (
            "Check what the URL returns from outside your network. To pull from your own network, set "
            "MERCATO_ALLOW_PRIVATE_NETWORKS=true."
        ),
    )
    BYTE_ORDER_MARK = "byte-order-mark", "Save it as UTF-8 without a byte order mark."
    NEEDS_COMPRESSION = "needs-compression", "Let your server send it with gzip, br or zstd."
    WRONG_TYPE = "wrong-type", "Write the JSON type that the message names, or leave the member out."
    DUPLICATE_KEY = "duplicate-key", "Keep one of them: JSON libraries differ in which one they read."
    ITEMS_MISSING = "items-missing", "Add items, an object of items by id; it may be empty."
    TOO_MANY_CATALOGS = "too-many-catalogs", "Put what is sold at the same hours into one catalog."
    TOO_MANY_GROUPS = "too-many-groups", "Combine choices that go together into one group, or split the item."
    UNKNOWN_CURRENCY = "unknown-currency", "Write the three-letter code of a currency in use, such as EUR."
    ID_DIFFERS = "id-differs-from-key", "Write the same id as key and inside, or leave the inner one out."
    DUPLICATE_ID = "duplicate-id", "Give each its own id; UUIDs are compared without letter case."
    ID_NOT_UUID = "id-not-uuid", "No action needed. Use UUIDs if you want to choose the ids yourself."
    UNRESOLVED_REFERENCE = "unresolved-reference", "Add an entity with that id, or remove the reference."
    REPEATED_REFERENCE = "repeated-reference", "List each id once."
    SECTION_CYCLE = "section-cycle", "Remove the reference that closes the cycle."
    MODIFIER_CYCLE = "modifier-cycle", "Remove the reference that closes the cycle."
    DUPLICATE_OVERRIDE = "duplicate-override", "Keep one price for the item."
    IDLE_OVERRIDE = "idle-override", "List the item in itemIds of the group, or remove its price."
    INVALID_PRICE = "invalid-price", 'Write the price as a decimal string in the currency, such as "12.50".'
    NUMBER_PRICE = (
        "number-price",
        'Write the price as a string, such as "12.50": many JSON libraries round numbers.',
    )
    NO_PRICE = "no-price", "Add a basePrice if the item is sold; a choice of a group needs none."
    NO_NAME = "no-name", "Add a name: storefronts show it."
    COUNT_OUT_OF_RANGE = (
        "count-out-of-range",
        "Write a whole number from 0 to 2147483647, or null for no limit.",
    )
    MINIMUM_ABOVE_MAXIMUM = "minimum-above-maximum", "Lower minimumAllowed or raise maximumAllowed."
    UNREACHABLE_MINIMUM = "unreachable-minimum", "Lower minimumAllowed, offer more, or raise maximumPerItem."
    UNKNOWN_DAY = "unknown-day", "Write the English name of the day: Sunday to Saturday."
    INVALID_TIME = "invalid-time", "Write HH:mm:ss in the store's local time."
    WINDOW_INVERTED = "window-inverted", "Write two windows, the first one until 00:00:00."
    WINDOW_ENDS_EARLY = "window-ends-early", "Write 00:00:00: it is the end of the day."
    TOO_MANY_WINDOWS = "too-many-windows", "Join windows that follow on one another."
    MISNAMED_MEMBER = (
        "misnamed-member",
        "Rename the member if you meant the other one; a member of your own is served unchanged.",
    )
    NEGATIVE_PRICE = (
        "negative-price",
        "Write a price of zero or more. No action needed if a choice is meant to lower what it is added to.",
    )
    SHARED_NAME = (
        "shared-name",
        "Give each a name of its own, such as with its size: who orders by name must send an id.",
    )
    WORDLESS_NAME = "wordless-name", "Write a letter or a digit in it: nothing else of a name is compared."
    LONG_NAME = "long-name", "Shorten it to 120 characters, and say the rest in the description."
    UNSEEN_CHARACTERS = "unseen-characters", "Remove them: agents get the name without them."
    NOT_LISTED = "not-listed", "Fix those that are listed, and check again."

    def __init__(self, id: str, advice: str) -> None:  # noqa: A002  # the word of SARIF and of this page
        self.id = id
        self.advice = advice


WarningGroup = tuple[Rule, str]
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
    listed_warnings: dict[WarningGroup, list[Finding]] = field(default_factory=dict)
    counts: Counter[WarningGroup] = field(default_factory=Counter)

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

    def warn_of_each(self, rule: Rule, things: Sequence[T], describe: Callable[[T], tuple[str, str]]) -> None:
        """Report the same of several things; `describe` returns the message and path of those that are listed."""
        if not things:
            return
        kind = rule, ""
        self.counts[kind] += len(things)
        listed = self.listed_warnings.setdefault(kind, [])
        listed += [_finding(rule, *describe(thing)) for thing in things[: MAX_PER_KIND - len(listed)]]

    def count_unlisted(self, count: int) -> None:
        """Count faults that aren't listed."""
        self.fault_count += count

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
        character
        if character in _JOINERS or category(character) not in _REPLACED
        else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
