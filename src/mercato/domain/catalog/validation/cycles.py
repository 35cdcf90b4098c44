"""Cycles among sections and among modifiers, which may share branches but form no cycle."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from mercato.domain.catalog.validation.document import Source, Table
from mercato.domain.catalog.validation.findings import MAX_FAULTS, Findings, Rule
from mercato.domain.catalog.validation.references import References

_NAMED: Final = 8
"""Members of a cycle that a message names; a longer one is shortened in the middle."""

N = TypeVar("N", bound=Hashable)
Graph = Mapping[N, Sequence[N]]


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
