"""Names what a page of the built site would load from elsewhere: `python docs/offline.py site`. Links do not count."""
# ruff: noqa: INP001, T201  # a script, not a package: it prints

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

LOADS: Final = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "form": ("action",),
    "use": ("href", "xlink:href"),
}
"""What a browser fetches by itself, and where a form sends what was typed."""

SAYS_WHERE_IT_IS: Final = {"canonical", "alternate", "license", "author"}
"""Relations of <link> that load nothing."""

ELSEWHERE: Final = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
IN_STYLE: Final = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
IN_SCRIPT: Final = re.compile(
    r"""(?:fetch|import|importScripts|open)\(\s*(?:["']GET["']\s*,\s*)?["']((?:https?:)?//[^"']+)"""
)


class Page(HTMLParser):
    """The addresses elsewhere that a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if set((given.get("rel") or "").split()) & SAYS_WHERE_IT_IS:
            return
        values = (given.get(name) or "" for name in LOADS.get(tag, ()))
        self.found += [value for value in values if ELSEWHERE.match(value)]
        self.found += IN_STYLE.findall(given.get("style") or "")


def loaded(path: Path) -> list[str]:
    """Return the addresses elsewhere that a file of the site loads."""
    if path.suffix == ".html":
        text = path.read_text()
        return Page(text).found + IN_STYLE.findall("".join(re.findall(r"<style.*?</style>", text, re.DOTALL)))
    if path.suffix == ".css":
        return IN_STYLE.findall(path.read_text())
    return IN_SCRIPT.findall(path.read_text()) if path.suffix == ".js" else []


def main() -> int:
    """Print each file with what it loads from elsewhere; return 1 if there is one, or no site."""
    site = Path(sys.argv[1])
    pages = sorted(path for path in site.rglob("*") if "_downloads" not in path.parts and path.is_file())
    if not any(path.suffix == ".html" for path in pages):
        print(f"There is no page in {site}: run `make docs`.")
        return 1
    lines = list(_told(site, pages))
    print("\n".join(lines) or f"{site} loads nothing from elsewhere. Open {site / 'index.html'}.")
    return 1 if lines else 0


def _told(site: Path, pages: list[Path]) -> Iterator[str]:
    for path in pages:
        for address in loaded(path):
            yield f"{path.relative_to(site)} loads {address}"


if __name__ == "__main__":
    sys.exit(main())
