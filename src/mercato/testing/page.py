"""The page and the log of a double: its journal for people and for programs. The page loads nothing from elsewhere."""

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from mercato.kernel.plurals import count_of
from mercato.testing.journal import VALID, Seen, line_of

if TYPE_CHECKING:
    from mercato.testing.double import Double

MOST_SHOWN: Final = 100

_ENTRY: Final = Template(
    '<details id="n$number"><summary><span>$number</span><time>$time</time><b>$operation</b>'
    '<span class="$kind">$verdict</span><span>$status$act</span></summary>'
    "<pre>$method $path\n$headers\n\n$body</pre><pre>$status\n$answer</pre></details>"
)


def add_pages(app: web.Application, double: "Double") -> None:
    """Add `/`, the page, and `/log`, the same as lines of JSON (`?after=N`: what came after number N)."""

    async def show(_request: web.Request) -> web.Response:
        headers = {"Cache-Control": "no-store"}
        return web.Response(text=page(double), content_type="text/html", headers=headers)

    async def log(request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        seen = double.journal.of(after=int(after) if after.isdecimal() else 0)
        text = "".join(f"{line_of(one)}\n" for one in seen)
        return web.Response(text=text, content_type="application/x-ndjson")

    app.router.add_get("/", show)
    app.router.add_get("/log", log)


def page(double: "Double") -> str:
    """Return the page of a double."""
    newest = reversed(double.seen[-MOST_SHOWN:])
    facts = (*double.addresses(), *double.facts())
    return Template(files("mercato.testing").joinpath("page.html").read_text("utf-8")).substitute(
        title=escape(double.title),
        facts="<br>".join(f"{escape(name)}: <code>{escape(str(text))}</code>" for name, text in facts),
        count=count_of(double.journal.count, "call"),
        entries="".join(map(_entry, newest)) or "<p>Nobody has called yet.</p>",
    )


def _entry(one: Seen) -> str:
    texts = {
        "number": str(one.number),
        "time": one.at[11:23],
        "operation": one.operation,
        "kind": {None: "", VALID: "good"}.get(one.verdict, "bad"),
        "verdict": one.verdict or ("sent by us" if one.ours else "not signed"),
        "status": str(one.status) if one.status else "no answer",
        "method": one.method,
        "path": one.path,
        "headers": "\n".join(f"{name}: {text}" for name, text in one.headers.items()),
        "body": _pretty(one.body),
        "answer": _pretty(one.answer),
    }
    act = "" if one.act == "accept" else f" <small>{escape(one.act)}</small>"
    return _ENTRY.substitute({name: escape(text) for name, text in texts.items()}, act=act)


def _pretty(value: Any) -> str:
    if value is None or value == "":
        return ""
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)
    return json.dumps(value, indent=2, ensure_ascii=False)
