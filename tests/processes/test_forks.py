"""A forked command is what the installed program is, but for the time that it takes to start."""

import signal
from pathlib import Path

import pytest
from tests.databases import only_sqlite
from tests.forks import INSTALLED
from tests.processes.test_serve import mercato, serving


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["nosuch"],
        ["partner", "list", "--json"],
        ["serve", "--port", "0", "--data-dir", "/dev/null/data"],
    ],
    ids=lambda words: words[0],
)
async def test_it_prints_and_ends_as_the_installed_program_does(tmp_path: Path, arguments: list[str]):
    settings = {"MERCATO_DATA_DIR": str(tmp_path)}
    assert await mercato(*arguments, **settings) == await mercato(*arguments, **settings, **INSTALLED)


@only_sqlite
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 0),
        pytest.param(signal.SIGINT, 0, marks=pytest.mark.long),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
async def test_a_signal_ends_it_as_it_ends_the_installed_program(
    tmp_path: Path, database_kind: str, number: signal.Signals, code: int
):
    for settings in ({}, INSTALLED):
        async with serving(tmp_path, **settings) as (process, _):
            process.send_signal(number)
            assert await process.wait() == code
