"""Which names of a menu agents can order by, and what is wrong with the others. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from mercato_catalog.carts.names import Names, is_listed, names_of, shown
from mercato_catalog.model import CompiledCatalog, CompiledGroup, Finding, Key
from mercato_catalog.validation.document import R, Table
from mercato_catalog.validation.findings import Findings, Rule
from mercato_catalog.validation.validate import validate
from mercato_contract.carts import MAX_DEPTH
from mercato_contract.ordering import MAX_NAME
from mercato_contract.texts import as_data, is_blank

_NAMED: Final = 3
"""Others of the same name that a message has."""


class NameFindings(Struct, frozen=True):
    """The warnings of a menu's names. `items` are sold by themselves, `by_name` of them can be ordered by name.

    The latter are those whose name fits nothing else and whose required choices have such names, too. `count` is that
    of all warnings, also of those that a list left out.
    """

    warnings: tuple[Finding, ...]
    count: int
    items: int
    by_name: int


def check_names(
    document: bytes, catalog: CompiledCatalog, *, onboarding_id: UUID, default_currency: str
) -> NameFindings:
    """Return what agents would make of the names of a valid document, whose compiled form is `catalog`."""
    valid, _ = validate(document, onboarding_id=onboarding_id, default_currency=default_currency)
    assert valid is not None, "the document is valid"
    source, names, findings = valid.source, names_of(catalog, {}), Findings()
    items, groups = _Things(source.items, catalog.items), _Things(source.groups, catalog.groups)
    listed = [key for key, item in catalog.items.items() if is_listed(item, catalog)]
    named = dict.fromkeys([*listed, *(key for group in catalog.groups.values() for key in group.choices)])
    _warn_shared("of the menu", listed, names.item_names, items, findings)
    for key, group in catalog.groups.items():
        owner = f"of the modifier group {groups.label(key)}"
        _warn_shared(owner, list(group.choices), names.item_names, items, findings)
    for key, item in catalog.items.items():
        if len(item.groups) > 1:
            owner = f"of the item {items.label(key)}"
            _warn_shared(owner, list(dict.fromkeys(item.groups)), names.group_names, groups, findings)
    for things, keys, normal in (
        (items, named, names.item_names),
        (groups, catalog.groups, names.group_names),
    ):
        _warn_unusual(things, keys, normal, findings)
    choosing = _Choosing(names, listed)
    by_name = sum(choosing.is_named(key) and choosing.can_choose(key, 0) for key in listed)
    return NameFindings(findings.warnings(), findings.warning_count, len(listed), by_name)


class _Things:
    """The items or the modifier groups of a document, by the keys of their compiled form."""

    def __init__(self, table: Table[R], compiled: Mapping[Key, object]) -> None:
        self._served = dict(zip(compiled, table.members, strict=True))
        self._names = dict(zip(compiled, table.names(), strict=True))
        self.noun = table.schema.noun
        self._label: Callable[[str], str] = table.label
        self._pointer: Callable[[str], str] = table.pointer

    def name(self, key: Key) -> str:
        return self._names[key]

    def label(self, key: Key) -> str:
        return self._label(self._served[key])

    def pointer(self, key: Key) -> str:
        """Return the pointer to the name."""
        return f"{self._pointer(self._served[key])}/name"


def _warn_shared(
    owner: str, keys: Sequence[Key], normal: Mapping[Key, str], things: _Things, findings: Findings
) -> None:
    """Warn of things of one owner whose names are the same."""
    by_name: dict[str, list[Key]] = {}
    for key in keys:
        if normal[key]:
            by_name.setdefault(normal[key], []).append(key)
    for alike in by_name.values():
        for key in alike if len(alike) > 1 else ():
            others = [other for other in alike[: _NAMED + 1] if other != key][:_NAMED]
            more = len(alike) - 1 - len(others)
            listed = ", ".join(map(things.label, others)) + (f" and {more} more" if more else "")
            message = f"The {things.noun} {things.label(key)} shares its name with others {owner}: {listed}."
            findings.warn(Rule.SHARED_NAME, message, things.pointer(key), of=things.noun)


def _warn_unusual(
    things: _Things, keys: Iterable[Key], normal: Mapping[Key, str], findings: Findings
) -> None:
    """Warn of names without a word, of long ones, and of those that aren't seen as they are written."""
    for key in keys:
        name, pointer = things.name(key), things.pointer(key)
        subject = f"The {things.noun} {things.label(key)}"
        if is_blank(name):
            continue  # every check warns of it
        if not normal[key]:
            message = f"{subject} has a name without a letter or digit."
            findings.warn(Rule.WORDLESS_NAME, message, pointer, of=things.noun)
        whole = as_data(name, most=len(name) or 1)
        if len(whole) > MAX_NAME:
            message = (
                f"{subject} has a name of {len(whole)} characters. Agents see it cut after {MAX_NAME - 1}."
            )
            findings.warn(Rule.LONG_NAME, message, pointer, of=things.noun)
        if whole != " ".join(name.split()):
            message = f"{subject} has characters in its name that nobody sees, or that change its direction."
            findings.warn(Rule.UNSEEN_CHARACTERS, message, pointer, of=things.noun)


class _Choosing:
    """Finds whether names lead to a thing and to no other.

    A name that several have is never looked up: of a menu whose items have one name that would take its square.
    """

    def __init__(self, names: Names, listed: Sequence[Key]) -> None:
        self._names = names
        self._catalog = names.catalog
        self._listed = self._counted(listed)
        self._found: dict[Key, bool] = {}
        self._options: dict[Key, list[Key]] = {}

    def is_named(self, key: Key) -> bool:
        """Return whether the name of an item that is sold by itself fits that item alone."""
        if self._listed[self._names.item_names[key]] > 1:
            return False
        return list(self._names.find_items(shown(self._catalog.items[key].name))) == [key]

    def can_choose(self, key: Key, depth: int) -> bool:
        """Return whether each required group of an item, and an option of it, can be named, at every depth."""
        if depth > MAX_DEPTH:
            return False
        if key not in self._found:
            item = self._catalog.items[key]
            self._found[key] = all(
                self._can_choose_from(group, key, depth)
                for group in dict.fromkeys(item.groups)
                if self._catalog.groups[group].minimum > 0
            )
        return self._found[key]

    def _can_choose_from(self, group_key: Key, key: Key, depth: int) -> bool:
        group, item = self._catalog.groups[group_key], self._catalog.items[key]
        if list(self._names.find_groups(shown(group.name), item)) != [group_key]:
            return False
        if group_key not in self._options:
            self._options[group_key] = list(self._named_options(group))
        return any(self.can_choose(option, depth + 1) for option in self._options[group_key])

    def _named_options(self, group: CompiledGroup) -> Iterator[Key]:
        """Yield the options of a group whose names fit nothing else in it."""
        count = self._counted(group.choices)
        for option in group.choices:
            if count[self._names.item_names[option]] == 1:
                fits = self._names.find_options(shown(self._catalog.items[option].name), group)
                if list(fits) == [option]:
                    yield option

    def _counted(self, keys: Iterable[Key]) -> Counter[str]:
        return Counter(map(self._names.item_names.__getitem__, keys))
