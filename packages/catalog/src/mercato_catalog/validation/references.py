"""Resolves references, serves them as the served ids of their targets, refuses cycles, and warns of what is idle."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar

from msgspec import Struct

from mercato_catalog.model import served_id
from mercato_catalog.validation.document import Source, Table
from mercato_catalog.validation.findings import MAX_FAULTS, Findings, Rule, shorten
from mercato_catalog.validation.tables import NotAnId
from mercato_contract.catalog_documents import MAX_GROUPS
from mercato_contract.json_values import escape
from mercato_contract.texts import is_blank

Lists = dict[str, list[str]]
"""The ids that an entity lists, by its own id; entities without a list are left out."""

_NAMED: Final = 8
"""Members of a cycle that a message names; a longer one is shortened in the middle."""

N = TypeVar("N", bound=Hashable)
Graph = Mapping[N, Sequence[N]]


class References(Struct, frozen=True):
    """The references between entities, by served ids; an unresolved one stays as written."""

    catalog_sections: Lists
    section_sections: Lists
    section_items: Lists
    item_groups: Lists
    group_items: Lists
    are_all_listed: bool
    """Whether sections list every item."""
    overrides: dict[str, dict[str, int]]
    """The prices of a group's choices in minor units."""


def resolve(source: Source, overrides: dict[str, dict[str, int]], findings: Findings) -> References:
    """Return the references and report those that don't resolve. `overrides` have the items' ids as written."""
    resolver = _Resolver(source, findings)
    catalogs, sections, items, groups = source.tables
    catalog_sections, _ = resolver.lists(catalogs, "sectionIds", sections)
    section_sections, _ = resolver.lists(sections, "sectionIds", sections)
    section_items, listed = resolver.lists(sections, "itemIds", items)
    item_groups, _ = resolver.lists(items, "modifierGroupIds", groups)
    group_items, _ = resolver.lists(groups, "itemIds", items)
    return References(
        catalog_sections=catalog_sections,
        section_sections=section_sections,
        section_items=section_items,
        are_all_listed=listed == len(items),
        item_groups=item_groups,
        group_items=group_items,
        overrides=resolver.overrides(overrides),
    )


class _Resolver(Struct, frozen=True):
    source: Source
    findings: Findings

    def lists(self, table: Table[Any], member: str, target: Table[Any]) -> tuple[Lists, int]:
        """Return a member's list of ids for every entity of the table, and the count of distinct ids in all of them."""
        lists: Lists = table.values(member)
        if not lists or _all_resolve(target.members, lists.values()):
            return lists, sum(map(len, lists.values()))
        listed = list(chain.from_iterable(lists.values()))
        distinct = set(listed)
        if len(distinct) < len(listed):
            self._warn_repeats(table, member, lists)
        # A set minus a dictionary reuses the hashes of the set, which is the fastest way.
        if target.is_readable and distinct.difference(target.members):
            for key, refs in lists.items():
                if set(refs).difference(target.members):
                    lists[key] = [
                        self._resolve(ref, table, key, f"/{member}/{index}", target)
                        for index, ref in enumerate(refs)
                    ]
                    table.change(key, member, lists[key])
            # An id may be written in two ways, such as in both letter cases.
            distinct = set(chain.from_iterable(lists.values()))
        return lists, len(distinct)

    def overrides(self, prices: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """Return the prices by served id, and serve them so."""
        items = self.source.items
        if not items.is_readable or not set(chain.from_iterable(prices.values())).difference(items.members):
            return prices
        return {key: self._rename(key, of_group) for key, of_group in prices.items()}

    def _rename(self, key: str, prices: dict[str, int]) -> dict[str, int]:
        groups, items = self.source.groups, self.source.items
        found: dict[str, int] = {}
        texts, renamed = groups.members[key]["priceOverrides"], {}
        for ref, price in prices.items():
            served, at = self._find(ref, items), f"/priceOverrides/{escape(ref)}"
            if served is None:
                self._refuse(ref, groups, key, at, items)
            elif served in found:
                message = f"priceOverrides of {groups.label(key)} names item {shorten(ref)} twice."
                self.findings.fault(Rule.DUPLICATE_OVERRIDE, message, groups.pointer(key) + at)
            else:
                found[served], renamed[served] = price, texts[ref]
        groups.change(key, "priceOverrides", renamed)
        return found

    def _resolve(self, ref: str, table: Table[Any], key: str, at: str, target: Table[Any]) -> str:
        served = self._find(ref, target)
        if served is None and not isinstance(ref, NotAnId):
            self._refuse(ref, table, key, at, target)
        return ref if served is None else served

    def _find(self, ref: str, target: Table[Any]) -> str | None:
        if ref in target.members:
            return ref
        served = served_id(ref, onboarding_id=self.source.onboarding_id, addressed=target.schema.is_addressed)
        return served if served in target.members else None

    def _refuse(self, ref: str, table: Table[Any], key: str, at: str, target: Table[Any]) -> None:
        self.findings.fault(
            Rule.UNRESOLVED_REFERENCE,
            f"The {table.schema.noun} {table.label(key)} refers to {target.schema.noun} {shorten(ref)}, "
            f"which is not in {target.schema.member}.",
            table.pointer(key) + at,
        )

    def _warn_repeats(self, table: Table[Any], member: str, lists: Lists) -> None:
        for key, refs in lists.items():
            if len(set(refs)) < len(refs):
                self.findings.warn(
                    Rule.REPEATED_REFERENCE,
                    f"The {table.schema.noun} {table.label(key)} lists an id more than once in {member}.",
                    f"{table.pointer(key)}/{member}",
                )


def _all_resolve(targets: Collection[str], lists: Collection[list[str]]) -> bool:
    """Return whether all ids of the lists are among the targets, and none is listed twice.

    Each is looked up once, by removing it from a copy: a set of the ids would take twice the time.
    """
    count = sum(map(len, lists))
    if not len(targets) // 2 <= count <= len(targets):
        return False  # possibly true, but a copy would take longer
    if list(chain.from_iterable(lists)) == list(targets):
        return True  # in the order of the document
    rest = set(targets)
    rest.difference_update(*lists)
    return len(targets) - len(rest) == count


def refuse_cycles(source: Source, references: References, findings: Findings) -> None:
    """Report every cycle among sections, and among items and modifier groups, at the reference that closes it."""
    _refuse(
        references.section_sections,
        lambda key: (source.sections, key, "sectionIds"),
        (Rule.SECTION_CYCLE, "Sections"),
        findings,
    )
    # Items and groups are one graph. An id may be used by both kinds, so each node begins with its kind.
    items = {f"i{key}": [f"g{ref}" for ref in refs] for key, refs in references.item_groups.items()}
    groups = {f"g{key}": [f"i{ref}" for ref in refs] for key, refs in references.group_items.items()}
    _refuse(
        items | groups,
        lambda node: (
            (source.items, node[1:], "modifierGroupIds")
            if node[0] == "i"
            else (source.groups, node[1:], "itemIds")
        ),
        (Rule.MODIFIER_CYCLE, "Items and modifier groups"),
        findings,
    )


def _refuse(
    graph: Graph[str],
    entity: Callable[[str], tuple[Table[Any], str, str]],
    words: tuple[Rule, str],
    findings: Findings,
) -> None:
    """Report the cycles; `entity` returns a node's table, served id, and the member with its references."""

    def label(node: str) -> str:
        table, key, _ = entity(node)
        return table.label(key)

    rule, subject = words
    for cycle in islice(find_cycles(graph), MAX_FAULTS):
        table, key, member = entity(cycle[-1])
        index = graph[cycle[-1]].index(cycle[0])
        findings.fault(
            rule, f"{subject} form a cycle: {_named(cycle, label)}.", f"{table.pointer(key)}/{member}/{index}"
        )


def find_cycles(graph: Graph[N]) -> Iterator[list[N]]:
    """Yield a cycle for every back edge of a depth-first search; the edge begins at the cycle's last node.

    Every node and edge is visited once, without recursion. Each cycle that is consumed takes its length.
    """
    done: set[N] = set()
    for start in graph:
        if start not in done:
            yield from _walk(graph, start, done)


def _walk(graph: Graph[N], start: N, done: set[N]) -> Iterator[list[N]]:
    path = {start: None}
    stack = [iter(graph[start])]
    while stack:
        for node in stack[-1]:
            if node in path:
                nodes = list(path)
                yield nodes[nodes.index(node) :]
            elif node not in done and node in graph:
                path[node] = None
                stack.append(iter(graph[node]))
                break
        else:
            done.add(path.popitem()[0])
            stack.pop()


def _named(cycle: Sequence[str], label: Callable[[str], str]) -> str:
    nodes = [*cycle, cycle[0]]
    if len(nodes) <= _NAMED:
        return " → ".join(map(label, nodes))
    first = " → ".join(map(label, nodes[: _NAMED - 2]))
    return f"{first} → {len(nodes) - _NAMED + 1} more → {label(cycle[0])}"


MAX_UNITS: Final = 2**31 - 1
"""Quantities in carts are 32-bit integers, so a higher count can't be reached."""

_COUNTS: Final = ("minimumAllowed", "maximumAllowed", "maximumPerItem", "freeQuantity")
_NAMED_ITEMS: Final = 3
"""Items that one warning names."""


def check_counts(source: Source, references: References, findings: Findings) -> None:
    """Report counts that are negative, too large, or contradictory."""
    for key, groups in references.item_groups.items():
        if len(groups) > MAX_GROUPS:
            findings.fault(
                Rule.TOO_MANY_GROUPS,
                f"The item {source.items.label(key)} lists more than {MAX_GROUPS:,} modifier groups.",
                f"{source.items.pointer(key)}/modifierGroupIds",
            )
    _check_range(source.items, "maximumQuantity", findings)
    refused = {key for name in _COUNTS for key in _check_range(source.groups, name, findings)}
    _check_choices(source, references, findings, leave_out=refused)


def _check_range(table: Table[Any], name: str, findings: Findings) -> list[str]:
    """Report counts out of range; return the keys of what has one."""
    refused = [(key, count) for key, count in table.values(name).items() if not 0 <= count <= MAX_UNITS]
    for key, count in refused:
        bound = "not be negative" if count < 0 else f"be at most {MAX_UNITS}"
        findings.fault(Rule.COUNT_OUT_OF_RANGE, f"{name} must {bound}.", f"{table.pointer(key)}/{name}")
    return [key for key, _ in refused]


def _check_choices(
    source: Source, references: References, findings: Findings, *, leave_out: Collection[str]
) -> None:
    groups = source.groups
    for key, row in groups.entries():
        minimum, maximum, per_item = row.minimum_allowed, row.maximum_allowed, row.maximum_per_item
        if not minimum or key in leave_out:
            continue
        at = f"{groups.pointer(key)}/minimumAllowed"
        if maximum is not None and minimum > maximum:
            findings.fault(
                Rule.MINIMUM_ABOVE_MAXIMUM,
                f"The modifier group {groups.label(key)} requires at least {minimum} and at most {maximum}.",
                at,
            )
            continue
        choices = len(set(references.group_items.get(key, ())))
        if minimum > choices * (MAX_UNITS if per_item is None else per_item):
            findings.warn(
                Rule.UNREACHABLE_MINIMUM,
                f"The modifier group {groups.label(key)} requires at least {minimum}, more than can be chosen.",
                at,
            )


def warn_nameless(source: Source, findings: Findings) -> None:
    """Warn of entities without a name."""
    for table in source.tables:
        names = table.names()
        # Nearly every name begins with a character of ASCII that is seen: a few first characters tell.
        hidden = {first for first in {name[:1] for name in names} if not "!" <= first <= "~"}
        unseen = {name for name in names if name[:1] in hidden and is_blank(name)} if hidden else None
        if not unseen:
            continue
        for key in [key for key, name in zip(table.members, names, strict=True) if name in unseen]:
            findings.warn(
                Rule.NO_NAME, f"The {table.schema.noun} {table.label(key)} has no name.", table.pointer(key)
            )


def warn_idle_overrides(source: Source, references: References, findings: Findings) -> None:
    """Warn of prices for items that their group doesn't offer."""
    groups = source.groups
    for key, prices in references.overrides.items():
        idle = sorted(prices.keys() - set(references.group_items.get(key, ())))
        if idle:
            named = ", ".join(map(shorten, idle[:_NAMED_ITEMS])) + (
                " and more" if len(idle) > _NAMED_ITEMS else ""
            )
            findings.warn(
                Rule.IDLE_OVERRIDE,
                f"priceOverrides of the modifier group {groups.label(key)} has items that the group doesn't offer: "
                f"{named}.",
                f"{groups.pointer(key)}/priceOverrides",
            )


def warn_negative_prices(
    source: Source, item_prices: list[int | None], references: References, findings: Findings
) -> None:
    """Warn of negative prices of items and choices."""
    items, groups = source.items, source.groups
    for key, price in zip(items.members, item_prices, strict=True):
        if price is not None and price < 0:
            findings.warn(
                Rule.NEGATIVE_PRICE,
                f"The item {items.label(key)} has a price below zero. Did you mean a positive one?",
                f"{items.pointer(key)}/basePrice",
            )
    for key, overrides in references.overrides.items():
        below = [item for item, price in overrides.items() if price < 0]
        if below:
            findings.warn(
                Rule.NEGATIVE_PRICE,
                f"The modifier group {groups.label(key)} has prices below zero: {shorten(below[0])}"
                f"{' and more' if len(below) > 1 else ''}. Did you mean positive ones?",
                f"{groups.pointer(key)}/priceOverrides",
            )
