"""JSON-LD of a saved page: the scripts that hold it, and the nodes in them, as schema.org's pages write them.

Numbers keep their text, values may be lists or not, and a node may stand for another one by its `@id`.
"""

import codecs
import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from html import unescape
from html.parser import HTMLParser
from typing import Any, Final

from mercato_contract.json_values import escape
from mercato_contract.refusals import ValidationFailed
from mercato_tools.imports.draft import Losses

MAX_DEPTH: Final = 100
"""Levels of nodes. Pages have a few."""

_CHARSET: Final = re.compile(rb"charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)
_LD_JSON: Final = "application/ld+json"

Node = dict[str, Any]


class Place:
    """A node and its pointer in the document: of a page, into the list of its blocks."""

    __slots__ = ("at", "node")

    def __init__(self, node: Node, at: str) -> None:
        self.node = node
        self.at = at


class _Scripts(HTMLParser):
    """Collects the scripts of JSON-LD."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[str] = []
        self._parts: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = (dict(attrs).get("type") or "").partition(";")[0].strip().lower()
        if tag == "script" and kind == _LD_JSON:
            self._parts = []

    def handle_data(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._parts is not None:
            self.found.append("".join(self._parts))
            self._parts = None


def read_blocks(document: bytes, losses: Losses) -> Any:
    """Return the JSON of a file, or the list of a page's blocks. Raises ValidationFailed."""
    text = _decode(document).strip()
    if not text.startswith("<"):
        try:
            return _loads(text)
        except ValueError:
            raise ValidationFailed.at(
                "", "The file is neither JSON nor a page. Save the page as HTML."
            ) from None
    scripts = _Scripts()
    scripts.feed(text)
    scripts.close()
    blocks: list[Any] = []
    for index, script in enumerate(scripts.found):
        try:
            blocks.append(_loads(script.strip().removeprefix("<!--").removesuffix("-->")))
        except ValueError:
            blocks.append(None)
            losses.dropped(f"/{index}", "The block isn't JSON.")
    return blocks


def _loads(text: str) -> Any:
    try:
        # Line feeds within texts are common on pages.
        return json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_refuse, strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(text: str) -> Decimal | str:
    """Return a number; one that is beyond any amount stays a text, which its reader refuses by its place."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return text


def _refuse(name: str) -> None:
    raise ValueError(f"{name} isn't JSON")


def _decode(document: bytes) -> str:
    try:
        return document.decode("utf-8-sig")
    except UnicodeDecodeError:
        named = _CHARSET.search(document[:2048])
        try:
            name = codecs.lookup("windows-1252" if named is None else named[1].decode()).name
            return document.decode(name, "replace")
        except (LookupError, ValueError):
            return document.decode("windows-1252", "replace")


class Graph:
    """Every node of the blocks, by the `@id` under which others refer to it."""

    def __init__(self, blocks: Any) -> None:
        self.places = list(_walk(blocks, "", 0))
        self._by_id: dict[str, Place] = {}
        for place in self.places:
            name = place.node.get("@id")
            if isinstance(name, str) and len(place.node) > 1:
                self._by_id.setdefault(name, place)

    def nodes(self, node: Node, at: str, *names: str) -> list[Place]:
        """Return the nodes that a property has, under any of its names; references are followed."""
        found = []
        for name in names:
            value = node.get(name)
            for index, one in enumerate(value if isinstance(value, list) else [value]):
                where = f"{at}/{escape(name)}" + (f"/{index}" if isinstance(value, list) else "")
                if isinstance(one, dict):
                    known = self._by_id.get(str(one.get("@id"))) if len(one) == 1 else None
                    found.append(known or Place(one, where))
        return found


def _walk(value: Any, at: str, depth: int) -> Iterator[Place]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield Place(value, at)
        for name, inner in value.items():
            yield from _walk(inner, f"{at}/{escape(name)}", depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, f"{at}/{index}", depth + 1)


def is_a(node: Node, *kinds: str) -> bool:
    """Return whether a node has one of the types, with or without schema.org's address."""
    value = node.get("@type")
    named = value if isinstance(value, list) else [value]
    return any(isinstance(one, str) and re.split(r"[/#:]", one)[-1] in kinds for one in named)


def text_of(value: Any) -> str | None:
    """Return a text property as a person reads it: the first value of several, without references of HTML."""
    # A loop, since lists may stand in lists as deep as the reader of JSON allows.
    while True:
        match value:
            case [first, *_] | {"@value": first}:
                value = first
            case _:
                break
    match value:
        case Decimal():
            return f"{value:f}" if abs(value.adjusted()) < 30 else None  # noqa: PLR2004  # a name, not an amount
        case str():
            # Escapes of JSON may be halves of a character, which no text has.
            return unescape(value).encode(errors="replace").decode().strip() or None
    return None
