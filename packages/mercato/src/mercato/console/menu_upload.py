"""A menu that is uploaded as a spreadsheet: the fields of its form, and what was read of it for a page.

The template `menu_upload.html` shows both.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from mercato.console.forms import Part
from mercato.features.catalogs.menu_files import (
    MAX_FILE,
    DecimalMark,
    Delimiter,
    Encoding,
    KnownItem,
    MenuFile,
    SheetMenu,
    SheetOptions,
)
from mercato.services import Services
from mercato_catalog.model import Windows
from mercato_contract.wire import Wire

MAX_UPLOAD: Final = MAX_FILE + 64 * 1024
"""Bytes of a form with a menu."""

MAX_ITEMS: Final = 50
"""Items that a page shows."""

MAX_PLACES: Final = 3
"""Places that a page names of one kind of loss."""

MENU: Final = "menu"
CHOICES: Final = "choices"

NO_FILE: Final = "No file was sent. Choose the menu's file."

WORDS: Final[Mapping[str, str]] = {
    DecimalMark.POINT: "Point (12.50)",
    DecimalMark.COMMA: "Comma (12,50)",
    Encoding.UTF_8: "UTF-8",
    Encoding.UTF_16: "UTF-16 (Unicode text)",
    Encoding.WINDOWS_1252: "Windows, Western Europe",
    Encoding.MAC_ROMAN: "Mac Roman",
    Encoding.WINDOWS_1250: "Windows, Central Europe",
    Encoding.WINDOWS_1251: "Windows, Cyrillic",
    Encoding.WINDOWS_1253: "Windows, Greek",
    Encoding.WINDOWS_1254: "Windows, Turkish",
    Encoding.SHIFT_JIS: "Shift JIS, Japanese",
    Encoding.GB18030: "GB 18030, Chinese",
    Encoding.BIG5: "Big5, Chinese",
    Encoding.EUC_KR: "EUC-KR, Korean",
}
"""What people read in place of the values of the form."""

CHOSEN: Final[Mapping[str, Sequence[str]]] = {
    "decimals": list(DecimalMark),
    "delimiters": list(Delimiter),
    "encodings": list(Encoding),
}
"""The values of the form's fields, for the template."""


class MenuFields(Wire):
    """The fields beside the files. What is left out is told from the file."""

    decimal: DecimalMark | None = None
    delimiter: Delimiter | None = None
    encoding: Encoding | None = None
    currency: Annotated[str, Meta(pattern="^[A-Za-z]{3}$")] | None = None


class LossGroup(Struct, frozen=True):
    """Losses of one kind: how many, and where the first are."""

    message: str
    count: int
    places: Sequence[str]


async def read_menu(
    app: Services,
    parts: Mapping[str, Part],
    fields: MenuFields,
    *,
    partner_id: UUID,
    default_currency: str,
    hours: Windows | None = None,
    previous: tuple[KnownItem, ...] = (),
) -> SheetMenu:
    """Read the menu of a form that has one, available in these hours. Raises RateLimited.

    Items of the previous menu keep their ids.
    """
    options = SheetOptions(
        default_currency=default_currency,
        currency=fields.currency,
        decimal=fields.decimal,
        delimiter=fields.delimiter,
        encoding=fields.encoding,
        hours=hours,
        previous=previous,
    )
    choices = parts.get(CHOICES)
    return await app.menu_files.read(
        _file(MENU, parts[MENU]),
        options,
        partner_id=partner_id,
        choices=None if choices is None else _file(CHOICES, choices),
    )


def group_losses(made: SheetMenu) -> list[LossGroup]:
    """Return what wasn't read as it was written, once for each kind."""
    alike: dict[str, list[str]] = {}
    for loss in made.losses:
        alike.setdefault(loss.message, []).append(loss.path.strip("/").replace("/", ", "))
    return [
        LossGroup(message, len(places), [place for place in places if place][:MAX_PLACES])
        for message, places in alike.items()
    ]


def _file(name: str, part: Part) -> MenuFile:
    return MenuFile(part.filename or f"{name}.csv", part.content)
