"""The guides as HTML: the how-to and reference pages of the repository, which the package has in `documents/`."""

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from msgspec import Struct

PATH: Final = "/documentation"

ELSEWHERE: Final = {
    "how-to/README.md": PATH,
    "reference/operations.md": "/docs",
    "reference/errors.md": f"{PATH}#error-codes",
}
"""Documents whose content another page of this service has."""

DEPLOYMENT: Final = "http://127.0.0.1:8000"
"""Where the guides' examples find this service."""

_NOTES: Final = ("<sub>", "<!--")
"""How paragraphs begin that are for those who change the code."""

_NOT_IN_ANCHOR: Final = re.compile(r"[^\w\- ]")


class Guide(Struct, frozen=True):
    """A page: its title, and all below it."""

    title: str
    body: Markup


def names() -> AbstractSet[str]:
    """Return the name of every guide, such as `take-orders`."""
    return _files().keys()


@cache
def get_guide(name: str) -> Guide:
    """Return the guide of one of the names."""
    return _rendered(_files()[name])


@cache
def overview() -> Guide:
    """Return the list of the how-to guides."""
    return _rendered("how-to/README.md")


@cache
def references() -> Sequence[tuple[str, str]]:
    """Return names and titles of the reference pages."""
    names = [name for name, file in _files().items() if file.startswith("reference/")]
    return [(name, _text(_files()[name]).partition("\n")[0].removeprefix("# ")) for name in sorted(names)]


@cache
def _files() -> dict[str, str]:
    """Return the path of every guide below `documents/` by its name."""
    folders = [(folder, _documents().joinpath(folder)) for folder in ("how-to", "reference")]
    paths = [f"{folder}/{file.name}" for folder, files in folders for file in files.iterdir()]
    served = ["start-here.md", *(path for path in paths if path.endswith(".md") and path not in ELSEWHERE)]
    return {path.rpartition("/")[2].removesuffix(".md"): path for path in served}


def _documents() -> Traversable:
    return resources.files("mercato.console").joinpath("documents")


def _text(path: str) -> str:
    return _documents().joinpath(path).read_text("utf-8")


def _rendered(path: str) -> Guide:
    # Markup in a document is shown as text, never as markup.
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = [token for block in _blocks(markdown.parse(_text(path))) for token in block]
    title = _plain(tokens[1])
    anchors: dict[str, int] = {}
    for at, token in enumerate(tokens):
        token.attrs.pop("style", None)
        if token.type == "heading_open":
            token.attrSet("id", _anchor(_plain(tokens[at + 1]), anchors))
        if token.type == "inline":
            token.children = [*_linked(token.children or [], lambda href: _target(path, href))]
    html = markdown.renderer.render(tokens[3:], markdown.options, {})
    # A wide table scrolls by itself, not with the page.
    html = html.replace(
        "<table>", '<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>'
    )
    return Guide(title, Markup(html.replace("</table>", "</table></div>")))  # noqa: S704  # made of our own files


def _blocks(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens in groups, without images and without notes on the code."""
    at = 0
    while at < len(tokens):
        end = at + 1
        if tokens[at].type == "paragraph_open":
            end = at + 3
            inline = tokens[at + 1]
            if inline.content.startswith(_NOTES) or {one.type for one in inline.children or ()} == {"image"}:
                at = end
                continue
        yield tokens[at:end]
        at = end


def _linked(tokens: Sequence[Token], target: Callable[[str], str | None]) -> Iterator[Token]:
    """Yield the tokens with links to where this service has the page; other links become text."""
    is_open = True
    for token in tokens:
        if token.type == "link_open":
            href = target(str(token.attrs["href"]))
            is_open = href is not None
            if href is not None:
                token.attrSet("href", href)
        if is_open or token.type not in {"link_open", "link_close"}:
            yield token


def _target(path: str, href: str) -> str | None:
    """Return where a link of the document at `path` leads here; None if nowhere."""
    if href.startswith(("https://", "#")):
        return href
    if href.startswith(f"{DEPLOYMENT}/"):
        return href.removeprefix(DEPLOYMENT)
    file, mark, anchor = href.partition("#")
    wanted = normpath(join(dirname(path), file))
    if wanted in ELSEWHERE:
        return ELSEWHERE[wanted]
    name = wanted.rpartition("/")[2].removesuffix(".md")
    return f"{PATH}/{name}{mark}{anchor}" if _files().get(name) == wanted else None


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _anchor(heading: str, used: dict[str, int]) -> str:
    """Return the heading's anchor, as code hosts make it; repeated ones are numbered."""
    anchor = _NOT_IN_ANCHOR.sub("", heading.lower()).replace(" ", "-")
    used[anchor] = used.get(anchor, -1) + 1
    return anchor if used[anchor] == 0 else f"{anchor}-{used[anchor]}"
