"""Webhooks as people have them: HTTP that was pasted, or headers and body in files; and secrets kept off the screen."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from mercato.cli.failures import UnusableError
from mercato.cli.options import typed
from mercato.cli.sources import STANDARD_INPUT, read_file
from mercato.webhooks.explain import Webhook
from mercato.webhooks.wire import MOST_BODY, MOST_HEADERS

_MOST_HEAD: Final = 64 * 1024
_START: Final = re.compile(rb"(?:[A-Z]{3,10} \S+ HTTP/\d(?:\.\d)?|HTTP/\d(?:\.\d)? \d{3}.*)\r?\n")
_HEADER: Final = re.compile(r"[<>*\s]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*[:=]\s?(.*)")
_EMPTY_LINE: Final = re.compile(rb"\r?\n\r?\n")


def read_secrets(texts: Sequence[str]) -> list[str]:
    """Return the secrets: as typed, or from a file or standard input, so that no list of processes shows them."""
    return [
        _first_line(text[1:]) if text.startswith("@") and text != "@-" else typed(text) or ""
        for text in texts
    ]


def _first_line(name: str) -> str:
    return (read_file(name, most=4096).decode("utf-8", "replace").splitlines() or [""])[0].strip()


def read_webhook(
    message: str | None,
    *,
    headers: str | None,
    body: str | None,
    computed: str | None,
    received_at: datetime | None,
) -> Webhook:
    """Return the webhook. Raises UnusableError when there is none."""
    if headers is None:
        if body is not None:
            raise UnusableError("Give --headers with --body, or the whole message in one file.")
        whole = read_file(message or STANDARD_INPUT, most=_MOST_HEAD + MOST_BODY + 1)
        head, content = _parted(whole)
    else:
        if body is None or message is not None:
            raise UnusableError("With --headers give the body by --body, and nothing else.")
        if headers == body == STANDARD_INPUT:
            raise UnusableError("Standard input holds either the headers or the body.")
        head, content = read_file(headers, most=_MOST_HEAD + 1), read_file(body, most=MOST_BODY + 1)
    if len(head) > _MOST_HEAD or len(content) > MOST_BODY:
        raise UnusableError(
            f"A webhook has at most {MOST_BODY:,} bytes of body, and {_MOST_HEAD:,} of headers."
        )
    return Webhook(
        headers=_headers(head),
        body=content,
        computed=computed,
        received_at=received_at,
    )


def _parted(whole: bytes) -> tuple[bytes, bytes]:
    """Return head and body of a message. What follows the declared length is what pasting has added."""
    whole = whole.lstrip(b"\r\n")
    match = _EMPTY_LINE.search(whole)
    if match is None:
        raise UnusableError(
            "This is no HTTP message: headers, an empty line, and the body. Or give --headers and --body."
        )
    head, body = whole[: match.start()], whole[match.end() :]
    declared = re.search(rb"(?im)^content-length:[ \t]*(\d{1,9})[ \t\r]*$", head)
    if declared is not None:
        length = int(declared[1])
        if len(body) > length and not body[length:].strip():
            body = body[:length]
    return head, body


def _headers(head: bytes) -> dict[str, str]:
    """Return the headers of lines like `name: value`; what else stands there is passed over."""
    start = _START.match(head)
    lines = head[start.end() if start is not None else 0 :].decode("utf-8", "replace").splitlines()
    found: dict[str, str] = {}
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is not None and len(found) < MOST_HEADERS:
            found[match[1]] = match[2].strip()
    if not found:
        raise UnusableError("There are no headers: lines like webhook-id: 01963f5e-…")
    return found
