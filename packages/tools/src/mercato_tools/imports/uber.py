"""Menus of Uber Eats, in the form of its Menu API: menus, categories, items and modifier groups, each a list."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mercato_catalog.model import DAYS
from mercato_catalog.validation.document import CatalogRow, GroupRow, ItemRow, SectionRow
from mercato_tools.imports.draft import (
    Draft,
    ImportOptions,
    Ref,
    Shape,
    Window,
    refs,
    translate,
    windows,
)

_DAYS: Final = {name.lower(): index for index, name in enumerate(DAYS)}
_IN_GROUP: Final = "MODIFIER_GROUP"


class Text(Shape):
    """A text in several languages."""

    translations: dict[str, str] | None = None


class TimePeriod(Shape):
    start_time: str
    end_time: str


class ServiceDay(Shape):
    day_of_week: str
    time_periods: list[TimePeriod] | None = None


class Menu(Shape):
    id: str
    title: Text | None = None
    subtitle: Text | None = None
    service_availability: list[ServiceDay] | None = None
    category_ids: list[str] | None = None


class Entity(Shape):
    id: str
    type: str | None = None


class Category(Shape):
    id: str
    title: Text | None = None
    subtitle: Text | None = None
    entities: list[Entity] | None = None


class PriceOverride(Shape):
    context_type: str
    context_value: str
    price: int | None = None


class PriceInfo(Shape):
    price: int | None = None
    overrides: list[PriceOverride] | None = None


class Quantity(Shape):
    min_permitted: int | None = None
    max_permitted: int | None = None
    charge_above: int | None = None


class QuantityOverride(Shape):
    context_type: str
    context_value: str
    quantity: Quantity | None = None


class QuantityInfo(Shape):
    quantity: Quantity | None = None
    overrides: list[QuantityOverride] | None = None


class Suspension(Shape):
    suspend_until: int | None = None


class SuspensionInfo(Shape):
    suspension: Suspension | None = None


class GroupIds(Shape):
    ids: list[str] | None = None


class Item(Shape):
    id: str
    title: Text | None = None
    description: Text | None = None
    image_url: str | None = None
    price_info: PriceInfo | None = None
    quantity_info: QuantityInfo | None = None
    suspension_info: SuspensionInfo | None = None
    modifier_group_ids: GroupIds | None = None


class ModifierGroup(Shape):
    id: str
    title: Text | None = None
    quantity_info: QuantityInfo | None = None
    modifier_options: list[Entity] | None = None


class Menus(Shape, kw_only=True):
    """The whole document."""

    menus: list[Menu] | None = None
    categories: list[Category] | None = None
    items: list[Item]
    modifier_groups: list[ModifierGroup] | None = None


IGNORED: Final = frozenset({"menu_type"})


def shape_of(_untyped: object) -> type[Menus]:
    return Menus


def currency_of(_document: Menus) -> None:
    """Return None: a menu names no currency."""


def fill(document: Menus, draft: Draft, options: ImportOptions) -> None:
    reader = _Reader(draft, options)
    for index, menu in enumerate(document.menus or ()):
        reader.menu(menu, f"/menus/{index}")
    for index, category in enumerate(document.categories or ()):
        reader.category(category, f"/categories/{index}")
    maximums: dict[str, dict[str, int]] = defaultdict(dict)
    for index, item in enumerate(document.items):
        reader.item(item, f"/items/{index}", maximums)
    for index, group in enumerate(document.modifier_groups or ()):
        reader.group(group, f"/modifier_groups/{index}", maximums.get(group.id, {}))


class _Reader(Struct, frozen=True):
    draft: Draft
    options: ImportOptions

    def _text(self, text: Text | None, at: str) -> str | None:
        found = (text.translations if text is not None else None) or {}
        return translate(found, f"{at}/translations", self.options, self.draft.losses)

    def menu(self, menu: Menu, at: str) -> None:
        row = CatalogRow(
            name=self._text(menu.title, f"{at}/title"),
            description=self._text(menu.subtitle, f"{at}/subtitle"),
            availability=self._hours(menu.service_availability, f"{at}/service_availability"),
        )
        self.draft.catalog(menu.id, row, refs(menu.category_ids, f"{at}/category_ids"), at=at)

    def _hours(self, days: Sequence[ServiceDay] | None, at: str) -> list[Window] | None:
        if days is None:
            return None
        found: list[Window] = []
        for index, day in enumerate(days):
            number = _DAYS.get(day.day_of_week.lower())
            if number is None:
                self.draft.losses.dropped(f"{at}/{index}/day_of_week", "This isn't a day of the week.")
                continue
            for place, period in enumerate(day.time_periods or ()):
                where = f"{at}/{index}/time_periods/{place}"
                found += windows(number, period.start_time, period.end_time, where, self.draft.losses)
        return found

    def category(self, category: Category, at: str) -> None:
        row = SectionRow(
            name=self._text(category.title, f"{at}/title"),
            description=self._text(category.subtitle, f"{at}/subtitle"),
        )
        self.draft.section(category.id, row, _entities(category.entities, f"{at}/entities"), at=at)

    def item(self, item: Item, at: str, maximums: dict[str, dict[str, int]]) -> None:
        price, quantity = item.price_info or PriceInfo(), item.quantity_info or QuantityInfo()
        self._prices(item, price, f"{at}/price_info/overrides")
        self._maximums(item, quantity, f"{at}/quantity_info/overrides", maximums)
        own = quantity.quantity or Quantity()
        self._check_quantity(own, f"{at}/quantity_info/quantity")
        groups = item.modifier_group_ids or GroupIds()
        row = ItemRow(
            name=self._text(item.title, f"{at}/title"),
            description=self._text(item.description, f"{at}/description"),
            image_url=item.image_url or None,
            base_price=price.price,
            partner_item_id=item.id,
            is_available=self._available(item.suspension_info, f"{at}/suspension_info/suspension"),
            maximum_quantity=own.max_permitted,
        )
        self.draft.item(item.id, row, refs(groups.ids, f"{at}/modifier_group_ids/ids"), at=at)

    def _prices(self, item: Item, price: PriceInfo, at: str) -> None:
        for index, entry in enumerate(price.overrides or ()):
            if entry.context_type != _IN_GROUP:
                self.draft.losses.dropped(f"{at}/{index}", "Prices can differ only by modifier group.")
            elif entry.price is not None:
                self.draft.override(entry.context_value, item.id, entry.price, f"{at}/{index}/price")

    def _maximums(
        self, item: Item, quantity: QuantityInfo, at: str, maximums: dict[str, dict[str, int]]
    ) -> None:
        """Collect the item's maximum by group."""
        for index, entry in enumerate(quantity.overrides or ()):
            of_choice = entry.quantity or Quantity()
            if entry.context_type != _IN_GROUP:
                self.draft.losses.dropped(f"{at}/{index}", "Quantities can differ only by modifier group.")
                continue
            self._check_quantity(of_choice, f"{at}/{index}/quantity")
            if of_choice.max_permitted is not None:
                maximums[entry.context_value][item.id] = of_choice.max_permitted

    def _check_quantity(self, quantity: Quantity, at: str) -> None:
        if quantity.min_permitted:
            self.draft.losses.dropped(f"{at}/min_permitted", "Only modifier groups have a minimum.")
        if quantity.charge_above:
            self.draft.losses.dropped(f"{at}/charge_above", "Only modifier groups have free units.")

    def _available(self, info: SuspensionInfo | None, at: str) -> bool:
        suspension = None if info is None else info.suspension
        until = None if suspension is None else suspension.suspend_until
        if not until or until <= self.options.now.timestamp():
            return True
        self.draft.losses.approximated(
            at, "It is sold out without an end. Set the end with item availability."
        )
        return False

    def group(self, group: ModifierGroup, at: str, maximums: dict[str, int]) -> None:
        quantity = (group.quantity_info or QuantityInfo()).quantity or Quantity()
        options = group.modifier_options or []
        for index, _ in enumerate((group.quantity_info or QuantityInfo()).overrides or ()):
            self.draft.losses.dropped(
                f"{at}/quantity_info/overrides/{index}",
                "A modifier group has the same rules for every item.",
            )
        if quantity.charge_above:
            self.draft.losses.approximated(
                f"{at}/quantity_info/quantity/charge_above",
                "The cheapest units are free, not the first ones.",
            )
        row = GroupRow(
            name=self._text(group.title, f"{at}/title"),
            minimum_allowed=quantity.min_permitted,
            maximum_allowed=quantity.max_permitted,
            maximum_per_item=self._per_item(options, maximums, at),
            free_quantity=quantity.charge_above,
        )
        self.draft.group(group.id, row, _entities(options, f"{at}/modifier_options"), at=at)

    def _per_item(self, options: Sequence[Entity], maximums: dict[str, int], at: str) -> int | None:
        counts = [maximums.get(option.id) for option in options]
        known = [count for count in counts if count is not None]
        if not known:
            return None
        if len(known) == len(counts) and len(set(known)) == 1:
            return known[0]
        self.draft.losses.approximated(
            at, "All choices of a group have the same maximum: the largest is kept."
        )
        return max(known) if len(known) == len(counts) else None


def _entities(entities: Sequence[Entity] | None, at: str) -> list[Ref]:
    return refs([entity.id for entity in entities or ()], at)
