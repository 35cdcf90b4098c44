"""Stores to search, written as an activation would write them but without catalogs, jobs and HTTP."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec

from mercato.features.discovery import index
from mercato.features.discovery.service import Discovery
from mercato.features.stores.model import StoreRow
from mercato.features.stores.search import listing_of
from mercato.platform.db.engine import Database
from mercato_catalog.words import WEEK, SetSearch, words_of
from mercato_contract.discovery import DiscoverRequest
from mercato_contract.stores import Address

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@dataclass
class StoreIndex:
    """Stores by name, and searches of them at an instant."""

    db: Database
    now: datetime = NOW
    ids: dict[str, UUID] = field(default_factory=dict)

    async def put(self, name: str, at: tuple[float, float] | None = None, **options: Any) -> None:
        """Write a store; the same name again changes it."""
        await self.put_all([(name, at, options)])

    async def put_all(self, stores: Iterable[tuple[str, tuple[float, float] | None, dict[str, Any]]]) -> None:
        async with self.db.write() as tx:
            for name, at, options in stores:
                items = options.pop("items", ())
                search = SetSearch(tuple(words_of(items)), options.pop("spans", WEEK))
                row = store(self.ids.setdefault(name, uuid4()), name, at, **options)
                await index.put(tx, listing_of(row, search))

    async def find(self, **requested: Any) -> Any:
        """Return the answer as a client reads it."""
        request = msgspec.convert(requested, DiscoverRequest)
        found = await Discovery(self.db, lambda: self.now).discover(request)
        return msgspec.json.decode(msgspec.json.encode(found))

    async def names(self, **requested: Any) -> list[str]:
        """Return the names of the stores found, in order, after checking the counts."""
        found = await self.find(**requested)
        assert found["totalCount"] == len(found["stores"]), found
        assert not found["hasMore"]
        return [one["name"] for one in found["stores"]]


def store(store_id: UUID, name: str, at: tuple[float, float] | None, **options: Any) -> StoreRow:
    values: dict[str, Any] = {
        "phone": None,
        "timezone": "UTC",
        "description": None,
        "categories": (),
        "delivery_allowed": True,
        "pickup_allowed": True,
        "paused": False,
        "resume_at": None,
    }
    return StoreRow(
        id=store_id,
        onboarding_id=store_id,
        partner_id=store_id,
        partner_store_id=name,
        name=name,
        address=Address(),
        latitude=at[0] if at else None,
        longitude=at[1] if at else None,
        version=1,
        timezone_given=True,
        logo_url=None,
        webhook_url=None,
        minimum_order_amount=None,
        minimum_order_currency=None,
        pause_reason=None,
        created_at=NOW,
        updated_at=NOW,
        catalog_set_id=store_id,
        currency="USD",
        sold_out=(),
        **(values | options),
    )


def haversine(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return metres between two places by the textbook formula."""
    (lat1, lng1), (lat2, lng2) = (map(math.radians, place) for place in (one, other))
    inside = (
        math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lng2 - lng1) / 2) ** 2
    )
    return 2 * 6_371_008.8 * math.asin(min(math.sqrt(inside), 1))
