"""Lines that are ordered by name: what is sent, and what each was found to be, with its price or its faults."""

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from mercato_contract.carts import MAX_NOTE, NOTE, NOTE_RULE, Amount, Quantity
from mercato_contract.wire import Wire

MAX_NAME: Final = 120
"""Characters of a merchant's name as agents see it."""

MAX_NAME_SENT: Final = 256
"""Characters of a name that is sent: a name may be sent whole that is cut where it is shown."""

NameOrId = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_SENT)]

Wish = Annotated[str, Meta(max_length=MAX_NOTE, pattern=NOTE, extra=NOTE_RULE)]
"""A note, without a description: every agent reads the schema."""


class NamedChoice(Wire, forbid_unknown_fields=True, gc=False):
    """Units of an option from a modifier group. Both are ids, or names as the menu has them."""

    group: NameOrId
    option: NameOrId
    quantity: Quantity | None = None
    """1 if it is absent."""
    choices: list["NamedChoice"] | None = None


class NamedLine(Wire, forbid_unknown_fields=True, gc=False):
    """Units of an item, which is an id, or a name as the menu has it."""

    item: NameOrId
    quantity: Quantity
    choices: list[NamedChoice] | None = None
    note: Wish | None = None


class Candidate(Wire):
    """An item, a modifier group or an option that could be meant, with what tells it from others."""

    id: UUID
    name: str
    price: Annotated[Amount, Meta(description="Of one unit, without its modifiers.")] | UnsetType = UNSET
    section: Annotated[str, Meta(description="The first section that lists the item.")] | UnsetType = UNSET
    rule: Annotated[str, Meta(description="How many options a group takes.")] | UnsetType = UNSET
    sold_out: bool | UnsetType = UNSET


class LineFault(Wire):
    """Why a line can't be ordered: as the errors of an order, with what can be sent instead.

    `candidates` are what an ambiguous name fits, or the nearest to an unknown one; `options` are those of a modifier
    group of which too few were chosen. `more` counts those that aren't listed.
    """

    code: str
    message: str
    pointer: Annotated[str, Meta(description="RFC 6901, into the object with `lines`.")]
    item_id: UUID | UnsetType = UNSET
    modifier_group_id: UUID | UnsetType = UNSET
    minimum: int | UnsetType = UNSET
    maximum: int | UnsetType = UNSET
    candidates: tuple[Candidate, ...] | UnsetType = UNSET
    options: tuple[Candidate, ...] | UnsetType = UNSET
    more: int | UnsetType = UNSET


class ResolvedChoice(Wire, gc=False):
    """What a choice was found to be: ids and names are null if the menu doesn't say which."""

    group_id: UUID | None
    group: str | None
    option_id: UUID | None
    option: str | None
    quantity: int
    price: Annotated[Amount | None, Meta(description="Of one unit, without its own choices.")]
    choices: tuple["ResolvedChoice", ...] = ()


class ResolvedLine(Wire, gc=False):
    """What a line was found to be. A line with faults has no amounts."""

    item_id: UUID | None
    name: str | None
    quantity: int
    choices: tuple[ResolvedChoice, ...]
    unit_price: Amount | None
    total: Amount | None
    faults: tuple[LineFault, ...]
