"""The OpenAPI document keeps the shape that clients are generated from.

`python -m tests.api.test_openapi_unchanged` rewrites the fixture. That is fine for a new member; a removed or
changed one breaks clients.
"""

import json
from pathlib import Path
from typing import Any, Final

from mercato.asgi import document

FIXTURE: Final = Path(__file__).with_name("openapi.json")
PROSE: Final = {"description", "summary"}
"""Members that may be reworded, where they hold text and aren't properties of that name."""


def shape(node: Any) -> Any:
    """Return the document without its prose."""
    if isinstance(node, list):
        return [shape(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        name: shape(value) for name, value in node.items() if not (name in PROSE and isinstance(value, str))
    }


def lines() -> str:
    """Return the shape with a line for each operation and component, so that a change reads as a difference."""
    whole = shape(json.loads(document()))
    del whole["info"]["version"]
    sections: dict[str, Any] = {}
    for name, value in whole.items():
        if name in {"paths", "webhooks"}:
            sections |= {
                f"{name} {path} {method}": operation
                for path, methods in value.items()
                for method, operation in methods.items()
            }
        elif name == "components":
            sections |= {
                f"{name} {kind} {key}": one for kind, of_kind in value.items() for key, one in of_kind.items()
            }
        else:
            sections[name] = value
    rows = [f"{json.dumps(name)}: {json.dumps(sections[name], sort_keys=True)}" for name in sorted(sections)]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def test_the_openapi_document_is_unchanged_but_for_descriptions():
    expected, actual = json.loads(FIXTURE.read_text()), json.loads(lines())
    changed = [name for name in expected if actual.get(name) != expected[name]]
    assert not changed, f"removed or changed: {changed}"
    assert not actual.keys() - expected.keys(), "new: rewrite the fixture"


if __name__ == "__main__":
    FIXTURE.write_text(lines())
