"""Menus of web pages: `Menu`, `MenuSection` and `MenuItem` with their `Offer`, as schema.org has them, in JSON-LD."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from mercato_catalog.validation.document import CatalogRow, GroupRow, ItemRow, SectionRow
from mercato_catalog.validation.findings import shorten
from mercato_contract.decoding.checks import uri_fault
from mercato_contract.json_values import escape
from mercato_contract.money import find_scale
from mercato_contract.refusals import ValidationFailed
from mercato_tools.imports.draft import Draft, Losses, Ref, Variant
from mercato_tools.imports.json_ld import MAX_DEPTH, Graph, Place, is_a, read_blocks, text_of
from mercato_tools.imports.spreadsheets.cells import Number
from mercato_tools.imports.spreadsheets.prices import PriceError, Prices, marks_in

_OFFER: Final = {
    "price",
    "priceCurrency",
    "lowPrice",
    "highPrice",
    "priceSpecification",
    "availability",
    "name",
    "sku",
}
_READ: Final = {
    "Menu": {"name", "description", "hasMenuSection", "hasMenuItem"},
    "MenuSection": {"name", "description", "image", "hasMenuSection", "hasMenuItem"},
    "MenuItem": {"name", "description", "image", "offers", "menuAddOn"},
    "Offer": _OFFER,
}
_IGNORED: Final = {"url", "mainEntityOfPage", "inLanguage", "itemOffered", "offerCount", "dateModified"}
_GONE: Final = {"OutOfStock", "SoldOut", "Discontinued"}


class Page(Struct, frozen=True):
    """The menus of a page, and every node of it."""

    graph: Graph
    menus: Sequence[Place]


def read(document: bytes, losses: Losses) -> Page:
    """Return the menus of a saved page or of a JSON-LD file. Raises ValidationFailed."""
    graph = Graph(read_blocks(document, losses))
    menus = [place for place in graph.places if is_a(place.node, "Menu") and len(place.node) > 2]  # noqa: PLR2004  # more than a reference with its type
    if not menus:
        held = {id(inner.node) for place in graph.places for inner in _below(graph, place)}
        loose = [
            place for place in graph.places if is_a(place.node, "MenuSection") and id(place.node) not in held
        ]
        menus = [Place({"hasMenuSection": [one.node for one in loose]}, "")] if loose else []
    if not menus:
        raise ValidationFailed.at(
            "", "There is no menu in the file: no JSON-LD of schema.org's type Menu or MenuSection."
        )
    return Page(graph, menus)


def _below(graph: Graph, place: Place) -> list[Place]:
    return graph.nodes(place.node, place.at, "hasMenuSection")


def currency_of(page: Page) -> str | None:
    """Return the first currency that an offer names."""
    named = (text_of(place.node.get("priceCurrency")) for place in page.graph.places)
    return next((name.upper() for name in named if name and find_scale(name.upper()) is not None), None)


def fill(page: Page, draft: Draft) -> None:
    """Add the menus to the draft."""
    texts = [place.node.get(name) for place in page.graph.places for name in ("price", "lowPrice")]
    marks = marks_in([text for text in texts if isinstance(text, str)], draft.currency, draft.scale)
    reader = _Reader(page.graph, draft, Prices(draft.currency, draft.scale, marks, given=None))
    for menu in page.menus:
        reader.menu(menu)


class _Reader:
    def __init__(self, graph: Graph, draft: Draft, prices: Prices) -> None:
        self._graph = graph
        self._draft = draft
        self._losses = draft.losses
        self._prices = prices
        self._keys: dict[int, str] = {}
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._groups: dict[int, Ref] = {}

    def menu(self, menu: Place) -> None:
        key = self._key(menu, "menu", "")
        self._report_unread(menu, "Menu")
        sections = self._sections(menu, key, 0)
        items = self._items(menu, key)
        if items:
            self._draft.section(
                f"{key}/rest", SectionRow(name=text_of(menu.node.get("name"))), items, at=menu.at
            )
            sections = [*sections, Ref(f"{key}/rest", menu.at)]
        row = CatalogRow(
            name=text_of(menu.node.get("name")) or "Menu", description=text_of(menu.node.get("description"))
        )
        self._draft.catalog(key, row, sections, at=menu.at)

    def _sections(self, above: Place, path: str, depth: int) -> list[Ref]:
        found = []
        for place in _below(self._graph, above) if depth < MAX_DEPTH else ():
            if id(place.node) in self._keys:
                # Two places, or a cycle, which the draft reports.
                found.append(Ref(self._keys[id(place.node)], place.at))
                continue
            key = self._key(place, "section", path)
            self._report_unread(place, "MenuSection")
            row = SectionRow(
                name=text_of(place.node.get("name")),
                description=text_of(place.node.get("description")),
                image_url=self._image(place),
            )
            below = self._sections(place, key, depth + 1)
            self._draft.section(key, row, self._items(place, key), below, at=place.at)
            found.append(Ref(key, place.at))
        return found

    def _items(self, above: Place, path: str) -> list[Ref]:
        return [self._item(place, path) for place in self._graph.nodes(above.node, above.at, "hasMenuItem")]

    def _item(self, place: Place, path: str) -> Ref:
        known = self._keys.get(id(place.node))
        if known is not None:
            return Ref(known, place.at)
        key = self._key(place, "item", path)
        self._report_unread(place, "MenuItem")
        row = ItemRow(
            name=text_of(place.node.get("name")),
            description=text_of(place.node.get("description")),
            image_url=self._image(place),
        )
        offers = self._graph.nodes(place.node, place.at, "offers")
        self._draft.product(
            key, row, self._add_ons(place, key), list(self._variants(offers, key)), at=place.at
        )
        return Ref(key, place.at)

    def _variants(self, offers: Sequence[Place], key: str) -> Iterator[Variant]:
        used: set[str] = set()
        for index, offer in enumerate(offers):
            self._report_unread(offer, "Offer")
            node = offer.node
            row = ItemRow(
                name=text_of(node.get("name")),
                base_price=self._price(offer),
                is_available=not any(str(node.get("availability")).endswith(word) for word in _GONE),
                partner_item_id=text_of(node.get("sku")),
            )
            id_ = f"{key}/{row.name or index}"
            # Another offer of the same name is another choice, with a price of its own.
            id_ = f"{id_}:{index}" if id_ in used else id_
            used.add(id_)
            yield Variant(id=id_, at=offer.at, row=row)

    def _add_ons(self, place: Place, key: str) -> list[Ref]:
        """Return groups of what can be added: a section each, and one of the items that are in none."""
        found, loose = [], []
        for add_on in self._graph.nodes(place.node, place.at, "menuAddOn"):
            if not is_a(add_on.node, "MenuSection"):
                loose.append(self._item(add_on, key))
                continue
            # One group for all items that name the section: of one with many items there may be as many.
            known = self._groups.get(id(add_on.node))
            if known is None:
                name = text_of(add_on.node.get("name"))
                choices = self._items(add_on, f"{key}/{name}")
                known = self._groups[id(add_on.node)] = self._group(f"{key}/{name}", name, choices, add_on.at)
            found.append(known)
        if loose:
            found.append(self._group(f"{key}/add-ons", "Add-ons", loose, place.at))
        return found

    def _group(self, key: str, name: str | None, choices: Sequence[Ref], at: str) -> Ref:
        self._draft.group(key, GroupRow(name=name, maximum_per_item=1), choices, at=at)
        return Ref(key, at)

    # --- properties -----------------------------------------------------------------------------

    def _key(self, place: Place, kind: str, path: str) -> str:
        """Return what an entity's id is derived from: its `@id`, or else its name below the names above it."""
        named = place.node.get("@id")
        name = named if isinstance(named, str) else f"{path}/{text_of(place.node.get('name')) or ''}"
        key = base = f"{kind}:{name}"
        while key in self._used:
            # From the last one on: a page may have any number of one name.
            number = self._numbers[base] = self._numbers.get(base, 1) + 1
            key = f"{base}:{number}"
        self._used.add(key)
        self._keys[id(place.node)] = key
        return key

    def _price(self, offer: Place) -> int | None:
        own = offer.node.get("priceCurrency")
        for one in (offer, *self._graph.nodes(offer.node, offer.at, "priceSpecification")):
            for name in ("price", "lowPrice"):
                value = one.node.get(name)
                if isinstance(value, Decimal | str) and value != "":
                    if name == "lowPrice":
                        self._losses.approximated(f"{one.at}/{name}", "The lowest price of several is used.")
                    return self._amount(value, one.node.get("priceCurrency") or own, f"{one.at}/{name}")
        return None

    def _amount(self, value: Decimal | str, currency: Any, at: str) -> int | None:
        self._draft.check_currency((text_of(currency) or self._draft.currency).upper(), at)
        try:
            return self._prices.read(Number(value) if isinstance(value, Decimal) else value)
        except PriceError:
            self._losses.dropped(at, "The price isn't one amount in the catalog's currency.")
            return None

    def _image(self, place: Place) -> str | None:
        value = place.node.get("image")
        one = value[0] if isinstance(value, list) and value else value
        address = text_of(one.get("url") or one.get("contentUrl")) if isinstance(one, dict) else text_of(one)
        if address is not None and uri_fault(address, "image") is not None:
            self._losses.dropped(f"{place.at}/image", "The image isn't a whole address.")
            return None
        return address

    def _report_unread(self, place: Place, kind: str) -> None:
        for name, value in place.node.items():
            if name.startswith("@") or name in _READ[kind] | _IGNORED or value in (None, "", [], {}):
                continue
            self._losses.dropped(f"{place.at}/{escape(name)}", f"{shorten(name)} has no counterpart.")
