"""Nothing that a client sends becomes a header, a log line, or another path."""

import asyncio
import json
import re
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import structlog
from tests.api.table import headers_for
from tests.databases import only_sqlite
from tests.security.exchange import LAST, answers, exchange
from tests.service import CATALOG, Client, MerchantServer, Service

from mercato.asgi import operations
from mercato.features.partners.model import PartnerKind
from mercato.http.operations import Operation
from mercato.platform.telemetry import configure_logs

pytestmark = only_sqlite

BREAKS = {
    "CR LF": "\r\n",
    "LF": "\n",
    "CR": "\r",
    "NUL": "\x00",
    "vertical tab": "\x0b",
    "form feed": "\x0c",
    "escape": "\x1b[5m",
    "delete": "\x7f",
    "next line": "\x85",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "right to left": "\u202e",
    "invisible": "\u200b",
}
EVIL = "X-Evil: 1"


def raw(method: str, path: str, *headers: bytes, body: bytes = b"") -> bytes:
    first = f"{method} {path} HTTP/1.1\r\nHost: x\r\n".encode()
    lines = [*headers, b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return first + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


async def heads(mercato: Service, sent: bytes) -> dict[bytes, list[bytes]]:
    """Return the headers of the first answer, after checking that none was injected."""
    first, *_ = answers(await exchange(mercato, sent + LAST))
    assert first.status < 500
    assert b"x-evil" not in first.headers
    for name, values in first.headers.items():
        assert len(values) == 1, name
        assert all(32 <= byte < 127 for byte in values[0]), (name, values)
    return first.headers


@pytest.mark.parametrize(
    "name", ["X-Request-Id", "traceparent", "Idempotency-Key", "Host", "Accept", "If-None-Match"]
)
async def test_a_request_header_never_becomes_a_line_of_the_response(mercato: Service, name: str):
    _, client = await mercato.partner(PartnerKind.BOTH)
    key = f"Authorization: Bearer {client.key}".encode()
    for between in BREAKS.values():
        for value in (
            f"a{between}{EVIL}",
            f"{between}{EVIL}",
            f"a{between}",
            f"00-{'a' * 32}-{'b' * 16}-01{between}",
        ):
            for coding in ("utf-8", "latin-1"):
                line = f"{name}: {value}".encode(coding, errors="replace")
                # A line feed ends the client's own header, so what follows is a header that it may send.
                first, *_ = answers(await exchange(mercato, raw("GET", "/nothing", key, line) + LAST))
                assert first.status in {400, 404}
                assert b"x-evil" not in first.headers
                for values in first.headers.values():
                    assert len(values) == 1
                    assert all(32 <= byte < 127 for byte in values[0])


async def test_a_request_id_is_repeated_in_one_form_only(mercato: Service):
    for sent in (
        b"a b",
        b"a\tb",
        b'a"b',
        b"<script>",
        b"a;b",
        b"a" * 129,
        b"",
        b"\xe2\x80\xa8",
        b"a\x85b",
        b"%0d%0a",
    ):
        head = await heads(mercato, raw("GET", "/nothing", b"X-Request-Id: " + sent))
        assert head[b"x-request-id"] != [sent]
        assert len(head[b"x-request-id"][0]) == 36


@pytest.mark.parametrize("between", BREAKS.values(), ids=BREAKS)
async def test_a_path_never_becomes_a_line_of_the_response(mercato: Service, between: str):
    for path in (
        f"/errors/{quote(between)}{EVIL}",
        f"/{quote(between + EVIL)}",
        f"/nothing?a={quote(between + EVIL)}",
    ):
        await heads(mercato, raw("GET", path.replace(" ", "%20")))
    await heads(mercato, raw("POST", f"/healthz{quote(between)}"))


async def test_a_location_contains_only_ids_of_the_service(
    mercato: Service, shop: MerchantServer, pos: Client
):
    key = f"Authorization: Bearer {pos.key}".encode()
    for number, between in enumerate(BREAKS.values()):
        name = f"{number}{between}{EVIL}"
        url = shop.host(CATALOG)
        body = {"partnerStoreId": name, "name": name, "address": {"city": name}, "catalogCallbackUrl": url}
        for _ in range(2):  # the second answer refers to the first
            sent = raw("POST", "/v1/commerce/onboarding/stores", key, body=json.dumps(body).encode())
            head = await heads(mercato, sent)
            if b"location" in head:
                prefix, _, last = head[b"location"][0].rpartition(b"/")
                assert (prefix, len(last)) == (b"/v1/commerce/onboarding/stores", 36)


# --- logs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "console"])
async def test_what_a_client_sends_never_starts_a_log_line(
    mercato: Service,
    pos: Client,
    form: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    said: list[str] = []

    async def broken(*_: object, **_options: object) -> Any:
        raise RuntimeError(said[-1])

    monkeypatch.setattr(type(mercato.app.stores), "get", broken)
    configure_logs(level="debug", form=form)
    try:
        for between in BREAKS.values():
            said.append(f"before{between}2026-01-01 [critical] forged")
            path = f"/v1/commerce/stores/{uuid4()}?x={quote(said[-1], safe='')}"
            reply = await pos.get(path, headers={"X-Request-Id": "the-id"})
            assert reply.status == 500
            structlog.get_logger("test").warning("told", name=said[-1])
            lines = capsys.readouterr().err.splitlines()  # at every character that any reader breaks lines at
            assert any("the-id" in line for line in lines)
            assert sum("forged" in line for line in lines) == 2, lines
            if form == "json":
                assert all(set(json.loads(line)) >= {"event", "level", "timestamp"} for line in lines)
            else:
                # A message may have lines of its own, in a traceback alone, and none looks like a log line.
                assert all("before" in line or line.startswith("  ") for line in lines if "forged" in line)
                assert not any(ord(char) < 32 or not char.isprintable() for char in _plain("".join(lines)))
    finally:
        structlog.reset_defaults()


def _plain(text: str) -> str:
    """Return the text without the colours that are the log's own; injected escapes stay."""
    return re.sub("\x1b\\[(?:[0-4]|3[0-9])m", "", text)


# --- paths ---------------------------------------------------------------------------------------------

CLIMBS = (
    "..", ".", "...", "%2e%2e", "%2e%2e%2f", "..%2f..%2f..%2fetc%2fpasswd", "..%5c..%5c", "..;", "%252e%252e%252f",
    "%c0%ae%c0%ae%c0%af", "%uff0e%uff0e", "..%00", "%00", "a%00.js", "start.js%00", "start.js%2f..", "%2fetc%2fpasswd",
    "C:%5cwindows", "file:%2f%2f%2fetc%2fpasswd", "~root", "%0d%0a", "'%20OR%20'1'='1", "{name}", "%7Bname%7D", "*",
    "\u2025", "%e2%80%a5", "%ef%bc%8e%ef%bc%8e", "con", "index.html", "swagger-ui.css.map", "SWAGGER-UI.CSS",
)  # fmt: skip


def paths(operation: Operation) -> list[str]:
    """Return the operation's path with hostile parameters, doubled segments and parent directories."""
    found = []
    for climb in CLIMBS:
        good = operation.path
        for name in operation.names:
            found.append(good.replace(f"{{{name}}}", climb, 1))
            good = good.replace(f"{{{name}}}", str(uuid4()), 1)
        found += [f"{good}/{climb}", good.replace("/", f"/{climb}/", 1)]
    found += [f"/{operation.path[1:].replace('/', slash)}" for slash in ("//", "%2f", "%2F", "%5c", "%252f")]
    return [path for path in [*found, f"{operation.path}/"] if path != operation.path]


async def test_no_path_of_any_operation_leads_anywhere_else(mercato: Service, pos: Client):
    """Only declared operations can be reached, never a file."""
    key = f"Authorization: Bearer {pos.key}".encode()

    async def tried(operation: Operation) -> None:
        extra = [key, *(f"{name}: {value}".encode() for name, value in headers_for(operation).items())]
        tries = paths(operation)
        sent = b"".join(raw(operation.method, path, *extra) for path in tries)
        *got, last = answers(await exchange(mercato, sent + LAST))
        assert (len(got), last.status) == (len(tries), 200)
        for path, answer in zip(tries, got, strict=True):
            # 403: it is one of the other surface's; 405: one that another method has, with an id in that place.
            assert answer.status in {403, 404, 405}, (operation.method, path, answer)
            assert b"root:" not in answer.body

    await asyncio.gather(*map(tried, operations()))
