"""Forms and queries to structs: percent-encoded ones, and `multipart/form-data` for a form with a file."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from msgspec import Struct
from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser

from mercato.console.times import UTC, read_field
from mercato.http.operations import Upload
from mercato_contract.decoding import QueryDecoder
from mercato_contract.refusals import InvalidRequest
from mercato_outbound.document import Document

T = TypeVar("T")

MAX_FIELDS: Final = 100
"""Fields of a query or a form."""

MAX_FORM: Final = 32 * 1024
"""Bytes of a form, where its screen needs no more, and of every form without a session."""

_NOT_ESCAPED: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")

MAX_PARTS: Final = 20
"""Fields and files of such a form."""

MAX_HEADERS: Final = 8
"""Headers of a part. Browsers send two."""

MAX_HEADER: Final = 4096
"""Bytes of a header of a part: the name of a file has up to 255 characters, each of which may take twelve."""

_BOUNDARY: Final = re.compile(
    rb"multipart/form-data\s*;\s*boundary=(?:\"([\w'()+,./:=? -]{0,69}[\w'()+,./:=?-])\"|([\w'+.-]{1,70}))\s*",
    re.IGNORECASE | re.ASCII,
)
"""The form's type with its boundary as it is (RFC 2046, 5.1.1). Browsers never encode it as `boundary*=`."""


def decode_form(kind: type[T], form: bytes, *, timezone: str = UTC) -> T:
    """Return a form as a struct; an empty field is one left out. Raises InvalidRequest, ValidationFailed."""
    return decode_fields(kind, read_fields(form), timezone=timezone)


def read_fields(form: bytes, most: int = MAX_FIELDS) -> dict[str, str]:
    """Return a form's fields that aren't empty. Raises InvalidRequest, also for what no browser sends.

    The standard library takes ten times as long for bytes that aren't ASCII, and for a `%` that begins no escape.
    """
    if not form.isascii() or _NOT_ESCAPED.search(form) is not None:
        raise InvalidRequest("The form can't be read: it isn't percent-encoded. Send it as the page does.")
    return read_query(form, most)


def read_query(text: bytes, most: int = MAX_FIELDS) -> dict[str, str]:
    """Return the fields of a query that aren't empty; the last of a repeated one counts. Raises InvalidRequest."""
    try:
        return dict(parse_qsl(text.decode("ascii", "replace"), max_num_fields=most))
    except ValueError:
        raise InvalidRequest(f"The form has more than {most} fields. Send fewer.") from None


def decode_fields(kind: type[T], fields: Mapping[str, str], *, timezone: str = UTC) -> T:
    """Return decoded fields as a struct; an empty one is one left out. Raises InvalidRequest, ValidationFailed.

    Fields for times are of that time zone.
    """
    return QueryDecoder(kind).convert(
        {name: read_field(value, timezone) for name, value in fields.items() if value}
    )


class Part(Struct, frozen=True):
    """A field of such a form. `filename` is what the browser calls a file; None for a field that isn't one."""

    filename: str | None
    content: Document

    async def text(self) -> str:
        """Return a field's text."""
        return (await self.content.read()).decode("utf-8", "replace")


@asynccontextmanager
async def receive_parts(
    content_type: bytes, receive: Upload, new_document: Callable[[], Document]
) -> AsyncIterator[Mapping[str, Part]]:
    """Read a form with large files as it arrives, and close its documents at the end of the block.

    Files and fields that are empty are left out. Raises InvalidRequest, and what `receive` raises.
    """
    parser = _parser(content_type)
    parts: dict[str, Part] = {}
    name = ""

    async def write(chunk: bytes) -> None:
        nonlocal name
        # What follows the last part means nothing.
        for event in () if parser.closed or not chunk else parser.parse(chunk):
            if isinstance(event, MultipartSegment):
                name = event.name
                part = parts.pop(name, None)
                if part is not None:
                    part.content.close()
                parts[name] = Part(event.filename, new_document())
            elif event:
                await parts[name].content.write(bytes(event))

    try:
        with _refusing():
            await receive(write)
            parser.close()
        if "" in parts:
            raise _unreadable()
        yield {name: part for name, part in parts.items() if part.content.size}
    finally:
        for part in parts.values():
            part.content.close()


def read_upload(content_type: bytes, body: bytes) -> dict[str, str]:
    """Return the form's fields that aren't empty, and of its files the content as text. Raises InvalidRequest."""
    parser = _parser(content_type)
    fields: dict[str, bytes] = {}
    name = ""
    with _refusing(), parser:
        for event in parser.parse(body):
            if isinstance(event, MultipartSegment):
                name = event.name
            elif event:
                # The whole body was passed at once, so a part's content is one piece.
                fields[name] = event
    if "" in fields:
        raise _unreadable()
    return {name: content.decode("utf-8", "replace") for name, content in fields.items()}


def _parser(content_type: bytes) -> PushMultipartParser:
    boundary = _BOUNDARY.fullmatch(content_type)
    if boundary is None:
        raise _unreadable()
    return PushMultipartParser(
        boundary[1] or boundary[2],
        max_segment_count=MAX_PARTS,
        max_header_count=MAX_HEADERS,
        max_header_size=MAX_HEADER,
    )


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise InvalidRequest for what the parser raises."""
    try:
        yield
    except ParserLimitReached:
        raise InvalidRequest(
            f"The form has more than {MAX_PARTS} fields, or one of them has too many headers. Send fewer."
        ) from None
    except MultipartError:
        raise _unreadable() from None


def _unreadable() -> InvalidRequest:
    return InvalidRequest("The form can't be read: it isn't multipart/form-data. Send it again.")
