"""A client that `openapi-python-client` generates from the OpenAPI document type-checks, and places an order."""

import json
import os
import sys
from pathlib import Path

from tests.clients.programs import run
from tests.databases import only_sqlite

from mercato.asgi import document

PROGRAM = Path(__file__).with_name("program.py")


@only_sqlite
async def test_a_generated_python_client_is_complete_passes_its_types_and_trades(facts: str, tmp_path: Path):
    (tmp_path / "openapi.json").write_bytes(document())
    (tmp_path / "config.yml").write_text("post_hooks: []\n")
    said = await run(
        sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none",
        "--path", tmp_path / "openapi.json", "--output-path", tmp_path / "mercato_generated",
        "--config", tmp_path / "config.yml", "--fail-on-warning",
    )  # fmt: skip
    assert "missing" not in said
    paths = {"MYPYPATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    await run(
        sys.executable, "-m", "mypy", "--config-file", "", "--strict", "--cache-dir", os.devnull,
        "--follow-imports", "normal", PROGRAM, **paths,
    )  # fmt: skip
    ended = json.loads(await run(sys.executable, PROGRAM, facts, **paths))
    assert ended["state"] == "completed"
