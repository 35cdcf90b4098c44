"""An item for agents of storefronts: its choices, as deep as an answer has room, and deeper by a path."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from mercato.agents.menus import STORE, Choices, StoreMenu, item_of, read_menu
from mercato.agents.texts import described, plain
from mercato.agents.tools import ENVELOPE, READS, SMALL, ToolCall, Tools, cut_to_fit
from mercato.features.partners.model import Surface
from mercato_catalog.model import CompiledGroup, Key, rule
from mercato_contract.ordering import MAX_NAME, NameOrId
from mercato_contract.refusals import ValidationFailed
from mercato_contract.texts import count_of
from mercato_contract.wire import Wire, as_json, parse_uuid

tools: Final = Tools(Surface.MARKETFRONT)

DEPTH: Final = 2
"""Levels of groups that an answer has, if there is room for them."""

MAX_PATH: Final = 16
"""Steps of a path: a cart has choices at most 8 levels deep, and each has a group and an option."""

MAX_CANDIDATES: Final = 20

MOST_OF_HEAD: Final = SMALL // 2
"""Bytes of an answer that everything but the groups may have."""


class GetItem(Wire, forbid_unknown_fields=True):
    """The arguments of get_item."""

    store_id: UUID
    item: Annotated[NameOrId, Meta(description="Id or name")]
    path: (
        Annotated[
            list[NameOrId],
            Meta(
                max_length=MAX_PATH,
                description="Ids or names: group, option, group, … The answer begins there. "
                "If it ends with a group, it has that group's options",
            ),
        ]
        | None
    ) = None
    offset: (
        Annotated[
            int, Meta(ge=0, le=1_000_000, description="nextOffset, for the options of the group in path")
        ]
        | None
    ) = None


class ItemOption(Wire, kw_only=True):
    """An option of a group: the price of one unit. `choices` tells of groups that aren't listed here."""

    id: UUID
    name: str
    price: str
    sold_out: bool | UnsetType = UNSET
    choices: Choices | UnsetType = UNSET
    groups: "list[ItemGroup] | UnsetType" = UNSET


class ItemGroup(Wire, kw_only=True):
    """A modifier group. `free`: units that cost nothing, the cheapest. `more`: options that aren't listed here."""

    id: UUID
    name: str
    minimum: int
    maximum: int | None
    maximum_per_option: int | UnsetType = UNSET
    free: int | UnsetType = UNSET
    rule: str
    options: list[ItemOption]
    more: int | UnsetType = UNSET


class Item(Wire, kw_only=True):
    """The result of get_item. `path` are the names of what was stepped through."""

    store_id: UUID
    id: UUID
    name: str
    description: str | UnsetType = UNSET
    section: str
    price: str
    currency: str
    maximum_quantity: int | UnsetType = UNSET
    choices: Choices
    sold_out: bool
    sold_now: bool | UnsetType = UNSET
    path: list[str] | UnsetType = UNSET
    groups: list[ItemGroup]
    next_offset: int | None


# --- the text -------------------------------------------------------------------------------------


def render_item(item: Item) -> str:
    """Return an item as text: its groups with their options, indented by level."""
    notes = [
        f"{item.name} [{item.id}] {item.price} {item.currency}",
        item.section,
        "SOLD OUT" if item.sold_out else "",
        "not sold at this time" if item.sold_now is False else "",
        "" if item.maximum_quantity is UNSET else f"at most {item.maximum_quantity}",
    ]
    lines = ["; ".join(note for note in notes if note)]
    if item.description:
        lines.append(item.description)
    if item.path:
        lines.append(f"At {' > '.join(item.path)}:")
    lines += _lines_of_groups(item.groups, "")
    if item.next_offset is not None:
        lines.append(f"More options: offset {item.next_offset}")
    return "\n".join(lines)


def _lines_of_groups(groups: Iterable[ItemGroup], indent: str) -> Iterator[str]:
    for group in groups:
        yield f"{indent}{group.name} [{group.id}] {group.rule}:"
        for option in group.options:
            yield f"{indent}- {_line_of_option(option)}"
            yield from _lines_of_groups(option.groups or (), indent + "  ")
        if group.more:
            yield f"{indent}- {count_of(group.more, 'more option')}: ask with path ending in this group"


def _line_of_option(option: ItemOption) -> str:
    notes = [
        f"{option.name} [{option.id}] +{option.price}",
        "SOLD OUT" if option.sold_out else "",
        "" if option.choices is UNSET else f"choices {option.choices.value}: ask with path",
    ]
    return "; ".join(note for note in notes if note)


# --- the tool -------------------------------------------------------------------------------------


@tools.declare(title="Read an item", calls=[STORE], hints=READS, render=render_item)
async def get_item(call: ToolCall[GetItem]) -> Item:
    """Read an item with its choices: modifier groups with how many options they take and free units, options with
    prices, two levels deep. path leads deeper.
    """
    asked = call.body
    menu = await read_menu(call.app, asked.store_id)
    place = _find_place(menu, _find_item(menu, asked.item), asked.path or ())
    if asked.offset and place.group is None:
        raise ValidationFailed.at(
            "/offset", "offset is one of a group's options: send the path of the group."
        )
    shown = cut_to_fit(partial(_head, menu, place), render_item, most=MOST_OF_HEAD)
    room = SMALL - ENVELOPE - _weight(shown)
    if place.group is None:
        return replace(shown, groups=_fitting(menu, place, room))
    return _with_options(shown, menu, place, offset=asked.offset or 0, room=room)


class _Place(Struct, frozen=True):
    """Where a path leads: to an option, or to one of its groups. `names` are those of its steps."""

    root: Key
    item: Key
    group: Key | None
    names: Sequence[str]


def _find_item(menu: StoreMenu, text: str) -> Key:
    """Return the item that an id or a name is of. Raises ValidationFailed, with those that it could be."""
    named = menu.index.named
    found = [key for key in named.find_items(text) if key in menu.index.names]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(f"{_named(menu, key)} ({_section(menu, key)})" for key in found[:MAX_CANDIDATES])
        raise ValidationFailed.at(
            "/item", f"This name fits {count_of(len(found), 'item')}: {listed}. Send an id."
        )
    if parse_uuid(text) is not None:
        raise ValidationFailed.at("/item", "The store sells no item with this id. get_menu lists its items.")
    listed = ", ".join(_named(menu, key) for key in named.nearest_items(text))
    raise ValidationFailed.at("/item", f"The store has no item of this name. The nearest: {listed}.")


def _find_place(menu: StoreMenu, item: Key, path: Sequence[str]) -> _Place:
    """Return where a path leads. Raises ValidationFailed at the step that leads nowhere."""
    catalog, at, group_key = menu.catalog, item, None
    names: list[str] = []
    for number, text in enumerate(path):
        if group_key is None:
            entry = catalog.items[at]
            found = menu.index.named.find_groups(text, entry)
            group_key = _step(found, {key: catalog.groups[key].name for key in entry.groups}, number, "group")
            names.append(plain(catalog.groups[group_key].name))
        else:
            group = catalog.groups[group_key]
            found = menu.index.named.find_options(text, group)
            at = _step(found, {key: catalog.items[key].name for key in group.choices}, number, "option")
            names.append(plain(catalog.items[at].name))
            group_key = None
    return _Place(item, at, group_key, names)


def _step(found: Sequence[Key], names: Mapping[Key, str], number: int, kind: str) -> Key:
    """Return the only group or option that was found; `names` are those of all. Raises ValidationFailed."""
    if len(found) == 1:
        return found[0]
    others = list(found or names)
    listed = ", ".join(f"{plain(names[key])} [{UUID(int=key)}]" for key in others[:MAX_CANDIDATES])
    what = (
        f"This name fits {count_of(len(found), kind)}"
        if found
        else f"There is no {kind} of this name or id here"
    )
    raise ValidationFailed.at(f"/path/{number}", f"{what}: {listed or 'there are none'}.")


def _named(menu: StoreMenu, key: Key) -> str:
    return f"{plain(menu.catalog.items[key].name)} [{UUID(int=key)}]"


def _section(menu: StoreMenu, key: Key) -> str:
    return plain(menu.index.section_of(key))


def _head(menu: StoreMenu, place: _Place, part: int) -> Item:
    """Return the item without its groups, its texts cut to a `part` as `cut_to_fit` says."""
    brief = item_of(menu, place.root)
    entry = menu.catalog.items[place.root]
    text = menu.index.descriptions.get(place.root)
    return Item(
        store_id=menu.row.id,
        id=brief.id,
        name=brief.name,
        description=UNSET if text is None else described(text, part),
        section=brief.section,
        price=brief.price,
        currency=menu.catalog.currency,
        maximum_quantity=UNSET if entry.maximum_quantity is None else entry.maximum_quantity,
        choices=brief.choices,
        sold_out=brief.sold_out,
        sold_now=brief.sold_now,
        path=[plain(name, MAX_NAME // part) for name in place.names] or UNSET,
        groups=[],
        next_offset=None,
    )


# --- as much as there is room for -----------------------------------------------------------------


class _Detail(Struct, frozen=True):
    """How much is shown: levels of groups, whether optional ones below the first, and options of a group."""

    depth: int
    with_optional: bool = True
    options: int | None = None


_DETAILS: Final = (
    _Detail(DEPTH),
    _Detail(DEPTH, with_optional=False),
    _Detail(1),
    *(_Detail(1, options=most) for most in (50, 20, 10, 5, 2, 1, 0)),
)
"""From the most to the least. What must be chosen is shown before what may be."""


def _fitting(menu: StoreMenu, place: _Place, room: int) -> list[ItemGroup]:
    """Return the groups of an item in as much detail as there is room for."""
    groups: list[ItemGroup] = []
    for detail in _DETAILS:
        budget = _Budget(room)
        groups = list(_groups(menu, place.item, detail, detail.depth, budget))
        if budget.is_kept:
            return groups
    # Groups without their options: those that there is room for.
    return groups


class _Budget:
    """Counts what is written, so that writing ends soon after the room does."""

    def __init__(self, room: int) -> None:
        self.left = room

    @property
    def is_kept(self) -> bool:
        return self.left >= 0

    def take(self, texts: int) -> None:
        """Count an entry with this many bytes of names and numbers, in JSON and in text."""
        self.left -= texts


_AROUND: Final = 190
"""Bytes of an option beside its name and price, in JSON and in text; a group has a rule, and more members."""

_AROUND_GROUP: Final = 330


def _groups(menu: StoreMenu, item: Key, detail: _Detail, levels: int, budget: _Budget) -> Iterator[ItemGroup]:
    for key in dict.fromkeys(menu.catalog.items[item].groups):
        group = menu.catalog.groups[key]
        if levels < detail.depth and not detail.with_optional and group.minimum == 0:
            continue
        if not budget.is_kept:
            return
        options: list[ItemOption] = []
        made = _group(key, group, options)
        budget.take(_AROUND_GROUP + 2 * _bytes(made.name) + 2 * len(made.rule))
        if not budget.is_kept and detail is _DETAILS[-1]:
            return  # the last resort: fewer groups
        for option, price in islice(group.choices.items(), detail.options):
            options.append(_option(menu, option, price, detail, levels - 1, budget))
            if not budget.is_kept:
                break
        yield (
            made
            if len(options) == len(group.choices)
            else _group(key, group, options, more=len(group.choices) - len(options))
        )


def _group(
    key: Key, group: CompiledGroup, options: list[ItemOption], *, more: int | UnsetType = UNSET
) -> ItemGroup:
    return ItemGroup(
        id=UUID(int=key),
        name=plain(group.name),
        minimum=group.minimum,
        maximum=group.maximum,
        maximum_per_option=UNSET if group.maximum_per_item is None else group.maximum_per_item,
        free=group.free or UNSET,
        rule=rule(group),
        options=options,
        more=more,
    )


def _option(
    menu: StoreMenu, key: Key, price: int, detail: _Detail, levels: int, budget: _Budget
) -> ItemOption:
    name, amount = plain(menu.catalog.items[key].name), menu.price(price)
    budget.take(_AROUND + 2 * _bytes(name) + 2 * len(amount))
    choices = menu.choices_of(key)
    groups = list(_groups(menu, key, detail, levels, budget)) if levels > 0 else []
    is_whole = choices is Choices.NONE or (
        len(groups) == len(set(menu.catalog.items[key].groups)) and levels > 0
    )
    return ItemOption(
        id=UUID(int=key),
        name=name,
        price=amount,
        sold_out=True if menu.is_sold_out(key) else UNSET,
        choices=UNSET if is_whole else choices,
        groups=groups or UNSET,
    )


def _with_options(shown: Item, menu: StoreMenu, place: _Place, *, offset: int, room: int) -> Item:
    """Return the item with one group, and its options from an offset, as many as there is room for."""
    assert place.group is not None
    group = menu.catalog.groups[place.group]
    budget = _Budget(room)
    budget.take(_AROUND_GROUP + 2 * _bytes(plain(group.name)))
    options: list[ItemOption] = []
    for key, price in islice(group.choices.items(), offset, None):
        option = _option(menu, key, price, _Detail(0), 0, budget)
        if not budget.is_kept and options:
            break
        options.append(option)
    end = offset + len(options)
    left = len(group.choices) - end
    made = _group(place.group, group, options, more=left if left > 0 else UNSET)
    return replace(shown, groups=[made], next_offset=end if left > 0 else None)


def _weight(item: Item) -> int:
    return len(as_json(item)) + len(as_json(render_item(item)))


def _bytes(text: str) -> int:
    """Return the bytes of a text in JSON."""
    return len(as_json(text))
