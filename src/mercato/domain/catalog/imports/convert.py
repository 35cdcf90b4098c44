"""A document of another format in, a CatalogSet and what was lost out. Pure."""

from collections.abc import Sequence

import msgspec

from mercato.domain.catalog.imports import deliverect, hubrise, square, uber
from mercato.domain.catalog.imports.draft import Draft
from mercato.domain.catalog.imports.losses import Loss, Losses
from mercato.domain.catalog.imports.source import Format, ImportOptions
from mercato.domain.catalog.imports.unread import report_unread
from mercato.domain.catalog.money import find_scale
from mercato.domain.catalog.validation.scan import BOM
from mercato.kernel.wire import Decoder
from mercato.kernel.wire.walk import FILE

FORMATS: dict[str, Format] = {
    one.name: one for one in (uber.FORMAT, deliverect.FORMAT, hubrise.FORMAT, square.FORMAT)
}


class Imported(msgspec.Struct, frozen=True):
    """The CatalogSet as JSON. `count` are all losses, of which `losses` lists the first."""

    document: bytes
    losses: Sequence[Loss]
    count: int


class UnknownCurrencyError(ValueError):
    """There is no such currency."""


def convert(name: str, document: bytes, options: ImportOptions) -> Imported:
    """Return what becomes of the document. Raises a Problem that lists by pointer what is wrong with it."""
    form, losses = FORMATS[name], Losses()
    text = document.removeprefix(BOM)
    try:
        untyped = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        untyped = {}  # the decoder says it in words
    kind = form.shape_of(untyped)
    menu = Decoder(kind, bounds=FILE)(text)
    report_unread(untyped, kind, losses, idle=form.idle)
    currency = _currency(form.currency_of(menu), options, losses)
    scale = find_scale(currency)
    if scale is None:
        raise UnknownCurrencyError(currency)
    draft = Draft(source=name, currency=currency, scale=scale, losses=losses)
    form.fill(menu, draft, options)
    made = draft.finish()
    return Imported(document=made, losses=losses.listed(), count=losses.count)


def _currency(found: str | None, options: ImportOptions, losses: Losses) -> str:
    if options.currency is not None:
        if found is not None and found != options.currency:
            losses.approximated(
                "", "It is in another currency than was asked for: amounts stay, the currency changes."
            )
        return options.currency
    if found is None:
        losses.approximated(
            "", f"The document names no currency: {options.default_currency} is taken. See --currency."
        )
        return options.default_currency
    return found
