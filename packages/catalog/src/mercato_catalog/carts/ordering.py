"""Turn lines that name items, groups and options into a cart, or find every fault of every line. Pure.

Nothing is dropped, added or put in the place of something else: what a name fits several times, or never, is a fault
that lists what can be sent instead.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType, field

from mercato_catalog.carts.errors import CartFault, Path
from mercato_catalog.carts.lines import MakeId
from mercato_catalog.carts.names import KnownGroup, Names, key_or_name, shown, uuid_of
from mercato_catalog.carts.pricing import INVALID, REQUIRED, UNAVAILABLE, price
from mercato_catalog.model import CompiledGroup, CompiledItem, Key, rule
from mercato_contract import problems
from mercato_contract.carts import (
    MAX_DEPTH,
    MAX_LINES,
    Cart,
    CartAmounts,
    CartModifierGroup,
    LineItem,
    LineItemAmounts,
    PricedCart,
)
from mercato_contract.catalog_documents import MAX_GROUPS
from mercato_contract.money import minor_to_decimal
from mercato_contract.ordering import (
    Candidate,
    LineFault,
    NamedChoice,
    NamedLine,
    ResolvedChoice,
    ResolvedLine,
)
from mercato_contract.refusals import ValidationFailed

MAX_CANDIDATES: Final = 20
"""Items, groups or options that are listed for a name that fits several."""

MAX_OPTIONS: Final = 50
"""Options that are listed of a group of which too few were chosen."""

_MAX_FAULTS: Final = MAX_LINES * (MAX_GROUPS + 2)
"""More than a cart within bounds can have: a group of each line that lacks a choice, beside the line's own."""


def _numbered() -> MakeId:
    """Return what makes ids of lines that nobody keeps: 1, 2, 3, ... as UUIDs."""
    return map(uuid_of, count(1)).__next__


Steps = tuple[int, ...]
"""The place of a line or choice as it was sent: the index of the line, then of a choice at each level below."""


class Resolution(Struct, frozen=True):
    """One entry for each line that was sent, in order, and the faults of them together.

    Without any fault there are `amounts`, what the lines cost together; `order_cart`, the cart as Validate order takes
    it, without ids of lines, which it gives them; and `cart`, the same with prices and ids if these were asked for.
    """

    lines: tuple[ResolvedLine, ...]
    faults: tuple[LineFault, ...]
    amounts: CartAmounts | None = None
    order_cart: Cart | None = None
    cart: PricedCart | None = None


def resolve(
    lines: Sequence[NamedLine],
    *,
    names: Names,
    store_id: UUID,
    catalog_set_id: UUID,
    sold_out: Collection[UUID],
    new_id: MakeId | None = None,
) -> Resolution:
    """Return what each line is, with its price or all its faults. `new_id` makes the ids of the priced cart.

    Raises ValidationFailed for more than 200 lines, choices included, or choices more than 8 deep.
    """
    _check_bounds(lines)
    work = _Resolving(names, frozenset(item_id.int for item_id in sold_out))
    found = [work.read_line(line, index) for index, line in enumerate(lines)]
    priced = price(
        work.cart,
        catalog=names.catalog,
        sold_out=sold_out,
        new_id=new_id or _numbered(),
        has_modifiers=new_id is not None,
        max_faults=_MAX_FAULTS,
    )
    of_all: list[LineFault] = []
    for fault in (*priced.faults, *priced.overflows):
        if not work.is_open(fault):
            (found[work.origins[fault.path[0]]].faults if fault.path else of_all).append(work.describe(fault))
    if not lines:
        of_all.append(_NO_LINES)
    amounts = dict(zip(work.origins, (line.amounts for line in priced.lines), strict=True))
    resolved = tuple(line.finish(amounts.get(index, UNSET)) for index, line in enumerate(found))
    if of_all or priced.amounts is UNSET or any(line.faults for line in resolved):
        return Resolution(resolved, tuple(of_all))
    cart = None
    if new_id is not None:
        cart = PricedCart(
            catalog_set_id=catalog_set_id,
            line_items=priced.lines,
            store_id=store_id,
            amounts=priced.amounts,
        )
    sent = Cart(catalog_set_id=catalog_set_id, store_id=store_id, line_items=work.cart)
    return Resolution(resolved, (), priced.amounts, sent, cart)


_NO_LINES: Final = LineFault(
    code=problems.CART_EMPTY.code, message="There are no lines. Send at least one.", pointer="/lines"
)


def _check_bounds(lines: Sequence[NamedLine]) -> None:
    """Raise ValidationFailed for too many lines or levels, before anything else is done."""
    count = len(lines)
    level = [line.choices for line in lines if line.choices] if count <= MAX_LINES else []
    for _ in range(MAX_DEPTH):
        count += sum(map(len, level))
        if count > MAX_LINES:
            break
        level = [choice.choices for choices in level for choice in choices if choice.choices]
        if not level:
            return
    if count > MAX_LINES:
        message = f"An order may have at most {MAX_LINES} lines, choices included."
        raise ValidationFailed.at("/lines", message)
    steps = next(_find_deep([((index,), line.choices or ()) for index, line in enumerate(lines)]))
    raise ValidationFailed.at(_pointer(steps), f"Choices may be nested at most {MAX_DEPTH} deep.")


def _find_deep(places: Sequence[tuple[Steps, Sequence[NamedChoice]]]) -> Iterator[Steps]:
    """Yield the places of choices that are nested too deeply."""
    for steps, choices in places:
        for index, choice in enumerate(choices):
            if len(steps) > MAX_DEPTH:
                yield (*steps, index)
            else:
                yield from _find_deep([((*steps, index), choice.choices or ())])


def _pointer(steps: Steps) -> str:
    """Return the pointer to a line, or to a choice of it."""
    return f"/lines/{'/choices/'.join(map(str, steps))}"


class _Line(Struct):
    """A line while its faults are collected."""

    sent: NamedLine
    item_id: UUID | None = None
    name: str | None = None
    choices: tuple[ResolvedChoice, ...] = ()
    faults: list[LineFault] = field(default_factory=list)

    def finish(self, amounts: LineItemAmounts | UnsetType) -> ResolvedLine:
        priced = None if self.faults or amounts is UNSET else amounts
        return ResolvedLine(
            item_id=self.item_id,
            name=self.name,
            quantity=self.sent.quantity,
            choices=self.choices,
            unit_price=None if priced is None else priced.unit_price,
            total=None if priced is None else priced.total,
            faults=tuple(self.faults),
        )


_Known = tuple[Path, CartModifierGroup, list[int]]
"""A group of which a choice is known: its place in the cart, its choices there, and where each was sent."""


class _Resolving:
    """One pass over the lines.

    `cart` has the lines whose items are known, with the choices that are; `origins` their indexes among the lines.
    """

    def __init__(self, names: Names, sold_out: Collection[Key]) -> None:
        self._names = names
        self._catalog = names.catalog
        self._sold_out = sold_out
        # By the place of a group in the cart: where each of its choices stands among those that were sent beside it.
        self._sent: dict[Path, list[int]] = {}
        # Groups of a line of which an option isn't known: how many are chosen isn't known either.
        self._open: set[tuple[Path, UUID]] = set()
        self.cart: list[LineItem] = []
        self.origins: list[int] = []

    def read_line(self, line: NamedLine, index: int) -> _Line:
        """Return what a line is, with the faults of its names."""
        found = _Line(line)
        fits = self._names.find_items(line.item)
        if len(fits) != 1:
            found.faults.append(self._item_fault(line.item, fits, f"/lines/{index}/item"))
            return found
        item = self._catalog.items[fits[0]]
        found.item_id, found.name = uuid_of(fits[0]), shown(item.name)
        path = (len(self.cart),)
        self.origins.append(index)
        groups: list[CartModifierGroup] = []
        if line.choices:
            found.choices, groups = self._read_choices(line.choices, fits[0], path, found.faults)
        self.cart.append(LineItem(found.item_id, groups, line.quantity, None, line.note or None))
        return found

    def _read_choices(
        self, choices: Sequence[NamedChoice], key: Key, path: Path, faults: list[LineFault]
    ) -> tuple[tuple[ResolvedChoice, ...], list[CartModifierGroup]]:
        """Return what the choices of an item are, and those that are known by their groups."""
        names, item = self._names, self._catalog.items[key]
        groups = names.groups_of(key, item)
        resolved: list[ResolvedChoice] = []
        known: dict[Key, _Known] = {}
        text: str | None = None
        group: KnownGroup | None = None
        for index, choice in enumerate(choices):
            quantity = 1 if choice.quantity is None else choice.quantity
            if choice.group != text:  # several options of one group stand together
                text = choice.group
                group = groups.get(key_or_name(text))
                of_group = None if group is None else known.get(group.key)
            if group is None:
                pointer = f"{self._pointer_at(path, index)}/group"
                of_name = names.find_groups(choice.group, item)
                faults.append(self._group_fault(choice.group, of_name, item, pointer))
                resolved.append(_unknown(quantity))
                continue
            unit = group.options.get(key_or_name(choice.option))
            if unit is None:
                fits = names.find_options(choice.option, group.group)
                pointer = f"{self._pointer_at(path, index)}/option"
                faults.append(self._option_fault(choice.option, fits, group.group, pointer))
                resolved.append(_unknown(quantity, group))
                self._open.add((path, group.id))
                continue
            assert unit.option_id is not None
            if of_group is None:
                place = (*path, len(known))
                of_group = known[group.key] = (place, CartModifierGroup(group.id, []), [])
                self._sent[place] = of_group[2]
            place, chosen, sent = of_group
            parts: list[CartModifierGroup] = []
            sent.append(index)
            if quantity != 1 or choice.choices:
                below: tuple[ResolvedChoice, ...] = ()
                if choice.choices:
                    at = (*place, len(chosen.line_items))
                    below, parts = self._read_choices(choice.choices, unit.option_id.int, at, faults)
                # By position, here and below: names would double the cost of making them.
                resolved.append(
                    ResolvedChoice(
                        unit.group_id, unit.group, unit.option_id, unit.option, quantity, unit.price, below
                    )
                )
            else:
                resolved.append(unit)
            chosen.line_items.append(LineItem(unit.option_id, parts, quantity, None, None))
        return tuple(resolved), [chosen for _, chosen, _ in known.values()]

    def _steps_to(self, path: Path) -> Steps:
        """Return the place, as it was sent, of a line or choice of the cart."""
        below = (self._sent[path[:end]][path[end]] for end in range(2, len(path), 2))
        return (self.origins[path[0]], *below)

    def _pointer_at(self, path: Path, index: int) -> str:
        """Return the pointer to a choice below a line or choice of the cart."""
        return _pointer((*self._steps_to(path), index))

    # --- faults of names

    def _item_fault(self, text: str, fits: Sequence[Key], pointer: str) -> LineFault:
        items = self._catalog.items
        listed = fits[:MAX_CANDIDATES] if fits else self._names.nearest_items(text)
        candidates = tuple(self._candidate(key, items[key].price, with_section=True) for key in listed)
        return _name_fault(text, "item", "The menu", len(fits), candidates, pointer)

    def _group_fault(self, text: str, fits: Sequence[Key], item: CompiledItem, pointer: str) -> LineFault:
        listed = fits[:MAX_CANDIDATES] if fits else self._names.nearest_groups(text, item)
        groups = [(key, self._catalog.groups[key]) for key in listed]
        candidates = tuple(
            Candidate(id=uuid_of(key), name=shown(group.name), rule=rule(group)) for key, group in groups
        )
        return _name_fault(
            text, "modifier group", shown(item.name) or "The item", len(fits), candidates, pointer
        )

    def _option_fault(self, text: str, fits: Sequence[Key], group: CompiledGroup, pointer: str) -> LineFault:
        listed = fits[:MAX_CANDIDATES] if fits else self._names.nearest_options(text, group)
        candidates = tuple(self._candidate(key, group.choices[key]) for key in listed)
        return _name_fault(text, "option", shown(group.name) or "The group", len(fits), candidates, pointer)

    def _candidate(self, key: Key, own: int | None, *, with_section: bool = False) -> Candidate:
        item = self._catalog.items[key]
        section = shown(self._names.sections.get(key, "")) if with_section else ""
        return Candidate(
            id=uuid_of(key),
            name=shown(item.name),
            price=UNSET if own is None else minor_to_decimal(own, self._catalog.scale),
            section=section or UNSET,
            sold_out=True if not item.available or key in self._sold_out else UNSET,
        )

    # --- faults of rules

    def is_open(self, fault: CartFault) -> bool:
        """Return whether a group lacks choices of which one isn't known."""
        path = fault.path if len(fault.path) % 2 else fault.path[:-1]
        return fault.code == REQUIRED and (path, fault.group_id) in self._open

    def describe(self, fault: CartFault) -> LineFault:
        """Return a fault of the cart with its pointer into the lines, and what can be chosen."""
        options: tuple[Candidate, ...] | UnsetType = UNSET
        more = 0
        if fault.code == REQUIRED and fault.group_id is not UNSET:
            choices = self._catalog.groups[fault.group_id.int].choices
            listed = list(choices.items())[:MAX_OPTIONS]
            options = tuple(self._candidate(key, own) for key, own in listed)
            more = len(choices) - len(listed)
        return LineFault(
            code=fault.code,
            message=self._message(fault),
            pointer=self._pointer_to(fault),
            item_id=fault.item_id,
            modifier_group_id=fault.group_id,
            minimum=fault.minimum,
            maximum=fault.maximum,
            options=options,
            more=more or UNSET,
        )

    def _pointer_to(self, fault: CartFault) -> str:
        path = fault.path
        if not path:
            return "/lines"
        if len(path) % 2 == 0:  # a group, whose choices needn't stand together
            return f"{_pointer(self._steps_to(path[:-1]))}/choices"
        if fault.member:
            return _pointer(self._steps_to(path)) + _MEMBERS[fault.member]
        named = ("/item" if len(path) == 1 else "/option") if fault.code == UNAVAILABLE else ""
        return _pointer(self._steps_to(path)) + named

    def _message(self, fault: CartFault) -> str:
        """Return the message with the names as agents see them."""
        things: tuple[tuple[UUID | UnsetType, Mapping[Key, CompiledItem | CompiledGroup], str], ...] = (
            (fault.item_id, self._catalog.items, "The item"),
            (fault.group_id, self._catalog.groups, "The group"),
        )
        message = fault.message
        for thing_id, table, nameless in things:
            name = table[thing_id.int].name if thing_id is not UNSET else ""
            if name and shown(name) != name:
                message = message.replace(name, shown(name) or nameless, 1)
        return message


_MEMBERS: Final = {"/quantity": "/quantity", "/modifierGroups": "/choices"}


def _unknown(quantity: int, group: KnownGroup | None = None) -> ResolvedChoice:
    return ResolvedChoice(
        group_id=None if group is None else group.id,
        group=None if group is None else group.name,
        option_id=None,
        option=None,
        quantity=quantity,
        price=None,
    )


def _name_fault(
    text: str, noun: str, owner: str, fits: int, candidates: tuple[Candidate, ...], pointer: str
) -> LineFault:
    name = shown(text)
    if fits:
        message = f'{owner} has {fits} {noun}s of the name "{name}". Send the id of the one that is meant.'
        more = fits - len(candidates)
        return LineFault(
            code=INVALID, message=message, pointer=pointer, candidates=candidates, more=more or UNSET
        )
    message = f'{owner} has no {noun} "{name}". Send the name or the id of one that it has.'
    return LineFault(code=UNAVAILABLE, message=message, pointer=pointer, candidates=candidates)
