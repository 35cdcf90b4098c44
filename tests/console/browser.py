"""A browser without JavaScript: it keeps cookies, follows redirects, and finds elements of a page by their names."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import aiohttp

_ATTRIBUTE: Final = re.compile(r"""\s+([^\s"'<>/=]+)(?:=(?:"([^"]*)"|'([^']*)'|([^\s"'<>=`]+)))?""")
_TOKEN: Final = re.compile(
    r"""<!--.*?-->|<!doctype\ html>
    |<(/?)([a-z][a-z0-9-]*)((?:\s+[^\s"'<>/=]+(?:="[^"]*"|='[^']*'|=[^\s"'<>=`]+)?)*)\s*(/?)>
    |([^<]+)|(<)""",
    re.DOTALL | re.VERBOSE,
)
"""A comment, a tag with its attributes, text, or what no template writes."""
_SCRIPT: Final = re.compile(rb"<script\b[^>]*>", re.IGNORECASE)
_VOID: Final = {"meta", "link", "input", "br", "img", "hr"}

_IN_NO_PARAGRAPH: Final = {"div", "fieldset", "form", "h2", "h3", "ol", "p", "section", "table", "ul"}
"""Elements that end a paragraph whose end tag is left out."""


class Element:
    """An element with its attributes and children, text among them."""

    def __init__(self, tag: str, attributes: str = "") -> None:
        self.tag = tag
        self.children: list[Element | str] = []
        self._attributes = attributes

    @cached_property
    def attributes(self) -> dict[str, str]:
        found = _ATTRIBUTE.findall(self._attributes)
        return {name.lower(): unescape(double or single or bare) for name, double, single, bare in found}

    @cached_property
    def text(self) -> str:
        """All text within, as a reader sees it."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join(" ".join(parts).split())

    def all(self, *tags: str, **attributes: str) -> list["Element"]:
        """Every element below of these tags and attributes, in their order."""
        wanted = attributes.items()
        return [
            one
            for one in self._below
            if (not tags or one.tag in tags) and (not wanted or wanted <= one.attributes.items())
        ]

    @cached_property
    def _below(self) -> list["Element"]:
        found: list[Element] = []
        for child in self.children:
            if not isinstance(child, str):
                found.append(child)
                found += child._below
        return found


def parse(page: str) -> Element:
    """Return a page's root. Pages are of what templates write: what a browser would repair fails the test."""
    root = Element("")
    parents = [root]
    for end, tag, attributes, empty, text, other in _TOKEN.findall(page):
        assert not other, f"a < that begins nothing is in {page}"
        if text:
            parents[-1].children.append(unescape(text))
        elif end:
            _close(parents, tag)
        elif tag:
            if tag in _IN_NO_PARAGRAPH and parents[-1].tag == "p":
                parents.pop()
            elif tag == "li":
                # It ends the entry before, if its end tag is left out.
                _close(parents, "li", within={"ul", "ol"})
            element = Element(tag, attributes)
            parents[-1].children.append(element)
            if not empty and tag not in _VOID:
                parents.append(element)
    return root


def _close(parents: list[Element], tag: str, within: Collection[str] = ()) -> None:
    """End the innermost open element of the tag with all in it, unless one of `within` is open in it."""
    for depth in range(len(parents) - 1, 0, -1):
        if parents[depth].tag in within:
            return
        if parents[depth].tag == tag:
            del parents[depth:]
            return


@dataclass
class Page:
    """An answer, parsed when its elements are asked for."""

    url: str
    status: int
    headers: Any
    body: bytes

    @cached_property
    def root(self) -> Element:
        return parse(self.body.decode())

    @property
    def scripts(self) -> list[bytes]:
        """The start tags of its scripts; text has none, in which `<` is escaped."""
        return _SCRIPT.findall(self.body)

    @property
    def title(self) -> str:
        return self.root.all("title")[0].text

    @property
    def heading(self) -> str:
        return self.root.all("h1")[0].text

    @property
    def text(self) -> str:
        return self.root.all("body")[0].text

    @property
    def status_region(self) -> str:
        return self.root.all(role="status")[0].text

    @property
    def navigation(self) -> list[str]:
        return [link.text for nav in self.root.all("nav") for link in nav.all("a")]

    @property
    def buttons(self) -> list[str]:
        """The labels of its buttons, but for those that copy a text or open the menu, which every page has."""
        own = {"data-copy", "popovertarget"}
        return [one.text for one in self.root.all("button") if not own & set(one.attributes)]

    @property
    def captions(self) -> list[str]:
        return [caption.text for caption in self.root.all("caption")]

    def rows(self, caption: str) -> list[list[str]]:
        """Return the cells of the table with the caption."""
        table = next(one for one in self.root.all("table") if one.all("caption")[0].text == caption)
        return [[cell.text for cell in row.all("td")] for row in table.all("tbody")[0].all("tr")]

    def ids(self, caption: str) -> list[str]:
        """Return the ids that the table with the caption has buttons to copy of, one in each row."""
        table = next(one for one in self.root.all("table") if one.all("caption")[0].text == caption)
        return [one.attributes["data-copy"] for one in table.all("button") if "data-copy" in one.attributes]

    @property
    def row_links(self) -> list[Element]:
        """The links that rows of lists lead to."""
        return [link for link in self.root.all("a") if "row" in link.attributes.get("class", "").split()]

    def link(self, name: str) -> str:
        """Return where the link of the name leads."""
        return next(one.attributes["href"] for one in self.root.all("a") if one.text == name)

    def region(self, name: str) -> str:
        """Return the text of the region of that name."""
        return next(one.text for one in self.root.all("section") if one.attributes["aria-label"] == name)

    def field(self, label: str) -> Element:
        """Return the field whose label begins with the text."""
        found = next(one for one in self.root.all("label") if one.text.startswith(label))
        if "for" in found.attributes:
            return self.root.all("input", "select", "textarea", id=found.attributes["for"])[0]
        return found.all("input", "select", "textarea")[0]

    def form(self, button: str) -> Element:
        """Return the form that has the button, inside it or by its id."""
        ids = {one.attributes.get("form") for one in self.root.all("button") if one.text == button} - {None}
        return next(
            one
            for one in self.root.all("form")
            if one.attributes.get("id") in ids or any(button == found.text for found in one.all("button"))
        )


class Browser:
    """Opens pages and presses buttons. `sends` are headers of a browser's forms, which name the page's origin."""

    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self.base = base
        self.cookies: dict[str, str] = {}
        self._session = session

    async def open(self, path: str, **headers: str) -> Page:
        """Open a page, following redirects."""
        return await self._request("GET", path, None, headers)

    async def press(self, page: Page, button: str, **fields: str | tuple[str, bytes]) -> Page:
        """Press a button of a page: send its form with its values and these fields; a file has a name and bytes."""
        form = page.form(button)
        pressed = next(one for one in page.root.all("button") if one.text == button).attributes
        values = _values(form) | fields
        if "name" in pressed:
            values[pressed["name"]] = pressed["value"]
        action = urljoin(page.url, pressed.get("formaction", form.attributes.get("action", page.url)))
        if form.attributes.get("method", "get") == "get":
            return await self.open(action.partition("?")[0] + "?" + urlencode(values))
        if form.attributes.get("enctype") != "multipart/form-data":
            return await self.post(action, values)
        parts = aiohttp.FormData(default_to_multipart=True)
        for one in form.all("input", "textarea", "select"):
            name, is_file = one.attributes["name"], one.attributes.get("type") == "file"
            # Without a choice browsers send a file without a name.
            value = values.get(name, "")
            if isinstance(value, tuple):
                parts.add_field(name, BytesIO(value[1]), filename=value[0])
                continue
            file_name = f"{name}.json" if name in fields else ""
            parts.add_field(name, value, filename=file_name if is_file else None)
        return await self.post(action, parts)

    async def post(self, path: str, fields: Any = None, **headers: str) -> Page:
        """Send a form, of text or with files, as this site's own page does, or with other headers."""
        sent = headers or {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
        return await self._request("POST", path, fields or {}, sent)

    async def _request(self, method: str, path: str, fields: Any, headers: dict[str, str]) -> Page:
        url = urljoin(self.base, path)
        for _ in range(5):
            # Tests of compressed pages ask for them: to compress and unpack every page has its price.
            sent = {"Accept": "text/html", "Accept-Encoding": "identity"} | headers
            if self.cookies:
                sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            async with self._session.request(
                method, url, data=fields, headers=sent, allow_redirects=False
            ) as answer:
                body = await answer.read()
                self._keep(answer.headers.getall("Set-Cookie", []))
                location = answer.headers.get("Location")
            if location is None:
                return Page(url, answer.status, answer.headers, body)
            method, fields, headers, url = "GET", None, {}, urljoin(url, location)
        raise AssertionError("too many redirects")

    def _keep(self, sent: list[str]) -> None:
        for one in sent:
            pair, *attributes = [part.strip() for part in one.split(";")]
            name, _, value = pair.partition("=")
            if "Max-Age=0" in attributes:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value


def _values(form: Element) -> dict[str, str]:
    """Return the values that a browser sends of a form, without its button."""
    values = {}
    for one in form.all("input"):
        unchecked = one.attributes.get("type") in {"radio", "checkbox"} and "checked" not in one.attributes
        if "name" in one.attributes and not unchecked:
            values[one.attributes["name"]] = one.attributes.get("value", "")
    for one in form.all("select"):
        options = one.all("option")
        chosen = next((option for option in options if "selected" in option.attributes), options[0])
        values[one.attributes["name"]] = chosen.attributes.get("value", chosen.text)
    return values


def path_of(url: str) -> str:
    """Return a URL's path, without the server's address."""
    return urlsplit(url).path
