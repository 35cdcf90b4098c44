"""The guides as HTML: the how-to and reference pages of the repository, which the package has in `documents/`.

Their examples name the address of this installation, and their pictures are served beside them.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath
from typing import Final
from uuid import UUID

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from msgspec import Struct

PATH: Final = "/documentation"
PICTURES: Final = f"{PATH}/pictures/"

ELSEWHERE: Final = {
    "how-to/README.md": PATH,
    "reference/operations.md": "/docs",
    "reference/errors.md": f"{PATH}#error-codes",
}
"""Documents whose content another page of this service has."""

DEPLOYMENT: Final = "http://127.0.0.1:8000"
"""Where the documents' examples find the service; a page shows this installation's address instead."""

KEYS: Final = {
    "$KEY": (r"\$KEY\b", "your Commerce key"),
    "$SHOP_KEY": (r"\$SHOP_KEY\b", "your Marketfront key, or a token of it"),
    "$STORE": (r"\$STORE\b", "the id of a store"),
    "member": (r"\bmember \w+ &lt;", "a function that prints a member of JSON, as jq -r .storeId does"),
}
"""What finds the examples' names, and what they stand for; the address stands in the examples themselves."""

_ADDRESS: Final = re.compile(rf"{re.escape(DEPLOYMENT)}|\$URL\b")
_STORE: Final = re.compile(r"\$STORE\b")
_FROM_DISK: Final = re.compile(r"(^|<code[^>]*>)\. \./env\.sh\n", re.MULTILINE)
"""What reads the names from a file that only a clone of the repository has."""

READERS: Final = {
    "merchant": ("for-merchants", "for-merchants-and-storefronts"),
    "storefront": ("for-storefronts", "for-merchants-and-storefronts"),
    "operator": ("for-operators",),
}
"""The parts of the overview that each kind of reader sees, by their anchors."""

MEDIA_TYPES: Final = {"svg": b"image/svg+xml", "png": b"image/png"}
"""What pictures are, by the ending of their names."""

MAX_SEARCH: Final = 200
MAX_WORDS: Final = 8
MAX_FOUND: Final = 20
EXCERPT: Final = 160
"""Bounds of a search: its characters and words, what it finds, and the characters shown of each."""

_NOTES: Final = ("<sub>", "<!--")
"""How paragraphs for those who change the code begin."""

# Markup in a document is shown as text, never as markup.
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")

_NOT_IN_ANCHOR: Final = re.compile(r"[^\w\- ]")


class Guide(Struct, frozen=True):
    """A page: its title, and all below it."""

    title: str
    body: Markup

    @property
    def variables(self) -> Sequence[str]:
        """The names of KEYS that its examples use."""
        return [name for name, (pattern, _) in KEYS.items() if re.search(pattern, self.body)]

    def body_at(self, base_url: str, store_id: UUID | None = None) -> Markup:
        """Return the body with the address of this installation, and the reader's store, in its examples."""
        address = str(escape(base_url))
        body = _ADDRESS.sub(lambda _: address, self.body)
        if store_id is not None:
            body = _STORE.sub(str(store_id), body)
        return Markup(body)  # noqa: S704  # ours, an escaped address, and an id


class Section(Struct, frozen=True):
    """What stands below one heading of a guide, as plain text."""

    guide: str
    title: str
    heading: str
    anchor: str
    text: str

    @property
    def path(self) -> str:
        """Where this service shows it."""
        return f"{PATH}/{self.guide}" + (f"#{self.anchor}" if self.anchor else "")


def names() -> AbstractSet[str]:
    """Return the name of every guide, such as `take-orders`."""
    return _files().keys()


@cache
def get_guide(name: str) -> Guide:
    """Return the guide of one of the names."""
    return _rendered(_files()[name])


@cache
def overview(reader: str | None = None) -> Guide:
    """Return the list of the how-to guides, for one of READERS or for all."""
    guide = _rendered("how-to/README.md")
    # How to read the files of a clone says nothing to those who read them here.
    _, *parts = re.split(r'(?=<h2 id="[^"]*">)', guide.body)
    if reader is not None:
        mine = tuple(f'<h2 id="{one}">' for one in READERS[reader])
        parts = [part for part in parts if part.startswith(mine)]
    return Guide(guide.title, Markup("".join(parts)))  # noqa: S704  # parts of our own page


def search(text: str) -> Sequence[tuple[Section, str]]:
    """Return the sections that have every word of the text, best first, each with an excerpt."""
    words = text[:MAX_SEARCH].casefold().split()[:MAX_WORDS]
    found = []
    for section in _sections():
        names = f"{section.title} {section.heading}".casefold()
        body = section.text.casefold()
        if words and all(word in names or word in body for word in words):
            found.append((sum(word not in names for word in words), section, body))
    # Sorting keeps the documents' order among equals.
    best = sorted(found, key=lambda match: match[0])[:MAX_FOUND]
    return [(section, _excerpt(section.text, body, words)) for _, section, body in best]


def _excerpt(text: str, folded: str, words: Sequence[str]) -> str:
    first = min((at for word in words if (at := folded.find(word)) >= 0), default=0)
    start = max(0, first - EXCERPT // 3)
    # Folded text may be longer than the text itself: then the excerpt begins a little late.
    return (
        ("…" if start else "") + text[start : start + EXCERPT] + ("…" if start + EXCERPT < len(text) else "")
    )


@cache
def _sections() -> Sequence[Section]:
    return [section for name, path in _files().items() for section in _sections_of(name, path)]


def _sections_of(name: str, path: str) -> Iterator[Section]:
    """Yield the guide's introduction and its sections."""
    tokens = _tokens(path)
    title = heading = _plain(tokens[1])
    anchor, texts = "", list[str]()
    for at, token in enumerate(tokens[3:], 3):
        if token.type == "heading_open":
            yield Section(name, title, heading, anchor, " ".join(texts))
            heading, anchor, texts = _plain(tokens[at + 1]), str(token.attrs["id"]), []
        elif token.type == "inline":
            texts.append(_plain(token))
        elif token.type in {"fence", "code_block"}:
            texts.append(" ".join(token.content.split()))
    yield Section(name, title, heading, anchor, " ".join(texts))


def get_picture(name: str) -> tuple[bytes, bytes] | None:
    """Return the content and the media type of a picture of the documents; None if no picture has that name."""
    file = _pictures().get(name)
    return None if file is None else (file.read_bytes(), MEDIA_TYPES[name.rpartition(".")[2]])


@cache
def _pictures() -> dict[str, Traversable]:
    folders = {folder: _documents().joinpath(folder) for folder in ("pictures", "how-to/console")}
    return {
        f"{folder}/{file.name}": file
        for folder, files in folders.items()
        for file in files.iterdir()
        if file.name.rpartition(".")[2] in MEDIA_TYPES
    }


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


def _tokens(path: str) -> Sequence[Token]:
    """Return the document as it is shown: anchors at its headings, links and pictures of this service."""
    tokens = [token for block in _blocks(_MARKDOWN.parse(_text(path))) for token in block]
    anchors: dict[str, int] = {}
    for at, token in enumerate(tokens):
        token.attrs.pop("style", None)
        if token.type == "heading_open":
            token.attrSet("id", _anchor(_plain(tokens[at + 1]), anchors))
        if token.type == "inline":
            token.children = [*_linked(token.children or [], path)]
    return tokens


def _rendered(path: str) -> Guide:
    tokens = _tokens(path)
    html = _MARKDOWN.renderer.render(tokens[3:], _MARKDOWN.options, {})
    if path.startswith("how-to/"):
        html = _FROM_DISK.sub(r"\1", html)
    # A wide table scrolls by itself, not with the page, and so does a long example: by keyboard, too.
    html = html.replace("<pre>", '<pre tabindex="0">').replace(
        "<table>", '<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>'
    )
    return Guide(_plain(tokens[1]), Markup(html.replace("</table>", "</table></div>")))  # noqa: S704  # our own files


def _blocks(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens in groups, without notes on the code."""
    at = 0
    while at < len(tokens):
        end = at + 1
        if tokens[at].type == "paragraph_open":
            end = at + 3
            if tokens[at + 1].content.startswith(_NOTES):
                at = end
                continue
        yield tokens[at:end]
        at = end


def _linked(tokens: Sequence[Token], path: str) -> Iterator[Token]:
    """Yield the tokens with links to where this service has the page or picture; other links become text."""
    is_open = True
    for token in tokens:
        if token.type == "image":
            token.attrSet("src", PICTURES + normpath(join(dirname(path), str(token.attrs["src"]))))
        if token.type == "link_open":
            href = _target(path, str(token.attrs["href"]))
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
