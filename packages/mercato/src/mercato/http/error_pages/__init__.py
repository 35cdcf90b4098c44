"""The page of each error code: one Markdown file per code, read on first use.

A file has the sections Cause, What to do and Try it, and before What to do, if the code appears in several ways, Where
it appears. Try it has the example, preceded by what must be prepared if no
command can do it. A head between two lines of `---` says `store: live` if the example needs a temporary store; its
commands are then put into `store.sh`. `answer: STATUS BODY` is the answer of that store's webhook, `seconds: N` its
delay.
"""

import html
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct

from mercato_contract.problems import ProblemKind

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "URL": "the address of the service, without a trailing slash",
    "KEY": 'a Commerce key: `mercato partner create "My POS" --kind commerce`',
    "SHOP_KEY": 'a marketfront key: `mercato partner create "My Shop" --kind marketfront`',
    "CURSOR": "the `nextCursor` of an answer",
    "QUOTE": "the `quoteId` of an answer",
    "DATA": "the data directory of the service: `./data`, unless `MERCATO_DATA_DIR` names another",
}
"""The variables of the examples, in the order of explanation. Start here ends with the first three."""

_VARIABLE: Final = re.compile(r"\$([A-Z_]+)")
_PAGE: Final = re.compile(
    r"(?:---\n(?P<head>.*?)---\n\n)?# (?P<code>\w+)\n\n## Cause\n\n(?P<cause>.+?)\n\n"
    r"(?:## Where it appears\n\n(?P<places>.+?)\n\n)?"
    r"## What to do\n\n(?P<remedy>.+?)\n\n## Try it\n\n(?:(?P<preparation>[^`\n].*?)\n\n)?```sh\n(?P<example>.+)```\n",
    re.DOTALL,
)

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


class ErrorPage(Struct, frozen=True, kw_only=True):
    """The content of a code's page."""

    cause: str
    places: str | None
    remedy: str
    example: str
    preparation: str | None
    makes_store: bool

    @property
    def placeholders(self) -> dict[str, str]:
        """The variables that the example uses, with their meaning."""
        used = set(_VARIABLE.findall(self.example))
        return {name: words for name, words in PLACEHOLDERS.items() if name in used}


@cache
def error_page(code: str) -> ErrorPage:
    """Return the page of an error code. Raises FileNotFoundError."""
    page = _PAGE.fullmatch(_read(f"{code}.md"))
    assert page is not None, f"{code}.md has a head, a title and three sections"
    head = dict(line.split(": ", 1) for line in (page["head"] or "").splitlines())
    example = page["example"]
    return ErrorPage(
        cause=page["cause"],
        places=page["places"],
        remedy=page["remedy"],
        example=_with_store(example, head) if "store" in head else example,
        preparation=page["preparation"],
        makes_store="store" in head,
    )


def _with_store(commands: str, head: Mapping[str, str]) -> str:
    status, _, body = head.get("answer", "200 {}").partition(" ")
    # In double quotes of Python within single quotes of the shell.
    answer = body.replace('"', '\\"').replace("'", "'\\''")
    wait = f"        time.sleep({head['seconds']})\n" if "seconds" in head else ""
    text = _read("store.sh").replace("{wait}", wait).replace("{status}", status).replace("{answer}", answer)
    return text.replace("{commands}\n", commands)


def _read(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def as_markdown(kind: ProblemKind, base_url: str) -> str:
    """Return the page as Markdown. `base_url` is the service's address in the example."""
    page = error_page(kind.code)
    return (
        f"# {kind.code}\n\n{kind.title}.\n\n{_facts(kind)}\n\n## Cause\n\n{page.cause}\n\n"
        + (f"## Where it appears\n\n{page.places}\n\n" if page.places else "")
        + f"## What to do\n\n{page.remedy}\n\n## Try it\n\n{_example(page, base_url)}\n\n{FOOTER}\n"
    )


def as_html(kind: ProblemKind, base_url: str) -> str:
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
        f"<h2>Cause</h2><p>{_html(page.cause)}</p>"
        + (f"<h2>Where it appears</h2><p>{_html(page.places)}</p>" if page.places else "")
        + f"<h2>What to do</h2><p>{_html(page.remedy)}</p>"
        f"<h2>Try it</h2><p>{_html(_introduction(page))}</p><ul>{names}</ul>"
        f'<pre tabindex="0"><code>{html.escape(page.example)}</code></pre><p>{_html(FOOTER)}</p></body></html>'
    )


def _example(page: ErrorPage, base_url: str) -> str:
    names = "\n".join(f"- `${name}`: {words}" for name, words in _variables(page, base_url))
    return f"{_introduction(page)}\n\n{names}\n\n```sh\n{page.example}```"


def _variables(page: ErrorPage, base_url: str) -> list[tuple[str, str]]:
    """Return the variables of the example with their meaning, the service's address included."""
    here = {"URL": f"the address of the service, here `{base_url}`"}
    return list((page.placeholders | here).items())


def _introduction(page: ErrorPage) -> str:
    parts = (page.preparation, INSTRUCTIONS, TEMPORARY_STORE if page.makes_store else None)
    return " ".join(part for part in parts if part)


def _facts(kind: ProblemKind) -> str:
    retry = "A retry can succeed." if kind.retryable else "A retry can't succeed unless the request changes."
    return f"HTTP {kind.status}, category `{kind.category}`. {retry}"


def _html(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text, quote=False))
