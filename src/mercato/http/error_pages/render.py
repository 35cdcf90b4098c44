"""An error code's page, as HTML or as Markdown."""

import html
import re
from typing import Final

from mercato.http.error_pages import ErrorPage, error_page
from mercato.kernel.errors import Problem

STYLE: Final = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 "
    "1rem}pre{overflow:auto;padding:1rem;border:1px solid "
    "#8886}pre,code{font-family:ui-monospace,monospace;font-size:.9rem}"
)
INSTRUCTIONS: Final = "Paste it into bash, with a test service of your own."
TEMPORARY_STORE: Final = (
    "It registers a store that python3 serves on port 9100, and pauses it at the end. The service must be allowed to "
    "reach it (`mercato serve --dev`)."
)
FOOTER: Final = "The problem's `detail` says what happened in your case, and `errors` where in the request."
_CODE: Final = re.compile(r"`([^`]+)`")


def as_markdown(kind: type[Problem], base_url: str) -> str:
    """Return the page as Markdown. `base_url` is the service's address in the example."""
    page = error_page(kind.code)
    return (
        f"# {kind.code}\n\n{kind.title}.\n\n{_facts(kind)}\n\n## Cause\n\n{page.cause}\n\n"
        f"## What to do\n\n{page.remedy}\n\n## Try it\n\n{_example(page, base_url)}\n\n{FOOTER}\n"
    )


def as_html(kind: type[Problem], base_url: str) -> str:
    """Return the page as HTML, which loads nothing."""
    page = error_page(kind.code)
    names = "".join(
        f"<li><code>${name}</code>: {_html(words)}</li>" for name, words in _variables(page, base_url)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{kind.code}</title><style>{STYLE}</style></head><body>"
        f"<h1>{kind.code}</h1><p>{_html(kind.title)}.</p><p>{_html(_facts(kind))}</p>"
        f"<h2>Cause</h2><p>{_html(page.cause)}</p><h2>What to do</h2><p>{_html(page.remedy)}</p>"
        f"<h2>Try it</h2><p>{_html(_introduction(page))}</p><ul>{names}</ul>"
        f'<pre tabindex="0"><code>{html.escape(page.example)}</code></pre><p>{_html(FOOTER)}</p></body></html>'
    )


def _example(page: ErrorPage, base_url: str) -> str:
    names = "\n".join(f"- `${name}`: {words}" for name, words in _variables(page, base_url))
    return f"{_introduction(page)}\n\n{names}\n\n```sh\n{page.example}```"


def _variables(page: ErrorPage, base_url: str) -> list[tuple[str, str]]:
    """Return the variables of the example with their meaning, the service's address included."""
    here = {"URL": f"where the service is, here `{base_url}`"}
    return list((page.placeholders | here).items())


def _introduction(page: ErrorPage) -> str:
    parts = (page.preparation, INSTRUCTIONS, TEMPORARY_STORE if page.makes_store else None)
    return " ".join(part for part in parts if part)


def _facts(kind: type[Problem]) -> str:
    retry = "A retry can succeed." if kind.retryable else "A retry can't succeed unless the request changes."
    return f"HTTP {kind.status}, category `{kind.category}`. {retry}"


def _html(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text, quote=False))
