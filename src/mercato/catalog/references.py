"""Every reference resolves, and is served as the id that its target is served under."""

from itertools import chain
from typing import Any

from mercato.catalog import ids
from mercato.catalog.findings import Findings, clipped, escape
from mercato.catalog.rules import Rule
from mercato.catalog.source import Source, Table


def resolve(source: Source, findings: Findings) -> None:
    """Put served ids in the place of references, and note those that lead nowhere."""
    resolver = _Resolver(source, findings)
    resolver.lists(source.catalogs, "sectionIds", source.sections)
    resolver.lists(source.sections, "sectionIds", source.sections)
    resolver.lists(source.sections, "itemIds", source.items)
    resolver.lists(source.items, "modifierGroupIds", source.groups)
    resolver.lists(source.groups, "itemIds", source.items)
    resolver.overrides(source.groups, source.items)


class _Resolver:
    def __init__(self, source: Source, findings: Findings) -> None:
        self._onboarding_id = source.onboarding_id
        self._findings = findings

    def lists(self, table: Table, member: str, target: Table) -> None:
        """Resolve one list of ids in every entity of the table."""
        if not table.has(member) or table.each_names_one_of(target, member):
            return
        column = table.column(member)
        count, distinct = table.listed(member)
        if len(distinct) < count:
            self._warn_repeats(table, member)
        # A set minus a dictionary uses the hashes that the set has: the fastest of the ways to ask this.
        if target.readable and distinct.difference(target.members):
            rows = zip(table.members, column, strict=True)
            table.put(member, [self._resolved(table, key, member, refs, target) for key, refs in rows])

    def overrides(self, groups: Table, items: Table) -> None:
        """Resolve the keys of every group's priceOverrides."""
        if not groups.has("priceOverrides"):
            return
        column = groups.column("priceOverrides")
        if items.readable and set(chain.from_iterable(filter(None, column))).difference(items.members):
            rows = zip(groups.members, column, strict=True)
            groups.put(
                "priceOverrides", [prices and self._keys(groups, key, prices, items) for key, prices in rows]
            )

    def _resolved(self, table: Table, key: str, member: str, refs: list[Any] | None, target: Table) -> Any:
        """Return the served ids; None stands for what leads nowhere, so that the others keep their places."""
        if not refs or not set(refs).difference(target.members):
            return refs
        found = [None if ref is None else self._find(ref, target) for ref in refs]
        for index, (ref, served) in enumerate(zip(refs, found, strict=True)):
            if served is None and ref is not None:
                self._missing(table, key, ref, target, f"/{member}/{index}")
        table.change(key, member, found)
        return found

    def _keys(self, groups: Table, key: str, prices: dict[str, int], items: Table) -> dict[str, int]:
        """Return the prices by served id; put the same keys into the group's members."""
        found: dict[str, int] = {}
        texts, renamed = groups.members[key]["priceOverrides"], {}
        for ref, price in prices.items():
            served, place = self._find(ref, items), f"/priceOverrides/{escape(ref)}"
            if served is None:
                self._missing(groups, key, ref, items, place)
            elif served in found:
                message = f"priceOverrides of {groups.said(key)} names item {clipped(ref)} twice."
                self._findings.fault(Rule.DUPLICATE_OVERRIDE, message, groups.pointer(key) + place)
            else:
                found[served], renamed[served] = price, texts[ref]
        groups.change(key, "priceOverrides", renamed)
        return found

    def _find(self, ref: str, target: Table) -> str | None:
        if ref in target.members:
            return ref
        served = ids.served_id(ref, onboarding_id=self._onboarding_id, addressed=target.kind.addressed)
        return served if served in target.members else None

    def _missing(self, table: Table, key: str, ref: str, target: Table, place: str) -> None:
        self._findings.fault(
            Rule.UNRESOLVED_REFERENCE,
            f"The {table.kind.noun} {table.said(key)} refers to {target.kind.noun} {clipped(ref)}, "
            f"which is not in {target.kind.member}.",
            table.pointer(key) + place,
        )

    def _warn_repeats(self, table: Table, member: str) -> None:
        for key, refs in table.rows_with(member):
            if len(set(refs)) < len(refs):
                self._findings.warn(
                    Rule.REPEATED_REFERENCE,
                    f"The {table.kind.noun} {table.said(key)} lists an id more than once in {member}.",
                    f"{table.pointer(key)}/{member}",
                )
