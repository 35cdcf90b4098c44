"""The crash points in the code, at which a proof can kill a process."""

import re
from pathlib import Path
from typing import Final

import mercato

POINTS: Final[list[str]] = sorted(
    name
    for source in Path(mercato.__file__).parent.rglob("*.py")
    for name in re.findall(r'crash_point\("(.+?)"\)', source.read_text())
)
