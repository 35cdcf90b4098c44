"""Menus for agents of storefronts: by section, by word and by page, as far as an answer has room."""

import re
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from mercato.agents.texts import plain
from mercato.agents.tools import LARGE, READS, SMALL, ToolCall, Tools, take_within
from mercato.api.stores import marketfront_stores
from mercato.features.partners.model import Surface
from mercato.features.stores.menu_index import MenuIndex, Section
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato.features.stores.views import availability_of
from mercato.http.calls import operation_of
from mercato.services import Services
from mercato_catalog.model import CompiledCatalog, Key
from mercato_contract.clock import zone
from mercato_contract.money import minor_to_decimal
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import StoreAvailability
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire

tools: Final = Tools(Surface.MARKETFRONT)

LIMIT: Final = 50
MAX_LIMIT: Final = 100
"""Items of an answer: those that it has if the call names no limit, and the most that it may name."""

STORE: Final = operation_of(marketfront_stores, "getMarketfrontStore")

_CURSOR: Final = re.compile(r"([is])(\d{1,9})-([0-9a-f]{8})", re.ASCII)


class Choices(StrEnum):
    """Whether something has modifier groups, and whether one of them must be answered."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


class GetMenu(Wire, forbid_unknown_fields=True):
    """The arguments of get_menu."""

    store_id: UUID
    section: Annotated[str, Meta(max_length=1000, description="Name of a section")] | None = None
    query: Annotated[str, Meta(max_length=200, description="Words of an item")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description=f"{LIMIT} by default")] | None = None
    cursor: Annotated[str, Meta(max_length=40, description="nextCursor of the answer before")] | None = None


class MenuSection(Wire, kw_only=True):
    """A section, the number of its items, and when they are sold, unless always."""

    name: str
    items: int
    hours: str | UnsetType = UNSET


class MenuItem(Wire, kw_only=True):
    """An item in brief. `soldNow` is false outside the hours of its section, and else absent."""

    id: UUID
    name: str
    price: str
    section: str
    choices: Choices
    sold_out: bool
    sold_now: bool | UnsetType = UNSET


class MenuPage(Wire, kw_only=True):
    """The result of get_menu: sections, or items."""

    store_id: UUID
    store: str
    currency: str
    is_open: bool
    opens_at: str | None
    closes_at: str | None
    total_items: int
    sections: list[MenuSection] | UnsetType = UNSET
    items: list[MenuItem] | UnsetType = UNSET
    next_cursor: str | None


class StoreMenu(Struct, frozen=True):
    """A store with its menu, as it is now."""

    row: StoreRow
    catalog: CompiledCatalog
    index: MenuIndex
    now: datetime
    sold_out: frozenset[Key]

    @property
    def availability(self) -> StoreAvailability:
        return availability_of(self.row, self.catalog, self.now)

    def is_sold_out(self, key: Key) -> bool:
        return key in self.sold_out or not self.catalog.items[key].available

    def is_sold_now(self, key: Key) -> bool:
        """Return whether the item's section sells it at this time of the day."""
        return self.catalog.is_sold(self.catalog.items[key], self.now.astimezone(zone(self.row.timezone)))

    def choices_of(self, key: Key) -> Choices:
        groups = [self.catalog.groups[group] for group in self.catalog.items[key].groups]
        if any(group.minimum > 0 for group in groups):
            return Choices.REQUIRED
        return Choices.OPTIONAL if any(group.choices for group in groups) else Choices.NONE

    def price(self, amount: int) -> str:
        return minor_to_decimal(amount, self.catalog.scale)


async def read_menu(app: Services, store_id: UUID) -> StoreMenu:
    """Return a store with its menu. Raises StoreNotFound."""
    row = await app.cache.find(store_id)
    if row is None:
        raise StoreNotFound(store_id)
    now = app.clock()
    return StoreMenu(
        row=row,
        catalog=await app.compiled.get(row.catalog_set_id),
        index=await app.menu_indexes.get(row.catalog_set_id),
        now=now,
        sold_out=frozenset(item_id.int for item_id in row.unavailable_at(now)),
    )


# --- the text -------------------------------------------------------------------------------------


def line_of_section(section: MenuSection) -> str:
    hours = "" if section.hours is UNSET else f", {section.hours}"
    return f"- {section.name}: {count_of(section.items, 'item')}{hours}"


def line_of_item(item: MenuItem) -> str:
    notes = [
        f"choices {item.choices.value}" if item.choices is not Choices.NONE else "",
        "SOLD OUT" if item.sold_out else "",
        "not sold at this time" if item.sold_now is False else "",
    ]
    return "; ".join([f"- {item.name} [{item.id}] {item.price}", *(note for note in notes if note)])


def render_menu(page: MenuPage) -> str:
    """Return a page of a menu as text."""
    if page.is_open:
        hours = "open" if page.closes_at is None else f"open until {page.closes_at}"
    else:
        hours = "closed" if page.opens_at is None else f"closed until {page.opens_at}"
    lines = [f"{page.store}: {hours}. {count_of(page.total_items, 'item')}, prices in {page.currency}."]
    if page.sections is not UNSET:
        lines.append("Too many to list. Ask again with a section or a query. Sections:")
        lines += map(line_of_section, page.sections)
    section = ""
    for item in page.items or ():
        if item.section != section:
            section = item.section
            lines.append(f"{section}:")
        lines.append(line_of_item(item))
    if page.next_cursor is not None:
        lines.append(f"More: cursor {page.next_cursor}")
    return "\n".join(lines)


# --- the tool -------------------------------------------------------------------------------------


@tools.declare(title="Read a menu", calls=[STORE], hints=READS, render=render_menu)
async def get_menu(call: ToolCall[GetMenu]) -> MenuPage:
    """Read what a store sells, in brief: all items, or the sections if they are too many: then ask for one, or for
    words of items (query). get_item has an item's choices.
    """
    asked = call.body
    menu = await read_menu(call.app, asked.store_id)
    offset, lists_sections = _read_cursor(asked.cursor, menu)
    is_filtered = asked.section is not None or asked.query is not None
    keys = _keys(menu, asked)
    limit = asked.limit or LIMIT
    most = LARGE if limit > LIMIT else SMALL
    page = _page_of(menu, len(keys))
    if not lists_sections:
        rest = (item_of(menu, key) for key in keys[offset : offset + limit])
        items, are_left = take_within(rest, _measured, most=most)
        end = offset + len(items)
        if is_filtered or not (are_left or end < len(keys)) or asked.cursor is not None:
            return replace(
                page, items=items, next_cursor=_cursor("i", end, menu) if end < len(keys) else None
            )
    rows = (_section(section) for section in menu.index.sections[offset:])
    sections, are_left = take_within(rows, line_of_section, most=most)
    end = offset + len(sections)
    return replace(page, sections=sections, next_cursor=_cursor("s", end, menu) if are_left else None)


def _page_of(menu: StoreMenu, total: int) -> MenuPage:
    availability = menu.availability
    return MenuPage(
        store_id=menu.row.id,
        store=plain(menu.row.name),
        currency=menu.catalog.currency,
        is_open=availability.is_open,
        opens_at=availability.opens_at,
        closes_at=availability.closes_at,
        total_items=total,
        next_cursor=None,
    )


def _measured(item: MenuItem) -> str:
    """Return the text of an item with that of its section, which may precede it."""
    return f"{line_of_item(item)}\n{item.section}:\n"


def item_of(menu: StoreMenu, key: Key) -> MenuItem:
    """Return an item in brief."""
    item = menu.catalog.items[key]
    assert item.price is not None
    return MenuItem(
        id=UUID(int=key),
        name=plain(item.name),
        price=menu.price(item.price),
        section=plain(menu.index.section_of(key)),
        choices=menu.choices_of(key),
        sold_out=menu.is_sold_out(key),
        sold_now=UNSET if menu.is_sold_now(key) else False,
    )


def _section(section: Section) -> MenuSection:
    return MenuSection(name=plain(section.name), items=len(section.items), hours=section.hours or UNSET)


def _keys(menu: StoreMenu, asked: GetMenu) -> Sequence[Key]:
    """Return the items that are asked for. Raises ValidationFailed for a section that the menu hasn't."""
    found: Sequence[Key] = list(menu.index.names)
    if asked.section is not None:
        sections = menu.index.find_sections(asked.section)
        if not sections:
            raise ValidationFailed.at("/section", _unknown_section(menu.index, asked.section))
        found = list(dict.fromkeys(key for section in sections for key in section.items))
    if asked.query is not None:
        matches = menu.index.search(asked.query)
        kept = set(found)
        found = [key for key in matches if key in kept]
    return found


def _unknown_section(index: MenuIndex, text: str) -> str:
    names = [plain(section.name) for section in index.sections]
    near = get_close_matches(text, names, n=3, cutoff=0.0)
    return (
        f"The menu has no section {plain(text)!r}. The nearest of its {len(names)}: "
        f"{', '.join(map(repr, near))}. Without a section and a query the answer lists them."
    )


# --- cursors --------------------------------------------------------------------------------------


def _cursor(kind: str, offset: int, menu: StoreMenu) -> str:
    return f"{kind}{offset}-{menu.row.catalog_set_id.hex[-8:]}"


def _read_cursor(text: str | None, menu: StoreMenu) -> tuple[int, bool]:
    """Return where a page begins, and whether it lists sections. Raises ValidationFailed."""
    if text is None:
        return 0, False
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise ValidationFailed.at("/cursor", "cursor isn't a nextCursor of get_menu. Start without one.")
    kind, offset, of_set = found.groups()
    if of_set != menu.row.catalog_set_id.hex[-8:]:
        raise ValidationFailed.at("/cursor", "The store's menu has changed since. Start without a cursor.")
    return int(offset), kind == "s"
