"""Catalog objects of Square, as far as they are read."""

from mercato.features.catalogs.imports.source import Shape


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
