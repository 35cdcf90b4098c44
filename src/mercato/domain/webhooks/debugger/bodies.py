"""What may have become of a body between its signing and its verification, and where two bodies first differ. Pure."""

import base64
import binascii
import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

from msgspec import Meta

from mercato.kernel.wire import Wire

_AROUND: Final = 24
"""Bytes shown before and after the place where two bodies first differ."""

SHORT: Final = 32 * 1024
"""Bytes of a body up to which the unlikely is tried, too: few webhooks are longer, and time is bounded."""

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
"""How a value may have been written as JSON, in words and as a function."""


class BodyDifference(Wire, frozen=True):
    """Where the body that was received first differs from the one that was signed."""

    offset: Annotated[int, Meta(description="Bytes that are the same, from the beginning.")]
    line: Annotated[int, Meta(description="In the body received, from 1.")]
    column: Annotated[int, Meta(description="In the body received, from 1, in characters.")]
    signed: Annotated[str, Meta(description="What was signed there, and a little around it.")]
    received: Annotated[str, Meta(description="What was received there instead.")]
    signed_bytes: int
    received_bytes: int


def difference(signed: bytes, received: bytes, *, hidden: Sequence[str] = ()) -> BodyDifference | None:
    """Return where two bodies first differ; None when they are the same. What is `hidden` is not shown."""
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
    start, end = max(0, at - _AROUND), min(len(body), at + _AROUND)
    part = bytearray(body[start:end])
    for secret in {text.encode("utf-8", "replace") for text in hidden if text}:
        # Also one of which only a part would be seen.
        found = body.find(secret, max(0, start - len(secret)))
        while 0 <= found < end:
            for place in range(max(found, start), min(found + len(secret), end)):
                part[place - start] = ord("*")
            found = body.find(secret, found + 1)
    shown = part.decode("utf-8", "replace").translate(_VISIBLE)
    return ("…" if start else "") + shown + ("…" if end < len(body) else "")


def forerunners(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield bodies that this one may have been when it was signed, each with what sets it apart, in words."""
    yield from _of_bytes(body)
    try:
        text = body.removeprefix(codecs.BOM_UTF8).decode()
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, str):
        yield "what was signed is not a JSON string, but the text inside it", value.encode("utf-8", "replace")
    yield from _rewritten(value, _WRITERS if len(body) <= SHORT else _QUICK_WRITERS)


def how(signed: bytes, received: bytes) -> str | None:
    """Return in words what was done to a body that was re-serialised; None when its content differs."""
    named = (words for words, body in forerunners(received) if body == signed)
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
    """Tell whether this is JSON, but not as this service writes it: without white space, nothing escaped."""
    try:
        value = json.loads(body)
        return body != _dumped(value, (",", ":"), ascii_only=False)
    except (ValueError, RecursionError):
        return False


def _of_bytes(body: bytes) -> Iterator[tuple[str, bytes]]:
    bare = body.rstrip(b"\r\n")
    if bare != body:
        yield "what was signed does not end in a line break", bare
    for ending, words in ((b"\n", "a line feed"), (b"\r\n", "a carriage return and a line feed")):
        if not body.endswith(ending):
            yield f"what was signed ends in {words}", body + ending
    if body.strip() not in (body, bare):
        yield "what was signed has no blanks around it", body.strip()
    if b"\r\n" in body:
        yield "what was signed has line feeds where this has CR LF", body.replace(b"\r\n", b"\n")
    elif b"\n" in body:
        yield "what was signed has CR LF where this has line feeds", body.replace(b"\n", b"\r\n")
    if body.startswith(codecs.BOM_UTF8):
        yield "what was signed does not begin with a byte order mark", body[3:]
    else:
        yield "what was signed begins with a byte order mark", codecs.BOM_UTF8 + body
    if body:
        yield "what was signed is empty: this body was not part of it", b""
    yield from _decoded(body)


def _decoded(body: bytes) -> Iterator[tuple[str, bytes]]:
    with suppress(UnicodeError):
        text = body.decode()
        yield "the bytes were read as Latin-1 and written as UTF-8", text.encode("latin-1")
        yield "the bytes were read as Windows-1252 and written as UTF-8", text.encode("cp1252")
    with suppress(binascii.Error, ValueError):
        yield "this is the base64 of what was signed", base64.b64decode(body, validate=True)


def _rewritten(value: Any, writers: Sequence[Writer]) -> Iterator[tuple[str, bytes]]:
    tried: set[bytes] = set()
    for words, write in writers:
        try:
            body = write(value)
        except (ValueError, RecursionError):
            continue
        if body not in tried:
            tried.add(body)
            yield words, body


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
            escaped = ", other letters than ASCII escaped (\\u00e9)" if ascii_only else ""
            options: dict[str, Any] = {"ascii_only": ascii_only, "sort": sort}
            yield (
                f"what was signed has no white space between tokens{escaped}{keys}",
                with_options(compact, **options),
            )
            yield (
                f"what was signed has a blank after each comma and colon{escaped}{keys}",
                with_options(spaced, **options),
            )
            for indent in _INDENTS if indented else ():
                size = "a tab" if indent == "\t" else f"{indent} blanks"
                yield (
                    f"what was signed is indented by {size}{escaped}{keys}",
                    with_options((",", ": "), indent=indent, **options),
                )
    for ascii_only in (False, True):
        plain = with_options(compact, ascii_only=ascii_only)
        yield "what was signed has its slashes escaped (\\/)", partial(_slashes_escaped, plain)
        yield "what was signed has <, > and & escaped (\\u003c)", partial(_html_escaped, plain)


def _slashes_escaped(plain: Callable[[Any], bytes], value: Any) -> bytes:
    return plain(value).replace(b"/", b"\\/")


def _html_escaped(plain: Callable[[Any], bytes], value: Any) -> bytes:
    body = plain(value)
    for character in b"<>&":
        body = body.replace(bytes([character]), b"\\u%04x" % character)
    return body


_WRITERS: Final = tuple(_writers(indented=True))
_QUICK_WRITERS: Final = tuple(_writers(indented=False))
