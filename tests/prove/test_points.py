"""The points at which a proof can kill are the ones in the code."""

import re
from pathlib import Path

import mercato
from mercato.platform import crash


def test_every_named_point_is_in_the_code_once_and_every_one_in_the_code_is_named():
    sources = Path(mercato.__file__).parent.rglob("*.py")
    found = [
        name for source in sources for name in re.findall(r'crash\.point\("(.+?)"\)', source.read_text())
    ]
    assert sorted(found) == sorted(crash.POINTS)
