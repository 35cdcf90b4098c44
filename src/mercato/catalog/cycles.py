"""Sections and modifiers form trees that may share branches, but never lead back to themselves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from mercato.catalog.findings import MOST_FAULTS, Findings
from mercato.catalog.rules import Rule
from mercato.catalog.source import Source

_NAMED: Final = 8
"""Members of a cycle that its fault names; a longer one is cut in the middle."""

Graph = Mapping[str, Sequence[str]]


def refuse_cycles(source: Source, findings: Findings) -> None:
    """Note every cycle among sections, and among items and modifier groups, at the reference that closes it."""
    sections = dict(source.sections.rows_with("sectionIds"))
    for cycle in islice(find_cycles(sections), MOST_FAULTS):
        index = sections[cycle[-1]].index(cycle[0])
        findings.fault(
            Rule.SECTION_CYCLE,
            f"Sections form a cycle: {_named(cycle, source.sections.said)}.",
            f"{source.sections.pointer(cycle[-1])}/sectionIds/{index}",
        )
    _refuse_modifier_cycles(source, findings)


def _refuse_modifier_cycles(source: Source, findings: Findings) -> None:
    """Items and groups are one graph. An id may be used by both kinds, so each node begins with its kind."""
    items = {
        f"i{key}": [f"g{ref}" for ref in refs] for key, refs in source.items.rows_with("modifierGroupIds")
    }
    groups = {f"g{key}": [f"i{ref}" for ref in refs] for key, refs in source.groups.rows_with("itemIds")}

    def said(node: str) -> str:
        return (source.items if node[0] == "i" else source.groups).said(node[1:])

    for cycle in islice(find_cycles(items | groups), MOST_FAULTS):
        last = cycle[-1]
        table, member = (source.items, "modifierGroupIds") if last[0] == "i" else (source.groups, "itemIds")
        index = (items if last[0] == "i" else groups)[last].index(cycle[0])
        findings.fault(
            Rule.MODIFIER_CYCLE,
            f"Items and modifier groups form a cycle: {_named(cycle, said)}.",
            f"{table.pointer(last[1:])}/{member}/{index}",
        )


def find_cycles(graph: Graph) -> Iterator[list[str]]:
    """Yield a cycle for every edge that leads back to where the walk came from; its last node has that edge.

    Every node and edge is seen once, without recursion: a chain of a million sections costs its length. Naming a
    cycle costs its length too, so whoever asks for all of them pays for each.
    """
    done: set[str] = set()
    for start in graph:
        if start not in done:
            yield from _walk(graph, start, done)


def _walk(graph: Graph, start: str, done: set[str]) -> Iterator[list[str]]:
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


def _named(cycle: Sequence[str], said: Callable[[str], str]) -> str:
    nodes = [*cycle, cycle[0]]
    if len(nodes) <= _NAMED:
        return " → ".join(map(said, nodes))
    first = " → ".join(map(said, nodes[: _NAMED - 2]))
    return f"{first} → {len(nodes) - _NAMED + 1} more → {said(cycle[0])}"
