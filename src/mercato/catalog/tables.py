"""From one member of the document to a table: dictionary or list, ids as they are served, each id once."""

from collections.abc import Collection
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from mercato.catalog import ids
from mercato.catalog.findings import Findings, escape
from mercato.catalog.shape import read_entity, said
from mercato.catalog.source import ITEMS, Entity, Kind, Members, Raw, Table

E = TypeVar("E", bound=Entity)
_SHOWN: Final = 80
"""Characters of an id that a message repeats."""

Rows = list[tuple[str, E, Members]]


def read_table(raw: Raw | None, kind: Kind[E], *, onboarding_id: UUID, findings: Findings) -> Table[E]:
    """Return the table, having noted what in it cannot be read."""
    form = "null" if raw is None else said(raw)
    if raw is None or form == "null":
        return Table(kind, {}, {})
    if form == "a list" and kind is not ITEMS:
        return _Keyed(kind, onboarding_id, findings).from_list(raw)
    if form == "an object":
        return _Keyed(kind, onboarding_id, findings).from_dictionary(raw)
    wanted = "an object" if kind is ITEMS else "an object or a list"
    findings.fault(f"{kind.member} must be {wanted}, not {form}.", f"/{kind.member}")
    return Table(kind, {}, {}, readable=False)


class _Keyed:
    """Gives every entity the id under which it is served."""

    def __init__(self, kind: Kind[E], onboarding_id: UUID, findings: Findings) -> None:
        self._kind: Kind[Any] = kind
        self._onboarding_id = onboarding_id
        self._findings = findings

    def from_dictionary(self, raw: Raw) -> Table[Any]:
        entities, members = self._read_dictionary(raw)
        own = self._kind.own_field
        strangers = [key for key, e in entities.items() if (o := getattr(e, own)) is not None and o != key]
        count = len(members) + _count(members.values())
        if ids.are_canonical(entities) and not strangers:
            return Table(self._kind, entities, members, count=count)
        for key in strangers:
            self._check_own_id(key, getattr(entities[key], own))
        rows = [(key, entities[key], members[key]) for key in entities]
        return self._rekeyed(rows, [key for key, _, _ in rows], listed=False, count=count)

    def from_list(self, raw: Raw) -> Table[Any]:
        rows, read = [], self._read_list(raw)
        count = _count([members for _, members in read])
        for index, (entity, members) in enumerate(read):
            own = getattr(entity, self._kind.own_field)
            if own is None:
                rows.append(self._placed(index, entity, members))
            else:
                rows.append((own, entity, members))
        return self._rekeyed(rows, [str(index) for index in range(len(rows))], listed=True, count=count)

    def _placed(self, index: int, entity: Any, members: Members) -> tuple[str, Any, Members]:
        """Return the row of a list entry without an id, which gets one made of its place."""
        own = ids.place_id(self._onboarding_id, f"/{self._kind.member}/{index}")
        return own, entity, {self._kind.own_id: own} | members | {self._kind.own_id: own}

    def _read_dictionary(self, raw: Raw) -> tuple[dict[str, Any], dict[str, Members]]:
        kind = self._kind
        try:
            members = msgspec.json.decode(raw, type=dict[str, dict[str, Raw]])
            entity: Any = kind.entity
            return msgspec.json.decode(raw, type=dict[str, entity]), members
        except msgspec.DecodeError:
            read = {
                key: read_entity(row, kind.entity, f"/{kind.member}/{escape(key)}", kind.noun, self._findings)
                for key, row in msgspec.json.decode(raw, type=dict[str, Raw]).items()
            }
            return {key: pair[0] for key, pair in read.items()}, {key: pair[1] for key, pair in read.items()}

    def _read_list(self, raw: Raw) -> list[tuple[Any, Members]]:
        kind = self._kind
        return [
            read_entity(row, kind.entity, f"/{kind.member}/{index}", kind.noun, self._findings)
            for index, row in enumerate(msgspec.json.decode(raw, type=list[Raw]))
        ]

    def _check_own_id(self, key: str, own: str) -> None:
        if self._served(key) != self._served(own):
            self._findings.fault(
                f"{self._kind.own_id} {_quoted(own)} differs from the key {_quoted(key)} under which it stands.",
                f"/{self._kind.member}/{escape(key)}/{self._kind.own_id}",
            )

    def _rekeyed(self, rows: Rows[Any], steps: list[str], *, listed: bool, count: int) -> Table[Any]:
        entities: dict[str, Any] = {}
        members: dict[str, Members] = {}
        places: dict[str, str] = {}
        for (text, entity, own_members), step in zip(rows, steps, strict=True):
            served = self._served(text)
            if served in entities:
                self._collision(text, step, places[served], listed=listed)
                continue
            entities[served], places[served] = entity, step
            members[served] = (
                own_members if served == text else self._renamed(text, served, entity, own_members, step)
            )
        return Table(self._kind, entities, members, steps=places, listed=listed, count=count)

    def _collision(self, text: str, step: str, other: str, *, listed: bool) -> None:
        at = f"/{self._kind.member}/{escape(step)}"
        first = f"/{self._kind.member}/{escape(other)}"
        message = f"The {self._kind.noun} at {first} has the id {_quoted(text)} already."
        self._findings.fault(message, f"{at}/{self._kind.own_id}" if listed else at)

    def _renamed(self, text: str, served: str, entity: Entity, members: Members, step: str) -> Members:
        """Return the members with the id that is served, and the partner's own where its place is free."""
        kind = self._kind
        if kind.own_id in members and getattr(entity, kind.own_field) is not None:
            members = members | {kind.own_id: served}
        if ids.is_uuid(text):
            return members
        self._findings.warn(
            f"{kind.member} renamed",
            f"The {kind.noun} id {_quoted(text)} is not a UUID: it is served as {served}.",
            f"/{kind.member}/{escape(step)}",
        )
        if _is_free(members.get("partnerItemId")):
            members = members | {"partnerItemId": text}
            if kind is ITEMS:
                entity.partner_item_id = text  # type: ignore[attr-defined]  # an ItemSource has it
        return members

    def _served(self, text: str) -> str:
        return ids.served_id(text, onboarding_id=self._onboarding_id, addressed=self._kind.addressed)


def _count(rows: Collection[Members]) -> int:
    """Return how many members were read, those of windows and price overrides included."""
    inner = sum(_inner(row["availability"], list[dict[str, Raw]]) for row in rows if "availability" in row)
    prices = sum(_inner(row["priceOverrides"], dict[str, Raw]) for row in rows if "priceOverrides" in row)
    return sum(map(len, rows)) + inner + prices


def _inner(raw: Raw, kind: Any) -> int:
    try:
        read = msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        return 0
    return len(read) if isinstance(read, dict) else sum(map(len, read))


def _is_free(raw: Raw | None) -> bool:
    return raw is None or bytes(raw) == b"null"


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= _SHOWN else f'"{text[:_SHOWN]}…"'
