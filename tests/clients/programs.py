"""Programs that tests start, and what they print."""

import asyncio
import os
from pathlib import Path


async def run(*command: str | Path, cwd: str | Path | None = None, **environment: str) -> str:
    """Run a command; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(os.environ, **environment),
        cwd=cwd,
    )
    async with asyncio.timeout(120):
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()
