"""Templates to pages: Jinja2 with autoescape, the headers that every page has, and the static files that it loads.

Each static file has the hash of its content in its name, so browsers keep it for a year.
"""

import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from mercato.console.icons import icon
from mercato.console.times import field, hour, instant, since
from mercato.features.webhooks.model import DELIVERY_WORDS
from mercato.http.body import gzipped
from mercato.http.browsers import NOSNIFF
from mercato.http.operations import Answer
from mercato.platform import errors
from mercato_contract.refusals import Problem

HTML: Final = b"text/html; charset=utf-8"

INVISIBLE: Final = re.compile(
    # Control characters without the tab and the line feed, and a soft hyphen.
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
    # Fillers and separators without a width, marks of direction, a byte order mark.
    r"\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e001f\U000e0080-\U000e00ff"
    r"\U000e01f0-\U000e0fff]"
    # Joiners, except after what they shape: letters from Arabic to Myanmar, of Khmer, Mongolian and others, and emoji.
    r"|(?<![\u0600-\u109f\u1780-\u18af\u1a20-\u1aaf\u1b00-\u1c4f\u2190-\u2bff\ua800-\uabff\ufe0f\U0001f000-\U0001faff])"
    r"[\u200c\u200d]"
    # Selectors of a variant, except after emoji and Chinese characters; tags, except in a flag.
    r"|(?<![\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])[\ufe00-\ufe0f](?!\u20e3)"
    r"|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
    r"|(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]"
)
"""Characters that nobody sees, or that turn the direction of what follows: two names may differ in them alone."""

MAX_SHORT: Final = 120


def _sanitize(value: object) -> object:
    """Return what an expression prints: nothing for None, and text with the names of characters that nobody sees."""
    if value is None:
        return ""
    if (
        isinstance(value, str)
        and not isinstance(value, Markup)
        and not (value.isascii() and value.isprintable())
    ):
        return INVISIBLE.sub(lambda found: f"[U+{ord(found[0]):04X}]", value)
    return value


def _short(text: str, most: int = MAX_SHORT) -> str:
    """Return the text, cut to this number of characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _alike(rows: Sequence[Any], *names: str) -> list[tuple[Any, list[Any]]]:
    """Return rows, each with those right after it that have the same members of these names.

    A row whose first of them is None has no others.
    """
    found: list[tuple[Any, list[Any]]] = []
    last: tuple[Any, ...] | None = None
    for row in rows:
        values = tuple(getattr(row, name) for name in names)
        if values == last and values[0] is not None:
            found[-1][1].append(row)
        else:
            found.append((row, []))
        last = values
    return found


_CELL: Final = re.compile(r"<td\b")


def _labelled(row: str, columns: Sequence[str]) -> Markup:
    """Return a row's cells, each with the name of its column, which is shown where rows are stacked."""
    names = iter(columns)

    def label(match: re.Match[str]) -> str:
        name = next(names, "")
        return f'{match[0]} data-label="{escape(name)}"' if name else match[0]

    return Markup(_CELL.sub(label, row))  # noqa: S704  # what the templates have escaped


def _money(amount: str, currency: str) -> Markup:
    """Return an amount that the API writes as a decimal string."""
    return Markup('<span class="money">{} {}</span>').format(amount, currency)


@cache
def environment() -> Environment:
    """Return the templates, which are compiled once and never change while the service runs."""
    made = Environment(
        loader=PackageLoader("mercato.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_sanitize,
    )
    made.filters |= {
        "alike": _alike,
        "short": _short,
        "instant": instant,
        "since": since,
        "hour": hour,
        "field": field,
        "labelled": _labelled,
        "money": _money,
        "query": urlencode,
    }
    made.globals |= {"asset": asset_url, "icon": icon, "delivery_words": DELIVERY_WORDS}
    return made


SHARED: Final = ("base.html", "lists.html", "macros.html")
"""Templates that pages have in common."""


def load() -> None:
    """Compile the shared templates. Compiling all takes a quarter of a second; each page's own takes milliseconds."""
    for name in SHARED:
        environment().get_template(name)


def render(
    template: str,
    *,
    status: int = 200,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    has_pictures: bool = False,
    **values: Any,
) -> Answer[str]:
    """Return a page with its headers; `nonce` is a value of each. Pictures of others need `has_pictures`."""
    nonce = base64.b64encode(secrets.token_bytes(16)).decode()
    text = environment().get_template(template).render(values, nonce=nonce, has_pictures=has_pictures)
    return Answer(
        raw=text.encode("utf-8", "replace"),
        status=status,
        media_type=HTML,
        headers=(*_page_headers(nonce, has_pictures=has_pictures), *headers),
    )


def render_refusal(
    problem: Problem,
    request_id: str,
    *,
    view: Mapping[str, Any] | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Answer[str]:
    """Return the page of a refusal: what happened, and what to do next."""
    values: Mapping[str, Any] = {"console": None} if view is None else view
    return render(
        "problem.html",
        status=problem.status,
        headers=headers,
        title=problem.title,
        problem=problem,
        request_id=request_id,
        **values,
    )


def _page_headers(nonce: str, *, has_pictures: bool) -> tuple[tuple[bytes, bytes], ...]:
    images = "'self' https:" if has_pictures else "'self'"
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        f"script-src 'nonce-{nonce}'; style-src 'self'; font-src 'self'; img-src {images}; connect-src 'self'; "
        "manifest-src 'self'; "
        "require-trusted-types-for 'script'; trusted-types htmx"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"no-referrer"),
        *NOSNIFF,
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    )


STATIC: Final = "/console/static/"

_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "png": b"image/png",
    "svg": b"image/svg+xml",
    "woff2": b"font/woff2",
    "xlsx": b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_COMPRESSED: Final = ("png", "woff2", "xlsx")
"""Kinds of files that gzip makes no smaller."""

_KEPT: Final = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    *NOSNIFF,
    (b"vary", b"Accept-Encoding"),
)


class _Asset(Struct, frozen=True):
    content: bytes
    zipped: bytes | None
    media_type: bytes


@cache
def _assets() -> dict[str, tuple[str, _Asset]]:
    """Return every file by its name, with its name on the wire."""
    found: dict[str, tuple[str, _Asset]] = {}
    files = resources.files(__package__).joinpath("static").iterdir()
    # Style sheets last, because they name fonts.
    for file in sorted(files, key=lambda file: file.name.endswith(".css")):
        stem, _, ending = file.name.rpartition(".")
        if ending not in _TYPES:
            continue
        body = file.read_bytes()
        if ending == "css":
            body = _URL.sub(lambda match: b'url("' + found[match[1].decode()][0].encode() + b'")', body)
        hashed = f"{stem}.{sha256(body).hexdigest()[:12]}.{ending}"
        zipped = None if ending in _COMPRESSED else gzipped(body)
        found[file.name] = (hashed, _Asset(body, zipped, _TYPES[ending]))
    return found


_URL: Final = re.compile(rb'url\("([\w.-]+)"\)')
"""A file of `static/` that a style sheet names."""


@cache
def _by_hashed_name() -> dict[str, _Asset]:
    return dict(_assets().values())


def asset_url(name: str) -> str:
    """Return the path of a file of `static/`."""
    return STATIC + _assets()[name][0]


def serve_asset(name: str, *, zipped: bool) -> Answer[str]:
    """Return the file of that hashed name. Raises NotFound."""
    asset = _by_hashed_name().get(name)
    if asset is None:
        raise errors.NotFound("No file has this name. Reload the page to get this version's files.")
    if zipped and asset.zipped is not None:
        headers = (*_KEPT, (b"content-encoding", b"gzip"))
        return Answer(raw=asset.zipped, media_type=asset.media_type, headers=headers)
    return Answer(raw=asset.content, media_type=asset.media_type, headers=_KEPT)
