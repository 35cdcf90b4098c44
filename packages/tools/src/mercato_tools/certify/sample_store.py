"""A store and its compiled catalog, from which the certifier makes its orders, and changes of their JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import UNSET, Struct
from msgspec.structs import replace

from mercato_catalog.building.packed import unpack
from mercato_catalog.carts import pricing
from mercato_catalog.carts.lines import order_lines
from mercato_catalog.model import CompiledCatalog, CompiledGroup, CompiledItem, Key
from mercato_contract import clock
from mercato_contract.amounts import Sums, wire
from mercato_contract.carts import MAX_DEPTH, CartModifierGroup, LineItem
from mercato_contract.events import WebhookOrder
from mercato_contract.money import decimal_to_minor, get_scale, minor_to_decimal, to_minor
from mercato_contract.placements import (
    ClientContext,
    CommerceCart,
    Customer,
    Fulfillment,
    PickupFulfillment,
    ScheduleType,
)
from mercato_contract.wire import as_json
from mercato_tools.lint import lint

CUSTOMER: Final = Customer(
    email="ada@example.net", first_name="Ada", last_name="Lovelace", phone="+442079460000"
)
CONTEXT: Final = ClientContext(ip="203.0.113.7", user_agent="mercato-certify/1")
PICKUP: Final[Fulfillment] = PickupFulfillment(schedule_type=ScheduleType.ASAP)

Choice = tuple[Key, Key]
"""A modifier group and one of its items."""


class OrderedStore(Struct, frozen=True):
    """What an order says of its store, and the items that are sold out there."""

    id: UUID
    partner_store_id: str
    timezone: str
    catalog_set_id: UUID
    sold_out: tuple[UUID, ...]


class PricedOrder(Struct, frozen=True):
    """An order as its merchant reads it, and its amounts in minor units."""

    order: WebhookOrder
    sums: Sums

    def at(self, sums: Sums) -> "PricedOrder":
        """Return the order at the amounts that its store agreed to."""
        return PricedOrder(replace(self.order, amounts=wire(sums)), sums)


@dataclass(frozen=True)
class SampleStore:
    """What is ordered from. `previous_set` is the id of the CatalogSet that it sold before, if any."""

    store: OrderedStore
    catalog: CompiledCatalog
    previous_set: UUID | None = None

    @cached_property
    def offers(self) -> tuple[LineItem, ...]:
        """A line for every item on sale now, with the modifiers that it requires."""
        local = clock.now().astimezone(ZoneInfo(self.store.timezone))
        sold_out = {item_id.int for item_id in self.store.sold_out}
        lines = (
            self._line(key)
            for key, item in self.catalog.items.items()
            if item.price is not None
            and item.available
            and key not in sold_out
            and self.catalog.is_sold(item, local)
        )
        return tuple(line for line in lines if line is not None)

    @property
    def plain_line(self) -> LineItem:
        """The first offer that costs something. Raises LookupError if there is none."""
        for line in self.offers:
            if self._item(line).price:
                return line
        raise LookupError("nothing is on sale")

    def line_with_choice(self, *, free: bool) -> LineItem | None:
        """Return an offer with a modifier that is free, or one that costs something; None if there is none."""
        for line in self.offers:
            for group_key in self._item(line).groups:
                group = self.catalog.groups[group_key]
                for key, price in group.choices.items():
                    modifier = self.catalog.items[key]
                    is_simple = modifier.available and not modifier.groups and not group.free
                    if (price == 0) is free and group.maximum != 0 and is_simple:
                        return self._line(line.item_id.int, choice=(group_key, key))
        return None

    @property
    def unavailable_items(self) -> Iterator[UUID]:
        """The items that the catalog has, but that are not on sale."""
        yield from self.store.sold_out
        yield from (UUID(int=key) for key, item in self.catalog.items.items() if not item.available)

    def order(
        self,
        lines: Sequence[LineItem] = (),
        fulfillment: Fulfillment = PICKUP,
        *,
        tip: str | None = None,
        note: str | None = None,
        customer: Customer | None = CUSTOMER,
    ) -> PricedOrder:
        """Return an order of the lines, by default of the plain one. Raises LookupError if one has no price.

        It is as the service sends it: the fulfillment's instant in UTC, and its street as `address1`.
        """
        priced = pricing.price(
            list(lines) or [self.plain_line],
            catalog=self.catalog,
            sold_out=self.store.sold_out,
            new_id=clock.new_id,
            itemized=True,
        )
        if priced.total is None:
            raise LookupError("an item has no price")
        scale = self.catalog.scale
        sums = Sums(
            currency=self.catalog.currency,
            scale=scale,
            sub_total=priced.total,
            tip=0 if tip is None else decimal_to_minor(tip, scale),
        )
        order = WebhookOrder(
            cart=CommerceCart(
                catalog_set_id=self.store.catalog_set_id,
                line_items=order_lines(priced.lines, self.catalog),
                store_id=self.store.id,
                amounts=priced.amounts,
            ),
            client_context=CONTEXT,
            fulfillment=fulfillment,
            note=note,
            amounts=wire(sums),
            customer=customer or UNSET,
        )
        return PricedOrder(order, sums)

    def _item(self, line: LineItem) -> CompiledItem:
        return self.catalog.items[line.item_id.int]

    def _line(self, key: Key, depth: int = MAX_DEPTH, choice: Choice | None = None) -> LineItem | None:
        """Return a line with the required modifiers, the first that fit, and a choice; None if none fit."""
        groups: list[CartModifierGroup] = []
        for group_key in dict.fromkeys(self.catalog.items[key].groups):
            preferred = choice[1] if choice and choice[0] == group_key else None
            lines = self._modifiers(self.catalog.groups[group_key], depth, preferred)
            if lines is None:
                return None
            if lines:
                groups.append(CartModifierGroup(modifier_group_id=UUID(int=group_key), line_items=lines))
        return LineItem(item_id=UUID(int=key), quantity=1, modifier_groups=groups)

    def _modifiers(self, group: CompiledGroup, depth: int, preferred: Key | None) -> list[LineItem] | None:
        """Return as few units as the group requires, but one of the preferred item; None if there aren't enough."""
        missing, lines = max(group.minimum, int(preferred is not None)), list[LineItem]()
        keys = sorted(group.choices, key=lambda key: key != preferred) if depth and missing else ()
        for key in keys:
            item = self.catalog.items[key]
            line = self._line(key, depth - 1) if item.available and missing else None
            if line is not None:
                limits = (group.maximum_per_item, item.maximum_quantity)
                units = min([missing, *(limit for limit in limits if limit is not None)])
                missing -= units
                lines += [replace(line, quantity=units)] if units else []
        return None if missing else lines


def sample_store(
    document: bytes,
    *,
    store_id: UUID | None = None,
    onboarding_id: UUID | None = None,
    partner_store_id: str,
    timezone: str = "UTC",
    catalog_set_id: UUID | None = None,
    previous_set: UUID | None = None,
    sold_out: Sequence[UUID] = (),
) -> SampleStore | None:
    """Return a store that sells what the document has; None when the document isn't valid."""
    onboarding_id = onboarding_id or clock.new_id()
    _, built = lint(document, default_currency="USD", max_bytes=1 << 40, onboarding_id=onboarding_id)
    if built is None:
        return None
    store = OrderedStore(
        id=store_id or clock.new_id(),
        partner_store_id=partner_store_id,
        timezone=timezone,
        catalog_set_id=catalog_set_id or clock.new_id(),
        sold_out=tuple(sold_out),
    )
    return SampleStore(store, unpack(built.compiled), previous_set)


def item(name: str, price: str | None, item_id: str, **members: Any) -> dict[str, Any]:
    """Return an item of a CatalogSet document."""
    return {"itemId": item_id, "name": name, "basePrice": price} | members


SOUP, BREAD = (f"0190f5fe-7e3b-7ccc-8000-00000000000{number}" for number in (1, 2))
EXAMPLE: Final = as_json(
    {
        "currency": "USD",
        "sections": [{"name": "Lunch", "itemIds": [SOUP]}],
        "items": {SOUP: item("Soup of the day", "6.50", SOUP), BREAD: item("Bread", "1.20", BREAD)},
    }
)
"""The catalog that is ordered from when the merchant's is unknown."""


MAPS: Final = frozenset({"items", "sections", "catalogs", "modifierGroups", "priceOverrides"})
"""Members that map ids to entities: a new name there would be an entity."""

UNKNOWN_ITEM: Final = "0190f5fe-0000-7000-8000-00000000dead"
"""An item that no catalog has."""


def with_unknown_members(value: Any, *, parent: str = "") -> Any:
    """Return a JSON value of a later version: every object has members that nobody knows yet."""
    if isinstance(value, list):
        return [with_unknown_members(item) for item in value]
    if isinstance(value, dict):
        known = {name: with_unknown_members(one, parent=name) for name, one in value.items()}
        new = {"x-new": {"since": 2030, "list": [None, True, "?"]}, "addedLater": None}
        return known if parent in MAPS else known | new
    return value


def reverse_members(value: Any) -> Any:
    """Return a JSON value with the members of every object in the opposite order."""
    if isinstance(value, list):
        return [reverse_members(item) for item in value]
    if isinstance(value, dict):
        return {name: reverse_members(one) for name, one in reversed(value.items())}
    return value


def replace_items(item_id: str = UNKNOWN_ITEM) -> Callable[[Any], Any]:
    """Return a change of an order's webhook: every line is for that item, at the price it has."""

    def change(document: Any) -> Any:
        item = {"itemId": item_id, "partnerItemId": item_id, "modifierGroups": [], "name": "Not on the menu"}
        for line in document["data"]["order"]["cart"]["lineItems"]:
            line.update(item)
        return document

    return change


def halve_prices(document: Any) -> Any:
    """Return an order's webhook at half the prices of its lines; the sums are correct."""
    order = document["data"]["order"]
    currency, lines = order["amounts"]["currency"], order["cart"]["lineItems"]
    scale = get_scale(currency)
    totals = []
    for line in lines:
        unit = to_minor(line["amounts"]["unitPrice"], currency) // 2
        totals.append(unit * line["quantity"])
        line["amounts"] = {
            "unitPrice": minor_to_decimal(unit, scale),
            "total": minor_to_decimal(totals[-1], scale),
        }
    for amounts in (order["cart"]["amounts"], order["amounts"]):
        less = to_minor(amounts["subTotal"], currency) - sum(totals)
        for name in ("subTotal", "total"):
            amounts[name] = minor_to_decimal(to_minor(amounts[name], currency) - less, scale)
    return document
