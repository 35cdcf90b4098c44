"""A menu as its rows say it, and the CatalogSet that is made of it."""

from collections.abc import Container, Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from mercato_catalog.model import Windows
from mercato_catalog.validation.document import CatalogRow, GroupRow, ItemRow, SectionRow
from mercato_contract.money import minor_to_decimal
from mercato_contract.wire import Wire
from mercato_tools.imports.draft import Draft, Ref, windows_of
from mercato_tools.imports.spreadsheets.cells import fold
from mercato_tools.imports.spreadsheets.ids import KnownItem, derive_keys, keep_ids

SOURCE: Final = "csv"
"""What the ids of spreadsheets are derived from, beside names: a CSV file and a workbook give the same ones."""

MAX_SHOWN: Final = 300
"""Items of a summary."""


class Option(Struct, frozen=True):
    """A row of a group. `price` is in minor units."""

    name: str
    price: int
    row: int


class Group(Struct):
    """A group of choices; `counts` are those of its columns that are filled in."""

    name: str
    row: int
    counts: dict[str, int] = field(default_factory=dict)
    options: dict[str, Option] = field(default_factory=dict)


class Section(Struct):
    """A section of the menu."""

    name: str
    row: int
    description: str | None = None
    image: str | None = None


class Item(Struct, frozen=True, kw_only=True):
    """A row with an item. `groups` are keys; `price` is in minor units."""

    name: str
    description: str | None
    price: int
    groups: Sequence[str]
    available: bool
    image: str | None
    row: int


class SheetItem(Wire):
    """An item that was read, for a person to check."""

    section: str
    name: str
    price: str
    groups: tuple[str, ...]
    available: bool


class SheetSummary(Wire):
    """What was read: the counts of all, and the first items."""

    currency: str
    sections: int
    items: int
    groups: int
    options: int
    shown: Annotated[tuple[SheetItem, ...], Meta(max_length=MAX_SHOWN)]


class Menu(Struct):
    """Sections, groups and items by their names as compared: an item by its section's and its own."""

    sections: dict[str, Section] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    items: dict[tuple[str, str], Item] = field(default_factory=dict)

    def fill(
        self,
        draft: Draft,
        *,
        sheet: str,
        choices: str,
        hours: Windows | None,
        previous: Sequence[KnownItem] = (),
    ) -> None:
        """Add everything to the draft. `sheet` and `choices` are the names of the sheets, for losses.

        Items of the previous menu keep their ids.
        """
        offered: set[str] = set()
        for key, group in self.groups.items():
            offered.update(draft.id_of_item(one.to) for one in _fill_group(draft, key, group, f"/{choices}"))
        below = self._fill_items(draft, f"/{sheet}", self._item_keys(draft, previous, offered))
        for key, section in self.sections.items():
            of_section = SectionRow(
                name=section.name, description=section.description, image_url=section.image
            )
            draft.section(key, of_section, below[key], at=f"/{sheet}/{section.row}")
        listed = [Ref(key, f"/{sheet}") for key in self.sections]
        row = CatalogRow(name="Menu", availability=None if hours is None else windows_of(hours))
        draft.catalog("catalog", row, listed, at=f"/{sheet}")

    def _item_keys(
        self, draft: Draft, previous: Sequence[KnownItem], offered: Container[str]
    ) -> dict[tuple[str, str], str]:
        """Return the keys of the items. `offered` are the ids of the options, which no item gets."""
        places = {key: (fold(self.sections[key[0]].name), key[1]) for key in self.items}
        kept = keep_ids(list(places.values()), previous, taken=offered)
        derived = derive_keys(list(places.values()), kept, id_of=draft.id_of_item)
        keys = {}
        for key, place in places.items():
            keys[key] = derived.get(place) or f"kept:{place[0]}\n{place[1]}"
            if place in kept:
                draft.item_ids[keys[key]] = kept[place]
        return keys

    def _fill_items(self, draft: Draft, at: str, keys: Mapping[tuple[str, str], str]) -> dict[str, list[Ref]]:
        """Add the items by their keys; return those of each section."""
        below: dict[str, list[Ref]] = {key: [] for key in self.sections}
        for (section, name), item in self.items.items():
            key = keys[section, name]
            row = ItemRow(
                name=item.name,
                description=item.description,
                image_url=item.image,
                base_price=item.price,
                is_available=item.available,
            )
            groups = [Ref(group, f"{at}/{item.row}/choices") for group in item.groups]
            draft.item(key, row, groups, at=f"{at}/{item.row}")
            below[section].append(Ref(key, f"{at}/{item.row}"))
        return below

    def summary(self, currency: str, scale: int) -> SheetSummary:
        """Return the counts, and the first items."""
        shown = [
            SheetItem(
                section=self.sections[section].name,
                name=item.name,
                price=minor_to_decimal(item.price, scale),
                groups=tuple(self.groups[group].name for group in item.groups),
                available=item.available,
            )
            for (section, _), item in list(self.items.items())[:MAX_SHOWN]
        ]
        return SheetSummary(
            currency=currency,
            sections=len(self.sections),
            items=len(self.items),
            groups=len(self.groups),
            options=sum(len(group.options) for group in self.groups.values()),
            shown=tuple(shown),
        )


def _fill_group(draft: Draft, key: str, group: Group, at: str) -> list[Ref]:
    """Add a group and its options, and return them."""
    choices = []
    for name, option in group.options.items():
        ref = Ref(f"option:{key}\n{name}", f"{at}/{option.row}")
        draft.item(ref.to, ItemRow(name=option.name, base_price=option.price), at=ref.at)
        choices.append(ref)
    row = GroupRow(
        name=group.name,
        minimum_allowed=group.counts.get("minimum"),
        maximum_allowed=group.counts.get("maximum"),
        free_quantity=group.counts.get("free"),
    )
    draft.group(key, row, choices, at=f"{at}/{group.row}")
    return choices
