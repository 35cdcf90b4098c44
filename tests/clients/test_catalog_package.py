"""The package `@mercato/catalog` as it would be published: it answers every vector, and is small."""

import gzip
import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from tests.catalog.documents import SET, STORE, TEA
from tests.clients.programs import run
from tests.clients.typescript_project import MODULES, skip_without
from tests.docs.documents import ROOT, blocks

PACKAGE = ROOT / "packages/catalog/typescript"
BIN = PACKAGE / "node_modules/.bin"
PAGES = (PACKAGE / "README.md", ROOT / "docs/how-to/price-a-cart.md")
MAX_MINIFIED = 20_000


@pytest.fixture
async def package(tmp_path: Path) -> Path:
    """What would be published, unpacked."""
    skip_without(BIN)
    await run("npm", "pack", "--silent", "--offline", "--pack-destination", tmp_path, cwd=PACKAGE)
    [archive] = tmp_path.glob("mercato-catalog-*.tgz")
    shutil.unpack_archive(archive, tmp_path)
    return tmp_path / "package"


async def test_it_answers_every_vector_as_the_service_does(package: Path):
    assert package.exists()  # built
    said = await run("node", "--test", "--test-reporter=tap", "test/", cwd=PACKAGE)
    vectors = list((ROOT / "packages/catalog/vectors").glob("*.json.gz"))
    assert re.search(rf"^# pass {len(vectors)}$", said, re.MULTILINE), said


@pytest.mark.parametrize(
    ("line", "message", "pointer"),
    [
        ("{}", "modifierGroups is required.", "/item/modifierGroups"),
        ("{modifierGroups: null}", "modifierGroups must be a list, not null.", "/item/modifierGroups"),
        ("{modifierGroups: 'x'}", "modifierGroups must be a list, not a string.", "/item/modifierGroups"),
        ("{modifierGroups: [{}]}", "lineItems is required.", "/item/modifierGroups/0/lineItems"),
    ],
)
async def test_a_line_without_a_list_is_refused_as_the_service_refuses_it(
    package: Path, line: str, message: str, pointer: str
):
    """JavaScript has no types: `add` got a TypeError about `forEach`."""
    program = package / "program.mjs"
    program.write_text(f"""
import {{ Catalog, CartError }} from "./dist/index.js";
const items = {{ "{TEA}": {{ basePrice: "1" }} }};
const catalog = new Catalog({{ catalogSetId: "{SET}", storeId: "{STORE}", items }});
try {{
  catalog.add(null, {{ itemId: "{TEA}", quantity: 1, ...{line} }});
}} catch (error) {{
  console.log(error instanceof CartError, error.code, error.status, error.message, error.errors[0].pointer);
}}
""")
    printed = await run("node", program, cwd=package)
    assert printed.strip() == f"true INVALID_REQUEST 400 {message} {pointer}"


async def test_another_answer_than_a_vectors_is_noticed(package: Path, tmp_path: Path):
    """The proof of the proof: with one price changed, the vectors fail."""
    copy = tmp_path / "catalog/typescript"
    shutil.copytree(package / "dist", copy / "dist")
    shutil.copy(PACKAGE / "package.json", copy)
    shutil.copytree(PACKAGE / "test", copy / "test")
    vector = ROOT / "packages/catalog/vectors/carts-0.json.gz"
    content = json.loads(gzip.decompress(vector.read_bytes()))
    priced = next(one for one in content["catalogs"][0]["carts"] if "amounts" in one.get("answer", {}))
    priced["answer"]["amounts"]["total"] += "0"
    (tmp_path / "catalog/vectors").mkdir()
    changed = tmp_path / "catalog/vectors" / vector.name
    changed.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))
    with pytest.raises(AssertionError, match="not ok"):
        await run("node", "--test", "--test-reporter=tap", "test/", cwd=copy)


async def test_it_has_no_dependency_and_is_small(package: Path, tmp_path: Path):
    described = json.loads((package / "package.json").read_text())
    assert "dependencies" not in described
    minified = tmp_path / "minified.js"
    await run(
        BIN / "esbuild", "dist/index.js", "--bundle", "--minify", "--format=esm", f"--outfile={minified}", cwd=package
    )  # fmt: skip
    assert minified.stat().st_size <= MAX_MINIFIED
    files = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    modules = {path.stem for path in (PACKAGE / "src").glob("*.ts")}
    code = {f"dist/{module}{kind}" for module in modules for kind in (".js", ".d.ts")}
    assert files == code | {"package.json", "README.md", "LICENSE"}


async def test_the_programs_of_its_pages_print_what_is_shown(package: Path, tmp_path: Path):
    project = tmp_path / "project"
    shutil.copytree(package, project / "node_modules/@mercato/catalog")
    (project / "node_modules/@types").symlink_to(MODULES / "@types")
    (project / "package.json").write_text('{"type": "module"}\n')
    options = json.loads((PACKAGE / "tsconfig.json").read_text())["compilerOptions"]
    options |= {"declaration": False, "rootDir": ".", "outDir": "made", "types": ["node"]}
    (project / "tsconfig.json").write_text(json.dumps({"compilerOptions": options}))
    programs = [block for page in PAGES for block in blocks(page) if block.language == "ts"]
    for program in programs:
        (project / program.words[0]).write_text(program.text)
    menu = {
        "items": {TEA: {"name": "Mint tea", "basePrice": "3.25"}},
        "storeId": str(STORE),
        "catalogSetId": str(SET),
    }
    (project / "menu.json").write_text(json.dumps(menu))
    await run(BIN / "tsc", "--project", project)
    printed = [
        await run("node", project / "made" / Path(program.words[0]).with_suffix(".js"), cwd=project)
        for program in programs
    ]
    shown = [after.text for one, after in pairwise(blocks(PAGES[0])) if one.language == "ts"]
    # The guide shows what its programs in Python and in TypeScript print once, between them.
    shown += [one.text for one, after in pairwise(blocks(PAGES[1])) if after.language == "ts"]
    assert printed == shown


def test_the_lock_file_names_no_registry():
    assert "resolved" not in (PACKAGE / "package-lock.json").read_text()
