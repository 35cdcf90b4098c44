"""The OpenAPI document in the tools of npm: the clients of generators compile, and linters find nothing."""

import re
from pathlib import Path

import pytest
from tests.clients.programs import run
from tests.clients.typescript_project import skip_without

from mercato.asgi import document

HERE = Path(__file__).with_name("typescript")
TOOLS = HERE / "node_modules/.bin"


@pytest.fixture(autouse=True)
def _installed() -> None:
    skip_without(TOOLS)


GENERATORS = {
    "hey-api": ("openapi-ts", "--input", "openapi.json", "--output", "made", "--no-log-file"),
    "orval": ("orval", "--input", "openapi.json", "--output", "made/client.ts", "--client", "fetch"),
}
STRICT = (
    "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext",
    "--lib", "es2022,dom,dom.iterable",
)  # fmt: skip


@pytest.mark.parametrize("name", GENERATORS)
async def test_the_clients_of_generators_compile(name: str, tmp_path: Path):
    prepare(tmp_path)
    tool, *arguments = GENERATORS[name]
    await run(TOOLS / tool, *arguments, cwd=tmp_path)
    made = sorted(map(str, (tmp_path / "made").rglob("*.ts")))
    assert made
    await run(TOOLS / "tsc", *STRICT, *made, cwd=tmp_path)


async def test_redocly_finds_nothing_by_its_recommended_rules(tmp_path: Path):
    prepare(tmp_path)
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    said = await run(TOOLS / "redocly", "lint", "openapi.json", "--format", "summary", cwd=tmp_path, **quiet)
    assert "Your API description is valid" in said
    assert re.findall(r"^(?:warning|error) .*", said, re.MULTILINE) == []


async def test_spectral_finds_nothing_by_its_openapi_rules(tmp_path: Path):
    prepare(tmp_path)
    (tmp_path / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    await run(TOOLS / "spectral", "lint", "openapi.json", "--fail-severity", "hint", cwd=tmp_path)


def prepare(directory: Path) -> None:
    """Put the document where the tools of npm find it, and their packages."""
    (directory / "node_modules").symlink_to(HERE / "node_modules")
    (directory / "package.json").write_text('{"type": "module"}\n')
    (directory / "openapi.json").write_bytes(document())
