"""Prices of carts by a merchant's documents, and of orders with tax.

Written from the specification, without the service's own pricing, so that each checks the other.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from mercato_contract.wire import parse_uuid

TAX: Final = Decimal("0.05")
TAX_NAME: Final = "Sales tax, 5 %"

ADDED: Final = ("fees", "taxes", "adjustments", "tip")


class UnknownItemError(Exception):
    """A cart has an item or a group that isn't in any document."""

    def __init__(self, id_: str, pointer: str) -> None:
        super().__init__(f"{id_} isn't in the catalog.")
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class Menu:
    """Items and groups of a document, or of several, by the ids of the documents.

    A line names them by `partnerItemId` and `partnerModifierGroupId`, or by the document's own UUIDs.
    """

    items: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Any) -> "Menu":
        """Return the menu of a CatalogSet document."""
        return cls(
            dict(_entities(document.get("items"), "itemId")),
            dict(_entities(document.get("modifierGroups"), "modifierGroupId")),
        )

    def __or__(self, other: "Menu") -> "Menu":
        return Menu({**self.items, **other.items}, {**self.groups, **other.groups})

    def sub_total(self, lines: Iterable[Mapping[str, Any]]) -> Decimal:
        """Return what the lines cost. Raises UnknownItemError."""
        prices = (
            self._unit_price(line, f"/cart/lineItems/{at}") * line["quantity"]
            for at, line in enumerate(lines)
        )
        return sum(prices, Decimal(0))

    def _unit_price(self, line: Mapping[str, Any], pointer: str) -> Decimal:
        return _decimal(self._item(line, pointer)[1].get("basePrice")) + self._modifiers(line, pointer)

    def _modifiers(self, line: Mapping[str, Any], pointer: str) -> Decimal:
        """Return what the modifiers cost: a group's cheapest units are free, but not their own modifiers."""
        units: dict[str, list[tuple[Decimal, int]]] = defaultdict(list)
        total = Decimal(0)
        for at, part in enumerate(line.get("modifierGroups") or ()):
            for within, choice in enumerate(part["lineItems"]):
                where = f"{pointer}/modifierGroups/{at}/lineItems/{within}"
                group_id = self._id(self.groups, part, "modifierGroupId", pointer)
                overrides = self.groups[group_id].get("priceOverrides") or {}
                id_, item = self._item(choice, where)
                price = {_key(one): price for one, price in overrides.items()}.get(id_, item.get("basePrice"))
                units[group_id].append((_decimal(price), choice["quantity"]))
                total += self._modifiers(choice, where) * choice["quantity"]
        for id_, prices in units.items():
            free = self.groups[id_].get("freeQuantity") or 0
            for price, quantity in sorted(prices):
                total += price * max(quantity - max(free, 0), 0)
                free -= quantity
        return total

    def _item(self, line: Mapping[str, Any], pointer: str) -> tuple[str, Mapping[str, Any]]:
        """Return the id and the item of a line."""
        id_ = self._id(self.items, line, "itemId", f"{pointer}/itemId")
        return id_, self.items[id_]

    def _id(self, known: Mapping[str, Any], part: Mapping[str, Any], member: str, pointer: str) -> str:
        own = part.get(f"partner{member[0].upper()}{member[1:]}", part[member])
        for id_ in (_key(own), _key(part[member])):
            if id_ in known:
                return id_
        raise UnknownItemError(own, pointer)


def items_of(
    lines: Iterable[Mapping[str, Any]], pointer: str = "/cart/lineItems"
) -> Iterator[tuple[str, str]]:
    """Yield the item id (in lower case) and the pointer of every line, at every depth."""
    for at, line in enumerate(lines):
        yield line["itemId"].lower(), f"{pointer}/{at}/itemId"
        for group, part in enumerate(line.get("modifierGroups") or ()):
            yield from items_of(part["lineItems"], f"{pointer}/{at}/modifierGroups/{group}/lineItems")


# --- amounts of an order ------------------------------------------------------------------------------


def tax_on(amount: str) -> str:
    """Return the tax on a decimal amount, at the amount's scale."""
    base = Decimal(amount)
    return str((base * TAX).quantize(base, rounding=ROUND_HALF_UP))


def total_of(amounts: Mapping[str, Any]) -> Decimal:
    """Return subTotal + fees - promotions + taxes + adjustments + tip."""
    added = sum((_member(amounts, name) for name in ADDED), Decimal(0))
    return _member(amounts, "subTotal") + added - _member(amounts, "promotions")


def with_tax(amounts: Mapping[str, Any], sub_total: Decimal | None) -> dict[str, Any]:
    """Return a merchant's amounts for those of an order; `sub_total` is by its own catalog, None without one."""
    sent = Decimal(amounts["subTotal"])
    own = str(sent if sub_total is None else sub_total.quantize(sent))
    tax = tax_on(own)
    total = total_of({**amounts, "subTotal": own, "taxes": tax})
    return {
        "subTotal": own,
        "taxes": tax,
        "taxesDescription": [{"amount": tax, "description": TAX_NAME}],
        "total": str(total),
    }


def faults_of(amounts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the faults of an order's amounts: tax, then total."""
    tax = Decimal(tax_on(amounts["subTotal"]))
    faults = []
    if _member(amounts, "taxes") != tax:
        faults.append(("/amounts/taxes", f"The tax on the subTotal is {tax}."))
    if _member(amounts, "total") != total_of(amounts):
        faults.append(("/amounts/total", f"The sum is {total_of(amounts)}."))
    code = "ORDER_TOTAL_DIFFERENT"
    return [{"code": code, "message": message, "pointer": pointer} for pointer, message in faults]


def booking_faults(cart: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return where a cart's lines don't add up, as a point of sale that books line by line checks.

    A line's `unitPrice` is its item's own price and what its modifiers come to; an own price isn't charged for the
    units that are free; the totals of the lines come to the cart's subTotal.
    """
    lines, faults = cart["lineItems"], list[tuple[str, str]]()
    if "amounts" in cart:
        total = sum((_total(line) for line in lines), Decimal(0))
        if total != _member(cart["amounts"], "subTotal"):
            faults.append(("/cart/amounts/subTotal", f"The lines come to {total}."))
    for at, line in enumerate(lines):
        faults += _line_faults(line, f"/cart/lineItems/{at}")
    code = "ITEM_PRICE_CHANGED"
    return [{"code": code, "message": message, "pointer": pointer} for pointer, message in faults]


def _line_faults(line: Mapping[str, Any], pointer: str) -> Iterator[tuple[str, str]]:
    choices = [
        (f"{pointer}/modifierGroups/{number}/lineItems/{at}", choice)
        for number, group in enumerate(line["modifierGroups"])
        for at, choice in enumerate(group["lineItems"])
    ]
    if "amounts" in line:
        unit = _member(line["amounts"], "unitPrice")
        own = unit - sum((_total(choice) for _, choice in choices), Decimal(0))
        charged = unit * line["quantity"] - own * line.get("freeQuantity", 0)
        if charged != _total(line):
            yield f"{pointer}/amounts/total", f"The units come to {charged}."
    for below, choice in choices:
        yield from _line_faults(choice, below)


def _total(line: Mapping[str, Any]) -> Decimal:
    return _member(line.get("amounts", {}), "total")


def corrupt(amounts: Mapping[str, Any], member: str) -> dict[str, Any]:
    """Return the amounts with one member too high by one unit of its last digit."""
    right = Decimal(amounts[member])
    wrong = right + Decimal(1).scaleb(int(right.as_tuple().exponent))
    return {**amounts, member: str(wrong)}


def _entities(written: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entities of a dictionary or a list by id; an entry of a list without an id can't be ordered."""
    if isinstance(written, Mapping):
        yield from ((_key(id_), one) for id_, one in written.items())
    else:
        yield from ((_key(tax[name]), tax) for tax in written or () if name in tax)


def _key(id_: str) -> str:
    """Return an id for lookups: UUIDs in lower case."""
    return id_.lower() if parse_uuid(id_) else id_


def _decimal(price: Any) -> Decimal:
    return Decimal(str(price)) if price is not None else Decimal(0)


def _member(amounts: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(str(amounts.get(name) or 0))
