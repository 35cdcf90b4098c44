"""llms.txt (llmstxt.org): the documents and operations, for readers that are language models."""
# ruff: noqa: INP001  # part of a script

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mercato.asgi import LLMS_INTRODUCTION

HERE: Final = Path(__file__).parent

MORE: Final = (
    "- It is open source, for Python 3.11 or newer, with SQLite or PostgreSQL.\n"
    "- A running service describes itself at `/llms.txt`, `/openapi.json`, `/docs` and `/errors/{errorCode}`."
)

ENOUGH: Final = 60
"""Characters that a description should have at least."""

PARTS: Final = (
    ("Begin", ("start-here.md",)),
    ("How to", ("how-to/[!R]*.md",)),
    ("Reference", ("reference/*.md", "mercato.postman_collection.json")),
    (
        "Optional",
        ("choices.md", "security.md", "reliability.md", "performance.md", "scaling.md", "adr/[0-9]*.md"),
    ),
)
"""Sections and their files. llmstxt.org says that a reader with little room may skip "Optional"."""


def llms(api: Mapping[str, Any], generated: Mapping[str, str]) -> str:
    """Return the text of llms.txt, whose links are relative to it. `generated` pages may not be on the disk yet."""
    sections = [f"## {title}\n\n" + "\n".join(_links(patterns, generated)) for title, patterns in PARTS]
    sections.insert(-1, "## Operations\n\n" + "\n".join(_operations(api)))
    return "\n\n".join([f"{LLMS_INTRODUCTION}\n{MORE}", *sections]) + "\n"


def _links(patterns: tuple[str, ...], generated: Mapping[str, str]) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(HERE.glob(pattern)):
            name = path.relative_to(HERE).as_posix()
            if path.suffix == ".md":
                text = generated.get(name) or path.read_text()
                said = _beginning(text)
                yield f"- [{_title(text)}]({name})" + (f": {said}" if said else "")
            else:
                yield f"- [Collection]({name}): Every operation with an example, for Postman, Bruno and similar tools."


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _beginning(text: str) -> str:
    """Return the first sentence or two of a page that begins with one, without its links; else nothing."""
    blocks = [block.strip() for block in re.sub(r"<!--.*?-->\n+", "", text).split("\n\n")]
    first = blocks[1] if len(blocks) > 1 and blocks[1][0] not in "#<`|-" else ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).removeprefix("**Decision.** ")
    said = ""
    for sentence in re.split(r"(?<=[.:;!?])\s+(?=[A-Z`])", plain):
        if len(said) >= ENOUGH:
            break
        said = f"{said} {sentence}".strip()
    return said.rstrip(":;")


def _operations(api: Mapping[str, Any]) -> Iterator[str]:
    anchors: Counter[str] = Counter()
    for method, path, operation in in_order(api):
        title = operation["summary"]
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = anchors[anchor]
        anchors[anchor] += 1
        where = f"{anchor}-{count}" if count else anchor
        said = " ".join(operation["description"].partition("\n\n")[0].split())
        yield f"- [{title}](reference/operations.md#{where}): `{method} {path}`. {said}"


def in_order(api: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return method, path and operation of all there are, as the reference has them: tag by tag."""
    tags = [tag["name"] for tag in api["tags"]]
    every = [
        (method.upper(), path, one) for path, item in api["paths"].items() for method, one in item.items()
    ]
    return sorted(every, key=lambda one: tags.index(one[2]["tags"][0]))
