"""Tries what commonly changes a body between signing and verification, and finds where two bodies differ. Pure."""

import base64
import binascii
import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

from msgspec import Meta

from mercato_contract.wire import Wire

_CONTEXT: Final = 24
"""Bytes shown before and after the first difference of two bodies."""

SHORT: Final = 32 * 1024
"""Bytes of a body up to which rare changes are tried: few webhooks are longer, and time is bounded."""

_INDENTS: Final = (2, 4, 1, "\t")

_VISIBLE: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    0xFEFF: "\\ufeff",
}


Writer = tuple[str, Callable[[Any], bytes]]
"""A way to write a value as JSON: its description, and the function."""


class BodyDifference(Wire, frozen=True):
    """Where the received body first differs from the signed one."""

    offset: Annotated[int, Meta(description="The number of equal bytes at the beginning.")]
    line: Annotated[int, Meta(description="In the body received, from 1.")]
    column: Annotated[int, Meta(description="In the body received, from 1, in characters.")]
    signed: Annotated[str, Meta(description="The signed text at that place, with some context.")]
    received: Annotated[str, Meta(description="The received text at that place.")]
    signed_bytes: int
    received_bytes: int


def find_difference(signed: bytes, received: bytes, *, hidden: Sequence[str] = ()) -> BodyDifference | None:
    """Return where two bodies first differ, None if they are equal. `hidden` strings are masked."""
    if signed == received:
        return None
    pairs = enumerate(zip(signed, received, strict=False))
    at = next((index for index, (a, b) in pairs if a != b), min(len(signed), len(received)))
    before = received[:at]
    begin = before.rfind(b"\n") + 1
    return BodyDifference(
        offset=at,
        line=before.count(b"\n") + 1,
        column=len(before[begin:].decode("utf-8", "ignore")) + 1,
        signed=_excerpt(signed, at, hidden),
        received=_excerpt(received, at, hidden),
        signed_bytes=len(signed),
        received_bytes=len(received),
    )


def _excerpt(body: bytes, at: int, hidden: Sequence[str]) -> str:
    start, end = max(0, at - _CONTEXT), min(len(body), at + _CONTEXT)
    part = bytearray(body[start:end])
    for secret in {text.encode("utf-8", "replace") for text in hidden if text}:
        # Also a secret of which only a part would be shown.
        found = body.find(secret, max(0, start - len(secret)))
        while 0 <= found < end:
            for place in range(max(found, start), min(found + len(secret), end)):
                part[place - start] = ord("*")
            found = body.find(secret, found + 1)
    shown = part.decode("utf-8", "replace").translate(_VISIBLE)
    return ("…" if start else "") + shown + ("…" if end < len(body) else "")


def candidate_bodies(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what the body may have been when it was signed, each with a description of the change."""
    yield from _of_bytes(body)
    try:
        text = body.removeprefix(codecs.BOM_UTF8).decode()
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, str):
        yield "the signed body is the text inside this JSON string", value.encode("utf-8", "replace")
    yield from _rewritten(value, _WRITERS if len(body) <= SHORT else _QUICK_WRITERS)


def describe_change(signed: bytes, received: bytes) -> str | None:
    """Return how a body was serialised again, None if its content differs."""
    named = (description for description, body in candidate_bodies(received) if body == signed)
    found = next(named, None)
    if found is not None:
        return found
    try:
        if json.loads(signed) == json.loads(received):
            return "both hold the same JSON values, written differently"
    except (ValueError, RecursionError):
        return None
    return None


def looks_rewritten(body: bytes) -> bool:
    """Return whether the body is JSON, but not as this service writes it: without white space, nothing escaped."""
    try:
        value = json.loads(body)
        return body != _dumped(value, (",", ":"), ascii_only=False)
    except (ValueError, RecursionError):
        return False


def _of_bytes(body: bytes) -> Iterator[tuple[str, bytes]]:
    bare = body.rstrip(b"\r\n")
    if bare != body:
        yield "the signed body does not end in a line break", bare
    for ending, name in ((b"\n", "a line feed"), (b"\r\n", "a carriage return and a line feed")):
        if not body.endswith(ending):
            yield f"the signed body ends in {name}", body + ending
    if body.strip() not in (body, bare):
        yield "the signed body has no spaces around it", body.strip()
    if b"\r\n" in body:
        yield "the signed body has line feeds where this one has CR LF", body.replace(b"\r\n", b"\n")
    elif b"\n" in body:
        yield "the signed body has CR LF where this one has line feeds", body.replace(b"\n", b"\r\n")
    if body.startswith(codecs.BOM_UTF8):
        yield "the signed body does not begin with a byte order mark", body[3:]
    else:
        yield "the signed body begins with a byte order mark", codecs.BOM_UTF8 + body
    if body:
        yield "the signed body is empty", b""
    yield from _decoded(body)


def _decoded(body: bytes) -> Iterator[tuple[str, bytes]]:
    with suppress(UnicodeError):
        text = body.decode()
        yield "the bytes were read as Latin-1 and written as UTF-8", text.encode("latin-1")
        yield "the bytes were read as Windows-1252 and written as UTF-8", text.encode("cp1252")
    with suppress(binascii.Error, ValueError):
        yield "this is the base64 of the signed body", base64.b64decode(body, validate=True)


def _rewritten(value: Any, writers: Sequence[Writer]) -> Iterator[tuple[str, bytes]]:
    tried: set[bytes] = set()
    for description, write in writers:
        try:
            body = write(value)
        except (ValueError, RecursionError):
            continue
        if body not in tried:
            tried.add(body)
            yield description, body


def _dumped(
    value: Any,
    separators: tuple[str, str] | None,
    *,
    ascii_only: bool,
    sort: bool = False,
    indent: int | str | None = None,
) -> bytes:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only, sort_keys=sort, indent=indent)
    return text.encode("utf-8", "surrogatepass")


def _writers(*, indented: bool) -> Iterator[Writer]:
    compact, spaced = (",", ":"), (", ", ": ")

    def with_options(separators: tuple[str, str], **options: Any) -> Callable[[Any], bytes]:
        return lambda value: _dumped(value, separators, **options)

    for sort in (False, True):
        keys = " and its keys sorted" if sort else ""
        for ascii_only in (False, True):
            escaped = ", characters outside ASCII escaped (\\u00e9)" if ascii_only else ""
            options: dict[str, Any] = {"ascii_only": ascii_only, "sort": sort}
            yield (
                f"the signed body has no white space between tokens{escaped}{keys}",
                with_options(compact, **options),
            )
            yield (
                f"the signed body has a space after each comma and colon{escaped}{keys}",
                with_options(spaced, **options),
            )
            for indent in _INDENTS if indented else ():
                size = "a tab" if indent == "\t" else f"{indent} spaces"
                yield (
                    f"the signed body is indented by {size}{escaped}{keys}",
                    with_options((",", ": "), indent=indent, **options),
                )
    for ascii_only in (False, True):
        plain = with_options(compact, ascii_only=ascii_only)
        yield "the signed body has its slashes escaped (\\/)", partial(_slashes_escaped, plain)
        yield "the signed body has <, > and & escaped (\\u003c)", partial(_html_escaped, plain)


def _slashes_escaped(plain: Callable[[Any], bytes], value: Any) -> bytes:
    return plain(value).replace(b"/", b"\\/")


def _html_escaped(plain: Callable[[Any], bytes], value: Any) -> bytes:
    body = plain(value)
    for character in b"<>&":
        body = body.replace(bytes([character]), b"\\u%04x" % character)
    return body


_WRITERS: Final = tuple(_writers(indented=True))
_QUICK_WRITERS: Final = tuple(_writers(indented=False))
