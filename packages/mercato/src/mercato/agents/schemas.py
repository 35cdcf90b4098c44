"""JSON Schemas of a tool's arguments and of its result: as small as they can be, because every agent reads them."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from mercato_contract.wire import Wire

_REF: Final = "#/$defs/{name}"

REFUSED: Final[dict[str, Any]] = {"required": ["errorCode"]}
"""What a result has if the tool refused: the problem, as the API answers it."""


def input_schema(kind: type[Wire]) -> dict[str, Any]:
    """Return the schema of a tool's arguments. Others than its members are refused."""
    return _Writer(kind, is_input=True).schema


def output_schema(kind: type[Wire]) -> dict[str, Any]:
    """Return the schema of a tool's result, or of its refusal."""
    writer = _Writer(kind, is_input=False)
    schema = writer.schema | {"required": writer.required}
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    del schema["type"]
    return {"type": "object", "anyOf": [schema, REFUSED], **definitions}


_OF_RESULT: Final = ("type", "additionalProperties")
_OF_INPUT: Final = (
    *_OF_RESULT,
    "enum",
    "description",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "maxLength",
    "minItems",
    "maxItems",
)
"""The keywords that are written, beside those that contain schemas.

Patterns aren't: they forbid characters that nobody types. Nor are the bounds of a 32-bit integer (`_INT32`). A result
shows its values itself, and which members of its parts there are: `required` is that of the whole.
"""

_INT32: Final = {"format": "int32", "maximum": 2**31 - 1}


class _Writer:
    """Writes one type. Other types stand where they are used; one that contains itself is a definition."""

    def __init__(self, kind: type[Struct], *, is_input: bool) -> None:
        (root,), self._parts = msgspec.json.schema_components((kind,), ref_template=_REF)
        self._is_input = is_input
        self._recursive = {name for name in self._parts if name in self._below(name)}
        self._definitions: dict[str, Any] = {}
        self.required: list[str] = self._parts[root["$ref"].rpartition("/")[2]].get("required", [])
        self.schema = self._written(root)
        if self._definitions:
            self.schema["$defs"] = self._definitions

    def _below(self, name: str) -> set[str]:
        """Return the types that a type contains, at any depth."""
        found: set[str] = set()
        waiting: list[Any] = [self._parts[name]]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                inner = str(part.get("$ref", "")).rpartition("/")[2]
                if inner and inner not in found:
                    found.add(inner)
                    waiting.append(self._parts[inner])
                waiting += part.values()
            elif isinstance(part, list):
                waiting += part
        return found

    def _written(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in self._recursive:
                return self._written(self._parts[name]) | self._words(schema)
            if name not in self._definitions:
                self._definitions[name] = {}
                self._definitions[name] = self._written(self._parts[name])
            return {"$ref": schema["$ref"]}
        return self._choice(schema) if "anyOf" in schema else self._plain(schema)

    def _words(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the description of an argument. Results explain themselves by their names."""
        return {"description": schema["description"]} if self._is_input and "description" in schema else {}

    def _choice(self, schema: dict[str, Any]) -> dict[str, Any]:
        options = [self._written(option) for option in schema["anyOf"]]
        if self._is_input:
            # Null is the same as absent, which is what an agent should send.
            options = [option for option in options if option != {"type": "null"}]
        if len(options) == 1:
            return options[0] | self._words(schema)
        if all(option.keys() == {"type"} for option in options):
            return {"type": [option["type"] for option in options]} | self._words(schema)
        return {"anyOf": options} | self._words(schema)

    def _plain(self, schema: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {
            name: schema[name]
            for name in (_OF_INPUT if self._is_input else _OF_RESULT)
            if name in schema and _INT32.get(name) != schema[name]
        }
        if "enum" in schema:
            # The type's own description: its values say as much.
            out.pop("description", None)
            out = {"type": "string"} | out
        if "items" in schema:
            out["items"] = self._written(schema["items"])
        if "properties" in schema:
            out.pop("description", None)
            out["properties"] = {name: self._written(part) for name, part in schema["properties"].items()}
            if schema.get("required") and self._is_input:
                out["required"] = schema["required"]
            if self._is_input:
                out["additionalProperties"] = False
        return out
