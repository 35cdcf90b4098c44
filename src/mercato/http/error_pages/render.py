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
RUN_IN: Final = "Paste it into bash, against a service of your own that may be tried things on."
THROW_AWAY: Final = (
    "It makes a store of its own, which python3 serves on port 9100 and which is paused in the end; the service has "
    "to be allowed to reach it (`mercato serve --dev`)."
)
AFTER: Final = (
    "The problem's `detail` says what happened in your case, and `errors` where in the request it was found."
)
_CODE: Final = re.compile(r"`([^`]+)`")


def as_markdown(kind: type[Problem], base_url: str) -> str:
    """Return the page of the service at this URL for who reads Markdown."""
    said = error_page(kind.code)
    return (
        f"# {kind.code}\n\n{kind.title}.\n\n{_facts(kind)}\n\n## Cause\n\n{said.cause}\n\n"
        f"## What to do\n\n{said.remedy}\n\n## Try it\n\n{_example(said, base_url)}\n\n{AFTER}\n"
    )


def as_html(kind: type[Problem], base_url: str) -> str:
    """Return the page of the service at this URL for a browser; it loads nothing."""
    said = error_page(kind.code)
    names = "".join(
        f"<li><code>${name}</code>: {_html(words)}</li>" for name, words in _names(said, base_url)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{kind.code}</title><style>{STYLE}</style></head><body>"
        f"<h1>{kind.code}</h1><p>{_html(kind.title)}.</p><p>{_html(_facts(kind))}</p>"
        f"<h2>Cause</h2><p>{_html(said.cause)}</p><h2>What to do</h2><p>{_html(said.remedy)}</p>"
        f"<h2>Try it</h2><p>{_html(_before(said))}</p><ul>{names}</ul>"
        f"<pre><code>{html.escape(said.example)}</code></pre><p>{_html(AFTER)}</p></body></html>"
    )


def _example(said: ErrorPage, base_url: str) -> str:
    names = "\n".join(f"- `${name}`: {words}" for name, words in _names(said, base_url))
    return f"{_before(said)}\n\n{names}\n\n```sh\n{said.example}```"


def _names(said: ErrorPage, base_url: str) -> list[tuple[str, str]]:
    """Return the names that the example uses; where the service is, is known here."""
    here = {"URL": f"where the service is, here `{base_url}`"}
    return list((said.placeholders | here).items())


def _before(said: ErrorPage) -> str:
    parts = (said.arranged, RUN_IN, THROW_AWAY if said.makes_store else None)
    return " ".join(part for part in parts if part)


def _facts(kind: type[Problem]) -> str:
    again = (
        "A retry can succeed." if kind.retryable else "A retry alone does not help: the request must change."
    )
    return f"HTTP {kind.status}, category `{kind.category}`. {again}"


def _html(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text, quote=False))
