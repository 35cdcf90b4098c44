"""Every relative link of the documents works, and every index is complete."""

import re
from pathlib import Path

import pytest
from tests.docs.documents import ROOT, anchors, documents, links, shown

_ROOTS = (
    ROOT,
    ROOT / "packages/mercato/src",
    ROOT / "packages/mercato/src/mercato",
    ROOT / "packages/contract/src",
    ROOT / "packages/catalog/src",
    ROOT / "packages/client/src",
    ROOT / "packages/outbound/src",
    ROOT / "packages/tools/src",
)
_TEXTS = {".md", ".py", ".toml", ".html", ".yaml", ".service"}
_NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:bin|json|md|py|service|toml|yaml))`")


@pytest.mark.parametrize("page", documents(), ids=shown)
def test_every_link_works(page: Path) -> None:
    broken = [link.target for link in links(page) if not leads_somewhere(page, link.target)]
    assert broken == []


def leads_somewhere(page: Path, target: str) -> bool:
    """Tell whether a relative link has its file, and its heading there; others aren't checked."""
    if target.startswith(("http://", "https://", "mailto:")):
        return True
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if not file.is_relative_to(ROOT) or not file.exists():
        return False
    return not anchor or (file.suffix == ".md" and anchor in anchors(file))


@pytest.mark.parametrize("page", documents(), ids=shown)
def test_files_that_are_named_exist(page: Path) -> None:
    named = _NAMED.findall(page.read_text())
    assert [name for name in named if not any((root / name).exists() for root in _ROOTS)] == []


_NOT_HERE = re.compile(r"§|\b([Dd]ecisions?|[Ss]pecification),? \d")
"""A reference to a numbered section of a text that isn't in the repository."""


def test_nothing_refers_to_a_section_that_a_reader_cannot_open() -> None:
    folders = ("docs", "packages", "tests", "examples", "benchmarks", "deploy")
    found = (file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in _TEXTS)
    files = [file for file in found if "node_modules" not in file.parts]  # of `make test-clients`
    assert len(files) > 100
    assert [
        str(file) for file in files if file != Path(__file__) and _NOT_HERE.search(file.read_text())
    ] == []


@pytest.mark.parametrize("index", ["docs/adr/README.md", "docs/how-to/README.md"])
def test_an_index_lists_every_page_beside_it(index: str) -> None:
    file = ROOT / index
    beside = {page.name for page in file.parent.glob("*.md")} - {file.name}
    assert {link.target for link in links(file) if "/" not in link.target} == beside
