"""What a reader finds in every package."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from tests import distributions

PACKAGES = sorted(Path(__file__).parent.parent.glob("packages/*/src/**/__init__.py"))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_every_package_says_what_lives_in_it(path: Path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_no_modules_import_each_other():
    """Not by way of others, within a function or for annotations either: what two modules share is in a third."""
    names = [package.__name__ for package in distributions.PACKAGES]
    graph = grimp.build_graph(*names, exclude_type_checking_imports=False, cache_dir=None)
    TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    ).prepare()
