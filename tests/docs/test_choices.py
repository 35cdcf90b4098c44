"""What the specification leaves open is where the table says: each file is there, and defines what is to be changed."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.documents import ROOT

from mercato.settings import PREFIX, Settings

CODE = ROOT / "src/mercato"


class Row(NamedTuple):
    behaviour: str
    files: list[Path]
    names: list[str]


def rows() -> list[Row]:
    lines = (ROOT / "docs/choices.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [
        Row(behaviour, *([CODE / file for file in quoted(where)], quoted("".join(how))))
        for behaviour, where, *how in cells[1:]
    ]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def texts(place: Path) -> str:
    return "".join(file.read_text() for file in ([place] if place.is_file() else place.glob("*.py")))


def test_it_has_rows() -> None:
    assert len(rows()) > 100


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.behaviour[:60])
def test_what_is_to_be_changed_is_in_the_files_that_are_named(row: Row) -> None:
    assert row.files
    assert [file for file in row.files if not file.exists()] == []
    text = "".join(map(texts, row.files))
    for name in row.names:
        if name.startswith(PREFIX):
            assert name.removeprefix(PREFIX).lower() in Settings.__struct_fields__
            continue
        bare = re.escape(name.removesuffix("(…)"))
        assert re.search(rf"^\s*(async def |def |class )?{bare}\b[:=\[( ]", text, re.MULTILINE), name
