"""Follows docs/start-here.md exactly in a clean clone, and prints how long that takes: `make start-here`.

The clone is of what is committed. Only what the page creates exists: `make` installs everything.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.docs.documents import ROOT, Block
from tests.docs.reader import Reader, tools

# ruff: noqa: T201  # it is a command

PAGE = Path("docs/start-here.md")

PATIENCE = 600.0
"""Seconds for a step: the first one installs all packages."""


class Timed(Reader):
    """A reader that measures time."""

    def _type(self, block: Block, output: Block | None, where: str) -> None:
        began = time.monotonic()
        super()._type(block, output, where)
        report(block, time.monotonic() - began)

    def _start(self, block: Block, where: str) -> None:
        began = time.monotonic()
        super()._start(block, where)
        report(block, time.monotonic() - began)


def report(block: Block, seconds: float) -> None:
    first = block.text.splitlines()[0]
    print(f"{seconds:7.1f} s  line {block.line:3}  {first[:60]}", flush=True)


def follow(root: Path, page: Path) -> int:
    """Follow a page of the repository at `root` in a clone; print how long it took, and return the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mercato-start-here-") as directory:
        clone = Path(directory) / "mercato"
        subprocess.run(["git", "clone", "--quiet", root, clone], check=True)
        print(f"{time.monotonic() - began:7.1f} s  git clone", flush=True)
        reader = Timed(clone, clone=True, patience=PATIENCE)
        try:
            reader.reads(clone / page)
        except AssertionError as fault:
            print(f"{page} does not do what it says:\n{fault}", file=sys.stderr)
            return 1
        finally:
            reader.leaves()
    print(f"{page} does what it says, in a clean clone, in {time.monotonic() - began:.0f} s.")
    return 0


def main() -> int:
    missing = tools()
    if missing is not None:
        print(f"A reader needs {missing}, which is not installed.", file=sys.stderr)
        return 2
    code = follow(ROOT, PAGE)
    if code == 0:
        print("An order is placed, and a merchant is certified.")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
