"""Write src/api.ts from the OpenAPI document: `npm run generate`. tests/docs/test_reference.py says when.

The types are those of what the client sends and returns: of operations that take a partner's key, without the headers
of their answers, and without their refusals, which are all a ProblemError. The first line has the digest of the whole
document, so that it can be compared without Node.js.
"""
# ruff: noqa: INP001  # a script, not a package

import json
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from mercato.asgi import document

HERE: Final = Path(__file__).parent
GENERATOR: Final = (
    HERE / "node_modules/.bin/openapi-typescript",
    "--root-types",
    "--root-types-no-schema-prefix",
    "--default-non-nullable=false",
)

KEYS: Final = ("commerceKey", "marketfrontToken")
"""What the document calls the keys of partners."""


def types(api: bytes) -> str:
    """Return the types of the document, as TypeScript."""
    shown = json.dumps(_of_the_client(json.loads(api))).encode()
    made = subprocess.run(GENERATOR, input=shown, capture_output=True, check=True).stdout  # noqa: S603  # a constant
    return f"// Of the OpenAPI document with the SHA-256 {sha256(api).hexdigest()}.\n{made.decode()}"


def _of_the_client(api: Any) -> Any:
    """Return the document without what the client neither sends nor returns."""
    for item in api["paths"].values():
        for verb in [verb for verb, operation in item.items() if "responses" in operation]:
            operation = item[verb]
            if not any(key in accepted for key in KEYS for accepted in operation["security"]):
                del item[verb]
                continue
            operation["responses"] = {
                status: {name: part for name, part in answer.items() if name != "headers"}
                for status, answer in operation["responses"].items()
                if status < "400"
            }
    api["paths"] = {path: item for path, item in api["paths"].items() if item}
    del api["components"]["responses"], api["components"]["headers"]
    return api


if __name__ == "__main__":
    (HERE / "src/api.ts").write_text(types(document()))
