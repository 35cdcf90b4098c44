"""Forms with a file, which browsers send as `multipart/form-data`."""

import re
from typing import Final

from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser

from mercato.platform.errors import InvalidRequest

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


def read_upload(content_type: bytes, body: bytes) -> dict[str, str]:
    """Return the form's fields that aren't empty, and of its files the content as text. Raises InvalidRequest."""
    boundary = _BOUNDARY.fullmatch(content_type)
    if boundary is None:
        raise _unreadable()
    parser = PushMultipartParser(
        boundary[1] or boundary[2],
        max_segment_count=MAX_PARTS,
        max_header_count=MAX_HEADERS,
        max_header_size=MAX_HEADER,
    )
    fields: dict[str, bytes] = {}
    name = ""
    try:
        with parser:
            for event in parser.parse(body):
                if isinstance(event, MultipartSegment):
                    name = event.name
                elif event:
                    # The whole body was passed at once, so a part's content is one piece.
                    fields[name] = event
    except ParserLimitReached:
        raise InvalidRequest(
            f"The form has more than {MAX_PARTS} fields, or one of them has too many headers. Send fewer."
        ) from None
    except MultipartError:
        raise _unreadable() from None
    if "" in fields:
        raise _unreadable()
    return {name: content.decode("utf-8", "replace") for name, content in fields.items()}


def _unreadable() -> InvalidRequest:
    return InvalidRequest("The form can't be read: it isn't multipart/form-data. Send it again.")
