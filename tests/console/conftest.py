"""The clock of the console's service, and the reading of spreadsheets without processes."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.api.trade import Time

from mercato.features.catalogs.menu_files import MenuFile, MenuFiles, SheetMenu, SheetOptions
from mercato_tools.imports.spreadsheets.pages import SheetFile
from mercato_tools.imports.spreadsheets.read import read_menu


@pytest.fixture
def clock_ahead() -> Time:
    """The service's clock, which a test can put forward."""
    return Time()


@pytest.fixture
def time(clock_ahead: Time) -> Time:
    return clock_ahead


@pytest.fixture
def reads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read spreadsheets in a thread: the process that does costs more to start than most of these tests.

    `tests/spreadsheets/test_menu_files.py` is about the process, and reads the same as the command there.
    """

    async def read(_here: MenuFiles, files: Sequence[MenuFile], options: SheetOptions) -> SheetMenu:
        sheets = [
            SheetFile(file.name, b"".join([piece async for piece in file.content.pieces()])) for file in files
        ]
        return await asyncio.to_thread(read_menu, sheets[0], options, choices=(*sheets, None)[1])

    monkeypatch.setattr(MenuFiles, "_read", read)
