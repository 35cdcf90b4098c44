"""What the certifier's orders are made of: a catalog, and a store that sells it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import UNSET
from msgspec.structs import replace

from mercato import clock
from mercato.carts.model import MOST_DEPTH, Cart, CartModifierGroup, LineItem
from mercato.catalog.build import Built
from mercato.catalog.compile import unpack
from mercato.catalog.lint import lint
from mercato.catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato.orders.amounts import Sums, wire
from mercato.orders.request import ClientContext, Customer, Fulfillment, OrderCore, ValidateAmounts
from mercato.orders.review import review
from mercato.orders.wire import OrderTold
from mercato.stores.address import Address
from mercato.stores.model import SoldOut, StoreRow
from mercato.wire import as_json

CUSTOMER: Final = Customer(
    email="ada@example.net", first_name="Ada", last_name="Lovelace", phone="+442079460000"
)
CONTEXT: Final = ClientContext(ip="203.0.113.7", user_agent="mercato-certify/1")

_OPENED: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Draft:
    """An order, priced, as a merchant is told of it, and what it costs in minor units."""

    order: OrderTold
    sums: Sums

    def agreed(self, sums: Sums) -> "Draft":
        """Return the order at the amounts that its store agreed to."""
        return Draft(replace(self.order, amounts=wire(sums)), sums)


@dataclass(frozen=True)
class Shop:
    """A store and its compiled catalog. `is_theirs`: the catalog is the one of who is certified. `old_set`
    is the id of a CatalogSet that it had before, if it had one.
    """

    store: StoreRow
    catalog: CompiledCatalog
    is_theirs: bool
    old_set: str | None = None

    @cached_property
    def offers(self) -> tuple[LineItem, ...]:
        """Return a line for everything that can be bought now by itself, with what has to be chosen."""
        local = clock.now().astimezone(ZoneInfo(self.store.timezone))
        out = {one.item_id.int for one in self.store.sold_out}
        lines = (
            self.line(key)
            for key, item in self.catalog.items.items()
            if item.price is not None
            and item.available
            and key not in out
            and self.catalog.is_sold(item, local)
        )
        return tuple(line for line in lines if line is not None)

    @property
    def plain(self) -> LineItem:
        """Return the first offer that costs something. Raises LookupError if there is none."""
        for line in self.offers:
            price = self.catalog.items[line.item_id.int].price
            if price:
                return line
        raise LookupError("nothing is for sale")

    def line(self, key: Key, *, quantity: int = 1) -> LineItem | None:
        """Return a line of an item with the first choices that have to be made; None if they can't be."""
        groups = self._chosen(self.catalog.items[key], MOST_DEPTH)
        if groups is None:
            return None
        return LineItem(item_id=UUID(int=key), quantity=quantity, modifier_groups=groups)

    def with_choice(self, *, free: bool) -> LineItem | None:
        """Return an offer with a choice that costs nothing, or something; None if there is none."""
        for line in self.offers:
            item = self.catalog.items[line.item_id.int]
            for group_key in item.groups:
                group = self.catalog.groups[group_key]
                for key, price in group.choices.items():
                    if (price == 0) is free and group.maximum != 0 and not group.free and self._is_plain(key):
                        return self._choosing(line, group_key, group, key)
        return None

    @property
    def unavailable(self) -> Iterator[UUID]:
        """Yield items that are in the catalog, but can't be had."""
        sections = (UUID(int=key) for key, item in self.catalog.items.items() if not item.available)
        yield from (one.item_id for one in self.store.sold_out)
        yield from sections

    def order(
        self,
        lines: Sequence[LineItem],
        fulfillment: Fulfillment,
        *,
        tip: str | None = None,
        customer: Customer | None = CUSTOMER,
    ) -> Draft:
        """Return an order of the lines. Raises LookupError if something in it has no price."""
        cart = Cart(catalog_set_id=self.store.catalog_set_id, store_id=self.store.id, line_items=list(lines))
        core = OrderCore(
            cart=cart,
            client_context=CONTEXT,
            fulfillment=fulfillment,
            amounts=None if tip is None else ValidateAmounts(tip=tip),
            customer=customer,
        )
        found = review(core, store=self.store, catalog=self.catalog, now=clock.now(), new_id=clock.new_id)
        if found.sums is None:
            raise LookupError("something in it has no price")
        told = OrderTold(
            cart=found.cart,
            client_context=CONTEXT,
            fulfillment=found.fulfillment,
            amounts=wire(found.sums),
            customer=customer or UNSET,
        )
        return Draft(told, found.sums)

    def _chosen(self, item: CompiledItem, depth: int) -> list[CartModifierGroup] | None:
        groups: list[CartModifierGroup] = []
        for key in dict.fromkeys(item.groups):
            group = self.catalog.groups[key]
            if group.minimum:
                lines = self._choices(group, depth)
                if lines is None:
                    return None
                groups.append(CartModifierGroup(modifier_group_id=UUID(int=key), line_items=lines))
        return groups

    def _choices(self, group: CompiledGroup, depth: int) -> list[LineItem] | None:
        """Return the fewest units that the group asks for, of its first choices."""
        missing, lines = group.minimum, list[LineItem]()
        for key in group.choices if depth else ():
            item = self.catalog.items[key]
            below = self._chosen(item, depth - 1) if item.available else None
            if below is not None and missing:
                bounds = [
                    most for most in (group.maximum_per_item, item.maximum_quantity) if most is not None
                ]
                units = min([missing, *bounds])
                missing -= units
                if units:
                    lines.append(LineItem(item_id=UUID(int=key), quantity=units, modifier_groups=below))
        return None if missing else lines

    def _is_plain(self, key: Key) -> bool:
        item = self.catalog.items[key]
        return item.available and not item.groups

    def _choosing(self, line: LineItem, group_key: Key, group: CompiledGroup, key: Key) -> LineItem:
        """Return the line with one unit of a choice from a group, in place of what it had from it."""
        rest = [one for one in line.modifier_groups if one.modifier_group_id.int != group_key]
        had = [
            choice
            for one in line.modifier_groups
            if one.modifier_group_id.int == group_key
            for choice in one.line_items
        ]
        kept = _without_last(had) if had and group.maximum is not None and len(had) >= group.maximum else had
        chosen = LineItem(item_id=UUID(int=key), quantity=1, modifier_groups=[])
        kept = [one for one in kept if one.item_id.int != key]
        mine = CartModifierGroup(modifier_group_id=UUID(int=group_key), line_items=[chosen, *kept])
        return LineItem(item_id=line.item_id, quantity=line.quantity, modifier_groups=[*rest, mine])


def shop_of(
    document: bytes,
    *,
    store_id: UUID,
    partner_store_id: str,
    timezone: str,
    onboarding_id: UUID,
    is_theirs: bool,
    name: str = "Certification",
    sold_out: Sequence[UUID] = (),
) -> Shop | None:
    """Return a shop that sells what the document has; None when the document is not valid."""
    _, built = lint(document, default_currency="USD", most_bytes=1 << 40, onboarding_id=onboarding_id)
    if built is None:
        return None
    store = _store(
        built,
        store_id=store_id,
        partner_store_id=partner_store_id,
        timezone=timezone,
        onboarding_id=onboarding_id,
        name=name,
        sold_out=sold_out,
    )
    return Shop(store, unpack(built.compiled), is_theirs)


def _store(
    built: Built,
    *,
    store_id: UUID,
    partner_store_id: str,
    timezone: str,
    onboarding_id: UUID,
    name: str,
    sold_out: Sequence[UUID],
) -> StoreRow:
    return StoreRow(
        id=store_id,
        onboarding_id=onboarding_id,
        partner_id=onboarding_id,
        partner_store_id=partner_store_id,
        name=name,
        address=Address(
            street="1 Main Street", city="Madison", state="WI", postal_code="53703", country="US"
        ),
        latitude=43.0731,
        longitude=-89.4012,
        phone=None,
        timezone=timezone,
        timezone_given=True,
        logo_url=None,
        description=None,
        webhook_url=None,
        categories=(),
        delivery_allowed=True,
        pickup_allowed=True,
        minimum_order_amount=None,
        minimum_order_currency=None,
        paused=False,
        pause_reason=None,
        resume_at=None,
        created_at=_OPENED,
        updated_at=_OPENED,
        version=1,
        catalog_set_id=clock.new_id(),
        currency=built.summary.currency,
        sold_out=tuple(SoldOut(item_id, None) for item_id in sold_out),
    )


def _without_last(lines: list[LineItem]) -> list[LineItem]:
    last = lines[-1]
    if last.quantity == 1:
        return lines[:-1]
    return [*lines[:-1], replace(last, quantity=last.quantity - 1)]


def item(name: str, price: str | None, item_id: str, **members: Any) -> dict[str, Any]:
    """Return an item of a document."""
    return {"itemId": item_id, "name": name, "basePrice": price} | members


EXAMPLE: Final = as_json(
    {
        "currency": "USD",
        "sections": [{"name": "Lunch", "itemIds": ["0190f5fe-7e3b-7ccc-8000-000000000001"]}],
        "items": {
            one["itemId"]: one
            for one in (
                item("Soup of the day", "6.50", "0190f5fe-7e3b-7ccc-8000-000000000001"),
                item("Bread", "1.20", "0190f5fe-7e3b-7ccc-8000-000000000002"),
            )
        },
    }
)
"""What is ordered from a merchant whose catalog is not known."""
