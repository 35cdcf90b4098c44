"""JSON Schemas of a tool's arguments and of its result: as small as they can be, because every agent reads them."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from mercato_contract.wire import Wire

_REF: Final = "#/$defs/{name}"

REFUSED: Final[dict[str, Any]] = {
    "properties": {"errorCode": {"type": "string"}, "detail": {"type": "string"}},
    "required": ["errorCode"],
}
"""What a result has if the tool refused: the problem, as the API answers it."""


def input_schema(kind: type[Wire]) -> dict[str, Any]:
    """Return the schema of a tool's arguments. Others than its members are refused."""
    return _Writer(kind, is_input=True).schema


def output_schema(kind: type[Wire]) -> dict[str, Any]:
    """Return the schema of a tool's result, or of its refusal."""
    schema = _Writer(kind, is_input=False).schema
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    del schema["type"]
    return {"type": "object", "anyOf": [schema, REFUSED], **definitions}


class _Writer:
    """Writes one type. Other types stand where they are used; one that contains itself is a definition."""

    def __init__(self, kind: type[Struct], *, is_input: bool) -> None:
        (root,), self._parts = msgspec.json.schema_components((kind,), ref_template=_REF)
        self._is_input = is_input
        self._recursive: dict[str, Any] = {}
        self.schema = self._written(root, ())
        if self._recursive:
            self.schema["$defs"] = self._recursive

    def _written(self, schema: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in above:
                if name not in self._recursive:
                    self._recursive[name] = {}
                    self._recursive[name] = self._written(self._parts[name], (name,))
                return schema
            own = {"description": schema["description"]} if "description" in schema and self._is_input else {}
            return self._written(self._parts[name], (*above, name)) | own
        if "anyOf" in schema:
            return self._choice(schema, above)
        return self._plain(schema, above)

    def _choice(self, schema: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        options = [self._written(option, above) for option in schema["anyOf"]]
        if self._is_input:
            # Null is the same as absent, which is what an agent should send.
            options = [option for option in options if option != {"type": "null"}]
        words = {"description": schema["description"]} if "description" in schema and self._is_input else {}
        if len(options) == 1:
            return options[0] | words
        if all(option.keys() == {"type"} for option in options):
            return {"type": [option["type"] for option in options]} | words
        return {"anyOf": options} | words

    def _plain(self, schema: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        out = {name: value for name, value in schema.items() if name not in {"title", "default", "examples"}}
        if "description" in out and (not self._is_input or "properties" in out):
            del out["description"]
        if "enum" in out:
            out = {"type": "string", **out}
        if "items" in out:
            out["items"] = self._written(out["items"], above)
        if "properties" in out:
            out["properties"] = {name: self._written(part, above) for name, part in out["properties"].items()}
            if not out.get("required"):
                out.pop("required", None)
            if self._is_input:
                out["additionalProperties"] = False
        return out
