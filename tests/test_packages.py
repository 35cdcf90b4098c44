"""What a reader finds in every package."""

import ast
from pathlib import Path

import pytest

PACKAGES = sorted(Path(__file__).parent.parent.glob("packages/*/src/**/__init__.py"))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_every_package_says_what_lives_in_it(path: Path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"
