"""The page and the log of a double: what it has seen, for eyes and for programs. Nothing is fetched from elsewhere."""

import json
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from mercato.plurals import count_of
from mercato.testing.journal import VALID, Seen, line_of

if TYPE_CHECKING:
    from mercato.testing.double import Double

MOST_SHOWN: Final = 100

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; --good: #146c2e }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #81c995 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem }
h1 { font-size: 1.3rem; margin-bottom: .2rem } p { margin: .2rem 0 1rem }
details { border-top: 1px solid var(--line); padding: .35rem 0 }
summary { cursor: pointer; display: grid; grid-template-columns: 3.5rem 7rem 9rem 1fr 9rem; gap: .6rem }
@media (max-width: 40rem) { summary { grid-template-columns: 3rem 1fr 1fr } }
pre { background: #8881; border-radius: .4rem; overflow-x: auto; padding: .7rem; white-space: pre-wrap;
  overflow-wrap: anywhere }
.bad { color: var(--bad) } .good { color: var(--good) } small { opacity: .7 }
"""

_SCRIPT: Final = """
setInterval(async () => {
  try {
    const text = await (await fetch(location.href)).text();
    const next = new DOMParser().parseFromString(text, 'text/html').querySelector('main');
    for (const one of document.querySelectorAll('details[open]')) {
      const same = next.querySelector('#' + one.id);
      if (same) same.open = true;
    }
    document.querySelector('main').replaceWith(next);
  } catch { document.title = 'Not running'; }
}, 2000);
"""


def add_pages(app: web.Application, double: "Double") -> None:
    """Add `/`, the page, and `/log`, the same as lines of JSON (`?after=N`: what came behind number N)."""

    async def show(_request: web.Request) -> web.Response:
        return web.Response(
            text=page(double), content_type="text/html", headers={"Cache-Control": "no-store"}
        )

    async def log(request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        seen = double.journal.of(after=int(after) if after.isdecimal() else 0)
        text = "".join(f"{line_of(one)}\n" for one in seen)
        return web.Response(text=text, content_type="application/x-ndjson")

    app.router.add_get("/", show)
    app.router.add_get("/log", log)


def page(double: "Double") -> str:
    """Return the page of a double."""
    newest = list(reversed(double.seen))[:MOST_SHOWN]
    facts = "<br>".join(
        f"{escape(name)}: <code>{escape(str(text))}</code>"
        for name, text in (*double.addresses(), *double.facts())
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<title>{escape(double.title)}</title><style>{_STYLE}</style>"
        f"<h1>{escape(double.title)}</h1><p>{facts}</p>"
        f"<main><p>{count_of(double.journal.count, 'call')} so far, the newest first. "
        '<a href="/log">The same as lines of JSON</a>.</p>'
        f"{_entries(newest)}</main><script>{_SCRIPT}</script></html>"
    )


def _entries(newest: Iterable[Seen]) -> str:
    return "".join(map(_entry, newest)) or "<p>Nobody has called yet.</p>"


def _entry(one: Seen) -> str:
    act = "" if one.act == "accept" else f" <small>{escape(one.act)}</small>"
    kind = "" if one.verdict is None else ' class="good"' if one.verdict == VALID else ' class="bad"'
    unsigned = "sent by us" if one.ours else "not signed"
    headers = "\n".join(f"{name}: {text}" for name, text in one.headers.items())
    return (
        f'<details id="n{one.number}"><summary><span>{one.number}</span><time>{one.at[11:23]}</time>'
        f"<b>{escape(one.operation)}</b><span{kind}>{escape(one.verdict or unsigned)}</span>"
        f"<span>{_status(one)}{act}</span></summary>"
        f"<pre>{escape(one.method)} {escape(one.path)}\n{escape(headers)}\n\n{escape(_pretty(one.body))}</pre>"
        f"<pre>{_status(one)}\n{escape(_pretty(one.answer))}</pre></details>"
    )


def _status(one: Seen) -> str:
    return str(one.status) if one.status else "no answer"


def _pretty(value: Any) -> str:
    if value is None or value == "":
        return ""
    try:
        return json.dumps(
            json.loads(value) if isinstance(value, str) else value, indent=2, ensure_ascii=False
        )
    except ValueError:
        return str(value)
