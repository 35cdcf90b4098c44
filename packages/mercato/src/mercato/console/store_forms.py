"""Forms about a store: from their texts to what the API's operations take, and what is wrong beside its field.

The texts of a form are kept as they were typed, so that nothing has to be typed again. What is wrong with them the
API's own decoders and services say, about a member; here it is said of the field, in plain words.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from mercato.features.stores.model import StoreRow
from mercato_contract.decoding import Decoder
from mercato_contract.refusals import Problem
from mercato_contract.stores import (
    ACCEPT_WITHIN,
    MAX_CHARGES,
    Charge,
    ChargeBase,
    ChargeKind,
    FulfillmentMode,
    OrderHandling,
    StoreUpdate,
    charge_fault,
)

T = TypeVar("T")

Texts = Mapping[str, str]
"""What was typed, by the names of the fields; those that are empty are left out."""

GENERAL: Final = ""
"""The key of a fault that belongs to no field of the form."""

_LENGTH: Final = re.compile(r"may have at most (\d+) characters, not (\d+)\.")

_PLAIN: Final = {
    "must have at least 1 character.": "Fill this in.",
    "must be an integer, not a string.": "Enter a whole number, like 10.",
    "must be a number, not a string.": "Enter a number, like 52.37.",
    "must be an absolute http or https URI, like https://example.com/path.": "Enter a web address, like "
    "https://example.com/orders.",
    "A charge has either a rate or an amount.": "Enter a percent or an amount.",
}


class FormView(Struct, frozen=True):
    """A form as it is shown: what was typed, what is wrong beside which field, and what can be chosen."""

    texts: Texts
    faults: Mapping[str, str]
    choices: Mapping[str, Any]


def read(
    decoder: Decoder[T], members: Mapping[str, object], fields: Texts
) -> tuple[T | None, dict[str, str]]:
    """Return what an operation takes, or what is wrong beside each field. `fields` are names of fields by pointers."""
    try:
        return decoder(msgspec.json.encode(members)), {}
    except Problem as problem:
        return None, faults_of(problem, fields)


def faults_of(problem: Problem, fields: Texts) -> dict[str, str]:
    """Return what is wrong beside each field: a fault of a member that has none is general."""
    found: dict[str, str] = {}
    for reason in problem.errors:
        pointer = reason.pointer or ""
        name = fields.get(pointer, GENERAL)
        found.setdefault(name, plain(reason.message, pointer) if name != GENERAL else reason.message)
    return found or {GENERAL: problem.detail}


def plain(message: str, pointer: str) -> str:
    """Return a message about a member as one beside a field, which needs no name."""
    rest = message.removeprefix(pointer.rpartition("/")[2]).lstrip(": ")
    if (length := _LENGTH.fullmatch(rest)) is not None:
        return f"At most {length[1]} characters fit, not {length[2]}."
    if rest in _PLAIN:
        return _PLAIN[rest]
    return f"It {rest}" if rest.startswith("must") else rest[:1].upper() + rest[1:]


# --- numbers ------------------------------------------------------------------------------------------
# Everywhere the same: the digits 0 to 9, and a point before decimals. What else people write is never guessed into a
# number, because 1,500 is two different ones.

_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,20})?")
_DECIMAL_COMMA: Final = re.compile(r"(-?[0-9]{1,9})[,\u066b]([0-9]{1,2}|[0-9]{4,20})")
_MINUTES: Final = "acceptWithin"
_NUMBERS: Final = re.compile(rf"{_MINUTES}|minimum|lat|lng|value-[0-9]+")
"""The fields that people type a number in."""


def number(text: str) -> int | str:
    """Return a whole number as one, another text as it is: the decoder says what is wrong with it."""
    return int(text) if _WHOLE.fullmatch(text) else text


def decimal(text: str) -> float | str:
    """Return a number that may have decimals as one, another text as it is. Never for money."""
    return float(text) if _DECIMAL.fullmatch(text) else text


def with_hints(faults: Mapping[str, str], texts: Texts) -> dict[str, str]:
    """Return the faults; those of numbers that were written in another way say how to write them."""
    hints = {
        name: hint
        for name in faults
        if _NUMBERS.fullmatch(name) and (hint := _hint(name, texts.get(name, ""))) is not None
    }
    return {**faults, **hints}


def _hint(name: str, text: str) -> str | None:
    """Return how to write a number that has words, other digits or a decimal comma; None for another text."""
    typed = text.strip().removesuffix("%").strip()
    bare = _without_words(typed)
    written = "".join(str(unicodedata.decimal(one, one)) for one in bare)
    if (comma := _DECIMAL_COMMA.fullmatch(written)) is not None:
        written = f"{comma[1]}.{comma[2]}"
    if written == typed or (_WHOLE if name == _MINUTES else _DECIMAL).fullmatch(written) is None:
        return None
    if written == bare:
        return f"Write {written}: only the number, without words or a currency."
    if _WHOLE.fullmatch(written):
        return f"Write {written}: with the digits 0 to 9."
    return f"Write {written}: with the digits 0 to 9, and a point before decimals."


def _without_words(text: str) -> str:
    """Return a text without the words, the currency and the spaces around its number."""

    def is_word(character: str) -> bool:
        kind = unicodedata.category(character)
        return kind[0] in "LZ" or kind == "Sc"

    begin, end = 0, len(text)
    while begin < end and is_word(text[begin]):
        begin += 1
    while end > begin and is_word(text[end - 1]):
        end -= 1
    return text[begin:end]


# --- how orders are handled --------------------------------------------------------------------------

HANDLINGS: Final = {
    OrderHandling.MANUAL: (
        "A person accepts each order",
        "New orders ring on the board. An order that nobody accepts in time is cancelled.",
    ),
    OrderHandling.AUTOMATIC: (
        "Orders are accepted at once",
        "Nobody is asked. Look at the board, or at the page Orders, for what was ordered.",
    ),
    OrderHandling.WEBHOOK: (
        "Our own system answers",
        "A point-of-sale system is called at its address, and accepts or refuses each order.",
    ),
}
"""What people read of each way, in the order of the form."""

HANDLING_FIELDS: Final = {
    "/orderHandling": "orderHandling",
    "/acceptWithin": "acceptWithin",
    "/webhookUrl": "webhookUrl",
}


def handling_members(texts: Texts) -> dict[str, object]:
    """Return the members that the form sends: the minutes are forgotten where no person accepts."""
    chosen = texts.get("orderHandling")
    minutes = texts.get("acceptWithin")
    is_manual = chosen == OrderHandling.MANUAL
    return {
        "orderHandling": chosen,
        "acceptWithin": number(minutes) if minutes is not None and is_manual else None,
    }


def handling_texts(store: StoreRow) -> dict[str, str]:
    """Return the form's texts of a store."""
    return {"orderHandling": store.handling.value, "acceptWithin": str(store.accept_minutes)}


def handling_words(store: StoreRow) -> str:
    """Return how a store's orders are handled, as a fact."""
    if store.handling is OrderHandling.MANUAL:
        return f"A person accepts each within {store.accept_minutes} minutes"
    if store.handling is OrderHandling.AUTOMATIC:
        return "Accepted at once, nobody is asked"
    return "Its own system answers"


DEFAULT_MINUTES: Final = str(ACCEPT_WITHIN)

# --- taxes and fees -------------------------------------------------------------------------------------

PERCENT: Final = "percent"
AMOUNT: Final = "amount"

BASES: Final = {ChargeBase.ITEMS: "the items", ChargeBase.ALL: "the items and the fees"}
MODES: Final = {FulfillmentMode.PICKUP: "pickup", FulfillmentMode.DELIVERY_BY_MERCHANT: "delivery"}

_BLANK_ROWS: Final = 2
"""Rows of the form for charges that aren't there yet. Saving brings more."""


def charge_members(texts: Texts) -> tuple[dict[str, object], dict[str, str]]:
    """Return the member `charges` of the form's rows, and the fields of its pointers. A row without texts is none."""
    charges: list[dict[str, object]] = []
    fields = {"/charges": GENERAL}
    for row in range(MAX_CHARGES):
        name, value = texts.get(f"name-{row}"), texts.get(f"value-{row}")
        if not name and not value:
            continue
        at = f"/charges/{len(charges)}"
        is_rate = texts.get(f"unit-{row}", PERCENT) == PERCENT
        charges.append(
            {
                "kind": texts.get(f"kind-{row}", ChargeKind.TAX.value),
                "name": name or "",
                "rate" if is_rate else "amount": (value or "").removesuffix("%").strip() or None,
                "included": f"included-{row}" in texts,
                "appliesTo": texts.get(f"appliesTo-{row}", ChargeBase.ITEMS.value),
                "mode": texts.get(f"mode-{row}"),
            }
        )
        fields |= {at: f"value-{row}", f"{at}/rate": f"value-{row}", f"{at}/amount": f"value-{row}"}
        fields |= {
            f"{at}/{name}": f"{name}-{row}" for name in ("kind", "name", "included", "appliesTo", "mode")
        }
    return {"charges": charges}, fields


def faults_of_charges(members: Mapping[str, Any], fields: Texts) -> dict[str, str]:
    """Return what is wrong with charges that decode without a fault, beside each field, as their operation says it."""
    found: dict[str, str] = {}
    for number, charge in enumerate(members["charges"]):
        if (fault := charge_fault(charge)) is not None:
            pointer = f"/charges/{number}{fault.below}"
            found[fields.get(pointer, GENERAL)] = plain(fault.message, pointer)
    return found


def charge_texts(charges: tuple[Charge, ...]) -> dict[str, str]:
    """Return the form's texts of charges."""
    texts: dict[str, str] = {}
    for row, charge in enumerate(charges):
        texts |= {
            f"kind-{row}": charge.kind.value,
            f"name-{row}": charge.name,
            f"unit-{row}": PERCENT if charge.amount is None else AMOUNT,
            f"value-{row}": charge.rate or charge.amount or "",
            f"appliesTo-{row}": charge.applies_to.value,
        }
        if charge.included:
            texts[f"included-{row}"] = "true"
        if charge.mode is not None:
            texts[f"mode-{row}"] = charge.mode.value
    return texts


def charge_rows(texts: Texts) -> list[int]:
    """Return the numbers of the rows that the form shows: those with texts, and some for more."""
    used = [row for row in range(MAX_CHARGES) if f"name-{row}" in texts or f"value-{row}" in texts]
    return list(range(min(max(used, default=-1) + 1 + _BLANK_ROWS, MAX_CHARGES)))


def charge_lines(store: StoreRow) -> Iterator[str]:
    """Yield a line about each charge of a store: what it is, of what, and when."""
    currency = "" if store.charges is None else store.charges.currency
    for charge in () if store.charges is None else store.charges.charges:
        value = (
            f"{charge.rate} % of {BASES[charge.applies_to]}" if charge.rate else f"{charge.amount} {currency}"
        )
        included = ", included in the prices" if charge.included else ""
        mode = f", for {MODES[charge.mode]}" if charge.mode is not None else ""
        is_idle = charge.amount is not None and store.idle_currency is not None
        idle = f" (not added: the menu is in {store.currency})" if is_idle else ""
        yield f"{charge.name}: {value}{included}{mode}{idle}"


_read_update: Final = Decoder(StoreUpdate)


def read_update(members: Mapping[str, object], fields: Texts) -> tuple[StoreUpdate | None, dict[str, str]]:
    """Return an update of a store, or what is wrong beside each field."""
    return read(_read_update, members, fields)


def choices() -> dict[str, Any]:
    """Return what the templates of the forms list."""
    return {
        "handlings": HANDLINGS,
        "default_minutes": DEFAULT_MINUTES,
        "kinds": {ChargeKind.TAX.value: "Tax", ChargeKind.FEE.value: "Fee"},
        "bases": BASES,
        "modes": MODES,
        "charge_rows": charge_rows,
    }
