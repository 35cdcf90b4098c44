"""Reads a member of the document into a table: from an object or a list, with unique served ids and typed rows."""

from collections.abc import Iterator
from typing import Any, Final, Generic
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato_catalog.model import NO_ONBOARDING, is_uuid, pack_ids, place_id, served_id
from mercato_catalog.validation.document import ITEMS, Form, Members, R, Table, TableSchema
from mercato_catalog.validation.findings import Findings, Rule, quote
from mercato_contract.json_values import escape, json_type

_BATCH: Final = 512
"""Entities that are read at a time, so that they stay in the processor's cache."""

_EXACT: Final = 2**53
"""A double has every integer up to here exactly."""


class NotAnId(str):
    """The pointer to a value in a list of ids that isn't a string, in place of the value."""

    __slots__ = ()


def read_table(value: Any, schema: TableSchema[R], *, onboarding_id: UUID, findings: Findings) -> Table[R]:
    """Return the table and report what can't be read. A value of null is an empty table."""
    reader = _Reader(schema, onboarding_id, findings)
    if value is None:
        return Table(schema, {}, set())
    if isinstance(value, dict):
        return reader.from_dictionary(value)
    if isinstance(value, list) and schema is not ITEMS:
        return reader.from_list(value)
    wanted = "an object" if schema is ITEMS else "an object or a list"
    reader.refuse_type(schema.member, wanted, value, "")
    return Table(schema, {}, set(), is_readable=False)


class _Reader(Struct, Generic[R], frozen=True):
    """Gives every entity its served id."""

    schema: TableSchema[R]
    onboarding_id: UUID
    findings: Findings

    def from_dictionary(self, values: dict[str, Any]) -> Table[R]:
        entities = self._objects(values)
        read = _read(self.schema, entities)
        has_ids = read.own_ids == list(entities)
        pairs = () if has_ids else zip(entities, read.own_ids, strict=False)
        differing = [key for key, text in pairs if text not in (key, None)]
        packed = None if differing else pack_ids(entities)
        if packed is not None:
            if not has_ids:
                self._add_own_ids(entities, read.names)
            return self._table(entities, read, packed_ids=packed)
        for key in differing:
            self._check_own_id(key, entities[key][self.schema.own_id])
        return self._keyed([(key, key, members) for key, members in entities.items()], listed=False)

    def from_list(self, values: list[Any]) -> Table[R]:
        entities = self._objects({str(index): value for index, value in enumerate(values)})
        return self._keyed(
            [(self._listed_id(step, members), step, members) for step, members in entities.items()],
            listed=True,
        )

    def refuse_type(self, name: str, wanted: str, value: Any, at: str) -> None:
        self.findings.fault(
            Rule.WRONG_TYPE,
            f"{name} must be {wanted}, not {json_type(value)}.",
            f"/{self.schema.member}{at}",
        )

    def _add_own_ids(self, entities: dict[str, Members], names: set[str]) -> None:
        """Add its key as the id to every entity that lacks one."""
        own_id = self.schema.own_id
        is_used = own_id in names
        for key, members in entities.items():
            if not is_used or members.get(own_id) is None:
                members[own_id] = key

    def _objects(self, values: dict[str, Any]) -> dict[str, Members]:
        if set(map(type, values.values())) <= {dict}:
            return values
        noun = self.schema.noun
        for key, value in values.items():
            if not isinstance(value, dict):
                article = "An" if noun[0] in "aeiou" else "A"
                self.refuse_type(f"{article} {noun}", "an object", value, f"/{escape(key)}")
        return {key: value if isinstance(value, dict) else {} for key, value in values.items()}

    def _listed_id(self, step: str, members: Members) -> str:
        """Return the id of a list's entry; one without an id gets one derived from its pointer."""
        own = members.get(self.schema.own_id)
        if isinstance(own, str):
            return own
        if own is not None:
            self._refuse_own_id(own, step)
        return place_id(self.onboarding_id, f"/{self.schema.member}/{step}")

    def _check_own_id(self, key: str, own: Any) -> None:
        if not isinstance(own, str):
            self._refuse_own_id(own, key)
        elif self._served(key) != self._served(own):
            self.findings.fault(
                Rule.ID_DIFFERS,
                f"{self.schema.own_id} {quote(own)} differs from its key {quote(key)}.",
                f"/{self.schema.member}/{escape(key)}/{self.schema.own_id}",
            )

    def _refuse_own_id(self, own: Any, step: str) -> None:
        self.refuse_type(self.schema.own_id, "a string", own, f"/{escape(step)}/{self.schema.own_id}")

    def _keyed(self, entities: list[tuple[str, str, Members]], *, listed: bool) -> Table[R]:
        """Return the table of entities of id, step and members."""
        members: dict[str, Members] = {}
        steps: dict[str, str] = {}
        document_ids: dict[str, str] = {}
        for text, step, own in entities:
            served = self._served(text)
            if served in members:
                self._refuse_repeated(text, step, steps[served], listed=listed)
                continue
            steps[served], document_ids[served] = step, text
            members[served] = self._with_id(own, text, served, step)
        return self._table(members, _read(self.schema, members), steps=steps, document_ids=document_ids)

    def _table(self, members: dict[str, Members], read: "_Read[R]", **facts: Any) -> Table[R]:
        table = Table(self.schema, members, read.names, **facts)
        table.rows = _checked_rows(table, self.findings) if read.rows is None else read.rows
        return table

    def _refuse_repeated(self, text: str, step: str, other: str, *, listed: bool) -> None:
        at = f"/{self.schema.member}/{escape(step)}"
        first = f"/{self.schema.member}/{escape(other)}"
        message = f"The {self.schema.noun} at {first} has the id {quote(text)} already."
        self.findings.fault(Rule.DUPLICATE_ID, message, f"{at}/{self.schema.own_id}" if listed else at)

    def _with_id(self, members: Members, text: str, served: str, step: str) -> Members:
        """Return the members with the served id, and with the document's id as partnerItemId if that is free."""
        own_id = self.schema.own_id
        members = members if members.get(own_id) == served else members | {own_id: served}
        if served == text or is_uuid(text):
            return members
        becomes = (
            "one is derived for each store that serves it, so no two stores have the same"
            if self.onboarding_id == NO_ONBOARDING
            else f"it is served as {served}"
        )
        self.findings.warn(
            Rule.ID_NOT_UUID,
            f"The {self.schema.noun} id {quote(text)} is not a UUID: {becomes}.",
            f"/{self.schema.member}/{escape(step)}",
            of=self.schema.member,
        )
        return members | {"partnerItemId": text} if members.get("partnerItemId") is None else members

    def _served(self, text: str) -> str:
        return served_id(text, onboarding_id=self.onboarding_id, addressed=self.schema.is_addressed)


class _Read(Struct, Generic[R]):
    """The names of all members of entities, the values of their ids (empty if no entity has one), and the rows if all
    values have the right type.
    """

    names: set[str]
    own_ids: list[Any]
    rows: list[R] | None


def _read(schema: TableSchema[R], entities: dict[str, Members]) -> _Read[R]:
    waiting = list(entities.values())
    read: _Read[R] = _Read(set(), [], [])
    for at in range(0, len(waiting), _BATCH):
        some = waiting[at : at + _BATCH]
        read.names.update(*some)
        if schema.own_id in read.names:
            read.own_ids += [None] * (at - len(read.own_ids))
            read.own_ids += [members.get(schema.own_id) for members in some]
        if read.rows is not None:
            rows = _converted(some, schema, read.names)
            if rows is None:
                read.rows = None
            else:
                read.rows += rows
    return read


def _converted(entities: list[Members], schema: TableSchema[R], names: set[str]) -> list[R] | None:
    """Return the rows, None if a value has the wrong type."""
    for name, form in schema.forms.items():
        if form is Form.LIST and name in names:
            values = [members.get(name) for members in entities]
            if not set(map(type, values)) <= form.types:
                return None
    try:
        return msgspec.convert(entities, schema.rows)
    except msgspec.ValidationError:
        return None


# --- faults ---------------------------------------------------------------------------------------


def _checked_rows(table: Table[R], findings: Findings) -> list[R]:
    """Return the rows and report every value of the wrong type, which counts as absent."""
    fields: dict[str, dict[str, Any]] = {key: {} for key in table.members}
    for name, form in table.schema.forms.items():
        for key, members in table.members.items():
            value = members.get(name)
            if value is not None:
                at = f"{table.pointer(key)}/{name}"
                fields[key][table.schema.fields[name]] = _checked(value, form, name, at, findings)
    return [table.schema.row(**values) for values in fields.values()]


def _checked(value: Any, form: Form, name: str, at: str, findings: Findings) -> Any:
    """Return the value if it can be used, else None."""
    if form is Form.PRICE:
        return value
    if form is Form.IDS and isinstance(value, list):
        return list(_checked_ids(value, name, at, findings))
    if type(value) in form.types:
        return value
    if form is Form.WHOLE and isinstance(value, msgspec.Raw):
        whole = _whole(value)
        if whole is None:
            message = f"{name} must be {form.words}, not {quote(bytes(value).decode())}."
            findings.fault(Rule.WRONG_TYPE, message, at)
        return whole
    findings.fault(Rule.WRONG_TYPE, f"{name} must be {form.words}, not {json_type(value)}.", at)
    return None


def _checked_ids(values: list[Any], name: str, at: str, findings: Findings) -> Iterator[str]:
    for index, value in enumerate(values):
        if isinstance(value, str):
            yield value
        else:
            message = f"{name} must list ids as strings, not {json_type(value)}."
            findings.fault(Rule.WRONG_TYPE, message, f"{at}/{index}")
            yield NotAnId(f"{at}/{index}")


def _whole(value: msgspec.Raw) -> int | None:
    """Return the integer of a number with a point or an exponent, such as `2.0`; None if it isn't one."""
    number = float(bytes(value))
    return int(number) if abs(number) <= _EXACT and number.is_integer() else None
