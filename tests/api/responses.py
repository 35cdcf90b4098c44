"""The responses of an operation of an OpenAPI document, with those that operations share."""

from typing import Any


def responses_of(operation: Any, document: Any) -> dict[str, Any]:
    """Return an operation's responses by their status, references followed."""
    shared = document["components"]["responses"]
    return {
        status: shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
        for status, response in operation["responses"].items()
    }
