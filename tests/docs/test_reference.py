"""The reference says what the code says."""

import subprocess
import sys
from hashlib import sha256

from tests.docs.documents import ROOT

from mercato.asgi import document


def test_every_reference_page_is_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")


def test_the_types_of_the_typescript_client_are_of_the_present_document() -> None:
    first = (ROOT / "packages/typescript/src/api.ts").read_text().partition("\n")[0]
    message = "Run: npm --prefix packages/typescript ci && npm --prefix packages/typescript run generate"
    assert sha256(document()).hexdigest() in first, message
