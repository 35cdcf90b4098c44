"""A distribution requires what its modules import: alone in an environment, it has everything."""

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.audit import runtime_packages
from tests.docs.documents import ROOT

PACKAGES: Final = sorted(file.parent for file in ROOT.glob("packages/*/pyproject.toml"))
STANDARD: Final = {*sys.stdlib_module_names, "compression"}  # a package of it since Python 3.14


def imported(package: Path) -> Iterator[str]:
    """Yield the names of the packages that are imported, at any place in a module."""
    for file in package.glob("src/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                yield node.module.partition(".")[0]


def undeclared(package: Path, installed: Mapping[str, list[str]]) -> set[str]:
    """Return what the modules of a distribution import without requiring it."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    name = project["name"]
    direct = {canonicalize_name(Requirement(need).name) for need in project["dependencies"]}
    required = {name, *direct, *runtime_packages(name, *project.get("optional-dependencies", {}))}
    return {
        module
        for module in imported(package)
        if module not in STANDARD
        and not required & {canonicalize_name(found) for found in installed.get(module, [module])}
    }


def test_a_distribution_requires_what_its_modules_import():
    installed = packages_distributions()
    assert {package.name: undeclared(package, installed) for package in PACKAGES} == {
        package.name: set() for package in PACKAGES
    }
