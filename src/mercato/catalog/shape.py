"""Whether the members that mean something have the type they must have.

A column is judged by the set of its types; only one that holds a wrong type is looked at value by value.
"""

from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import msgspec

from mercato.catalog.findings import Findings
from mercato.catalog.money import shown
from mercato.catalog.rules import Rule
from mercato.catalog.source import Form, Members, Table

_AT_ONCE: Final = 512
"""Rows that are looked at once: all of their columns, before they leave the processor's cache."""

_EXACT: Final = 2**53
"""Up to here a double holds every integer exactly."""


def read_columns(table: Table, findings: Findings) -> None:
    """Give the table its columns, having noted every value of the wrong type."""
    rows = list(table.members.values())
    wanted = [name for name in table.kind.forms if name in table.used]
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    types: dict[str, set[type]] = {name: set() for name in wanted}
    for some in at_once(rows):
        for name in wanted:
            values = _column(some, name)
            types[name].update(map(type, values))
            columns[name] += values
    for name in wanted:
        form, column = table.kind.forms[name], columns[name]
        right = types[name] <= form.types and (form is not Form.IDS or _are_ids(column))
        table.put(name, column if right else _mended(table, name, column, form, findings))


def at_once(rows: list[Members]) -> Iterator[list[Members]]:
    """Yield a few rows after the other, of which all that is asked is asked at once."""
    for at in range(0, len(rows), _AT_ONCE):
        yield rows[at : at + _AT_ONCE]


def _column(rows: list[Members], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def said(value: Any) -> str:
    """Return what kind of JSON value it is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    words: dict[type, str] = {str: "a string", dict: "an object", list: "a list"}
    return words.get(type(value), "a number")


def as_object(value: Any, noun: str, at: str, findings: Findings) -> Members:
    """Return the object's members; what is no object is noted, and has none."""
    if isinstance(value, dict):
        return value
    findings.fault(Rule.WRONG_TYPE, f"{_article(noun)} {noun} must be an object, not {said(value)}.", at)
    return {}


def _article(noun: str) -> str:
    return "An" if noun[0] in "aeiou" else "A"


def _are_ids(column: list[Any]) -> bool:
    return set(map(type, chain.from_iterable(filter(None, column)))) <= {str}


def _mended(table: Table, name: str, column: list[Any], form: Form, findings: Findings) -> list[Any]:
    return [
        value
        if type(value) in form.types and form is not Form.IDS
        else _one(value, form, table, key, name, findings)
        for key, value in zip(table.members, column, strict=True)
    ]


def _one(value: Any, form: Form, table: Table, key: str, name: str, findings: Findings) -> Any:
    """Return the value if it can be used after all, else None."""
    at = f"{table.pointer(key)}/{name}"
    if form is Form.IDS and isinstance(value, list):
        return _ids(value, name, at, findings)
    if form is Form.WHOLE and isinstance(value, msgspec.Raw):
        whole = _whole(value)
        if whole is None:
            findings.fault(
                Rule.WRONG_TYPE, f"{name} must be {form.words}, not {shown(bytes(value).decode())}.", at
            )
        return whole
    if value is not None:
        findings.fault(Rule.WRONG_TYPE, f"{name} must be {form.words}, not {said(value)}.", at)
    return None


def _ids(values: list[Any], name: str, at: str, findings: Findings) -> list[Any]:
    """Return the ids; None stands for what is none, so that the others keep their places."""
    for index, value in enumerate(values):
        if not isinstance(value, str):
            findings.fault(
                Rule.WRONG_TYPE, f"{name} must list ids as strings, not {said(value)}.", f"{at}/{index}"
            )
    return [value if isinstance(value, str) else None for value in values]


def _whole(value: msgspec.Raw) -> int | None:
    """Return the integer that a number with a point or an exponent is: `2.0` is one."""
    number = float(bytes(value))
    return int(number) if abs(number) <= _EXACT and number.is_integer() else None
