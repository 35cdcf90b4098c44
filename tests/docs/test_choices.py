"""A choice that the specification leaves open is described beside its feature, names its code, and is in the index."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.documents import ROOT, documents, links, sections, shown

from mercato.settings import Settings
from mercato_tools.settings import PREFIX

CODE = [
    ROOT / place
    for place in (
        "packages/mercato/src/mercato",
        "packages/contract/src",
        "packages/catalog/src",
        "packages/client/src",
        "packages/outbound/src",
        "packages/tools/src",
        "packages/mercato/src",
    )
]
"""What the files of a note are below."""
INDEX = ROOT / "docs/choices.md"

_NOTE = re.compile(r"^<sub>Code: (.+?)</sub>$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w/.]+)`(?:\s+\(([^)]*)\))?")


class Named(NamedTuple):
    """A file that a section names in its note, with the names it defines."""

    path: Path
    names: list[str]


class Choice(NamedTuple):
    """A section that ends with a note of its code."""

    page: Path
    anchor: str
    files: list[Named]

    @property
    def target(self) -> str:
        """The link to the section from beside the index."""
        return f"{self.page.relative_to(INDEX.parent)}#{self.anchor}"


def choices() -> list[Choice]:
    return [
        Choice(page, section.anchor, files_in(note))
        for page in documents()
        for section in sections(page)
        for note in _NOTE.findall(section.text)
    ]


def files_in(note: str) -> list[Named]:
    return [Named(place_of(file), re.findall(r"`(\w+)`", names)) for file, names in _FILE.findall(note)]


def place_of(file: str) -> Path:
    return next((path for root in CODE if (path := root / file).exists()), ROOT / file)


def source(path: Path) -> str:
    return "".join(file.read_text() for file in ([path] if path.is_file() else path.glob("*.py")))


def defines(path: Path, name: str) -> bool:
    if name.startswith(PREFIX):
        return name.removeprefix(PREFIX).lower() in Settings.__struct_fields__
    definition = rf"^\s*(async def |def |class )?{re.escape(name)}\b[:=\[( ]"
    return re.search(definition, source(path), re.MULTILINE) is not None


@pytest.mark.parametrize("choice", choices(), ids=lambda choice: choice.target)
def test_a_choice_names_files_that_exist_and_define_its_names(choice: Choice) -> None:
    assert choice.files
    assert [shown(file.path) for file in choice.files if not file.path.exists()] == []
    assert [name for file in choice.files for name in file.names if not defines(file.path, name)] == []


def test_the_index_lists_every_choice_and_nothing_else() -> None:
    listed = [link.target for link in links(INDEX)]
    assert sorted(set(listed)) == sorted(listed)
    assert set(listed) == {choice.target for choice in choices()}


def test_every_code_note_is_read() -> None:
    """A note that is misspelt would not be checked."""
    begun = [re.findall(r"^<sub>Code:", page.read_text(), re.MULTILINE) for page in documents()]
    assert sum(map(len, begun)) == len(choices()) > 50
