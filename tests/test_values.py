"""One way to write a value: see CONTRIBUTING.md, Rules of the code."""

import ast
from pathlib import Path

import mercato

ROOT = Path(mercato.__file__).parent

STRUCTS_CANNOT = ("repr=False", "cached_property", "__post_init__", "TYPE_CHECKING")
"""What a Struct can't: hide a field from its repr, cache a property, prepare a field, name a type of an extra."""


def test_a_value_is_a_frozen_struct():
    found = []
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        if "dataclass(frozen=True" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            decorators = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
            if not any(one.startswith("dataclass(frozen=True") for one in decorators):
                continue
            own = ast.get_source_segment(text, node) or ""
            reasons = [one for one in STRUCTS_CANNOT if one in (text if one == "TYPE_CHECKING" else own)]
            if not reasons:
                found.append(f"{path.relative_to(ROOT)}: {ast.unparse(node).splitlines()[1]}")
    assert not found, "\n".join(found)
