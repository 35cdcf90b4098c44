"""Every claim of the threat model has a test."""

import ast
import re
from pathlib import Path

import pytest

from mercato.settings import Settings
from mercato_tools.settings import PREFIX

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
CLAIMS = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


def test_every_section_points_to_tests():
    assert len(CLAIMS) >= 50
    assert len(CLAIMS) == PAGE.count(".py::")


@pytest.mark.parametrize("file", sorted({file for file, _ in CLAIMS}))
def test_every_referenced_test_exists(file: str):
    tree = ast.parse((ROOT / "tests" / file).read_text())
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {test for named, test in CLAIMS if named == file} <= there


def test_every_named_setting_exists():
    named = {name.removeprefix(PREFIX).lower() for name in re.findall(r"MERCATO_[A-Z_]+", PAGE)}
    assert named <= set(Settings.__struct_fields__)
