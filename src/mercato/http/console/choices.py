"""The modifier groups of an item as fields of a form, and the form's fields as the modifiers of a line.

A field's name is the path of ids to its choice, so that a form that was made from another catalog can't be misread.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from mercato.domain.catalog.menu import rule
from mercato.domain.catalog.model import CompiledCatalog, CompiledGroup, Key
from mercato.domain.catalog.money import minor_to_decimal

MAX_CHOICES: Final = 200
"""Choices of an item that a page shows, those of choices among them: as many as a cart may have lines."""

MAX_LEVELS: Final = 4
"""Levels of choices that a page shows."""

_PREFIX: Final = "choice"


class Choice(Struct, frozen=True):
    """One choice: a radio button or checkbox with `value`, or a number of units. `price` is a decimal."""

    field: str
    kind: str
    value: str
    checked: bool
    name: str
    price: str
    available: bool
    groups: "Sequence[Group]" = ()


class Group(Struct, frozen=True):
    """A modifier group, its rule in words, and its choices."""

    name: str
    rule: str
    choices: Sequence[Choice]
    is_whole: bool = True


class ChoiceForm(Struct, frozen=True):
    """The choices of one catalog's items. `sold_out` are items, `fields` what a form was sent with."""

    catalog: CompiledCatalog
    sold_out: frozenset[Key]
    fields: Mapping[str, str]

    def groups(self, item_id: UUID) -> Sequence[Group]:
        """Return the groups of an item as they are shown."""
        return self._groups(item_id.int, _PREFIX, iter(range(MAX_CHOICES)), MAX_LEVELS)

    def _groups(self, item: Key, path: str, numbers: Iterator[int], levels: int) -> Sequence[Group]:
        found = []
        for key, group in self._groups_of(item, path, levels):
            below = f"{path}/{key}"
            # Taking a number bounds what the page shows of all groups together.
            shown = [
                self._choice(group, item_key, price, below, numbers, levels)
                for (item_key, price), _ in zip(group.choices.items(), numbers, strict=False)
            ]
            found.append(Group(group.name, rule(group), shown, len(shown) == len(group.choices)))
        return found

    def _groups_of(self, item: Key, path: str, levels: int) -> Iterator[tuple[UUID, CompiledGroup]]:
        """Yield the groups of an item, none of those that it is a choice of: choices can be their own."""
        if levels:
            for key in self.catalog.items[item].groups:
                if str(UUID(int=key)) not in path:
                    yield UUID(int=key), self.catalog.groups[key]

    def _choice(
        self, group: CompiledGroup, item: Key, price: int, path: str, numbers: Iterator[int], levels: int
    ) -> Choice:
        kind, entry = kind_of(group), self.catalog.items[item]
        field = path if kind == "radio" else f"{path}/{UUID(int=item)}"
        value = str(UUID(int=item)) if kind == "radio" else "1"
        sent = self.fields.get(field)
        first = kind == "radio" and sent is None and item == next(iter(group.choices))
        return Choice(
            field=field,
            kind=kind,
            value=(sent or "0") if kind == "number" else value,
            checked=first or sent == value,
            name=entry.name,
            price=minor_to_decimal(price, self.catalog.scale),
            available=entry.available and item not in self.sold_out,
            groups=self._groups(item, f"{path}/{UUID(int=item)}", numbers, levels - 1),
        )

    def modifiers(self, item_id: UUID) -> list[dict[str, Any]]:
        """Return the `modifierGroups` of a line with what the form was sent with."""
        if item_id.int not in self.catalog.items:
            return []
        return self._modifiers(item_id.int, _PREFIX, MAX_LEVELS)

    def _modifiers(self, item: Key, path: str, levels: int) -> list[dict[str, Any]]:
        found = []
        for key, group in self._groups_of(item, path, levels):
            below = f"{path}/{key}"
            lines = [
                {
                    "itemId": str(UUID(int=one)),
                    "quantity": units,
                    "modifierGroups": self._modifiers(one, f"{below}/{UUID(int=one)}", levels - 1),
                }
                for one in group.choices
                if (units := self._units(group, one, below)) != 0
            ]
            if lines:
                found.append({"modifierGroupId": str(key), "lineItems": lines})
        return found

    def _units(self, group: CompiledGroup, item: Key, path: str) -> int | str:
        if kind_of(group) == "radio":
            return int(self.fields.get(path) == str(UUID(int=item)))
        return number_of(self.fields.get(f"{path}/{UUID(int=item)}", "0"))


def number_of(text: str) -> int | str:
    """Return the number in a field, or the text as it is: the API says what is wrong with it."""
    digits = text.strip().removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else text  # noqa: PLR2004  # 64 bits


def kind_of(group: CompiledGroup) -> str:
    """Return the type of the inputs of a group: exactly one choice, each at most once, or numbers of units."""
    if group.maximum == 1:
        return "radio" if group.minimum == 1 else "checkbox"
    return "checkbox" if group.maximum_per_item == 1 else "number"
