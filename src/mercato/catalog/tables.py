"""From one member of the document to a table: dictionary or list, ids as they are served, each id once."""

from typing import Any
from uuid import UUID

from mercato.catalog import ids
from mercato.catalog.findings import Findings, escape, quoted
from mercato.catalog.rules import Rule
from mercato.catalog.shape import as_object, at_once, read_columns, said
from mercato.catalog.source import ITEMS, AddedIds, Kind, Members, Table


def read_table(value: Any, kind: Kind, *, onboarding_id: UUID, findings: Findings) -> Table:
    """Return the table, having noted what in it cannot be read. A value of null is an empty table."""
    reader = _Reader(kind, onboarding_id, findings)
    if value is None:
        return Table(kind, {})
    if isinstance(value, dict):
        table = reader.from_dictionary(value)
    elif isinstance(value, list) and kind is not ITEMS:
        table = reader.from_list(value)
    else:
        wanted = "an object" if kind is ITEMS else "an object or a list"
        findings.fault(
            Rule.WRONG_TYPE, f"{kind.member} must be {wanted}, not {said(value)}.", f"/{kind.member}"
        )
        return Table(kind, {}, readable=False)
    read_columns(table, findings)
    return table


class _Reader:
    """Gives every entity the id under which it is served."""

    def __init__(self, kind: Kind, onboarding_id: UUID, findings: Findings) -> None:
        self._kind = kind
        self._onboarding_id = onboarding_id
        self._findings = findings

    def from_dictionary(self, values: dict[str, Any]) -> Table:
        rows = self._objects(values)
        own_id = self._kind.own_id
        used: set[str] = set()
        for some in at_once(list(rows.values())):
            used.update(*some)
        strangers = (
            [key for key, row in rows.items() if row.get(own_id) not in (key, None)] if own_id in used else []
        )
        if not strangers and ids.are_canonical(rows):
            return Table(self._kind, rows, used=used, own_ids=self._add_own_ids(rows, used))
        for key in strangers:
            self._check_own_id(key, rows[key][own_id])
        return self._keyed([(key, key, row) for key, row in rows.items()], listed=False)

    def _add_own_ids(self, rows: dict[str, Members], used: set[str]) -> AddedIds:
        """Put the canonical id, which is its key, into every entity that lacks it."""
        own_id = self._kind.own_id
        lacking = rows.items()
        if own_id in used:
            if [row.get(own_id) for row in rows.values()] == list(rows):
                return AddedIds()
            lacking = {key: row for key, row in rows.items() if row.get(own_id) is None}.items()
        nulls = 0
        for key, row in lacking:
            nulls += own_id in row
            row[own_id] = key
        count = len(lacking) - nulls
        member, quoted_id = len(f'"{own_id}":,'), ids.LENGTH + len('""')
        return AddedIds(count, count * (member + quoted_id) + nulls * (quoted_id - len("null")))

    def from_list(self, values: list[Any]) -> Table:
        rows = self._objects({str(index): value for index, value in enumerate(values)})
        return self._keyed(
            [(self._listed_id(step, row), step, row) for step, row in rows.items()], listed=True
        )

    def _objects(self, values: dict[str, Any]) -> dict[str, Members]:
        if set(map(type, values.values())) <= {dict}:
            return values
        kind = self._kind
        return {
            key: as_object(value, kind.noun, f"/{kind.member}/{escape(key)}", self._findings)
            for key, value in values.items()
        }

    def _listed_id(self, step: str, row: Members) -> str:
        """Return the id of a list's entry. One without gets one that is made of its place."""
        own = row.get(self._kind.own_id)
        if isinstance(own, str):
            return own
        if own is not None:
            self._wrong_type(own, step)
        return ids.place_id(self._onboarding_id, f"/{self._kind.member}/{step}")

    def _check_own_id(self, key: str, own: Any) -> None:
        if not isinstance(own, str):
            self._wrong_type(own, key)
        elif self._served(key) != self._served(own):
            self._findings.fault(
                Rule.ID_DIFFERS,
                f"{self._kind.own_id} {quoted(own)} differs from the key {quoted(key)} under which it stands.",
                f"/{self._kind.member}/{escape(key)}/{self._kind.own_id}",
            )

    def _wrong_type(self, own: Any, step: str) -> None:
        message = f"{self._kind.own_id} must be a string, not {said(own)}."
        self._findings.fault(
            Rule.WRONG_TYPE, message, f"/{self._kind.member}/{escape(step)}/{self._kind.own_id}"
        )

    def _keyed(self, rows: list[tuple[str, str, Members]], *, listed: bool) -> Table:
        """Return the table of rows of id, step and members."""
        members: dict[str, Members] = {}
        steps: dict[str, str] = {}
        written: dict[str, str] = {}
        for text, step, row in rows:
            served = self._served(text)
            if served in members:
                self._collision(text, step, steps[served], listed=listed)
                continue
            steps[served], written[served] = step, text
            members[served] = self._with_id(row, text, served, step)
        return Table(self._kind, members, steps=steps, written=written)

    def _collision(self, text: str, step: str, other: str, *, listed: bool) -> None:
        at = f"/{self._kind.member}/{escape(step)}"
        first = f"/{self._kind.member}/{escape(other)}"
        message = f"The {self._kind.noun} at {first} has the id {quoted(text)} already."
        self._findings.fault(Rule.DUPLICATE_ID, message, f"{at}/{self._kind.own_id}" if listed else at)

    def _with_id(self, row: Members, text: str, served: str, step: str) -> Members:
        """Return the members with the id that is served, and the partner's own where its place is free."""
        own_id = self._kind.own_id
        row = row if row.get(own_id) == served else row | {own_id: served}
        if served == text or ids.is_uuid(text):
            return row
        self._findings.warn(
            Rule.ID_NOT_UUID,
            f"The {self._kind.noun} id {quoted(text)} is not a UUID: {self._becomes(served)}.",
            f"/{self._kind.member}/{escape(step)}",
            of=self._kind.member,
        )
        return row | {"partnerItemId": text} if row.get("partnerItemId") is None else row

    def _becomes(self, served: str) -> str:
        if self._onboarding_id == ids.NOWHERE:
            return "one is derived when it is served, and differs from store to store"
        return f"it is served as {served}"

    def _served(self, text: str) -> str:
        return ids.served_id(text, onboarding_id=self._onboarding_id, addressed=self._kind.addressed)
