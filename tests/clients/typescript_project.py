"""Projects of TypeScript that use `@mercato/client`, as `make test-clients` has built it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.clients.programs import run

PACKAGE = Path(__file__).parents[2] / "packages/typescript"
BUILT = PACKAGE / "dist"
MODULES = PACKAGE / "node_modules"
WANTED = "MERCATO_TEST_CLIENTS"
"""Set by `make test-clients`, where a missing tool is a failure."""


def skip_without(path: Path) -> None:
    """Skip the test where `make test-clients` has not made the path."""
    if not path.exists() and WANTED not in os.environ:
        pytest.skip("make test-clients installs and builds what this test needs")


def start_project(directory: Path, package: Path = PACKAGE) -> None:
    """Make the directory a project with the package, in which programs compile by its own strict options."""
    modules = directory / "node_modules"
    # A copy: Node.js looks for the dependencies of a link where it leads.
    shutil.copytree(package / "dist", modules / "@mercato/client/dist")
    shutil.copy(package / "package.json", modules / "@mercato/client")
    for name in ("@types", "@stablelib", "fast-sha256", "standardwebhooks"):
        (modules / name).symlink_to(MODULES / name)
    (directory / "package.json").write_text('{"type": "module"}\n')
    options = json.loads((PACKAGE / "tsconfig.json").read_text())["compilerOptions"]
    options |= {"declaration": False, "rootDir": ".", "outDir": "made"}
    (directory / "tsconfig.json").write_text(json.dumps({"compilerOptions": options}))


async def compile_project(directory: Path) -> None:
    """Compile its programs, with every check, into the directory `made`."""
    await run(MODULES / ".bin/tsc", "--project", directory)
