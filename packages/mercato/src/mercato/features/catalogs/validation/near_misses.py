"""Warns of members and prices that are probably misspelled: "did you mean".

Unknown members are valid and served unchanged, so only a name close to a known one is worth a warning. Each name is
compared once, however many entities have it.
"""

import re
from difflib import get_close_matches
from typing import Any, Final

from mercato.features.catalogs.validation.document import CATALOGS, GROUPS, ITEMS, SECTIONS, Source, Table
from mercato.features.catalogs.validation.findings import Findings, Rule, shorten
from mercato.platform.wire.walk import escape

MAX_NAMES: Final = 500
"""Unknown names of one table that are checked; a document with more isn't misspelled."""

MAX_COMPARED: Final = 50
"""Names that are compared letter by letter: half a millisecond for ten of them."""

MAX_NEAR: Final = 10
"""Misnamed members of one table that are warned of."""

MAX_NAME: Final = 40
"""Characters of a name that may be a misspelling; the longest known one has 16."""

CLOSE: Final = 0.86
"""The least similarity of two names, by difflib's ratio: one letter in eight may differ."""

_SHARED_ALIASES: Final = {"image": "imageUrl", "photo": "imageUrl", "picture": "imageUrl", "title": "name"}
_TOP_MEMBERS: Final = (
    "currency",
    "catalogSetId",
    "storeId",
    *(kind.member for kind in (CATALOGS, SECTIONS, ITEMS, GROUPS)),
)
_TOP_ALIASES: Final = {
    "menus": "catalogs",
    "categories": "sections",
    "products": "items",
    "modifiers": "modifierGroups",
    "optiongroups": "modifierGroups",
    "currencycode": "currency",
}
_ALIASES: Final[dict[str, dict[str, str]]] = {
    CATALOGS.member: _SHARED_ALIASES
    | {"sections": "sectionIds", "categories": "sectionIds"}
    | dict.fromkeys(("hours", "openinghours", "schedule", "windows"), "availability"),
    SECTIONS.member: _SHARED_ALIASES
    | dict.fromkeys(("items", "products"), "itemIds")
    | dict.fromkeys(("sections", "subsections", "children"), "sectionIds"),
    ITEMS.member: _SHARED_ALIASES
    | dict.fromkeys(("price", "unitprice", "amount", "cost"), "basePrice")
    | dict.fromkeys(("modifiergroups", "modifiers", "optiongroups"), "modifierGroupIds")
    | dict.fromkeys(("available", "instock"), "isAvailable")
    | {"maxquantity": "maximumQuantity"},
    GROUPS.member: _SHARED_ALIASES
    | dict.fromkeys(("items", "options", "choices", "modifiers"), "itemIds")
    | dict.fromkeys(("min", "minimum", "minquantity", "minallowed"), "minimumAllowed")
    | dict.fromkeys(("max", "maximum", "maxquantity", "maxallowed"), "maximumAllowed")
    | {"maxperitem": "maximumPerItem", "prices": "priceOverrides", "overrides": "priceOverrides"},
}
"""Names of members in other formats, folded, by table."""

_AFFIXES: Final = re.compile(r"[\s\u00a0]|[^\W\d_]+\.?|[$\u00a2-\u00a5\u20a0-\u20cf]")
"""Characters around an amount: spaces, a currency's letters or symbol."""

_AMOUNT: Final = re.compile(r"-?\d{1,12}(\.\d{1,4})?", re.ASCII)
_COMMA: Final = re.compile(r"(-?\d{1,12}),(\d{1,2})", re.ASCII)
_THOUSANDS: Final = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d{1,4})?", re.ASCII)
_MAX_PRICE: Final = 40


def warn_near_misses(source: Source, findings: Findings) -> None:
    """Warn of members whose names are close to a known one that is missing."""
    for name, meant in _find_close(set(source.top), _TOP_MEMBERS, _TOP_ALIASES):
        if source.top.get(meant) is None:
            findings.warn(Rule.MISNAMED_MEMBER, _message("The document", name, meant), f"/{escape(name)}")
    for table in source.tables:
        _warn_table(table, findings)


def price_hint(price: str) -> str:
    """Return a suggestion for an unreadable price, as a sentence to append; empty without one."""
    if len(price) > _MAX_PRICE:
        return ""
    if price.rstrip().endswith("%"):
        return " A price is an amount, not a percentage."
    bare = _AFFIXES.sub("", price)
    if decimal := _COMMA.fullmatch(bare):
        bare = f"{decimal[1]}.{decimal[2]}"
    elif _THOUSANDS.fullmatch(bare):
        bare = bare.replace(",", "")
    return f' Did you mean "{bare}"?' if bare != price and _AMOUNT.fullmatch(bare) else ""


def _warn_table(table: Table[Any], findings: Findings) -> None:
    kind = table.kind
    for name, meant in _find_close(
        table.member_names, (*kind.forms, kind.own_id, "partnerItemId"), _ALIASES[kind.member]
    ):
        rows = [key for key, row in table.members.items() if name in row and row.get(meant) is None]
        if rows:
            subject = f"The {kind.noun} {table.label(rows[0])}"
            others = f" {len(rows):,} {kind.member} have it." if len(rows) > 1 else ""
            pointer = f"{table.pointer(rows[0])}/{escape(name)}"
            findings.warn(
                Rule.MISNAMED_MEMBER, _message(subject, name, meant) + others, pointer, of=kind.member
            )


def _find_close(used: set[str], known: tuple[str, ...], meant: dict[str, str]) -> list[tuple[str, str]]:
    """Return unknown names with the known ones that they are close to, in order."""
    unknown = [name for name in used.difference(known) if len(name) <= MAX_NAME]
    if len(unknown) > MAX_NAMES:
        return []
    folded = {_fold(name): name for name in known}
    found = []
    for number, name in enumerate(sorted(unknown)):
        plain = _fold(name)
        close = meant.get(plain) or folded.get(plain)
        if close is None and number < MAX_COMPARED:
            close = next((folded[one] for one in get_close_matches(plain, folded, n=1, cutoff=CLOSE)), None)
        if close is not None:
            found.append((name, close))
    return found[:MAX_NEAR]


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _message(subject: str, name: str, meant: str) -> str:
    return f"{subject} has the member {shorten(name)}, which isn't known here. Did you mean {meant}?"
