"""The example storefront passes the checks that storefronts are certified by; the merchant does in Start here."""

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.long
async def test_the_storefront_is_certified(tmp_path: Path):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MERCATO_")}
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(EXAMPLES / 'storefront.py'))}"
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("mercato"), "certify", "storefront", "--command", command,
        cwd=tmp_path, env=clean, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(300):
        out, err = await process.communicate()
    assert process.returncode == 0, out.decode() + err.decode()
    assert re.search(rb"\n51 passed, 0 failed, \d+ skipped\.", out)
