"""Parses documents: fenced blocks, links and anchors."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words after it, its text and its line."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link, with the words that are linked."""

    text: str
    target: str


def documents() -> list[Path]:
    """Return every document of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text()
    for match in _FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        yield Block(language, tuple(words), match["text"], text.count("\n", 0, match.start()) + 1)


def links(path: Path) -> list[Link]:
    """Return the links that are not inside fenced blocks."""
    return [
        Link(match["text"], match["target"]) for match in _LINK.finditer(_FENCE.sub("", path.read_text()))
    ]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading's anchor, as GitHub makes it, and the text up to the next heading, without fenced blocks."""

    anchor: str
    text: str


def sections(path: Path) -> list[Section]:
    """Return the sections of a page."""
    counts: Counter[str] = Counter()
    found = []
    _, *parts = _HEADING.split(_FENCE.sub("", path.read_text()))
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(Section(f"{name}-{counts[name]}" if counts[name] else name, text))
        counts[name] += 1
    return found


def anchors(path: Path) -> set[str]:
    return {section.anchor for section in sections(path)}
