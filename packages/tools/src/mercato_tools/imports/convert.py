"""Converts a document of another format into a CatalogSet, and lists what was lost. Pure."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

import msgspec
from msgspec import inspect as info

from mercato_catalog.validation.findings import shorten
from mercato_catalog.validation.scan import BOM
from mercato_contract.decoding import Decoder
from mercato_contract.decoding.walk import FILE
from mercato_contract.json_values import escape
from mercato_contract.money import find_scale
from mercato_tools.imports import deliverect, hubrise, schema_org, square, toast, uber
from mercato_tools.imports.draft import Draft, ImportOptions, Loss, Losses

_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


class Format(Protocol):
    """A module that reads one format. `IGNORED` are members without information of their own."""

    IGNORED: frozenset[str]

    def shape_of(self, untyped: Any, /) -> Any:
        """Return the type of a document that was decoded without one."""

    def currency_of(self, document: Any, /) -> str | None:
        """Return the currency that the document names."""

    def fill(self, document: Any, draft: Draft, options: ImportOptions, /) -> None:
        """Add everything in the document to the draft."""


FORMATS: Final[Mapping[str, Format]] = {
    "uber": uber,
    "deliverect": deliverect,
    "hubrise": hubrise,
    "square": square,
    "toast": toast,
}


SCHEMA_ORG: Final = "schema-org"
"""The format of saved pages, whose nodes have no fixed types."""


class Imported(msgspec.Struct, frozen=True):
    """The CatalogSet as JSON. `count` counts all losses; `losses` lists the first of them."""

    document: bytes
    losses: Sequence[Loss]
    count: int


class UnknownCurrencyError(ValueError):
    """No currency in use has this code."""


def convert(name: str, document: bytes, options: ImportOptions) -> Imported:
    """Convert the document. Raises a Problem that lists its faults by pointer, and UnknownCurrencyError."""
    losses = Losses()
    if name == SCHEMA_ORG:
        page = schema_org.read(document, losses)
        draft = _draft(name, schema_org.currency_of(page), options, losses)
        schema_org.fill(page, draft)
    else:
        form = FORMATS[name]
        menu = _decode(form, document.removeprefix(BOM), losses)
        draft = _draft(name, form.currency_of(menu), options, losses)
        form.fill(menu, draft, options)
    return Imported(document=draft.finish(), losses=losses.listed, count=losses.count)


def _decode(form: Format, text: bytes, losses: Losses) -> Any:
    try:
        untyped = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        untyped = {}  # the typed decoder reports why
    shape = form.shape_of(untyped)
    menu = Decoder(shape, bounds=FILE)(text)
    _report_unread(untyped, info.type_info(shape), "", losses, form.IGNORED)
    return menu


def _draft(name: str, found: str | None, options: ImportOptions, losses: Losses) -> Draft:
    currency = _currency(found, options, losses)
    scale = find_scale(currency)
    if scale is None:
        raise UnknownCurrencyError(currency)
    return Draft(source=name, currency=currency, scale=scale, losses=losses)


def _currency(found: str | None, options: ImportOptions, losses: Losses) -> str:
    if options.currency is not None:
        if found is not None and found != options.currency:
            losses.approximated(
                "", f"The prices are in {found}. Their amounts are kept, as {options.currency}."
            )
        return options.currency
    if found is None:
        losses.approximated(
            "",
            f"The document names no currency, so {options.default_currency} is used. Set another if that is wrong.",
        )
        return options.default_currency
    return found


# --- members that the format's types don't have ---------------------------------------------------


def _report_unread(value: Any, kind: info.Type, at: str, losses: Losses, ignored: Collection[str]) -> None:
    """Record every member that the type doesn't have, unless it is empty or ignored."""
    match _container(value, kind):
        case info.StructType() as struct:
            fields = _fields(struct.cls)
            for name, inner in value.items():
                if name in fields:
                    _report_unread(inner, fields[name], f"{at}/{escape(name)}", losses, ignored)
                elif name not in ignored and inner not in _EMPTY:
                    losses.dropped(f"{at}/{escape(name)}", f"{shorten(name)} has no counterpart.")
        case info.ListType(item_type=inner):
            for index, entry in enumerate(value):
                _report_unread(entry, inner, f"{at}/{index}", losses, ignored)
        case info.DictType(value_type=inner):
            for key, entry in value.items():
                _report_unread(entry, inner, f"{at}/{escape(key)}", losses, ignored)


@cache
def _fields(kind: type) -> dict[str, info.Type]:
    struct = info.type_info(kind)
    assert isinstance(struct, info.StructType)
    return {field.encode_name: field.type for field in struct.fields}


def _container(value: Any, kind: info.Type) -> info.Type | None:
    """Return the alternative of the type that fits an object or a list; None for other values."""
    options = kind.types if isinstance(kind, info.UnionType) else (kind,)
    if isinstance(value, dict):
        wanted: tuple[type[info.Type], ...] = (info.StructType, info.DictType)
    elif isinstance(value, list):
        wanted = (info.ListType,)
    else:
        return None
    return next((option for option in options if isinstance(option, wanted)), None)
