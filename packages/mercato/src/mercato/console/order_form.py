"""The playground's form: what was chosen, the cart and the token that it carries, and the order that it makes.

The name of a choice's field is the path of ids to it, so that a form that was made from another catalog can't be
misread.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from mercato.console.forms import decode_fields, read_fields
from mercato.console.screen import Visit
from mercato.features.stores.model import StoreNotFound, StoreRow
from mercato_catalog.model import CompiledCatalog, CompiledGroup, Key, rule
from mercato_contract.carts import PricedCart
from mercato_contract.decoding.decode import Decoder
from mercato_contract.money import minor_to_decimal
from mercato_contract.refusals import ValidationFailed
from mercato_contract.stores import FulfillmentMode
from mercato_contract.wire import Wire, parse_uuid, redacted

MAX_CART: Final = 40_000
"""Characters of a cart that a form carries."""

MAX_FORM: Final = 192 * 1024
"""Bytes of the form: of a cart most are escaped, and the names of the choices take as much again."""

MAX_FIELDS: Final = 600

Text = Annotated[str, Meta(max_length=1000)]

_read_cart: Final = Decoder(PricedCart)

MAX_CHOICES: Final = 200
"""Choices of an item that a page shows, those of choices among them: as many as a cart may have lines."""

MAX_LEVELS: Final = 4
"""Levels of choices that a page shows."""

_PREFIX: Final = "choice"


@redacted("token", "payment")
class OrderForm(Wire):
    """The form: what was chosen, the state that the page carries, and the rest of an order."""

    store: UUID | None = None
    item: UUID | None = None
    quantity: Text = "1"
    cart: Annotated[str, Meta(max_length=MAX_CART)] | None = None
    token: str | None = None
    key: UUID | None = None
    line: UUID | None = None
    confirmed: bool = False
    mode: FulfillmentMode = FulfillmentMode.PICKUP
    address1: Text | None = None
    city: Text | None = None
    postal_code: Text | None = None
    scheduled_time: Text | None = None
    first_name: Text | None = None
    last_name: Text | None = None
    email: Text | None = None
    phone: Text | None = None
    tip: Text | None = None
    payment: Text | None = None


_CUSTOMER: Final = ("firstName", "lastName", "email", "phone")
FIRST_FORM: Final = OrderForm(
    first_name="Test", last_name="Customer", email="customer@example.com", phone="+15550100"
)


def read_form(visit: Visit) -> tuple[OrderForm, Mapping[str, str]]:
    """Return the form, and all its fields: choices and quantities have names of their own.

    Raises InvalidRequest, and StoreNotFound for a cart of a store that the session doesn't see.
    """
    fields = read_fields(visit.form, MAX_FIELDS)
    form = decode_fields(OrderForm, fields, timezone=visit.timezone)
    cart = cart_of(form)
    if cart is not None:
        visit.check_store(cart.store_id, StoreNotFound(cart.store_id))
    return form, fields


def cart_of(form: OrderForm) -> PricedCart | None:
    return None if form.cart is None else _read_cart(form.cart.encode())


def cart_json(form: OrderForm, store: StoreRow) -> Any:
    """Return the cart as the API returned it, or an empty one."""
    if cart_of(form) is not None:
        assert form.cart is not None
        return msgspec.Raw(form.cart.encode())
    return {"storeId": store.id, "catalogSetId": store.catalog_set_id, "lineItems": []}


def payment_of(text: str) -> msgspec.Raw:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise ValidationFailed.at(None, "Payment isn't JSON. Write an object, or nothing.") from None
    return msgspec.Raw(text.encode())


def order_of(visit: Visit, form: OrderForm, store: StoreRow) -> dict[str, Any]:
    """Return the order of the form: its customer's device is this browser."""
    sent = msgspec.to_builtins(form)
    fulfillment: dict[str, Any] = {"mode": form.mode, "scheduleType": "ASAP"}
    if form.scheduled_time is not None:
        fulfillment |= {"scheduleType": "SCHEDULED", "scheduledTime": form.scheduled_time}
    if form.mode is FulfillmentMode.DELIVERY_BY_MERCHANT:
        address = {name: sent[name] for name in ("address1", "city", "postalCode") if sent[name] is not None}
        fulfillment |= {"deliveryType": "DOOR_TO_DOOR", "address": address}
    order: dict[str, Any] = {
        "cart": cart_json(form, store),
        "clientContext": {
            "ip": visit.head.address,
            "userAgent": visit.head.headers.get(b"user-agent", b"")[:200].decode("latin-1"),
        },
        "fulfillment": fulfillment,
    }
    customer = {name: sent[name] for name in _CUSTOMER if sent[name] is not None}
    if customer:
        order["customer"] = customer
    return order if form.tip is None else order | {"amounts": {"tip": form.tip}}


class Choice(Struct, frozen=True):
    """One choice: a radio button or checkbox with `value`, or a number of units. `price` is a decimal."""

    field: str
    kind: str
    value: str
    checked: bool
    name: str
    price: str
    available: bool
    groups: "Sequence[Group]" = ()


class Group(Struct, frozen=True):
    """A modifier group, its rule in words, and its choices."""

    name: str
    rule: str
    choices: Sequence[Choice]
    is_whole: bool = True


class ChoiceForm(Struct, frozen=True):
    """The choices of one catalog's items. `sold_out` are items, `fields` what a form was sent with."""

    catalog: CompiledCatalog
    sold_out: frozenset[Key]
    fields: Mapping[str, str]

    def groups(self, item_id: UUID) -> Sequence[Group]:
        """Return the groups of an item as they are shown."""
        return self._groups(item_id.int, _PREFIX, iter(range(MAX_CHOICES)), MAX_LEVELS)

    def _groups(self, item: Key, path: str, numbers: Iterator[int], levels: int) -> Sequence[Group]:
        found = []
        for key, group in self._groups_of(item, path, levels):
            below = f"{path}/{key}"
            # Taking a number bounds what the page shows of all groups together.
            shown = [
                self._choice(group, item_key, price, below, numbers, levels)
                for (item_key, price), _ in zip(group.choices.items(), numbers, strict=False)
            ]
            found.append(Group(group.name, rule(group), shown, len(shown) == len(group.choices)))
            if len(shown) < len(group.choices):
                break  # no number is left, so no later group would have a choice
        return found

    def _groups_of(self, item: Key, path: str, levels: int) -> Iterator[tuple[UUID, CompiledGroup]]:
        """Yield the groups of an item that have choices, without those above it: a choice can contain itself."""
        if levels:
            for key in self.catalog.items[item].groups:
                if self.catalog.groups[key].choices and str(UUID(int=key)) not in path:
                    yield UUID(int=key), self.catalog.groups[key]

    def _choice(
        self, group: CompiledGroup, item: Key, price: int, path: str, numbers: Iterator[int], levels: int
    ) -> Choice:
        kind, entry = kind_of(group), self.catalog.items[item]
        field = path if kind == "radio" else f"{path}/{UUID(int=item)}"
        value = str(UUID(int=item)) if kind == "radio" else "1"
        sent = self.fields.get(field)
        first = kind == "radio" and sent is None and item == next(iter(group.choices))
        return Choice(
            field=field,
            kind=kind,
            value=(sent or "0") if kind == "number" else value,
            checked=first or sent == value,
            name=entry.name,
            price=minor_to_decimal(price, self.catalog.scale),
            available=entry.available and item not in self.sold_out,
            groups=self._groups(item, f"{path}/{UUID(int=item)}", numbers, levels - 1),
        )

    def modifiers(self, item_id: UUID) -> list[dict[str, Any]]:
        """Return the `modifierGroups` of a line with what the form was sent with."""
        if item_id.int not in self.catalog.items:
            return []
        return self._modifiers(item_id.int, _PREFIX, MAX_LEVELS)

    def _modifiers(self, item: Key, path: str, levels: int) -> list[dict[str, Any]]:
        # Only what the form names is looked at: catalogs of others can have any number of groups and choices.
        found = []
        named = self._named_below(path) if levels else []
        for key in named:
            group = self.catalog.groups.get(key)
            if group is None or key not in self.catalog.items[item].groups or str(UUID(int=key)) in path:
                continue
            below = f"{path}/{UUID(int=key)}"
            lines = [
                {
                    "itemId": str(UUID(int=choice)),
                    "quantity": units,
                    "modifierGroups": self._modifiers(choice, f"{below}/{UUID(int=choice)}", levels - 1),
                }
                for choice in self._chosen(group, below)
                if choice in group.choices and (units := self._units(group, choice, below)) != 0
            ]
            if lines:
                found.append({"modifierGroupId": str(UUID(int=key)), "lineItems": lines})
        return found

    def _chosen(self, group: CompiledGroup, path: str) -> list[Key]:
        if kind_of(group) != "radio":
            return self._named_below(path)
        chosen = parse_uuid(self.fields.get(path, ""))
        return [] if chosen is None else [chosen.int]

    def _named_below(self, path: str) -> list[Key]:
        """Return the ids that follow the path in the names of fields, in the form's order."""
        begin = len(path) + 1
        texts = dict.fromkeys(name[begin : begin + 36] for name in self.fields if name.startswith(path + "/"))
        return [choice.int for choice in map(parse_uuid, texts) if choice is not None]

    def _units(self, group: CompiledGroup, item: Key, path: str) -> int | str:
        if kind_of(group) == "radio":
            return int(self.fields.get(path) == str(UUID(int=item)))
        return number_of(self.fields.get(f"{path}/{UUID(int=item)}", "0"))


def number_of(text: str) -> int | str:
    """Return the number in a field, or the text as it is: the API says what is wrong with it."""
    digits = text.strip().removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else text  # noqa: PLR2004  # 64 bits


def kind_of(group: CompiledGroup) -> str:
    """Return the type of the inputs of a group: exactly one choice, each at most once, or numbers of units."""
    if group.maximum == 1:
        return "radio" if group.minimum == 1 else "checkbox"
    return "checkbox" if group.maximum_per_item == 1 else "number"
