"""Every reference resolves, and is served as the id that its target is served under."""

from typing import Any

from mercato.catalog import ids
from mercato.catalog.findings import Findings, escape
from mercato.catalog.source import GroupSource, Source, Table


def resolve(source: Source, findings: Findings) -> None:
    """Put served ids in the place of references, and note those that lead nowhere."""
    resolver = _Resolver(source, findings)
    resolver.lists(source.catalogs, "section_ids", "sectionIds", source.sections)
    resolver.lists(source.sections, "section_ids", "sectionIds", source.sections)
    resolver.lists(source.sections, "item_ids", "itemIds", source.items)
    resolver.lists(source.items, "modifier_group_ids", "modifierGroupIds", source.groups)
    resolver.lists(source.groups, "item_ids", "itemIds", source.items)
    resolver.overrides(source.groups, source.items)


class _Resolver:
    def __init__(self, source: Source, findings: Findings) -> None:
        self._onboarding_id = source.onboarding_id
        self._findings = findings

    def lists(self, table: Table[Any], field: str, member: str, target: Table[Any]) -> None:
        """Resolve one list of ids in every entity of the table."""
        if not target.readable:
            return
        known = target.entities.keys()
        for key, refs in [(k, r) for k, e in table.entities.items() if (r := getattr(e, field))]:
            distinct = set(refs)
            if len(distinct) != len(refs):
                self._repeats(table, key, member)
            if not known >= distinct:
                self._one_by_one(table, key, field, member, target)

    def overrides(self, groups: Table[GroupSource], items: Table[Any]) -> None:
        """Resolve the keys of every group's priceOverrides."""
        for key, group in groups.entities.items():
            if group.price_overrides and not items.entities.keys() >= group.price_overrides.keys():
                self._override_keys(groups, key, group, items)

    def _one_by_one(self, table: Table[Any], key: str, field: str, member: str, target: Table[Any]) -> None:
        entity, resolved = table.entities[key], []
        for index, ref in enumerate(getattr(entity, field)):
            # None stands where an entry was no string, which has been noted.
            if ref is None:
                continue
            served = self._find(ref, target)
            if served is None:
                self._missing(table, key, ref, target, f"/{member}/{index}")
            else:
                resolved.append(served)
        setattr(entity, field, tuple(resolved))
        table.members[key][member] = resolved

    def _override_keys(
        self, groups: Table[GroupSource], key: str, group: GroupSource, items: Table[Any]
    ) -> None:
        resolved: dict[str, Any] = {}
        for ref, price in (group.price_overrides or {}).items():
            served = self._find(ref, items)
            if served is None and items.readable:
                self._missing(groups, key, ref, items, f"/priceOverrides/{escape(ref)}")
            elif served in resolved:
                self._findings.fault(
                    f"priceOverrides of {groups.said(key)} names item {ref} twice.",
                    f"{groups.pointer(key)}/priceOverrides/{escape(ref)}",
                )
            elif served is not None:
                resolved[served] = price
        group.price_overrides = resolved

    def _find(self, ref: str, target: Table[Any]) -> str | None:
        if ref in target.entities:
            return ref
        served = ids.served_id(ref, onboarding_id=self._onboarding_id, addressed=target.kind.addressed)
        return served if served in target.entities else None

    def _missing(self, table: Table[Any], key: str, ref: str, target: Table[Any], place: str) -> None:
        self._findings.fault(
            f"The {table.kind.noun} {table.said(key)} refers to {target.kind.noun} {ref}, "
            f"which is not in {target.kind.member}.",
            table.pointer(key) + place,
        )

    def _repeats(self, table: Table[Any], key: str, member: str) -> None:
        self._findings.warn(
            "repeated reference",
            f"The {table.kind.noun} {table.said(key)} lists an id more than once in {member}.",
            f"{table.pointer(key)}/{member}",
        )
