"""The package `@mercato/client` as it would be published: its types, its content, and its tests with a real service."""

import json
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.catalog.documents import cafe
from tests.clients.programs import run
from tests.clients.typescript_project import MODULES, PACKAGE, compile_project, skip_without, start_project
from tests.databases import only_sqlite
from tests.ports import free_port
from tests.service import merchant, service

from mercato.asgi import operations
from mercato.features.partners.model import PartnerKind
from mercato.http.operations import Access
from mercato_client.clients import Surfaces
from mercato_client.operation import Flow


@pytest.fixture
def _installed() -> None:
    skip_without(MODULES)


@pytest.fixture
async def package(tmp_path: Path, _installed: None) -> Path:
    """What would be published, unpacked."""
    await run("npm", "pack", "--silent", "--offline", "--pack-destination", tmp_path, cwd=PACKAGE)
    [archive] = tmp_path.glob("mercato-client-*.tgz")
    shutil.unpack_archive(archive, tmp_path)
    return tmp_path / "package"


@pytest.fixture
async def partners(database_url: str, tmp_path: Path) -> AsyncIterator[str]:
    """Where the service is, keys and secrets of both sides, and the port for a server of theirs, as JSON."""
    port = free_port()
    async with merchant() as shop, service(database_url, tmp_path / "data") as mercato:
        store, _ = await mercato.partner()
        front, _ = await mercato.partner(PartnerKind.MARKETFRONT, event_url=f"http://127.0.0.1:{port}/events")
        assert store.commerce_key is not None
        assert front.marketfront_key is not None
        yield json.dumps(
            {
                "url": mercato.base,
                "commerceKey": store.commerce_key.text,
                "commerceSecret": store.signing_secret,
                "marketfrontKey": front.marketfront_key.text,
                "marketfrontSecret": front.signing_secret,
                "catalogUrl": shop.host(cafe()),
                "receiver": port,
            }
        )


@only_sqlite
async def test_the_package_as_published_passes_its_tests_with_a_real_service(
    package: Path, partners: str, tmp_path: Path
):
    node = shutil.which("node")
    assert node is not None
    project = tmp_path / "project"
    start_project(project, package)
    for test in (PACKAGE / "test").glob("*.ts"):
        shutil.copy(test, project)
    await compile_project(project)
    said = await run(
        node, "--test", "--test-reporter=tap", "made/", cwd=project, MERCATO_TEST_SERVICE=partners
    )
    assert re.search(r"^# pass [1-9]", said, re.MULTILINE), said
    assert re.search(r"^# skipped 0$", said, re.MULTILINE), said


async def test_the_package_has_the_code_its_types_and_nothing_else(package: Path):
    files = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    modules = {path.stem for path in (PACKAGE / "src").glob("*.ts")}
    code = {f"dist/{module}{kind}" for module in modules for kind in (".js", ".d.ts")}
    assert files == code | {"package.json", "README.md", "LICENSE"}
    described = json.loads((package / "package.json").read_text())
    assert list(described["dependencies"]) == ["standardwebhooks"]
    assert f'VERSION = "{described["version"]}"' in (package / "dist/service.js").read_text()


def test_the_lock_file_names_no_registry():
    assert "resolved" not in (PACKAGE / "package-lock.json").read_text()


@pytest.mark.usefixtures("_installed")
async def test_the_types_are_those_that_the_generator_makes_of_the_document():
    code = "import generate, mercato.asgi as app; print(generate.types(app.document()), end='')"
    made = await run(sys.executable, "-c", code, cwd=PACKAGE)
    assert made == (PACKAGE / "src/api.ts").read_text(), "Run: npm --prefix packages/typescript run generate"


def test_it_has_the_methods_of_the_python_client_by_their_names_in_camel_case():
    sources = [(PACKAGE / f"src/{name}.ts").read_text() for name in ("commerce", "marketfront", "mercato")]
    # A method of a class: indented once, with a body or arguments on lines of their own.
    methods = re.findall(
        r"^  (?:async )?([a-z]\w+)\($|^  (?:async )?([a-z]\w+)\(.*\{$", "\n".join(sources), re.MULTILINE
    )
    found = [one or other for one, other in methods if (one or other) != "constructor"]
    ours = [
        name for kind in Surfaces.__mro__ for name, member in vars(kind).items() if isinstance(member, Flow)
    ]
    assert sorted(found) == sorted(camel(name) for name in ours)


def test_its_routes_are_those_of_the_document():
    source = (PACKAGE / "src/operations.ts").read_text()
    routes = dict(re.findall(r'^  (\w+): "([A-Z]+ /\S+)",$', source, re.MULTILINE))
    assert routes == {
        one.id: f"{one.method} {one.path}"
        for one in operations()
        if one.access is not Access.PUBLIC and one.tag != "MCP"
    }


def camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)
