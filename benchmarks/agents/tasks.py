"""The tasks: what a person wants of a menu, what happens meanwhile, and what must have become of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final


class Twist(StrEnum):
    """What happens during a task."""

    NONE = "nothing"
    TYPING_ERROR = "a name with a typing error"
    SAME_NAME = "a name that fits several items"
    REQUIRED = "a required choice that nobody mentioned"
    NOTE = "a wish as a note"
    SOLD_OUT = "sold out before it is priced"
    SOLD_OUT_LATER = "sold out between quote and order"
    PRICE_CHANGED = "another price between quote and order"
    OVER_ORDER = "over the limit of an order"
    OVER_DAY = "over the limit of the day"
    APPROVED = "a person approves"
    DECLINED = "a person declines"
    LOST_ANSWER = "the answer is lost"
    TWICE = "two agents at once with one quote"
    CANCELLED = "cancelled afterwards"
    SCHEDULED = "for tomorrow"
    OTHERS = "another storefront's order"
    CLOSES = "closes in ten minutes"


NOTHING_PLACED: Final = frozenset({Twist.OVER_ORDER, Twist.OVER_DAY, Twist.DECLINED, Twist.OTHERS})
"""Twists after which there must be no order."""


@dataclass(frozen=True)
class Wish:
    """Units of an item, by its name, with options by group. `price` tells apart what a name fits; None if it needn't.

    `instead` is taken if the item is sold out.
    """

    item: str
    item_id: str
    quantity: int = 1
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    note: str | None = None
    price: str | None = None
    instead: "Wish | None" = None


@dataclass(frozen=True)
class Task:
    """What a person wants, and what happens meanwhile."""

    store: str
    wishes: tuple[Wish, ...]
    twist: Twist = Twist.NONE

    @property
    def is_placed(self) -> bool:
        """Whether there must be an order in the end."""
        return self.twist not in NOTHING_PLACED

    @property
    def ordered(self) -> tuple[Wish, ...]:
        """What must have been ordered."""
        takes_other = self.twist in {Twist.SOLD_OUT, Twist.SOLD_OUT_LATER}
        return tuple(wish.instead if takes_other and wish.instead else wish for wish in self.wishes)


@dataclass(frozen=True)
class Menu:
    """A served CatalogSet, and what can be ordered from it."""

    store: str
    document: Any

    def plain(self) -> Iterator[Wish]:
        """Yield items with a name of their own and a price, that need no choice."""
        for id_, item in self._sold():
            if self._names[_spelled(item["name"])] == 1 and not any(map(self._minimum, self._groups(item))):
                yield Wish(item["name"], id_)

    def chosen(self) -> Iterator[Wish]:
        """Yield items with what their groups need, and one option more where there is one."""
        for id_, item in self._sold():
            groups = self._groups(item)
            if self._names[_spelled(item["name"])] > 1 or not groups:
                continue
            choices: dict[str, list[str]] = {}
            for group in groups:
                names = [self.document["items"][option]["name"] for option in group["itemIds"]]
                plain = [
                    option for option in group["itemIds"] if not self._groups(self.document["items"][option])
                ]
                if len(set(names)) != len(names) or len(plain) < max(self._minimum(group), 1):
                    choices = {}
                    break
                if self._maximum(group) != 0:
                    picked = plain[: max(self._minimum(group), 1)]
                    choices[group["name"]] = [self.document["items"][option]["name"] for option in picked]
            titles = [group["name"] for group in groups]
            if choices and len(set(titles)) == len(titles):
                yield Wish(item["name"], id_, choices=choices)

    def needing(self) -> Iterator[Wish]:
        """Yield items that need a choice, without one: whoever is asked takes the first option."""
        for wish in self.chosen():
            groups = self._groups(self.document["items"][wish.item_id])
            if any(map(self._minimum, groups)):
                yield replace(wish, choices={})

    def twins(self) -> Iterator[Wish]:
        """Yield items whose name others have, too, at other prices, which tell them apart."""
        prices: dict[str, list[str]] = {}
        for _, item in self._sold():
            prices.setdefault(item["name"], []).append(item["basePrice"])
        for id_, item in self._sold():
            same = prices[item["name"]]
            if (
                len(same) > 1
                and self._names[_spelled(item["name"])] == len(same) == len(set(same))
                and not self._groups(item)
            ):
                yield Wish(item["name"], id_, price=item["basePrice"])

    @cached_property
    def _names(self) -> Counter[str]:
        return Counter(_spelled(item["name"]) for item in self.document["items"].values())

    def _sold(self) -> Iterator[tuple[str, Any]]:
        listed = {
            id_ for section in members_of(self.document["sections"]) for id_ in section.get("itemIds") or ()
        }
        for id_, item in self.document["items"].items():
            if id_ in listed and item.get("basePrice") and float(item["basePrice"]) > 0:
                yield id_, item

    def _groups(self, item: Any) -> list[Any]:
        return [self.document["modifierGroups"][id_] for id_ in item.get("modifierGroupIds") or ()]

    @staticmethod
    def _minimum(group: Any) -> int:
        return int(group.get("minimumAllowed") or 0)

    @staticmethod
    def _maximum(group: Any) -> int | None:
        maximum = group.get("maximumAllowed")
        return None if maximum is None else int(maximum)


def _spelled(name: str) -> str:
    return " ".join(name.casefold().split())


def members_of(members: Any) -> list[Any]:
    """Return the members of a list, or of an object by their ids: documents may have either."""
    return list(members.values()) if isinstance(members, dict) else list(members)


def tasks_of(menus: Sequence[Menu]) -> list[Task]:
    """Return forty tasks over the menus: plain orders from each, then those in which something happens."""
    made: list[Task] = []
    plain = {menu.store: _first(menu.plain(), 12) for menu in menus}
    chosen = {menu.store: _first(menu.chosen(), 8) for menu in menus}
    made += [
        Task(store, tuple(replace(wish, quantity=2) for wish in wishes[:2]))
        for store, wishes in plain.items()
        if wishes
    ]
    made += [Task(store, tuple(wishes[:2])) for store, wishes in chosen.items() if wishes]
    made += [
        Task(menu.store, (wish,), Twist.REQUIRED) for menu in menus for wish in _first(menu.needing(), 1)
    ]
    made += [Task(menu.store, (wish,), Twist.SAME_NAME) for menu in menus for wish in _first(menu.twins(), 1)]
    # The others take turns over the menus that have enough, with different items each.
    large = [menu for menu in menus if len(plain[menu.store]) >= ENOUGH]
    turn = 0
    for twist, times in _TIMES:
        for _ in range(times):
            menu = large[turn % len(large)]
            one, other, *_ = plain[menu.store][2 + turn % 6 :]
            turn += 1
            made.append(Task(menu.store, (_wish(twist, one, other),), twist))
    many = max(menus, key=lambda menu: len(plain[menu.store]))
    while len(made) < TASKS:
        made.append(Task(many.store, tuple(plain[many.store][:10])))
    return made[:TASKS]


TASKS: Final = 40
ENOUGH: Final = 10
"""Items without choices of a menu in which something happens to some of them."""

_TIMES: Final = (
    (Twist.TYPING_ERROR, 3),
    (Twist.NOTE, 2),
    (Twist.SOLD_OUT, 1),
    (Twist.SOLD_OUT_LATER, 1),
    (Twist.PRICE_CHANGED, 1),
    (Twist.OVER_ORDER, 1),
    (Twist.OVER_DAY, 1),
    (Twist.APPROVED, 1),
    (Twist.DECLINED, 1),
    (Twist.LOST_ANSWER, 2),
    (Twist.TWICE, 1),
    (Twist.CANCELLED, 1),
    (Twist.SCHEDULED, 1),
    (Twist.OTHERS, 1),
)


def _wish(twist: Twist, one: Wish, other: Wish) -> Wish:
    match twist:
        case Twist.TYPING_ERROR:
            return replace(one, item=_mistyped(one.item))
        case Twist.NOTE:
            return replace(one, note="no onions")
        case Twist.SOLD_OUT | Twist.SOLD_OUT_LATER:
            return replace(one, instead=other)
        case _:
            return one


def _mistyped(name: str) -> str:
    """Return the name without a letter in its middle."""
    at = len(name) // 2
    return name[:at] + name[at + 1 :]


def _first(wishes: Iterator[Wish], count: int) -> list[Wish]:
    return [wish for wish, _ in zip(wishes, range(count), strict=False)]
