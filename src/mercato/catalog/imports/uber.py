"""Menus of Uber Eats, as its Menu API takes them: menus, categories, items and modifier groups, each a list."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from mercato.catalog.hours import DAYS
from mercato.catalog.imports.draft import Draft, Ref
from mercato.catalog.imports.hours import Window, windows
from mercato.catalog.imports.source import Asked, Format, Shape, translated

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


def _fill(document: Menus, draft: Draft, asked: Asked) -> None:
    reader = _Reader(draft, asked)
    for index, menu in enumerate(document.menus or ()):
        reader.menu(menu, f"/menus/{index}")
    for index, category in enumerate(document.categories or ()):
        reader.category(category, f"/categories/{index}")
    most: dict[str, dict[str, int]] = defaultdict(dict)
    for index, item in enumerate(document.items):
        reader.item(item, f"/items/{index}", most)
    for index, group in enumerate(document.modifier_groups or ()):
        reader.group(group, f"/modifier_groups/{index}", most.get(group.id, {}))


class _Reader:
    def __init__(self, draft: Draft, asked: Asked) -> None:
        self._draft = draft
        self._asked = asked
        self._losses = draft.losses

    def _text(self, text: Text | None, at: str) -> str | None:
        found = (text.translations if text is not None else None) or {}
        return translated(found, f"{at}/translations", self._asked, self._losses)

    def menu(self, menu: Menu, at: str) -> None:
        self._draft.catalog(
            menu.id,
            at=at,
            name=self._text(menu.title, f"{at}/title"),
            description=self._text(menu.subtitle, f"{at}/subtitle"),
            sections=_refs(menu.category_ids, f"{at}/category_ids"),
            windows=self._hours(menu.service_availability, f"{at}/service_availability"),
        )

    def _hours(self, days: Sequence[ServiceDay] | None, at: str) -> list[Window] | None:
        if days is None:
            return None
        found: list[Window] = []
        for index, day in enumerate(days):
            number = _DAYS.get(day.day_of_week.lower())
            if number is None:
                self._losses.dropped(f"{at}/{index}/day_of_week", "This is no day of the week.")
                continue
            for place, period in enumerate(day.time_periods or ()):
                where = f"{at}/{index}/time_periods/{place}"
                found += windows(number, period.start_time, period.end_time, where, self._losses)
        return found

    def category(self, category: Category, at: str) -> None:
        self._draft.section(
            category.id,
            at=at,
            name=self._text(category.title, f"{at}/title"),
            description=self._text(category.subtitle, f"{at}/subtitle"),
            items=_entities(category.entities, f"{at}/entities"),
        )

    def item(self, item: Item, at: str, most: dict[str, dict[str, int]]) -> None:
        price, quantity = item.price_info or PriceInfo(), item.quantity_info or QuantityInfo()
        self._prices(item, price, f"{at}/price_info/overrides")
        self._most_in_groups(item, quantity, f"{at}/quantity_info/overrides", most)
        own = quantity.quantity or Quantity()
        if own.min_permitted:
            self._losses.dropped(f"{at}/quantity_info/quantity/min_permitted", "An item has no minimum.")
        if own.charge_above:
            self._losses.dropped(f"{at}/quantity_info/quantity/charge_above", "Only groups have free units.")
        groups = item.modifier_group_ids or GroupIds()
        self._draft.item(
            item.id,
            at=at,
            name=self._text(item.title, f"{at}/title"),
            description=self._text(item.description, f"{at}/description"),
            image=item.image_url or None,
            price=price.price,
            partner_id=item.id,
            available=self._available(item.suspension_info, f"{at}/suspension_info/suspension"),
            maximum=own.max_permitted,
            groups=_refs(groups.ids, f"{at}/modifier_group_ids/ids"),
        )

    def _prices(self, item: Item, price: PriceInfo, at: str) -> None:
        for index, one in enumerate(price.overrides or ()):
            if one.context_type != _IN_GROUP:
                self._losses.dropped(
                    f"{at}/{index}", "A price depends on nothing but the group it is chosen in."
                )
            elif one.price is not None:
                self._draft.override(one.context_value, item.id, one.price, f"{at}/{index}/price")

    def _most_in_groups(
        self, item: Item, quantity: QuantityInfo, at: str, most: dict[str, dict[str, int]]
    ) -> None:
        for index, one in enumerate(quantity.overrides or ()):
            its = one.quantity or Quantity()
            if one.context_type != _IN_GROUP:
                self._losses.dropped(
                    f"{at}/{index}", "A quantity depends on nothing but the group it is chosen in."
                )
                continue
            if its.min_permitted:
                self._losses.dropped(f"{at}/{index}/quantity/min_permitted", "A choice has no minimum.")
            if its.charge_above:
                self._losses.dropped(f"{at}/{index}/quantity/charge_above", "Only groups have free units.")
            if its.max_permitted is not None:
                most[one.context_value][item.id] = its.max_permitted

    def _available(self, info: SuspensionInfo | None, at: str) -> bool:
        suspension = None if info is None else info.suspension
        until = None if suspension is None else suspension.suspend_until
        if not until or until <= self._asked.now.timestamp():
            return True
        self._losses.approximated(at, "It is sold out, but not until when: use item availability for that.")
        return False

    def group(self, group: ModifierGroup, at: str, most: dict[str, int]) -> None:
        quantity = (group.quantity_info or QuantityInfo()).quantity or Quantity()
        options = group.modifier_options or []
        for index, _ in enumerate((group.quantity_info or QuantityInfo()).overrides or ()):
            self._losses.dropped(
                f"{at}/quantity_info/overrides/{index}",
                "A group's rules are the same wherever it is offered.",
            )
        if quantity.charge_above:
            self._losses.approximated(
                f"{at}/quantity_info/quantity/charge_above",
                "The cheapest units are free, not the first ones.",
            )
        self._draft.group(
            group.id,
            at=at,
            name=self._text(group.title, f"{at}/title"),
            choices=_entities(options, f"{at}/modifier_options"),
            minimum=quantity.min_permitted,
            maximum=quantity.max_permitted,
            per_item=self._per_item(options, most, at),
            free=quantity.charge_above,
        )

    def _per_item(self, options: Sequence[Entity], most: dict[str, int], at: str) -> int | None:
        counts = [most.get(one.id) for one in options]
        known = [count for count in counts if count is not None]
        if not known:
            return None
        if len(known) == len(counts) and len(set(known)) == 1:
            return known[0]
        self._losses.approximated(
            at, "How many of one choice may be taken is the same for all: the most is kept."
        )
        return max(known) if len(known) == len(counts) else None


def _refs(keys: Sequence[str] | None, at: str) -> list[Ref]:
    return [Ref(key, f"{at}/{index}") for index, key in enumerate(keys or ())]


def _entities(entities: Sequence[Entity] | None, at: str) -> list[Ref]:
    return [Ref(one.id, f"{at}/{index}") for index, one in enumerate(entities or ())]


def _no_currency(_document: Any) -> None:
    return None


FORMAT: Final = Format(
    name="uber",
    shape_of=lambda _untyped: Menus,
    currency_of=_no_currency,
    fill=_fill,
    idle=frozenset({"menu_type"}),
)
