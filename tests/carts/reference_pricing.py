"""A second implementation of pricing, slow and obvious: it reads the partner's document, counts every single unit, and
uses fractions. It shares no code with the service.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Json = dict[str, Any]


@dataclass
class Verdict:
    """The prices of the lines (None if unavailable), and the codes and pointers of all faults."""

    prices: list[Fraction | None] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def total(self) -> Fraction | None:
        return None if None in self.prices else sum((p for p in self.prices if p is not None), Fraction())


def verdict(document: Json, sold_out: set[str], lines: list[Json]) -> Verdict:
    """Price a cart of these lines by the document."""
    out = Verdict()
    for index, line in enumerate(lines):
        at = f"/cart/lineItems/{index}"
        item = document["items"].get(line["itemId"])
        price = item.get("basePrice") if item is not None else None
        if price is None and not (item is not None and is_out(item, line["itemId"], sold_out)):
            out.faults.append(("ITEM_UNAVAILABLE", at))
        if item is not None:
            cost = unit(document, sold_out, line, Fraction(price or 0), at, out)
            out.prices.append(None if price is None or cost is None else cost * line["quantity"])
            most = item.get("maximumQuantity")
            before = [one["quantity"] for one in lines[: index + 1] if one["itemId"] == line["itemId"]]
            if most is not None and sum(before) > most:
                out.faults.append(("VALIDATION_FAILED", at + "/quantity"))
        else:
            out.prices.append(None)
    return out


def is_out(item: Json, item_id: str, sold_out: set[str]) -> bool:
    return item.get("isAvailable") is False or item_id in sold_out


def unit(
    document: Json, sold_out: set[str], line: Json, own: Fraction, at: str, out: Verdict
) -> Fraction | None:
    """Return the price of one unit of a line; `own` is that of its item in this place."""
    item = document["items"][line["itemId"]]
    costs: list[Fraction | None] = [own]
    if is_out(item, line["itemId"], sold_out):
        out.faults.append(("ITEM_UNAVAILABLE", at))
        costs.append(None)
    sent = [(f"{at}/modifierGroups/{n}", group) for n, group in enumerate(line["modifierGroups"])]
    offered = item.get("modifierGroupIds", [])
    for group_id in {group["modifierGroupId"] for _, group in sent} | set(offered):
        parts = [(where, group) for where, group in sent if group["modifierGroupId"] == group_id]
        where = parts[0][0] if parts else at + "/modifierGroups"
        if group_id not in offered:
            out.faults.append(("ITEM_UNAVAILABLE", where))
            costs.append(None)
            continue
        choices = [
            (f"{place}/lineItems/{n}", below)
            for place, group in parts
            for n, below in enumerate(group["lineItems"])
        ]
        costs.append(
            group_cost(document, sold_out, document["modifierGroups"][group_id], choices, where, out)
        )
    return None if None in costs else sum((cost for cost in costs if cost is not None), Fraction())


def group_cost(
    document: Json,
    sold_out: set[str],
    group: Json,
    choices: list[tuple[str, Json]],
    where: str,
    out: Verdict,
) -> Fraction | None:
    """Return the price of the choices of one group."""
    every_unit: list[tuple[Fraction, Fraction | None]] = []
    for at, line in choices:
        if line["itemId"] not in group["itemIds"]:
            out.faults.append(("ITEM_UNAVAILABLE", at))
            every_unit.append((Fraction(), None))
            continue
        base = document["items"][line["itemId"]].get("basePrice")
        own = Fraction(group.get("priceOverrides", {}).get(line["itemId"], base or 0))
        with_modifiers = unit(document, sold_out, line, own, at, out)
        extra = None if with_modifiers is None else with_modifiers - own
        every_unit += [(own, extra)] * line["quantity"]
    code = broken_rule(document, group, [line for _, line in choices])
    if code is not None:
        out.faults.append((code, where))
    if any(extra is None for _, extra in every_unit):
        return None
    paid = sorted(own for own, _ in every_unit)[group.get("freeQuantity", 0) :]
    return sum(paid, Fraction()) + sum((extra for _, extra in every_unit if extra is not None), Fraction())


def broken_rule(document: Json, group: Json, lines: list[Json]) -> str | None:
    units = [line["itemId"] for line in lines for _ in range(line["quantity"])]
    if len(units) < group.get("minimumAllowed", 0):
        return "MODIFIER_REQUIRED"
    most = group.get("maximumAllowed")
    if most is not None and len(units) > most:
        return "MODIFIER_LIMIT_EXCEEDED"
    for item_id in set(units):
        item = document["items"].get(item_id, {})
        for bound in (group.get("maximumPerItem"), item.get("maximumQuantity")):
            if bound is not None and units.count(item_id) > bound:
                return "MODIFIER_LIMIT_EXCEEDED"
    return None
