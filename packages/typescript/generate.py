"""Write src/api.ts from the OpenAPI document: `npm run generate`. tests/docs/test_reference.py says when.

The first line has the digest of the document, so that it can be compared without Node.js.
"""
# ruff: noqa: INP001  # a script, not a package

import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

from mercato.asgi import document

HERE: Final = Path(__file__).parent
GENERATOR: Final = (
    HERE / "node_modules/.bin/openapi-typescript",
    "--root-types",
    "--root-types-no-schema-prefix",
    "--default-non-nullable=false",
)


def types(api: bytes) -> str:
    """Return the types of the document, as TypeScript."""
    made = subprocess.run(GENERATOR, input=api, capture_output=True, check=True).stdout  # noqa: S603  # a constant
    return f"// Of the OpenAPI document with the SHA-256 {sha256(api).hexdigest()}.\n{made.decode()}"


if __name__ == "__main__":
    (HERE / "src/api.ts").write_text(types(document()))
