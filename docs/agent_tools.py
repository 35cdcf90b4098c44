"""The reference of the tools for AI agents, as `tools/list` describes them."""
# ruff: noqa: INP001  # part of a script

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mercato.agents.registry import TOOLS
from mercato.agents.tools import Tool
from mercato.features.partners.model import Surface

Json = Mapping[str, Any]

SURFACES: Final = {
    Surface.MARKETFRONT: ("Of a storefront", "With a marketfront key, an access token, or an agent's key."),
    Surface.COMMERCE: ("Of a merchant", "With a Commerce key."),
}

HINTS: Final = {
    "readOnlyHint": ("changes nothing", "changes something"),
    "destructiveHint": ("what it does may not be undone", "what it does can be undone"),
    "idempotentHint": ("a repeat changes nothing more", "a repeat acts again"),
    "openWorldHint": ("calls another server", "calls nobody"),
}

INTRODUCTION: Final = """
The tools that `POST /mcp` has for AI agents ([the agents' door](agents.md)). Each carries out operations of the
[API](operations.md), with the same rules, limits and [errors](errors.md). `tools/list` has the results' schemas, too.
""".strip()


def tool_blocks() -> Iterator[str]:
    """Yield the blocks of the page."""
    yield INTRODUCTION
    for surface, (title, words) in SURFACES.items():
        yield f"## {title}\n\n{words}"
        for tool in TOOLS[surface].values():
            yield from _blocks(tool)


def _blocks(tool: Tool) -> Iterator[str]:
    shown = tool.described
    yield f"### {tool.name}\n\n{tool.description}"
    rows = list(_rows(shown["inputSchema"], shown["inputSchema"].get("$defs", {}), ""))
    if rows:
        head = ["| Argument | Type | |", "| --- | --- | --- |"]
        yield "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])
    else:
        yield "It takes no arguments."
    hints = [words[0 if shown["annotations"][name] else 1] for name, words in HINTS.items()]
    if tool.hints.read_only:
        del hints[1:3]
    calls = ", ".join(f"[{operation.summary}](operations.md)" for operation in tool.operations)
    yield f"It {hints[0]}; {'; '.join(hints[1:])}. It carries out: {calls}."


def _rows(schema: Json, definitions: Json, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of an object's members, and of those below; a member of its own kind isn't repeated."""
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        where = f"{path}{name}"
        words = [member["description"]] if "description" in member else []
        yield f"`{where}`", _type(member), "; ".join([*(["required"] if name in required else []), *words])
        inner = member.get("items", member)
        below = f"{where}[]." if "items" in member else f"{where}."
        if "$ref" in inner:
            known = definitions[inner["$ref"].rpartition("/")[2]]
            if below.count(".") <= 2:  # noqa: PLR2004  # a line and its choices; those have choices again
                yield from _rows(known, definitions, below)
        else:
            for option in inner.get("anyOf", [inner]):
                yield from _rows(option, definitions, below)


def _type(member: Json) -> str:
    if "items" in member:
        return f"list of {_type(member['items'])}"
    if "enum" in member:
        return " or ".join(f"`{value}`" for value in member["enum"])
    if "anyOf" in member:
        return " or ".join(dict.fromkeys(map(_type, member["anyOf"])))
    kind = member.get("type", "object")
    name = " or ".join(kind) if isinstance(kind, list) else kind
    bounds = [
        f"{words} {member[bound]}"
        for bound, words in (("minimum", "from"), ("maximum", "to"))
        if bound in member
    ]
    length = [f"at most {member['maxLength']} characters"] if "maxLength" in member else []
    form = " (UUID)" if member.get("format") == "uuid" else ""
    return (
        ", ".join([name + form, " ".join(bounds), *length]) if bounds else ", ".join([name + form, *length])
    )
