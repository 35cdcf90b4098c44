"""Each distribution works alone: installed in an empty environment, it runs its README. Made by `make wheels`."""

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from tests.clients.programs import run
from tests.databases import only_sqlite
from tests.docs.documents import ROOT, Block, blocks
from tests.docs.expected import difference
from tests.service import merchant, service

from mercato.features.partners.model import PartnerKind
from mercato_tools.cli import UNUSABLE

WANTED: Final = "MERCATO_TEST_WHEELS"
"""Set by `make wheels`, where a missing file is a failure."""

DIST: Final = ROOT / "dist"
WHEELHOUSE: Final = ROOT / "build/wheelhouse"
"""What the distributions need, in the versions of the lock: downloaded by `make wheels`."""

OLDEST: Final = ROOT / "build/oldest"
"""What the client needs, in the oldest versions that it declares: downloaded by `make wheels`."""

DOUBLE: Final = """
import urllib.error, urllib.request
from mercato_client.testing import MerchantDouble

with MerchantDouble(secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") as merchant:
    try:
        urllib.request.urlopen(merchant.webhook_url + "/place", data=b"{}", timeout=30)
    except urllib.error.HTTPError as refusal:
        print(refusal.code)
"""

CATALOG: Final = "http://127.0.0.1:9000/catalog.json"
MENU: Final = {
    "currency": "USD",
    "sections": {"mains": {"name": "Mains", "itemIds": ["soup"]}},
    "items": {"soup": {"name": "Tomato soup", "basePrice": "6.50"}},
    "modifierGroups": {},
}
MAX_BYTES: Final = 12 * 1024 * 1024
MAX_DISTRIBUTIONS: Final = 12
MAX_TOOLS: Final = 40 * 1024 * 1024
SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

pytestmark = pytest.mark.skipif(
    WANTED not in os.environ, reason="make wheels builds and downloads what this needs"
)


class Environment:
    """An environment with one distribution and what it needs."""

    def __init__(self, directory: Path, name: str, *, needs: Path = WHEELHOUSE) -> None:
        venv.create(directory, with_pip=False)
        self.python = directory / "bin/python"
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        subprocess.run(
            [*pip, "--no-index", "--find-links", DIST, "--find-links", needs, name],
            check=True,
            timeout=300,
        )
        self.packages = next(directory.glob("lib/*/site-packages"))

    def run_shell(self, lines: str, directory: Path) -> subprocess.CompletedProcess[str]:
        """Run lines of the shell that may call the environment's commands."""
        path = f"{self.python.parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", lines],
            cwd=directory,
            env={"PATH": path, "HOME": str(directory)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def distributions(self) -> set[str]:
        return {info.name.partition("-")[0] for info in self.packages.glob("*.dist-info")}

    @property
    def size(self) -> int:
        """Bytes without bytecode, which Python writes when it runs."""
        files = (file for file in self.packages.rglob("*") if file.is_file() and file.suffix != ".pyc")
        return sum(file.stat().st_size for file in files)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("client"), "mercato-client")


def programs(page: Path) -> Iterator[tuple[Block, Block]]:
    """Yield the Python of a page with the output that is shown below it."""
    for block, after in pairwise(blocks(page)):
        if block.language == "python" and after.language == "text":
            yield block, after


async def check_page(page: Path, python: Path, directory: Path, environment: dict[str, str]) -> None:
    for program, output in programs(page):
        await check_program(page, program, output, python, directory, environment)


async def check_program(
    page: Path, program: Block, output: Block, python: Path, directory: Path, environment: dict[str, str]
) -> None:
    file = directory / "program.py"
    file.write_text(program.text)
    fault = difference("text", output.text, await run(python, file, cwd=directory, **environment))
    assert fault is None, f"{page.parent.name}/{page.name}:{program.line}: {fault}"


async def test_the_contract_alone_runs_its_readme(tmp_path: Path):
    environment = Environment(tmp_path / "venv", "mercato-contract")
    assert environment.distributions == {"mercato_contract", "msgspec"}
    await check_page(ROOT / "packages/contract/README.md", environment.python, tmp_path, {})


async def test_the_rules_alone_run_their_readme(tmp_path: Path):
    environment = Environment(tmp_path / "venv", "mercato-catalog")
    assert environment.distributions == {"mercato_catalog", "mercato_contract", "msgspec"}
    await check_page(ROOT / "packages/catalog/README.md", environment.python, tmp_path, {})


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("tools"), "mercato-tools")


def test_the_tools_alone_run_their_readme(tools: Environment, tmp_path: Path):
    """The programs of its page are of the shell."""
    page = ROOT / "packages/tools/README.md"
    shown = [
        (block, after)
        for block, after in pairwise(blocks(page))
        if (block.language, after.language) == ("sh", "text")
    ]
    assert shown
    for program, output in shown:
        fault = difference("text", output.text, tools.run_shell(program.text, tmp_path).stdout)
        assert fault is None, f"tools/README.md:{program.line}: {fault}"


def test_the_tools_alone_are_small_and_have_nothing_of_the_service(tools: Environment):
    assert tools.size <= MAX_TOOLS
    assert "mercato" not in tools.distributions
    listed = " ".join(tools.run_shell("mercato --help", tools.packages).stdout.split())
    assert "catalog Catalogs: lint" in listed.replace("│ ", "")
    assert "come with the service: pip install mercato" in listed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mercato listen --partner Bistro", "--partner needs the service"),
        (f"mercato certify merchant --webhook-url http://127.0.0.1:1 --secret {SECRET} --json", "--unsigned"),
        ("mercato serve", "pip install mercato"),
    ],
)
def test_what_needs_the_service_says_so_where_there_is_none(
    tools: Environment, tmp_path: Path, line: str, words: str
):
    refused = tools.run_shell(line, tmp_path)
    assert refused.returncode == UNUSABLE
    assert words in " ".join(refused.stderr.split())


async def test_guarded_calls_alone_run_their_readme(tmp_path: Path):
    environment = Environment(tmp_path / "venv", "mercato-outbound")
    assert not environment.distributions & {"mercato", "mercato_client", "mercato_catalog"}
    await check_page(ROOT / "packages/outbound/README.md", environment.python, tmp_path, {})


@only_sqlite
async def test_the_client_alone_runs_its_readme(client: Environment, database_url: str, tmp_path: Path):
    page = ROOT / "packages/client/README.md"
    async with merchant() as shop, service(database_url, tmp_path / "data") as mercato:
        url = shop.host(MENU)
        account, own = await mercato.partner()
        front, _ = await mercato.partner(PartnerKind.MARKETFRONT)
        environment = {"MERCATO_URL": mercato.base, "MERCATO_KEY": account.key, "SHOP_KEY": front.key}
        for program, output in programs(page):
            local = replace(program, text=program.text.replace(CATALOG, url))
            await check_program(page, local, output, client.python, tmp_path, environment)
            # The first program registers the store of the others.
            stores = (await own.get("/v1/commerce/stores")).json()["stores"]
            environment["STORE"] = stores[0]["storeId"]


async def test_the_client_alone_is_small_and_has_nothing_of_the_service(client: Environment):
    assert client.size <= MAX_BYTES
    assert len(client.distributions) <= MAX_DISTRIBUTIONS
    loaded = "import sys, mercato_client; print([m for m in sys.modules if m.split('.')[0] == 'mercato'])"
    assert await run(client.python, "-c", loaded) == "[]\n"


async def test_the_client_and_its_doubles_run_with_the_oldest_versions_that_they_declare(tmp_path: Path):
    environment = Environment(tmp_path / "venv", "mercato-client[testing]", needs=OLDEST)
    assert await run(environment.python, "-c", DOUBLE) == "401\n"


async def test_the_service_installs_from_its_wheels_and_runs_the_demo(tmp_path: Path):
    environment = Environment(tmp_path / "venv", "mercato")
    command = environment.python.parent / "mercato"
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", await run(command, "--version"))
    assert "claims hold" in await run(command, "demo", cwd=tmp_path)


@pytest.mark.parametrize(
    "name",
    ["mercato_contract", "mercato_catalog", "mercato_client", "mercato_outbound", "mercato_tools", "mercato"],
)
def test_every_distribution_has_a_wheel_and_a_source_archive_with_its_license(name: str):
    (wheel,) = DIST.glob(f"{name}-[0-9]*.whl")
    (source,) = DIST.glob(f"{name}-[0-9]*.tar.gz")
    with tarfile.open(source) as archive:
        assert any(member.endswith("/LICENSE") for member in archive.getnames())
    assert wheel.stat().st_size > 0


@pytest.mark.parametrize("name", ["mercato-client", "mercato-catalog"])
def test_every_typescript_package_has_a_tarball(name: str):
    assert list(DIST.glob(f"{name}-*.tgz"))
