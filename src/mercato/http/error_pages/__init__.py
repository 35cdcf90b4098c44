"""The page of each error code: one Markdown file per code, read on first use.

A file has the sections Cause, What to do and Try it. Try it has the example, preceded by what must be prepared if no
command can do it. A head between two lines of `---` says `store: live` if the example needs a temporary store; its
commands are then put into `store.sh`. `answer: STATUS BODY` is the answer of that store's webhook, `seconds: N` its
delay.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "URL": "the address of the service, without a trailing slash",
    "KEY": 'a Commerce key: `mercato partner create "My POS" --kind commerce`',
    "SHOP_KEY": 'a marketfront key: `mercato partner create "My Shop" --kind marketfront`',
    "DATA": "the data directory of the service: `./data`, unless `MERCATO_DATA_DIR` names another",
}
"""The variables of the examples, in the order of explanation. Start here ends with the first three."""

_VARIABLE: Final = re.compile(r"\$([A-Z_]+)")
_PAGE: Final = re.compile(
    r"(?:---\n(?P<head>.*?)---\n\n)?# (?P<code>\w+)\n\n## Cause\n\n(?P<cause>.+?)\n\n"
    r"## What to do\n\n(?P<remedy>.+?)\n\n## Try it\n\n(?:(?P<preparation>[^`\n].*?)\n\n)?```sh\n(?P<example>.+)```\n",
    re.DOTALL,
)


class ErrorPage(Struct, frozen=True, kw_only=True):
    """The content of a code's page."""

    cause: str
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
