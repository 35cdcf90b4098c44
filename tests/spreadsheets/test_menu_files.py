"""The service reads menus of spreadsheets in processes of their own, within bounds of time and memory."""

import asyncio
import io
from uuid import uuid4
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from msgspec.structs import replace
from tests.spreadsheets.sheets import EUROS, csv_of, ods_with, priced

from mercato.features.catalogs.menu_files import SMALL, MenuFile, MenuFiles, SheetMenu
from mercato.platform.errors import RateLimited
from mercato_outbound.document import Document
from mercato_tools.imports.spreadsheets.headings import CHOICES, MENU
from mercato_tools.imports.spreadsheets.pages import SheetFile
from mercato_tools.imports.spreadsheets.read import read_menu
from mercato_tools.imports.spreadsheets.template import csv_template, xlsx_template
from mercato_tools.imports.spreadsheets.workbooks import OpenDocument

PARTNER = uuid4()


async def read(files: MenuFiles, content: bytes, choices: bytes | None = None) -> SheetMenu:
    offered = None if choices is None else MenuFile("choices.csv", Document.of(choices))
    return await files.read(file_of(content), EUROS, partner_id=PARTNER, choices=offered)


def file_of(content: bytes) -> MenuFile:
    return MenuFile("menu.csv", Document.of(content))


async def test_a_file_is_read_as_by_the_command():
    files = MenuFiles()
    assert await read(files, xlsx_template()) == read_menu(SheetFile("menu.csv", xlsx_template()), EUROS)
    made = await read(files, csv_template(MENU), csv_template(CHOICES))
    assert made.document == (await read(files, xlsx_template())).document


async def test_faults_and_losses_come_back_with_their_cells():
    made = await read(MenuFiles(), csv_of([("item", "price", "colour"), ("A", "soon", "red")]))
    assert [fault.place for fault in made.faults] == ["menu, row 2, price (B)"]
    assert {loss.path for loss in made.losses} >= {"/menu/1/colour"}


async def test_a_file_that_takes_too_much_memory_is_refused_with_what_to_do():
    # 100,000 rows of 26 cells, from a kilobyte.
    row = "<table:table-row table:number-rows-repeated='99000'>" + (
        "<table:table-cell table:number-columns-repeated='26' office:value-type='string'>"
         "<text:p>" + "x" * 100_000 + "</text:p></table:table-cell></table:table-row>"
    )  # fmt: skip
    table = "<table:table table:name='menu'>" + row + "</table:table>"
    bomb = ods_with(table * 40)
    assert len(bomb) < SMALL
    made = await read(MenuFiles(memory=24 << 20), bomb)
    assert "takes more than 24 MiB of memory to read" in made.faults[0].message


def test_a_parser_without_memory_is_no_damage_of_the_file():
    class Part(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            error = expat.ExpatError()
            error.code = expat.errors.codes[expat.errors.XML_ERROR_NO_MEMORY]
            raise error

    with pytest.raises(MemoryError):
        OpenDocument().read(Part())


async def test_a_file_that_takes_too_long_is_refused_and_its_process_ends():
    made = await read(MenuFiles(seconds=0.01), xlsx_template())
    assert "takes too long to read" in made.faults[0].message


async def test_a_file_that_keeps_a_processor_busy_is_refused_and_its_process_ends():
    # Rows of nothing, which are read one by one: two kilobytes for each second.
    book = io.BytesIO()
    with ZipFile(io.BytesIO(xlsx_template())) as made, ZipFile(book, "w", ZIP_DEFLATED) as bomb:
        for name in made.namelist():
            part = made.read(name)
            if name == "xl/worksheets/sheet1.xml":
                part = part.replace(b"</sheetData>", b"<row></row>" * 2_000_000 + b"</sheetData>")
            bomb.writestr(name, part)
    read_it = await read(MenuFiles(cpu_seconds=1), book.getvalue())
    assert "takes too long to read" in read_it.faults[0].message


@pytest.mark.parametrize("opened", ["<text:p>", "<table:table-cell>", "<office:annotation>", "<a>"])
async def test_elements_within_each_other_without_end_are_refused(opened: str):
    # The parser keeps each of them: the memory of the process, from some kilobytes.
    table = "<table:table table:name='menu'><table:table-row><table:table-cell>" + opened * 300_000
    made = await read(MenuFiles(cpu_seconds=15), ods_with(table))
    assert "more than 200 elements lie within each other" in made.faults[0].message


async def test_one_file_of_a_partner_is_read_at_a_time_and_others_wait():
    files = MenuFiles()
    first = asyncio.create_task(read(files, csv_of(priced(1))))
    await asyncio.sleep(0)
    with pytest.raises(RateLimited, match="Another file of this account"):
        await read(files, csv_of(priced(1)))
    other = files.read(file_of(csv_of(priced(1))), EUROS, partner_id=uuid4())
    assert (await other).document == (await first).document
    assert (await read(files, csv_of(priced(1)))).document is not None


async def test_a_cancelled_request_ends_the_process_and_frees_the_place():
    files = MenuFiles()
    task = asyncio.create_task(read(files, xlsx_template()))
    while not files.slots.in_use:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await read(files, csv_of(priced(1)))).document is not None


async def test_a_small_file_does_not_wait_for_a_large_one():
    files = MenuFiles()
    async with files._large:
        assert (await read(files, csv_of(priced(1)))).document is not None


@pytest.mark.parametrize(
    "parts", [{"content.xml": 80 << 20}, {"xl/workbook.xml": 10, "xl/sharedStrings.xml": 80 << 20}]
)
async def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(parts: dict[str, int]):
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name, size in parts.items():
            archive.writestr(name, b"\0" * size)
    made = await read(MenuFiles(), packed.getvalue())
    assert "more than the 67,108,864 that are read" in made.faults[0].message


async def test_the_options_are_passed_on():
    options = replace(EUROS, currency="JPY")
    made = await MenuFiles().read(file_of(csv_of(priced("1,234"))), options, partner_id=PARTNER)
    assert made.summary is not None
    assert made.summary.shown[0].price == "1234"
