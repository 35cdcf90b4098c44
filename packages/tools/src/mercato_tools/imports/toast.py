"""Menus of Toast, as its menus API (V2) returns them: menus with groups of items, and modifiers by reference."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from mercato_catalog.model import DAYS
from mercato_catalog.validation.document import CatalogRow, GroupRow, ItemRow, SectionRow
from mercato_contract.json_values import escape
from mercato_contract.money import MoneyError, number_to_minor
from mercato_tools.imports.draft import Draft, ImportOptions, Ref, Shape, Window, windows

IGNORED: Final = frozenset(
    {
        "restaurantGuid",
        "lastUpdated",
        "masterId",
        "multiLocationId",
        "referenceId",
        "posName",
        "posButtonColorLight",
        "posButtonColorDark",
        "highResImage",
    }
)

_DAYS: Final = {name.upper(): index for index, name in enumerate(DAYS)}
_SIZE: Final = "SIZE_PRICE"
_TIME: Final = "TIME_SPECIFIC_PRICE"
_REQUIRED: Final = "REQUIRED"


class Entity(Shape, rename="camel"):
    """Members in camelCase."""


class TimeRange(Entity):
    start: str
    end: str


class Schedule(Entity):
    days: list[str] | None = None
    time_ranges: list[TimeRange] | None = None


class Availability(Entity):
    always_available: bool | None = None
    schedule: list[Schedule] | None = None


class Tag(Entity):
    name: str | None = None


class TimeRule(Entity):
    base_price: Decimal | None = None


class SequencePrice(Entity):
    price: Decimal | None = None


class SizeRule(Entity):
    sequence_prices: list[SequencePrice] | None = None


class PricingRules(Entity):
    time_specific_pricing_rules: list[TimeRule] | None = None
    size_specific_pricing_guid: str | None = None
    size_sequence_pricing_rules: list[SizeRule] | None = None


class MenuItem(Entity):
    guid: str
    name: str | None = None
    description: str | None = None
    image: str | None = None
    price: Decimal | None = None
    pricing_strategy: str | None = None
    pricing_rules: PricingRules | None = None
    item_tags: list[Tag] | None = None
    modifier_group_references: list[int] | None = None


class MenuGroup(Entity):
    guid: str
    name: str | None = None
    description: str | None = None
    image: str | None = None
    menu_groups: "list[MenuGroup] | None" = None
    menu_items: list[MenuItem] | None = None


class Menu(Entity):
    guid: str
    name: str | None = None
    description: str | None = None
    availability: Availability | None = None
    menu_groups: list[MenuGroup] | None = None


class ModifierGroup(Entity):
    guid: str
    name: str | None = None
    pricing_strategy: str | None = None
    pricing_rules: PricingRules | None = None
    min_selections: int | None = None
    max_selections: int | None = None
    is_multi_select: bool | None = None
    required_mode: str | None = None
    default_options_charge_price: str | None = None
    modifier_option_references: list[int] | None = None


class ModifierOption(MenuItem):
    is_default: bool | None = None
    allows_duplicates: bool | None = None


class Menus(Entity, kw_only=True):
    """The whole document. References are integers, and keys of both maps."""

    menus: list[Menu]
    modifier_group_references: dict[str, ModifierGroup] | None = None
    modifier_option_references: dict[str, ModifierOption] | None = None


def shape_of(_untyped: object) -> type[Menus]:
    return Menus


def currency_of(_document: Menus) -> None:
    """Return None: a menu names no currency."""


def fill(document: Menus, draft: Draft, _options: ImportOptions) -> None:
    reader = _Reader(
        draft, document.modifier_group_references or {}, document.modifier_option_references or {}
    )
    for index, menu in enumerate(document.menus):
        reader.menu(menu, f"/menus/{index}")
    reader.modifiers()


class _Reader(Struct):
    draft: Draft
    groups: Mapping[str, ModifierGroup]
    options: Mapping[str, ModifierOption]
    items: dict[str, tuple[ItemRow, tuple[str, ...]]] = {}
    sizes: set[str] = set()
    """Guids of the groups that set an item's price: one option must be chosen."""

    def menu(self, menu: Menu, at: str) -> None:
        sections = self._sections(menu.menu_groups, f"{at}/menuGroups")
        hours = None if menu.availability is None else self._hours(menu.availability, f"{at}/availability")
        row = CatalogRow(name=menu.name, description=menu.description or None, availability=hours)
        self.draft.catalog(menu.guid, row, sections, at=at)

    def _hours(self, availability: Availability, at: str) -> list[Window] | None:
        if availability.always_available or availability.schedule is None:
            return None
        found: list[Window] = []
        for index, entry in enumerate(availability.schedule):
            for day in entry.days or ():
                number = _DAYS.get(day.upper())
                if number is None:
                    self.draft.losses.dropped(f"{at}/schedule/{index}/days", "This isn't a day of the week.")
                    continue
                for place, span in enumerate(entry.time_ranges or ()):
                    where = f"{at}/schedule/{index}/timeRanges/{place}"
                    found += windows(number, span.start, span.end, where, self.draft.losses)
        return found

    def _sections(self, groups: Sequence[MenuGroup] | None, at: str) -> list[Ref]:
        found = []
        for index, group in enumerate(groups or ()):
            where = f"{at}/{index}"
            below = self._sections(group.menu_groups, f"{where}/menuGroups")
            items = [
                self._item(item, group.guid, f"{where}/menuItems/{place}")
                for place, item in enumerate(group.menu_items or ())
            ]
            row = SectionRow(
                name=group.name, description=group.description or None, image_url=group.image or None
            )
            self.draft.section(group.guid, row, items, below, at=where)
            found.append(Ref(group.guid, where))
        return found

    def _item(self, item: MenuItem, group: str, at: str) -> Ref:
        """Add an item; one that another group has with another price gets an id of its own."""
        row, modifiers = self._row(item, at), self._modifiers(item, at)
        seen = (row, tuple(one.to for one in modifiers))
        key = item.guid
        if self.items.setdefault(key, seen) != seen:
            key = f"{group}:{item.guid}"
        self.draft.item(key, row, modifiers, at=at)
        return Ref(key, at)

    def _row(self, item: MenuItem, at: str) -> ItemRow:
        return ItemRow(
            name=item.name,
            description=item.description or None,
            image_url=item.image or None,
            base_price=self._item_price(item, at),
            tags=[tag.name for tag in item.item_tags or () if tag.name] or None,
            partner_item_id=item.guid,
        )

    def _modifiers(self, item: MenuItem, at: str) -> list[Ref]:
        return [
            Ref(f"group:{reference}", f"{at}/modifierGroupReferences/{index}")
            for index, reference in enumerate(item.modifier_group_references or ())
        ]

    def _item_price(self, item: MenuItem, at: str) -> int | None:
        rules = item.pricing_rules or PricingRules()
        if item.pricing_strategy == _SIZE and rules.size_specific_pricing_guid is not None:
            self.sizes.add(rules.size_specific_pricing_guid)
            self.draft.losses.approximated(
                f"{at}/pricingRules", "Its price is that of its size, so without one it costs nothing."
            )
            return 0
        if item.pricing_strategy == _TIME and rules.time_specific_pricing_rules:
            self.draft.losses.approximated(
                f"{at}/pricingRules", "Its price differs by time. The base price is used at all times."
            )
            return self._price(rules.time_specific_pricing_rules[0].base_price, f"{at}/pricingRules")
        if item.price is None:
            self.draft.losses.dropped(
                f"{at}/price", "It has no price of its own, so it can't be sold by itself."
            )
        return self._price(item.price, f"{at}/price")

    def _price(self, price: Decimal | None, at: str) -> int | None:
        if price is None:
            return None
        try:
            return number_to_minor(str(price), self.draft.scale)
        except MoneyError:
            self.draft.losses.dropped(at, "The price isn't an amount in the catalog's currency.")
            return None

    # --- modifiers ----------------------------------------------------------------------------------

    def modifiers(self) -> None:
        """Add the groups and their options. An option may be in several groups, at its price in each."""
        # The options first: one of them may have a price by size.
        for key, option in self.options.items():
            at = f"/modifierOptionReferences/{escape(key)}"
            price = None if option.price is None else self._price(option.price, f"{at}/price")
            row = ItemRow(
                name=option.name,
                description=option.description or None,
                image_url=option.image or None,
                base_price=self._item_price(option, at) if option.pricing_strategy == _SIZE else price or 0,
                partner_item_id=option.guid,
            )
            self.draft.item(f"option:{key}", row, self._modifiers(option, at), at=at)
        for key, group in self.groups.items():
            self._group(group, key, f"/modifierGroupReferences/{escape(key)}")

    def _group(self, group: ModifierGroup, key: str, at: str) -> None:
        references = [str(reference) for reference in group.modifier_option_references or ()]
        choices = [
            Ref(f"option:{reference}", f"{at}/modifierOptionReferences/{index}")
            for index, reference in enumerate(references)
        ]
        known = [self.options[reference] for reference in references if reference in self.options]
        is_size = group.guid in self.sizes
        least = group.min_selections or 0
        most = 1 if is_size or group.is_multi_select is False else group.max_selections
        row = GroupRow(
            name=group.name,
            minimum_allowed=1 if is_size else max(least, int(group.required_mode == _REQUIRED)),
            maximum_allowed=most,
            maximum_per_item=None if any(option.allows_duplicates for option in known) else 1,
        )
        self.draft.group(f"group:{key}", row, choices, at=at)
        self._group_prices(group, key, choices, at)
        if any(option.is_default for option in known):
            self.draft.losses.dropped(at, "No option of a group is chosen beforehand.")
            if group.default_options_charge_price == "NO":
                self.draft.losses.approximated(
                    f"{at}/defaultOptionsChargePrice", "A default option costs its price, as any other."
                )

    def _group_prices(self, group: ModifierGroup, key: str, choices: Sequence[Ref], at: str) -> None:
        """Set the price that all options of a group have, if it is the group that has one."""
        rules = (group.pricing_rules or PricingRules()).size_sequence_pricing_rules or ()
        prices = [price.price for rule in rules for price in rule.sequence_prices or ()]
        if not prices:
            return
        if len(set(map(str, prices))) > 1:
            self.draft.losses.approximated(
                f"{at}/pricingRules",
                "The price of its options differs by size or by how many are chosen. The first one is used.",
            )
        price = self._price(prices[0], f"{at}/pricingRules")
        for choice in choices if price is not None else ():
            self.draft.override(f"group:{key}", choice.to, price or 0, choice.at)
