"""Catalogs of HubRise: categories, products with SKUs, and option lists; the whole catalog or its `data` alone."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mercato_catalog.validation.document import GroupRow, ItemRow, SectionRow
from mercato_contract.money import MoneyError, decimal_to_minor, find_scale
from mercato_tools.imports.draft import MISSING, Draft, ImportOptions, Ref, Shape, Variant, refs
from mercato_tools.imports.draft import Category as Section

IGNORED: Final = frozenset({"id", "account_id", "location_id", "created_at", "product_id", "option_list_id"})


class Restrictions(Shape):
    enabled: bool | None = None


class Sku(Shape):
    id: str | None = None
    ref: str | None = None
    name: str | None = None
    price: str | None = None
    restrictions: Restrictions | None = None
    option_list_refs: list[str] | None = None
    option_list_ids: list[str] | None = None


class Product(Shape):
    id: str | None = None
    ref: str | None = None
    category_ref: str | None = None
    category_id: str | None = None
    name: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    skus: list[Sku] | None = None


class Category(Shape):
    id: str | None = None
    ref: str | None = None
    parent_ref: str | None = None
    parent_id: str | None = None
    name: str | None = None
    description: str | None = None


class Option(Shape):
    id: str | None = None
    ref: str | None = None
    name: str | None = None
    price: str | None = None
    tags: list[str] | None = None
    restrictions: Restrictions | None = None


class OptionList(Shape):
    id: str | None = None
    ref: str | None = None
    name: str | None = None
    type: str | None = None
    min_selections: int | None = None
    max_selections: int | None = None
    multiple_selection: bool | None = None
    options: list[Option] | None = None


class Data(Shape, kw_only=True):
    categories: list[Category] | None = None
    products: list[Product]
    option_lists: list[OptionList] | None = None


class Catalog(Shape, kw_only=True):
    """A catalog as the API returns it, around its data."""

    name: str | None = None
    data: Data


def shape_of(untyped: Any) -> Any:
    return Catalog if isinstance(untyped, dict) and "data" in untyped else Data


def _data(document: Catalog | Data) -> Data:
    return document.data if isinstance(document, Catalog) else document


def currency_of(document: Catalog | Data) -> str | None:
    prices = (sku.price for product in _data(document).products for sku in product.skus or ())
    named = (price.partition(" ")[2].strip().upper() for price in prices if price)
    return next((item for item in named if find_scale(item) is not None), None)


def fill(document: Catalog | Data, draft: Draft, _options: ImportOptions) -> None:
    at = "/data" if isinstance(document, Catalog) else ""
    _Reader(_data(document), at, draft).read(document.name if isinstance(document, Catalog) else None)


class _Reader:
    def __init__(self, data: Data, at: str, draft: Draft) -> None:
        self._data = data
        self._at = at
        self._draft = draft
        self._losses = draft.losses
        # Uploads refer by ref, responses by id: both lead to one key.
        self._categories = _keys(data.categories or (), "category")
        self._lists = _keys(data.option_lists or (), "list")

    def read(self, name: str | None) -> None:
        products = self._products()
        categories = [
            self._category(entity, index) for index, entity in enumerate(self._data.categories or ())
        ]
        self._draft.menu(categories, products, name=name, at=self._at, listed_at=f"{self._at}/products")
        for index, options in enumerate(self._data.option_lists or ()):
            self._group(options, index, f"{self._at}/option_lists/{index}")

    def _category(self, category: Category, index: int) -> Section:
        at = f"{self._at}/categories/{index}"
        named = category.parent_ref or category.parent_id
        parent = self._categories.get(named) if named else None
        if named and parent is None:
            self._losses.dropped(f"{at}/parent_ref", MISSING)
        row = SectionRow(name=category.name, description=category.description or None)
        return Section(id=_key(category, "category", index), row=row, parent=parent, at=at)

    def _products(self) -> dict[str | None, list[Ref]]:
        """Add the products; return those of each category."""
        sold: dict[str | None, list[Ref]] = {}
        for index, product in enumerate(self._data.products):
            at = f"{self._at}/products/{index}"
            key = _key(product, "product", index)
            named = product.category_ref or product.category_id
            category = self._categories.get(named) if named else None
            if named and category is None:
                self._losses.dropped(f"{at}/category_ref", MISSING)
            sold.setdefault(category, []).append(Ref(key, at))
            self._product(product, key, at)
        return sold

    def _product(self, product: Product, key: str, at: str) -> None:
        skus = product.skus or []
        lists = [self._refs(sku, f"{at}/skus/{index}") for index, sku in enumerate(skus)]
        shared = lists[0] if lists and all(_same(option_list, lists[0]) for option_list in lists) else []
        variants = [
            Variant(
                id=f"{key}:{sku.id or sku.ref or index}",
                at=f"{at}/skus/{index}",
                row=ItemRow(
                    name=sku.name,
                    base_price=self._price(sku.price, f"{at}/skus/{index}/price"),
                    partner_item_id=sku.ref or None,
                    is_available=sku.restrictions is None or sku.restrictions.enabled is not False,
                ),
                groups=() if shared else lists[index],
            )
            for index, sku in enumerate(skus)
        ]
        row = ItemRow(
            name=product.name,
            description=product.description or None,
            partner_item_id=product.ref or None,
            tags=product.tags or None,
        )
        self._draft.product(key, row, shared, variants, at=at)

    def _refs(self, sku: Sku, at: str) -> list[Ref]:
        name = "option_list_refs" if sku.option_list_refs is not None else "option_list_ids"
        given = sku.option_list_refs if sku.option_list_refs is not None else sku.option_list_ids
        return refs([self._lists.get(item, f"list:{item}") for item in given or ()], f"{at}/{name}")

    def _group(self, options: OptionList, number: int, at: str) -> None:
        key = _key(options, "list", number)
        single = options.type == "single"
        choices: list[Ref] = []
        for index, option in enumerate(options.options or ()):
            where = f"{at}/options/{index}"
            item = f"{key}:{option.id or option.ref or index}"
            row = ItemRow(
                name=option.name,
                base_price=self._price(option.price, f"{where}/price") or 0,
                partner_item_id=option.ref or None,
                tags=option.tags or None,
                is_available=option.restrictions is None or option.restrictions.enabled is not False,
            )
            self._draft.item(item, row, at=where)
            choices.append(Ref(item, where))
        group = GroupRow(
            name=options.name,
            minimum_allowed=1 if single else options.min_selections,
            maximum_allowed=1 if single else options.max_selections,
            maximum_per_item=None if options.multiple_selection else 1,
        )
        self._draft.group(key, group, choices, at=at)

    def _price(self, text: str | None, at: str) -> int | None:
        if text is None:
            return None
        amount, _, currency = text.strip().partition(" ")
        try:
            minor = decimal_to_minor(amount, self._draft.scale)
        except MoneyError:
            self._losses.dropped(at, "The price isn't an amount in the catalog's currency.")
            return None
        self._draft.check_currency(currency.strip().upper() or None, at)
        return minor


def _key(entity: Any, kind: str, index: int) -> str:
    return f"{kind}:{entity.id or entity.ref or index}"


def _keys(entities: Sequence[msgspec.Struct], kind: str) -> dict[str | None, str]:
    """Return the key of each id and each ref."""
    found: dict[str | None, str] = {}
    for index, entity in enumerate(entities):
        for name in (getattr(entity, "id", None), getattr(entity, "ref", None)):
            if name:
                found.setdefault(name, _key(entity, kind, index))
    return found


def _same(refs: Sequence[Ref], others: Sequence[Ref]) -> bool:
    return [ref.to for ref in refs] == [ref.to for ref in others]
