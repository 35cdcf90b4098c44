"""What messages say about JSON: pointers (RFC 6901), and the types of values."""

from typing import Any, Final

from msgspec import Raw


def escape(part: str) -> str:
    """Return a member name as a segment of an RFC 6901 pointer."""
    return part.replace("~", "~0").replace("/", "~1")


_TYPES: Final = {
    int: "a number",
    float: "a number",
    Raw: "a number",  # a number as its text
    str: "a string",
    list: "a list",
    dict: "an object",
}


def json_type(value: Any) -> str:
    """Return the JSON type of a value, for messages."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _TYPES.get(type(value), "another type")
