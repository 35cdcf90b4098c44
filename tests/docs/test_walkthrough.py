"""Every file and function that the walkthrough names exists under that name."""

import ast
from pathlib import Path

import pytest
from tests.docs.documents import ROOT, Link, links

PAGE = ROOT / "docs/walkthrough.md"
NAMED = [link for link in links(PAGE) if link.target.endswith(".py")]


def defined(path: Path) -> set[str]:
    """Return what a module defines: functions, classes, constants, and its classes' methods."""
    names = {path.stem, path.name, str(path.relative_to(ROOT))}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            members = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{member.name}" for member in members}
    return names


def test_it_names_functions() -> None:
    assert len(NAMED) > 30


@pytest.mark.parametrize("link", NAMED, ids=lambda link: link.text)
def test_everything_that_is_named_exists(link: Link) -> None:
    path = (PAGE.parent / link.target).resolve()
    assert link.text.strip("`") in defined(path)
