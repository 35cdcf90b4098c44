"""What searches find of a store, and a response whose stores are already encoded."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec import Struct

from mercato.features.catalogs.model import Windows
from mercato_contract.wire import Wire


class Listing(Struct, frozen=True, kw_only=True):
    """A store as it is searched: its words, its place, its hours, and the card that a storefront gets.

    `words` are those of its catalog, `spans` of the local week. `paused_until` is in milliseconds since 1970: 0 if the
    store isn't paused, INDEFINITELY if it is paused until further notice. `card` is a DiscoveredStore in JSON without
    what depends on the present time or the search; `card_version` is that of its shape.
    """

    store_id: UUID
    name: str
    description: str | None
    categories: Sequence[str]
    place: tuple[float, float] | None
    timezone: str
    pickup: bool
    delivery: bool
    paused_until: int
    words: Sequence[str]
    spans: Windows
    card: bytes
    card_version: int


class EncodedDiscoverResponse(Wire):
    """A DiscoverResponse whose stores are already encoded."""

    stores: list[msgspec.Raw]
    total_count: int
    has_more: bool
