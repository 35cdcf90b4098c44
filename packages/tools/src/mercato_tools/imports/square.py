"""Catalogs of Square: catalog objects, as a list, as `objects`, or as one `object` with its `related_objects`."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from mercato_catalog.validation.document import GroupRow, ItemRow, SectionRow
from mercato_catalog.validation.findings import shorten
from mercato_contract.money import find_scale
from mercato_tools.imports.draft import (
    MISSING,
    Category,
    Draft,
    ImportOptions,
    Ref,
    Shape,
    Variant,
)


class Money(Shape):
    amount: int | None = None
    currency: str | None = None


class VariationData(Shape):
    name: str | None = None
    ordinal: int | None = None
    pricing_type: str | None = None
    price_money: Money | None = None
    sellable: bool | None = None


class Variation(Shape):
    id: str
    is_deleted: bool | None = None
    item_variation_data: VariationData | None = None


class ListInfo(Shape):
    modifier_list_id: str
    min_selected_modifiers: int | None = None
    max_selected_modifiers: int | None = None
    enabled: bool | None = None
    ordinal: int | None = None


class CategoryRef(Shape):
    id: str | None = None
    ordinal: int | None = None


class ItemData(Shape):
    name: str | None = None
    description: str | None = None
    description_plaintext: str | None = None
    is_archived: bool | None = None
    category_id: str | None = None
    categories: list[CategoryRef] | None = None
    image_ids: list[str] | None = None
    modifier_list_info: list[ListInfo] | None = None
    variations: list[Variation] | None = None


class CategoryData(Shape):
    name: str | None = None
    image_ids: list[str] | None = None
    parent_category: CategoryRef | None = None


class ModifierData(Shape):
    name: str | None = None
    price_money: Money | None = None
    ordinal: int | None = None


class Modifier(Shape):
    id: str
    is_deleted: bool | None = None
    modifier_data: ModifierData | None = None


class ModifierListData(Shape):
    name: str | None = None
    selection_type: str | None = None
    min_selected_modifiers: int | None = None
    max_selected_modifiers: int | None = None
    allow_quantities: bool | None = None
    modifiers: list[Modifier] | None = None


class ImageData(Shape):
    url: str | None = None


class Object(Shape):
    type: str
    id: str
    is_deleted: bool | None = None
    item_data: ItemData | None = None
    category_data: CategoryData | None = None
    modifier_list_data: ModifierListData | None = None
    image_data: ImageData | None = None


class Objects(Shape):
    objects: list[Object]
    related_objects: list[Object] | None = None


class SingleObject(Shape):
    object: Object
    related_objects: list[Object] | None = None


IGNORED: Final = frozenset(
    {"type", "version", "updated_at", "created_at", "item_id", "modifier_list_id", "cursor"}
)
_DEFAULT_NAMES: Final = {"", "regular", "default"}

MAX_BOUNDS: Final = 50
"""Limits of its own that items may have for one list: each is a group with all modifiers of the list."""

_TYPES: Final = {"ITEM", "CATEGORY", "MODIFIER_LIST", "IMAGE"}

Document = Objects | SingleObject | list[Object]


def shape_of(untyped: Any) -> Any:
    if isinstance(untyped, list):
        return list[Object]
    return SingleObject if isinstance(untyped, dict) and "object" in untyped else Objects


def _objects(document: Document) -> Iterator[tuple[Object, str]]:
    match document:
        case list():
            yield from ((entity, f"/{index}") for index, entity in enumerate(document))
            return
        case SingleObject():
            yield document.object, "/object"
        case Objects():
            yield from ((entity, f"/objects/{index}") for index, entity in enumerate(document.objects))
    yield from (
        (entity, f"/related_objects/{index}") for index, entity in enumerate(document.related_objects or ())
    )


def currency_of(document: Document) -> str | None:
    amounts = (
        variation.item_variation_data.price_money
        for entity, _ in _objects(document)
        if entity.item_data is not None
        for variation in entity.item_data.variations or ()
        if variation.item_variation_data is not None
    )
    named = (money.currency for money in amounts if money is not None and money.currency)
    return next((item for item in named if find_scale(item) is not None), None)


def fill(document: Document, draft: Draft, _options: ImportOptions) -> None:
    _Reader(draft).read(list(_objects(document)))


class _Reader(Struct):
    draft: Draft
    images: dict[str, str] = {}
    lists: dict[str, tuple[ModifierListData, str]] = {}
    sold: dict[str | None, list[tuple[int, Ref]]] = {}
    made: dict[str, set[tuple[int | None, int | None]]] = {}

    def read(self, objects: Sequence[tuple[Object, str]]) -> None:
        live = [(entity, at) for entity, at in objects if self._is_live(entity, at)]
        self.images = {
            entity.id: entity.image_data.url
            for entity, _ in live
            if entity.image_data is not None and entity.image_data.url
        }
        self.lists = {
            entity.id: (entity.modifier_list_data, at)
            for entity, at in live
            if entity.modifier_list_data is not None
        }
        categories = [(entity, at) for entity, at in live if entity.category_data is not None]
        known = {entity.id for entity, _ in categories}
        for key, (data, at) in self.lists.items():
            self._group(key, data, at)
        for entity, at in live:
            if entity.item_data is not None:
                self._item(entity.id, entity.item_data, at, known)
        products = {
            key: [ref for _, ref in sorted(refs, key=lambda entity: entity[0])]
            for key, refs in self.sold.items()
        }
        sections = [self._section(entity, at, known) for entity, at in categories]
        self.draft.menu(sections, products, name=None, at="", listed_at="")

    def _is_live(self, entity: Object, at: str) -> bool:
        if entity.is_deleted:
            self.draft.losses.dropped(at, "It is deleted.")
        elif entity.item_data is not None and entity.item_data.is_archived:
            self.draft.losses.dropped(at, "It is archived.")
        elif entity.type not in _TYPES:
            self.draft.losses.dropped(at, f"Objects of the type {shorten(entity.type)} have no counterpart.")
        else:
            return True
        return False

    # --- items ----------------------------------------------------------------------------------------

    def _item(self, key: str, data: ItemData, at: str, known: set[str]) -> None:
        here = f"{at}/item_data"
        variants = [
            self._variant(entity, f"{here}/variations/{index}", alone=len(data.variations or ()) == 1)
            for index, entity in _ordered(data.variations, lambda entity: entity.item_variation_data)
            if not entity.is_deleted
        ]
        text = data.description_plaintext or data.description
        row = ItemRow(
            name=data.name,
            description=text or None,
            image_url=self._image(data.image_ids, f"{here}/image_ids"),
            partner_item_id=key,
        )
        groups = self._groups(data.modifier_list_info, f"{here}/modifier_list_info")
        self.draft.product(key, row, groups, variants, at=at)
        named = [
            (ref.id or "", ref.ordinal or 0, f"{here}/categories/{index}")
            for index, ref in enumerate(data.categories or ())
        ]
        if not named and data.category_id:
            named = [(data.category_id, 0, f"{here}/category_id")]
        for category, ordinal, where in named:
            if category in known:
                self.sold.setdefault(category, []).append((ordinal, Ref(key, where)))
            else:
                self.draft.losses.dropped(where, MISSING)
        if not any(category in known for category, *_ in named):
            self.sold.setdefault(None, []).append((0, Ref(key, at)))

    def _variant(self, entity: Variation, at: str, *, alone: bool) -> Variant:
        data = entity.item_variation_data or VariationData()
        if alone and (data.name or "").lower() not in _DEFAULT_NAMES:
            self.draft.losses.dropped(
                f"{at}/item_variation_data/name", "The name of an item's only variation is left out."
            )
        if data.pricing_type == "VARIABLE_PRICING":
            self.draft.losses.dropped(at, "The price is entered at checkout, so the item can't be sold.")
        price = self._amount(data.price_money, f"{at}/item_variation_data/price_money")
        row = ItemRow(name=data.name, base_price=price, partner_item_id=entity.id, is_available=data.sellable)
        return Variant(id=entity.id, at=at, row=row)

    def _groups(self, infos: Sequence[ListInfo] | None, at: str) -> list[Ref]:
        return [
            Ref(self._group_for(info, f"{at}/{index}"), f"{at}/{index}")
            for index, info in _ordered(infos, lambda entity: entity)
            if info.enabled is not False
        ]

    def _group_for(self, info: ListInfo, where: str) -> str:
        """Return the key of the list as the item has it: with its own minimum and maximum it is another group."""
        found = self.lists.get(info.modifier_list_id)
        minimum, maximum = _count(info.min_selected_modifiers), _count(info.max_selected_modifiers)
        if found is None or (minimum is None and maximum is None):
            return info.modifier_list_id
        data, at = found
        bounds = _bounds(data)
        # A maximum of 0 is none, whatever the list has.
        own = (bounds[0] if minimum is None else minimum, bounds[1] if maximum is None else maximum or None)
        if own == bounds:
            return info.modifier_list_id
        made = self.made.setdefault(info.modifier_list_id, set())
        if own not in made and len(made) == MAX_BOUNDS:
            self.draft.losses.approximated(where, "Too many items have limits of their own for this list.")
            return info.modifier_list_id
        key = f"{info.modifier_list_id}:{own[0]}:{own[1]}"
        if own not in made:
            made.add(own)
            self._write_group(key, data, at, own)
        return key

    def _group(self, key: str, data: ModifierListData, at: str) -> None:
        for index, entity in enumerate(data.modifiers or ()):
            where = f"{at}/modifier_list_data/modifiers/{index}"
            modifier = entity.modifier_data or ModifierData()
            if entity.is_deleted:
                self.draft.losses.dropped(where, "It is deleted.")
                continue
            price = self._amount(modifier.price_money, f"{where}/modifier_data/price_money") or 0
            row = ItemRow(name=modifier.name, base_price=price, partner_item_id=entity.id)
            self.draft.item(entity.id, row, at=where)
        self._write_group(key, data, at, _bounds(data))

    def _write_group(
        self, key: str, data: ModifierListData, at: str, bounds: tuple[int | None, int | None]
    ) -> None:
        choices = [
            Ref(entity.id, f"{at}/modifier_list_data/modifiers/{index}")
            for index, entity in _ordered(data.modifiers, lambda entity: entity.modifier_data)
            if not entity.is_deleted
        ]
        per_item = None if data.allow_quantities else 1
        row = GroupRow(
            name=data.name, minimum_allowed=bounds[0], maximum_allowed=bounds[1], maximum_per_item=per_item
        )
        self.draft.group(key, row, choices, at=at)

    def _amount(self, money: Money | None, at: str) -> int | None:
        if money is None or money.amount is None:
            return None
        self.draft.check_currency(money.currency, at)
        return money.amount

    def _image(self, ids: Sequence[str] | None, at: str) -> str | None:
        for index, entity in enumerate(ids or ()):
            if entity not in self.images:
                self.draft.losses.dropped(f"{at}/{index}", "The image isn't in the document.")
            elif index:
                self.draft.losses.dropped(f"{at}/{index}", "Only the first image is kept.")
        return next((self.images[id_] for id_ in ids or () if id_ in self.images), None)

    def _section(self, entity: Object, at: str, known: set[str]) -> Category:
        data = entity.category_data
        assert data is not None
        above = None if data.parent_category is None else data.parent_category.id
        row = SectionRow(
            name=data.name, image_url=self._image(data.image_ids, f"{at}/category_data/image_ids")
        )
        return Category(id=entity.id, row=row, parent=above if above in known else None, at=at)


def _ordered(objects: Sequence[Any] | None, data_of: Any) -> list[tuple[int, Any]]:
    """Return objects with their index, in the order that their ordinals say."""
    return sorted(
        enumerate(objects or ()), key=lambda entity: getattr(data_of(entity[1]), "ordinal", None) or 0
    )


def _bounds(data: ModifierListData) -> tuple[int | None, int | None]:
    minimum, maximum = _count(data.min_selected_modifiers), _count(data.max_selected_modifiers) or None
    return minimum or 0, 1 if maximum is None and data.selection_type == "SINGLE" else maximum


def _count(count: int | None) -> int | None:
    """Return a count; the format writes -1 for one that isn't set."""
    return None if count is None or count < 0 else count
