"""Menus of Deliverect, as it sends them to channels: one or a list, with products, modifiers and groups by id."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from mercato_catalog.validation.document import CatalogRow, GroupRow, ItemRow, SectionRow
from mercato_contract.json_values import escape
from mercato_contract.money import find_scale
from mercato_tools.imports.draft import (
    ONE_LANGUAGE,
    Draft,
    ImportOptions,
    Ref,
    Shape,
    Window,
    refs,
    translate,
    windows,
)

Languages = dict[str, str]
_DECIMALS: Final = 2
"""Decimals of a price in a menu that doesn't have `decimalDigits`."""

_MAX_DECIMALS: Final = 6
_DAYS_A_WEEK: Final = 7


class Availability(Shape):
    dayOfWeek: int  # noqa: N815  # the names of the format, here and below
    startTime: str  # noqa: N815
    endTime: str  # noqa: N815


class Overload(Shape):
    bundles: list[str] | None = None
    price: int | None = None


class Product(Shape):
    """A product, a modifier, a group of modifiers or a bundle."""

    name: str | None = None
    nameTranslations: Languages | None = None  # noqa: N815
    description: str | None = None
    descriptionTranslations: Languages | None = None  # noqa: N815
    plu: str | None = None
    price: int | None = None
    imageUrl: str | None = None  # noqa: N815
    subProducts: list[str] | None = None  # noqa: N815
    min: int | None = None
    max: int | None = None
    multiMax: int | None = None  # noqa: N815
    snoozed: bool | None = None
    visible: bool | None = None
    overloads: list[Overload] | None = None


class Category(Shape, rename={"id": "_id"}):
    id: str | None = None
    name: str | None = None
    nameTranslations: Languages | None = None  # noqa: N815
    description: str | None = None
    descriptionTranslations: Languages | None = None  # noqa: N815
    imageUrl: str | None = None  # noqa: N815
    availabilities: list[Availability] | None = None
    products: list[str] | None = None


class Menu(Shape, kw_only=True):
    menu: str | None = None
    menuId: str | None = None  # noqa: N815
    menuTranslations: Languages | None = None  # noqa: N815
    description: str | None = None
    descriptionTranslations: Languages | None = None  # noqa: N815
    currency: str | int | None = None
    decimalDigits: int | None = None  # noqa: N815
    availabilities: list[Availability] | None = None
    categories: list[Category] | None = None
    products: dict[str, Product]
    modifiers: dict[str, Product] | None = None
    modifierGroups: dict[str, Product] | None = None  # noqa: N815
    bundles: dict[str, Product] | None = None


IGNORED: Final = frozenset(
    {"_id", "productType", "menuType", "channelLinkId", "nestedModifiers", "account", "level"}
)


def shape_of(untyped: Any) -> Any:
    return list[Menu] if isinstance(untyped, list) else Menu


def _menus(document: Menu | list[Menu]) -> list[tuple[Menu, str]]:
    if isinstance(document, list):
        return [(menu, f"/{index}") for index, menu in enumerate(document)]
    return [(document, "")]


def currency_of(document: Menu | list[Menu]) -> str | None:
    named = (menu.currency for menu, _ in _menus(document))
    return next(
        (item.upper() for item in named if isinstance(item, str) and find_scale(item.upper()) is not None),
        None,
    )


def fill(document: Menu | list[Menu], draft: Draft, options: ImportOptions) -> None:
    for menu, at in _menus(document):
        _Reader(menu, at, draft, options).read()


class _Reader:
    def __init__(self, menu: Menu, at: str, draft: Draft, options: ImportOptions) -> None:
        self._menu = menu
        self._at = at
        self._draft = draft
        self._options = options
        self._losses = draft.losses
        self._shift = draft.scale - self._decimals()

    def _decimals(self) -> int:
        given = self._menu.decimalDigits
        if given is not None and not 0 <= given <= _MAX_DECIMALS:
            self._losses.dropped(
                f"{self._at}/decimalDigits",
                f"It must be from 0 to {_MAX_DECIMALS}. {_DECIMALS} is used.",
            )
            given = None
        return _DECIMALS if given is None else given

    def read(self) -> None:
        self._check_currency()
        self._catalogs()
        for table, products in (("products", self._menu.products), ("modifiers", self._menu.modifiers or {})):
            for key, product in products.items():
                self._item(key, product, f"{self._at}/{table}/{escape(key)}")
        for table, groups in (("modifierGroups", self._menu.modifierGroups), ("bundles", self._menu.bundles)):
            for key, group in (groups or {}).items():
                self._group(key, group, f"{self._at}/{table}/{escape(key)}", bundle=table == "bundles")

    def _check_currency(self) -> None:
        named = self._menu.currency
        if named is not None and not (isinstance(named, str) and named.upper() == self._draft.currency):
            self._losses.approximated(
                f"{self._at}/currency",
                f"The currency is read as {self._draft.currency}. Set another if that is wrong.",
            )

    def _text(self, text: str | None, others: Languages | None, at: str) -> str | None:
        if not others or (self._options.language is None and text):
            for name in others or {}:
                if (others or {})[name] != text:
                    self._losses.dropped(f"{at}/{escape(name)}", ONE_LANGUAGE)
            return text or None
        return translate(others, at, self._options, self._losses) or text

    def _name(self, one: Product | Category, at: str) -> str | None:
        return self._text(one.name, one.nameTranslations, f"{at}/nameTranslations")

    def _description(self, one: Menu | Product | Category, at: str) -> str | None:
        return self._text(one.description, one.descriptionTranslations, f"{at}/descriptionTranslations")

    def _catalogs(self) -> None:
        """Add a catalog for each set of opening hours among the categories: sections have no hours here."""
        menu, at = self._menu, self._at
        hours: dict[str, tuple[list[Ref], list[Window] | None]] = {}
        for index, category in enumerate(menu.categories or ()):
            where = f"{at}/categories/{index}"
            key = self._section(category, where)
            own = category.availabilities
            name, found = self._hours(own, f"{where}/availabilities") if own else self._menu_hours
            hours.setdefault(name, ([], found))[0].append(Ref(key, where))
        title = self._text(menu.menu, menu.menuTranslations, f"{at}/menuTranslations")
        about = self._description(menu, at)
        base = menu.menuId or f"menu{at}"
        for number, (sections, found) in enumerate(hours.values()):
            key = base if not number else f"{base}:{number}"
            row = CatalogRow(name=title, description=about, availability=found)
            self._draft.catalog(key, row, sections, at=at)

    @cached_property
    def _menu_hours(self) -> tuple[str, list[Window] | None]:
        """The hours of categories that have none of their own: read once, so that a fault is reported once."""
        return self._hours(self._menu.availabilities, f"{self._at}/availabilities")

    def _hours(self, given: Sequence[Availability] | None, at: str) -> tuple[str, list[Window] | None]:
        """Return hours with what tells them from others."""
        if not given:
            return "", None
        losses = self._losses
        found: list[Window] = []
        for index, one in enumerate(given):
            where = f"{at}/{index}"
            if not 1 <= one.dayOfWeek <= _DAYS_A_WEEK:
                losses.dropped(f"{where}/dayOfWeek", "A day is from 1 (Monday) to 7 (Sunday).")
                continue
            found += windows(one.dayOfWeek % _DAYS_A_WEEK, one.startTime, one.endTime, where, losses)
        return repr(found), found

    def _section(self, category: Category, at: str) -> str:
        key = category.id or f"{self._menu.menuId}{at}:{category.name}"
        row = SectionRow(
            name=self._name(category, at),
            description=self._description(category, at),
            image_url=category.imageUrl or None,
        )
        self._draft.section(key, row, refs(category.products, f"{at}/products"), at=at)
        return key

    def _item(self, key: str, product: Product, at: str) -> None:
        row = ItemRow(
            name=self._name(product, at),
            description=self._description(product, at),
            image_url=product.imageUrl or None,
            base_price=self._price(product.price, f"{at}/price"),
            partner_item_id=product.plu or None,
            is_available=not product.snoozed and product.visible is not False,
        )
        self._draft.item(key, row, refs(product.subProducts, f"{at}/subProducts"), at=at)
        for index, overload in enumerate(product.overloads or ()):
            price = self._price(overload.price, f"{at}/overloads/{index}/price")
            for bundle in overload.bundles or () if price is not None else ():
                self._draft.override(bundle, key, price or 0, f"{at}/overloads/{index}/price")
        if any((product.min, product.max, product.multiMax)):
            self._losses.dropped(at, "Only modifier groups limit how many of a product can be chosen.")

    def _group(self, key: str, group: Product, at: str, *, bundle: bool) -> None:
        choices = refs(group.subProducts, f"{at}/subProducts")
        if bundle:
            known = self._draft.overrides.get(key, {})
            for one in choices:
                if one.to not in known:
                    self._draft.override(key, one.to, 0, one.at)
        if group.price:
            self._losses.dropped(f"{at}/price", "A modifier group has no price: its choices have prices.")
        row = GroupRow(
            name=self._name(group, at),
            minimum_allowed=group.min,
            # The format writes 0 for no limit.
            maximum_allowed=group.max or None,
            maximum_per_item=group.multiMax or None,
        )
        self._draft.group(key, row, choices, at=at)

    def _price(self, price: int | None, at: str) -> int | None:
        if price is None or self._shift == 0:
            return price
        factor: int = 10 ** abs(self._shift)
        if self._shift > 0:
            return price * factor
        whole, rest = divmod(price, factor)
        if rest:
            self._losses.approximated(
                at, "The price has more decimals than the currency, so it is rounded down."
            )
        return whole
