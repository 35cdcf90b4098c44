"""A made-up network to search in: stores around towns of the world, with names, menus, categories and hours."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from uuid import UUID

from mercato.features.discovery.text import Listing
from mercato.features.stores.model import StoreRow
from mercato.features.stores.search import listing_of
from mercato_catalog.words import SetSearch, words_of
from mercato_contract.stores import Address

TOWNS = 400
MENUS = 3_000
ITEMS = 60
HOURS = 300
KINDS = (
    "Pizza", "Sushi", "Burger", "Taco", "Noodle", "Curry", "Salad", "Bakery", "Coffee", "Grill", "Kebab", "Deli",
    "Ramen", "Diner", "Bistro", "Market", "Pharmacy", "Flowers", "Wine", "Ice",
)  # fmt: skip
ZONES = (
    "America/New_York", "America/Chicago", "America/Los_Angeles", "Europe/Berlin", "Europe/London", "Asia/Tokyo",
    "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo", "Africa/Lagos", "Asia/Dubai", "Pacific/Auckland",
)  # fmt: skip
SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ka",
    "le",
    "mi",
    "no",
    "pu",
    "ra",
    "se",
    "ti",
    "vo",
    "zu",
    "sha",
    "tri",
)


@dataclass(frozen=True)
class Town:
    latitude: float
    longitude: float
    zone: str


class Network:
    """The same network for the same number of stores: the first stores of a larger one are those of a smaller one."""

    def __init__(self, seed: int = 7) -> None:
        chance = random.Random(seed)
        self._chance = chance
        self.words = _words(chance, 4_000)
        self.towns = [
            Town(chance.uniform(-50, 60), chance.uniform(-180, 180), chance.choice(ZONES))
            for _ in range(TOWNS)
        ]
        # The largest town has 14 times the stores of the one in the middle.
        self._town_weights = list(accumulate((rank + 1) ** -0.5 for rank in range(TOWNS)))
        # The commonest words are on a third of the menus, most of them on one in a hundred.
        self.word_weights = list(accumulate((rank + 20) ** -0.6 for rank in range(len(self.words))))
        self._hours = [_spans(chance) for _ in range(HOURS)]
        self._menus = [self._menu() for _ in range(MENUS)]

    def entries(self, count: int) -> Iterator[Listing]:
        """Return what searches keep of each store."""
        for _ in range(count):
            menu = self._chance.choice(self._menus)
            yield listing_of(self._store(), SetSearch(menu, self._chance.choice(self._hours)))

    def word(self) -> str:
        """Return a word of a dish, as often as it is on menus."""
        return self._chance.choices(self.words, cum_weights=self.word_weights)[0]

    def town(self) -> Town:
        """Return a town, as often as there are stores in it."""
        return self._chance.choices(self.towns, cum_weights=self._town_weights)[0]

    def _menu(self) -> tuple[str, ...]:
        sections = self._chance.sample(KINDS, 5)
        dishes = (f"{self.word()} {self.word()} with {self.word()}" for _ in range(ITEMS))
        return tuple(words_of([*sections, *dishes]))

    def _store(self) -> StoreRow:
        chance, town = self._chance, self.town()
        kind = chance.choice(KINDS)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        both = chance.random()
        return StoreRow(
            id=_uuid(chance),
            onboarding_id=_uuid(chance),
            partner_id=UUID(int=1),
            partner_store_id="x",
            name=f"{chance.choice(self.words).title()} {kind} {chance.randrange(1000)}",
            address=Address(street=f"{chance.randrange(999)} Main St", city="Town", postal_code="12345"),
            latitude=town.latitude + chance.gauss(0, 0.08),
            longitude=(town.longitude + chance.gauss(0, 0.1) + 180) % 360 - 180,
            phone="+1 555 0100",
            timezone=town.zone,
            timezone_given=False,
            logo_url="https://example.com/logo.png",
            description=f"{kind} made with {self.word()} since 1998.",
            webhook_url=None,
            categories=(kind, chance.choice(KINDS)),
            delivery_allowed=both < 0.8,
            pickup_allowed=both > 0.1,
            minimum_order_amount=None,
            minimum_order_currency=None,
            paused=chance.random() < 0.02,
            pause_reason=None,
            resume_at=None,
            created_at=now,
            updated_at=now,
            version=1,
            catalog_set_id=_uuid(chance),
            currency="USD",
            sold_out=(),
        )


def _uuid(chance: random.Random) -> UUID:
    return UUID(int=chance.getrandbits(128), version=4)


def _words(chance: random.Random, count: int) -> list[str]:
    """Return distinct words, as many of them the beginning of another as in a language: one in ten."""
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = chance.choices(SYLLABLES, k=chance.choice((2, 3, 3, 3, 4, 4)))
        found["".join(syllables) + chance.choice(("", "n", "r", "s", "l", "m"))] = None
    return list(found)


def _spans(chance: random.Random) -> tuple[tuple[int, int], ...]:
    spans = []
    for day in range(7):
        opens, closes = 3600 * chance.randint(6, 12), 3600 * chance.randint(17, 23)
        if chance.random() > 0.1:
            spans.append((day * 86_400 + opens, day * 86_400 + closes))
    return tuple(spans)
