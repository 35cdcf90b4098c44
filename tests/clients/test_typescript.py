"""A client that `openapi-typescript` makes of the OpenAPI document compiles, and trades."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.clients.programs import run
from tests.databases import only_sqlite

from mercato.web.app import document

HERE = Path(__file__).with_name("typescript")
TOOLS = HERE / "node_modules/.bin"
WANTED = "MERCATO_TEST_CLIENTS"
"""Set by `make test-clients`, where a missing tool is a failure."""

pytestmark = pytest.mark.skipif(
    not TOOLS.exists() and WANTED not in os.environ,
    reason="the generator of TypeScript clients is not installed: `make test-clients` does that",
)


@only_sqlite
async def test_a_generated_typescript_client_compiles_and_trades(facts: str, tmp_path: Path):
    node = shutil.which("node")
    assert node is not None, "there is no node on this machine"
    for name in ("package.json", "tsconfig.json", "program.ts"):
        shutil.copy(HERE / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")
    (tmp_path / "openapi.json").write_bytes(document())
    await run(TOOLS / "openapi-typescript", tmp_path / "openapi.json", "-o", tmp_path / "mercato.ts")
    await run(TOOLS / "tsc", "--project", tmp_path)
    ended = json.loads(await run(node, tmp_path / "made/program.js", facts))
    assert ended["state"] == "completed"
