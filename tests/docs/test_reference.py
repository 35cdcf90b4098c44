"""The reference says what the code says."""

import subprocess
import sys

from tests.docs.documents import ROOT


def test_every_reference_page_is_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
