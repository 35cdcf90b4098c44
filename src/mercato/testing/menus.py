"""Three invented shops as CatalogSet documents, each written the way such shops write them.

A pizzeria (EUR, sizes and toppings, lists where the format allows them), a Japanese restaurant (JPY, lunch and
dinner cards with hours), a grocery (USD, sections within sections, and its own article numbers for ids).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

Document = dict[str, Any]

_MAKER: Final = UUID("5f1c2a52-6d0e-4d8a-9a3c-7b5a2f2c9e10")
"""Names the ids of these documents, so that they are the same in every process."""

WEEK: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def item_id(shop: str, name: str) -> str:
    """Return the id that `pizzeria` and `ramen_house` give to an item or modifier group."""
    return str(uuid5(_MAKER, f"{shop}/{name}"))


# --- the pizzeria ---------------------------------------------------------------------------------

PIZZERIA: Final = "Forno Lucia"
MARGHERITA: Final = "Margherita"

_PIZZAS: Final = (
    (MARGHERITA, "9.50", "San Marzano tomato, fior di latte, basil"),
    ("Marinara", "8.00", "Tomato, garlic, wild oregano. No cheese, and none missed"),
    ("Diavola", "12.00", "Tomato, fior di latte, hot spianata, Calabrian chilli"),
    ("Ortolana", "11.50", "Roast aubergine, courgette, peppers, smoked scamorza"),
    ("Quattro Formaggi", "12.50", "Fior di latte, gorgonzola, taleggio, pecorino"),
    ("Capricciosa", "13.00", "Ham, artichokes, mushrooms, black olives"),
)
_SIZES: Final = (("Piccola, 26 cm", "0"), ("Classica, 32 cm", "2.50"), ("Famiglia, 45 cm", "9.00"))
_TOPPINGS: Final = (
    ("Basil", "0.50"),
    ("Black olives", "1.20"),
    ("Mushrooms", "1.50"),
    ("Rocket", "1.50"),
    ("Spianata", "2.20"),
    ("Anchovies", "2.00"),
    ("Buffalo mozzarella", "3.50"),
)
_DRINKS: Final = (("Sparkling water, 0.5 l", "2.80"), ("Chinotto", "3.20"), ("Lemonade of the house", "3.90"))
_DESSERTS: Final = (("Tiramisù", "5.50"), ("Panna cotta with sour cherries", "5.00"))


def pizzeria(*, margherita: str = "9.50") -> Document:
    """Return the pizzeria's document; a margherita costs what is asked."""
    size, extra = item_id(PIZZERIA, "group: size"), item_id(PIZZERIA, "group: toppings")
    pizzas = [
        _item(PIZZERIA, name, margherita if name == MARGHERITA else price, words)
        | {"modifierGroupIds": [size, extra]}
        for name, price, words in _PIZZAS
    ]
    sizes = [_item(PIZZERIA, name, price) for name, price in _SIZES]
    toppings = [_item(PIZZERIA, name, price) for name, price in _TOPPINGS]
    drinks = [_item(PIZZERIA, name, price) for name, price in _DRINKS]
    desserts = [_item(PIZZERIA, name, price) for name, price in _DESSERTS]
    return {
        "currency": "EUR",
        "sections": [
            {"name": "Pizza", "description": "From the wood oven", "itemIds": _ids(pizzas)},
            {"name": "Drinks", "itemIds": _ids(drinks)},
            {"name": "Desserts", "itemIds": _ids(desserts)},
        ],
        "items": _by_id([*pizzas, *sizes, *toppings, *drinks, *desserts]),
        "modifierGroups": [
            _group(size, "Size", _ids(sizes), minimumAllowed=1, maximumAllowed=1),
            _group(extra, "Extra toppings", _ids(toppings), maximumAllowed=6, maximumPerItem=2)
            | {"freeQuantity": 1, "priceOverrides": {item_id(PIZZERIA, "Rocket"): "1.00"}},
        ],
    }


# --- the Japanese restaurant ----------------------------------------------------------------------

RAMEN_HOUSE: Final = "麺処 あおば坂"

_RAMEN: Final = (
    ("醤油ラーメン", 950, "鶏と煮干しの清湯、細麺"),
    ("塩ラーメン", 920, "蛤と昆布のだし、柚子"),
    ("味噌ラーメン", 1050, "三種の味噌、太ちぢれ麺"),
    ("担々麺", 1100, "自家製ラー油、胡麻、山椒"),
)
_SIDES: Final = (("焼き餃子 六個", 480), ("唐揚げ 五個", 620), ("チャーシュー丼", 450), ("枝豆", 320))
_EVENING: Final = (("炙り〆鯖", 780), ("だし巻き玉子", 560), ("冷奴", 380), ("瓶ビール 中瓶", 680))
_FIRMNESS: Final = (("麺 かため", 0), ("麺 ふつう", 0), ("麺 やわらかめ", 0))
_EXTRAS: Final = (
    ("味玉", 130),
    ("海苔 五枚", 150),
    ("メンマ", 120),
    ("チャーシュー 二枚", 300),
    ("替玉", 150),
)


def ramen_house() -> Document:
    """Return the Japanese restaurant's document: whole yen, a lunch card and an evening card."""
    firmness, extras = item_id(RAMEN_HOUSE, "group: 麺"), item_id(RAMEN_HOUSE, "group: トッピング")
    noodles = [
        _item(RAMEN_HOUSE, name, price, words) | {"modifierGroupIds": [firmness, extras]}
        for name, price, words in _RAMEN
    ]
    sides = [_item(RAMEN_HOUSE, name, price) for name, price in _SIDES]
    evening = [_item(RAMEN_HOUSE, name, price) for name, price in _EVENING]
    ways = [_item(RAMEN_HOUSE, name, price) for name, price in _FIRMNESS]
    more = [_item(RAMEN_HOUSE, name, price) for name, price in _EXTRAS]
    return {
        "currency": "JPY",
        "catalogs": [
            _card("昼", ["ramen", "sides"], _hours(WEEK[1:], "11:30:00", "14:30:00")),
            _card("夜", ["ramen", "sides", "evening"], _hours(WEEK[1:], "17:30:00", "23:00:00")),
        ],
        "sections": {
            "ramen": {"name": "ラーメン", "itemIds": _ids(noodles)},
            "sides": {"name": "一品", "itemIds": _ids(sides)},
            "evening": {"name": "夜の肴", "itemIds": _ids(evening)},
        },
        "items": _by_id([*noodles, *sides, *evening, *ways, *more]),
        "modifierGroups": {
            firmness: _group(firmness, "麺の硬さ", _ids(ways), minimumAllowed=1, maximumAllowed=1),
            extras: _group(extras, "トッピング", _ids(more), maximumAllowed=8, maximumPerItem=3),
        },
    }


def _card(name: str, sections: Sequence[str], hours: Sequence[Mapping[str, str]]) -> Document:
    return {"name": name, "sectionIds": list(sections), "availability": list(hours)}


def _hours(days: Iterable[str], start: str, end: str) -> list[Mapping[str, str]]:
    return [{"dayOfWeek": day, "start": start, "end": end} for day in days]


# --- the grocery ----------------------------------------------------------------------------------

GROCERY: Final = "Prairie Street Market"
MISSING_ARTICLE: Final = "MLK-900"
SOLD_OUT_ARTICLE: Final = "FRT-101"

_AISLES: Final[Mapping[str, Mapping[str, Sequence[tuple[str, str, str]]]]] = {
    "Produce": {
        "Fruit": (
            ("FRT-101", "Strawberries, 16 oz", "4.99"),
            ("FRT-102", "Bananas, bunch", "1.79"),
            ("FRT-103", "Pink Lady apples, 2 lb", "5.49"),
            ("FRT-104", "Lemons, each", "0.69"),
        ),
        "Vegetables": (
            ("VEG-201", "Baby spinach, 5 oz", "3.29"),
            ("VEG-202", "Heirloom carrots, bunch", "2.99"),
            ("VEG-203", "Sweet corn, 4 ears", "3.49"),
            ("VEG-204", "Yellow onions, 3 lb", "3.19"),
        ),
    },
    "Dairy and eggs": {
        "Milk": (
            ("MLK-301", "Whole milk, half gallon", "3.89"),
            ("MLK-302", "Oat milk, half gallon", "4.79"),
        ),
        "Cheese": (
            ("CHS-401", "Sharp cheddar, 8 oz", "5.25"),
            ("CHS-402", "Fresh goat cheese, 4 oz", "4.95"),
        ),
        "Eggs": (("EGG-501", "Brown eggs, dozen", "5.99"), ("EGG-502", "Pasture eggs, half dozen", "4.49")),
    },
    "Pantry": {
        "Grains": (("GRN-601", "Rolled oats, 42 oz", "5.59"), ("GRN-602", "Jasmine rice, 5 lb", "8.99")),
        "Canned": (("CAN-701", "Black beans, 15 oz", "1.29"), ("CAN-702", "Crushed tomatoes, 28 oz", "2.49")),
    },
}


def grocery(*, broken: bool = False) -> Document:
    """Return the grocery's document; the broken one still lists an article that was taken out of `items`."""
    sections: Document = {}
    items: Document = {}
    for aisle, shelves in _AISLES.items():
        sections[_slug(aisle)] = {"name": aisle, "sectionIds": [_slug(shelf) for shelf in shelves]}
        for shelf, articles in shelves.items():
            sections[_slug(shelf)] = {"name": shelf, "itemIds": [number for number, _, _ in articles]}
            items |= {number: {"name": name, "basePrice": price} for number, name, price in articles}
    if broken:
        sections["milk"]["itemIds"].append(MISSING_ARTICLE)
    return {
        "currency": "USD",
        "catalogs": [{"name": "Everything", "sectionIds": [_slug(aisle) for aisle in _AISLES]}],
        "sections": sections,
        "items": items,
    }


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")


# --- parts ----------------------------------------------------------------------------------------


def _item(shop: str, name: str, price: str | int, words: str | None = None) -> Document:
    described = {} if words is None else {"description": words}
    return {"itemId": item_id(shop, name), "name": name, "basePrice": str(price)} | described


def _group(group_id: str, name: str, choices: list[str], **rules: int) -> Document:
    return {"modifierGroupId": group_id, "name": name, "itemIds": choices} | rules


def _ids(items: Iterable[Document]) -> list[str]:
    return [item["itemId"] for item in items]


def _by_id(items: Iterable[Document]) -> Document:
    return {item["itemId"]: item for item in items}
